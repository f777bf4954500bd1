package bailey

import "fmt"

// NetMode is how far a sandbox's network reaches.
type NetMode uint8

// The modes this version has, from nothing to most.
const (
	NetNone  NetMode = iota // loopback alone
	NetAllow                // what the allow rules name
	NetOpen                 // any public address, minus deny rules
	NetFull                 // private ranges too, minus deny rules
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
	case NetFull:
		return "full"
	}
	return fmt.Sprintf("NetMode(%d)", uint8(m))
}

// ParseNetMode reads a mode as it is written on the command line.
func ParseNetMode(s string) (NetMode, error) {
	for _, m := range NetModes() {
		if m.String() == s {
			return m, nil
		}
	}
	return NetNone, NewError(Invalid, fmt.Sprintf("unknown network mode %q", s), "use none, allow, open or full")
}

// NetModes lists the modes, from nothing to most.
func NetModes() []NetMode { return []NetMode{NetNone, NetAllow, NetOpen, NetFull} }

// ByList reports whether a mode lets through only what rules name; an unknown
// one does.
func (m NetMode) ByList() bool { return m != NetOpen && m != NetFull }

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
	Ask // refused unless a person allows it
)

// String returns "deny", "allow" or "ask"; anything unknown reads as deny.
func (v Verdict) String() string {
	switch v {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	case Deny:
	}
	return "deny"
}

// DNSMode is which names are answered. The zero value is the narrowest.
type DNSMode uint8

// The modes of names.
const (
	DNSRules DNSMode = iota // those that a connection may be made to
	DNSOpen                 // all but denied ones, in every mode
)

// String returns the mode as it is written on the command line.
func (m DNSMode) String() string {
	if m == DNSOpen {
		return "open"
	}
	return "rules"
}

// ParseDNSMode reads a mode as it is written on the command line.
func ParseDNSMode(s string) (DNSMode, error) {
	switch s {
	case "rules":
		return DNSRules, nil
	case "open":
		return DNSOpen, nil
	}
	return DNSRules, NewError(Invalid, fmt.Sprintf("unknown mode of names %q", s), "use rules or open")
}

// MarshalText writes the mode as on the command line.
func (m DNSMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (m *DNSMode) UnmarshalText(b []byte) error {
	v, err := ParseDNSMode(string(b))
	if err != nil {
		return err
	}
	*m = v
	return nil
}

// Decision is the outcome of one question to the policy. A denial is not an
// error; it becomes one (an RST, a 403, an NXDOMAIN) only at the edge.
type Decision struct {
	Verdict Verdict
	Rule    string // the rule that decided, as it was written; empty if none did
	Reason  string // a short machine-readable word, such as "not-allowed"
	Detail  string // one sentence for a person or an agent
}
