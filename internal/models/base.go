package models

import (
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey"
)

// longestBase bounds an address, in bytes.
const longestBase = 1000

// checkBase holds a provider's address to what can be one, and returns it
// without a slash at its end.
func checkBase(s string, insecure bool) (string, error) {
	bad := func(problem, fix string) (string, error) {
		return "", bailey.NewError(bailey.Invalid, "base_url: "+problem, fix)
	}
	const like = "write it as https://api.example.com/v1"
	u, err := url.Parse(s)
	if err != nil || len(s) > longestBase || !plain(s) {
		return bad("this is no address", like) // it is not repeated: it may hold a key
	}
	switch {
	case u.User != nil:
		return bad("a name or password in the address", keyHint)
	case strings.Contains(s, "?"):
		return bad("a query in the address", "leave it out; a key is kept with bailey secret set NAME --for gateway, and named by key: {secret: NAME}")
	case strings.Contains(s, "#"):
		return bad("a fragment in the address", "leave it out")
	case u.Scheme != "https" && u.Scheme != "http":
		return bad("it begins neither with https:// nor with http://", like)
	case !goodHost(u):
		return bad("it names no host, or a port that is none", like)
	case strings.ContainsAny(u.EscapedPath(), "%;") || u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/":
		return bad("its path has an escape, an empty segment or a dot segment", like)
	case u.Scheme == "http" && !insecure && !isLoopback(u.Hostname()):
		return bad("http:// to "+u.Hostname()+", which is not this machine: the key and everything that is said could be read on the way", "write https://, or insecure_http: true where that is meant")
	}
	return u.Scheme + "://" + strings.ToLower(u.Host) + strings.TrimSuffix(u.Path, "/"), nil
}

// plain reports whether an address is made of visible ASCII.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' })
}

// hostForm is what a name is made of.
var hostForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]+$`) })

func goodHost(u *url.URL) bool {
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return false
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return false
	}
	host := u.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast()
	}
	// What looks like an address and is none is read as one by some.
	last := host[strings.LastIndexByte(host, '.')+1:]
	return hostForm().MatchString(host) && len(host) <= 253 && !strings.Contains(host, "..") && host[0] != '.' && host[0] != '-' &&
		(last == "" || last[0] < '0' || last[0] > '9')
}
