package run

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/gate"
)

// proxyVariables are what programs look for a proxy in, in capitals. Some read
// the small ones alone, curl for plain HTTP (CVE-2016-5385), so each is set in
// both.
func proxyVariables() []string { return []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} }

const noProxy = "NO_PROXY"

// proxyEnv tells programs of the explicit proxy. Those that do not ask lose
// nothing: their connections are redirected. Those that do are answered when
// they are refused, also where the connection would be TLS.
//
// ALL_PROXY has the form for HTTP as well: several clients end with an error at
// socks5://, for which they lack a package, and the port speaks both.
func proxyEnv(hostname string) []string {
	at := "http://" + netip.AddrPortFrom(airlock.Gateway(), gate.ProxyPort).String()
	var out []string
	both := func(name, value string) { out = append(out, name+"="+value, strings.ToLower(name)+"="+value) }
	for _, name := range proxyVariables() {
		both(name, at)
	}
	// What the sandbox serves to itself: by names, by addresses, and as a
	// range for those that read one.
	both(noProxy, strings.Join([]string{"localhost", "127.0.0.1", "::1", "127.0.0.0/8", "0.0.0.0", hostname}, ","))
	return out
}

// giveWay takes off an environment the variables about proxies that those given
// replace: one in capitals stands for the small one too, since who names one
// means what it is for, and ALL_PROXY for each of them.
func giveWay(env, given []string) []string {
	own := map[string]bool{}
	for _, pair := range given {
		name, _, _ := strings.Cut(pair, "=")
		own[strings.ToUpper(name)] = true
	}
	return slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name = strings.ToUpper(name)
		return (name == noProxy || slices.Contains(proxyVariables(), name)) &&
			(own[name] || own["ALL_PROXY"] && name != noProxy)
	})
}
