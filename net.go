package bailey

import "fmt"

// NetMode is how far a sandbox's network reaches.
type NetMode uint8

// The modes this version has, from nothing to most.
const (
	NetNone  NetMode = iota // loopback alone
	NetAllow                // what the allow rules name
	NetOpen                 // any public address, minus deny rules
)

// String returns the mode as it is written on the command line.
func (m NetMode) String() string {
	switch m {
	case NetNone:
		return "none"
	case NetAllow:
		return "allow"
	case NetOpen:
		return "open"
	}
	return fmt.Sprintf("NetMode(%d)", uint8(m))
}

// ParseNetMode reads a mode as it is written on the command line.
func ParseNetMode(s string) (NetMode, error) {
	for _, m := range []NetMode{NetNone, NetAllow, NetOpen} {
		if m.String() == s {
			return m, nil
		}
	}
	return NetNone, NewError(Invalid, fmt.Sprintf("unknown network mode %q", s), "use none, allow or open")
}

// MarshalText writes the mode as on the command line.
func (m NetMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (m *NetMode) UnmarshalText(b []byte) error {
	v, err := ParseNetMode(string(b))
	if err != nil {
		return err
	}
	*m = v
	return nil
}

// Verdict is what a decision says. The zero value denies.
type Verdict uint8

// The verdicts.
const (
	Deny Verdict = iota
	Allow
)

// String returns "deny" or "allow"; anything unknown reads as deny.
func (v Verdict) String() string {
	if v == Allow {
		return "allow"
	}
	return "deny"
}

// Decision is the outcome of one question to the policy. A denial is not an
// error; it becomes one (an RST, a 403, an NXDOMAIN) only at the edge.
type Decision struct {
	Verdict Verdict
	Rule    string // the rule that decided, as it was written; empty if none did
	Reason  string // a short machine-readable word, such as "not-allowed"
	Detail  string // one sentence for a person or an agent
}
