package policy

import (
	"net/netip"
	"strings"

	"github.com/bailey-dev/bailey"
)

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
