package policy

import (
	"strings"

	"golang.org/x/net/publicsuffix"
)

// lintWildcard refuses an allow rule that would let in everybody: a wildcard
// below a name under which anyone can register or rent a host. Such a rule is
// no narrower than --net open, and does not look it. The table of public
// suffixes is read only here, when a wildcard is parsed.
func lintWildcard(s string, r Rule) error {
	if !r.Wildcard {
		return nil
	}
	if !strings.Contains(r.Host, ".") {
		return bad(s, "it would allow every host below a top-level domain", "name the hosts, or use --net open")
	}
	if shared, _ := publicsuffix.PublicSuffix(r.Host); shared == r.Host || isShared(r.Host) {
		return bad(s, "anyone can have a host below "+r.Host, "name the one host that is needed, such as my-site."+r.Host)
	}
	return nil
}

// isShared lists suffixes where strangers rent names but which the public
// suffix list does not hold, or holds only one level below.
func isShared(name string) bool {
	switch name {
	case "amazonaws.com", "storage.googleapis.com", "windows.net", "core.windows.net",
		"azure.com", "cloudapp.azure.com", "googleusercontent.com", "fastly.net",
		"akamaized.net", "edgekey.net", "digitaloceanspaces.com", "r2.cloudflarestorage.com",
		"ngrok.io", "ngrok.app", "trycloudflare.com", "nip.io", "sslip.io":
		return true
	}
	return false
}
