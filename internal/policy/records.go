package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// TXT is the one record of Narrow.Records that is named by its type.
const TXT = "TXT"

// CheckRecord refuses what cannot stand in Narrow.Records: TXT, or a service
// as in the name of its SRV record (RFC 2782), such as _imap._tcp.
func CheckRecord(s string) error {
	if s == TXT {
		return nil
	}
	service, proto, _ := strings.Cut(s, ".")
	if isServiceLabel(service) && (proto == "_tcp" || proto == "_udp" || proto == "_tls") {
		return nil
	}
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("dns: %q is no record that can be named", s),
		"write TXT, or the service of an SRV record such as _imap._tcp; addresses need no word here")
}

// checkRecords refuses records that a rule cannot name.
func (r Rule) checkRecords(list []string) error {
	for _, d := range list {
		if err := CheckRecord(d); err != nil {
			return err
		}
	}
	if len(list) > 0 && (r.Host == "" || r.Wildcard) {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("dns: %s is not one host, and records are answered for hosts that are named in full", r),
			"write a rule for the very host")
	}
	return nil
}

// isServiceLabel reports whether a label is that of a service (RFC 6335 §5.1,
// and the longer ones that are in use), in lower case.
func isServiceLabel(s string) bool {
	name, ok := strings.CutPrefix(s, "_")
	ok = ok && len(s) <= 63 && name != "" && name[0] != '-' && name[len(name)-1] != '-'
	for i := range len(name) {
		c := name[i]
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	return ok
}

// Names reports whether a rule, of either kind, names this very host. Such a
// name is the user's to choose; one that only a wildcard or the mode lets
// through is the sandbox's, and can carry data to whoever answers for it.
//
// A fenced rule does not count: its file may have been written by a sandbox.
func (x *Index) Names(host string) bool {
	ours := func(e *entry) bool { return !e.rule.Fenced }
	return slices.ContainsFunc(x.allow.hosts[host], ours) || slices.ContainsFunc(x.deny.hosts[host], ours)
}

// StandsIn reports whether an allowed name is answered without being looked
// up: where the list decides, and only a wildcard lets it through.
func (x *Index) StandsIn(host string) bool {
	return x.policy.Mode.ByList() && x.policy.DNS != bailey.DNSOpen && host != ServiceHost && !x.Names(host)
}

// ServesTXT reports whether a rule names the TXT records of a host.
func (x *Index) ServesTXT(host string) bool { return x.serves(host, TXT) }

// ServiceOf reads the name of an SRV question, such as _imap._tcp.example.com:
// the host, if a rule names that service of it.
func (x *Index) ServiceOf(name string) (host string, ok bool) {
	name = lowerASCII(strings.TrimSuffix(name, "."))
	labels := strings.SplitN(name, ".", 3)
	if len(labels) < 3 {
		return "", false
	}
	host, err := NormalizeName(labels[2])
	return host, err == nil && x.serves(host, labels[0]+"."+labels[1])
}

func (x *Index) serves(host, record string) bool {
	return slices.ContainsFunc(x.allow.hosts[host], func(e *entry) bool {
		return e.rule.Narrow != nil && slices.Contains(e.rule.Narrow.Records, record)
	})
}
