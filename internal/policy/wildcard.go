package policy

import (
	"strings"

	"golang.org/x/net/publicsuffix"
)

// lintWildcard refuses an allow rule that would let in everybody: a wildcard
// below a name under which anyone can register or rent a host, directly or
// some labels further down. Such a rule is no narrower than --net open, and
// does not look it. The table of public suffixes is read only here, when a
// wildcard is parsed.
func lintWildcard(s string, r Rule) error {
	if !r.Wildcard {
		return nil
	}
	if !strings.Contains(r.Host, ".") {
		return bad(s, "it would allow every host below a top-level domain", "name the hosts, or use mode open (--net open)")
	}
	if isShared(r.Host) {
		return bad(s, "anyone can have a host below "+r.Host, "name the one host that is needed, such as my-site."+r.Host)
	}
	return nil
}

// isShared reports whether strangers have names below this one: it is a public
// suffix, or is above one.
func isShared(name string) bool {
	// The label stands for any: it tells what the list's rules with a star say
	// of the names one level below.
	const anybody = "name-of-anybody."
	for _, n := range []string{name, anybody + name} {
		if suffix, _ := publicsuffix.PublicSuffix(n); suffix == n {
			return true
		}
	}
	return strings.Contains(aboveSuffixes, "\n"+name+"\n") || isUnlisted(name)
}

// isUnlisted holds names below which strangers have theirs and of which the
// public suffix list says nothing.
func isUnlisted(name string) bool {
	switch name {
	case "storage.googleapis.com", "firebaseio.com", "googleusercontent.com",
		"azure.com", "cloudapp.azure.com", "akamaized.net", "edgekey.net", "backblazeb2.com",
		"r2.cloudflarestorage.com", "trycloudflare.com",
		"ngrok.io", "ngrok.app", "nip.io", "sslip.io", "loca.lt", "surge.sh", "b-cdn.net", "cloudflarestorage.com",
		"wasabisys.com", "s3.wasabisys.com", "aliyuncs.com", "myqcloud.com":
		return true
	}
	return false
}
