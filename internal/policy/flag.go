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
	case ReasonNotAllowed, ReasonPortNotAllowed, ReasonModeNone:
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
	if strings.HasSuffix(ev.Host, ".arpa") { // reverse look-ups: nothing to allow
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

// Mend says in a few words what a person can do about a refusal, or other
// failure, that no --allow flag mends. It is "" for those that one does.
func Mend(reason string) string {
	switch reason {
	case ReasonDeniedByRule:
		return "a deny rule refuses it, and deny beats allow"
	case ReasonMethod, ReasonPath:
		return "the rule for it allows other requests alone"
	case ReasonSealed:
		return "the rule for it is about requests, which cannot be seen in this connection"
	case ReasonAddress:
		return "the rule for it names other addresses"
	case ReasonSpecialAddress:
		return "a private or special address, which no sandbox reaches whatever the rules say"
	case ReasonHostAddress:
		return "an address of this machine itself, which no sandbox reaches whatever the rules say"
	case ReasonUnresolved:
		return "this machine could not resolve it: check the name, and this machine's DNS"
	case ReasonUpstream:
		return "allowed, but it did not answer"
	case ReasonTooMany:
		return "more than the sandbox may have at once"
	case ReasonInvalidName, ReasonNameMismatch, ReasonECH, ReasonBadTLS, ReasonBadRequest, ReasonBadPath, ReasonSilent, ReasonProxyItself:
		return "no rule mends it: the client has to ask in another way"
	}
	return ""
}
