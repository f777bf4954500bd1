package policy

import (
	"net/netip"
	"strconv"
	"strings"
)

// Rule names a host, every host below a suffix, or one address, with or
// without a port. The zero Rule matches nothing.
type Rule struct {
	Host     string     // normalised name; of a wildcard the part after "*."
	Wildcard bool       // matches names below Host, not Host itself
	Addr     netip.Addr // an address instead of a name
	Port     uint16     // 0: none was written (allow: 80 and 443; deny: every port)
}

// String returns the canonical text of the rule; ParseDenyRule reads it back.
func (r Rule) String() string {
	var host string
	switch {
	case r.Addr.IsValid() && r.Addr.Is6():
		host = "[" + r.Addr.String() + "]"
	case r.Addr.IsValid():
		host = r.Addr.String()
	case r.Wildcard:
		host = "*." + r.Host
	default:
		host = r.Host
	}
	if r.Port == 0 {
		return host
	}
	return host + ":" + strconv.FormatUint(uint64(r.Port), 10)
}

// MarshalText writes the canonical text.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText wrote. It checks the form but not how
// broad the rule is: that was ParseRule's business, once, at the edge.
func (r *Rule) UnmarshalText(b []byte) error {
	v, err := ParseDenyRule(string(b))
	if err != nil {
		return err
	}
	*r = v
	return nil
}

// matchesHost reports whether the rule speaks of this normalised name.
func (r Rule) matchesHost(name string) bool {
	switch {
	case r.Host == "" || name == "" || r.Addr.IsValid():
		return false
	case r.Wildcard:
		below, ok := strings.CutSuffix(name, r.Host)
		return ok && len(below) > 1 && below[len(below)-1] == '.'
	}
	return name == r.Host
}

// matchesAddr reports whether the rule speaks of this address.
func (r Rule) matchesAddr(a netip.Addr) bool {
	return r.Addr.IsValid() && a.IsValid() && r.Addr == a.Unmap()
}

// allowsPort is the port test of an allow rule.
func (r Rule) allowsPort(port uint16) bool {
	if r.Port == 0 {
		return port == 80 || port == 443
	}
	return port == r.Port
}

// deniesPort is the port test of a deny rule. Port 0 is the question whether
// a name may be resolved: a rule for one port leaves the others, so it says no
// only when it names no port.
func (r Rule) deniesPort(port uint16) bool { return r.Port == 0 || r.Port == port }
