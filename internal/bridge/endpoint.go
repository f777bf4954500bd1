package bridge

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// hostService is the name inside of this machine's loopback.
const hostService = "host.bailey.internal"

// endpoint is a provider's address as the sandbox may use it.
type endpoint struct {
	url  string // as the agent is to find it
	rule string // that the bridge adds: a public name over HTTPS
	flag string // that would let the sandbox reach it, else
}

// endpointOf reads a base URL. One with a user, a password or a query is not
// carried: that is where keys are put.
func endpointOf(raw string) (endpoint, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.ContainsAny(raw, "$!{} \t\r\n") || !isName(raw) {
		return endpoint{}, false
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if !isName(part) {
			return endpoint{}, false
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return endpoint{}, false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && (ip.IsLoopback() || ip.IsUnspecified()):
		u.Host = hostService + ":" + port
		return endpoint{url: u.String(), flag: "--host-service " + port}, true
	case err == nil:
		return endpoint{url: raw, flag: "--allow " + netip.AddrPortFrom(ip, 0).Addr().String() + ":" + port}, true
	case !isHostName(host):
		return endpoint{}, false
	case u.Scheme == "http":
		return endpoint{url: raw, flag: "--allow " + host + ":" + port}, true
	}
	return endpoint{url: raw, rule: host + ":" + port}, true
}

// isHostName reports whether a text is the name of one host, as rules have it.
func isHostName(s string) bool {
	if !strings.Contains(s, ".") || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.ContainsFunc(label, func(r rune) bool { return r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
			return false
		}
	}
	return true
}
