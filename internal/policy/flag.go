package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Nameable reports whether a rule can name a host; "" stands for an address.
func Nameable(host string) bool {
	_, err := ParseRule(host)
	return host == "" || err == nil
}

// Together returns values of --allow for a host in the shortest form that
// allows the same. The two ports of the web are what a rule without a port means.
func Together(host string, values []string) []string {
	out := slices.Clone(values)
	plain, secure := slices.Index(out, host+":80"), slices.Index(out, host+":443")
	if plain >= 0 && secure >= 0 {
		out[min(plain, secure)] = host
		out = slices.Delete(out, max(plain, secure), max(plain, secure)+1)
	}
	return out
}

// AllowFlag returns the value of the --allow flag that would have let a denied
// network event through, such as "example.com:443" or, for a name that was
// only asked for, "example.com". It is false when no flag can: for an allowed
// event, a special address, a deny rule, or a name that is none.
func AllowFlag(ev bailey.Event) (flag string, ok bool) {
	if ev.Type != bailey.EventNetDecision || ev.Verdict == bailey.Allow.String() {
		return "", false
	}
	switch ev.Reason {
	case ReasonNotAllowed, ReasonPortNotAllowed, ReasonModeNone, ReasonNotAnswered, ReasonAnsweredNo:
	case ReasonNoName: // plain HTTP wants a Host, whatever the rules
		if ev.Host != "" || ev.Protocol != ProtocolTLS {
			return "", false
		}
	case ReasonUnknown: // a rule for the address helps, one for a name does not
		if ev.Host != "" {
			return "", false
		}
	default:
		return "", false
	}
	if strings.HasSuffix(ev.Host, ".arpa") || IsMetadata(ev.Host) { // reverse look-ups: nothing to allow
		return "", false
	}
	r := Rule{Host: ev.Host, Wildcard: false, Addr: netip.Addr{}, Port: ev.Port}
	if ev.Host == "" {
		a, err := netip.ParseAddr(ev.Address)
		if err != nil {
			return "", false
		}
		r.Addr = a
	}
	text := r.String()
	if _, err := ParseRule(text); err != nil {
		return "", false
	}
	return text, true
}
