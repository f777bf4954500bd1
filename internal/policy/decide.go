package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Protocols of a Request and of the events about it.
const (
	ProtocolDNS  = "dns"
	ProtocolTLS  = "tls"
	ProtocolHTTP = "http"
	ProtocolTCP  = "tcp"
)

// Policy is what one sandbox may reach. The zero Policy reaches nothing.
type Policy struct {
	Mode  bailey.NetMode `json:"mode"`
	Allow []Rule         `json:"allow,omitempty"`
	Deny  []Rule         `json:"deny,omitempty"`
}

// Validate refuses a policy that cannot mean what its author thinks. The
// error is a *bailey.Error with a hint.
func (p Policy) Validate() error {
	switch p.Mode {
	case bailey.NetNone, bailey.NetOpen:
	case bailey.NetAllow:
		if len(p.Allow) == 0 {
			return bailey.NewError(bailey.Invalid, "network mode allow has no allow rule, so nothing could be reached",
				"add a rule such as --allow example.com, or use --net none")
		}
	default:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("unknown network mode %d", p.Mode), "use none, allow or open")
	}
	for _, r := range slices.Concat(p.Allow, p.Deny) {
		if r.Host == "" && !r.Addr.IsValid() {
			return bailey.NewError(bailey.Invalid, "a network rule is empty", "name a host, such as example.com")
		}
	}
	return nil
}

// Request is one question: may this be resolved, may this be connected?
type Request struct {
	Protocol string     // ProtocolDNS asks about a name alone, for any port
	Host     string     // the name; normalised here, so any wire form will do
	Addr     netip.Addr // looked at only when Host is empty: a literal address
	Port     uint16     // of the connection; 0 for DNS
}

// Decide answers a Request. It is pure, cannot fail, and denies what it does
// not understand. An allowed name is not yet an allowed connection: each
// address it resolves to has to pass DecideAddr.
func Decide(p Policy, r Request) bailey.Decision {
	if p.Mode != bailey.NetAllow && p.Mode != bailey.NetOpen {
		return denied(ReasonModeNone, "", "this sandbox has no network; the person who started it can allow a host with: bailey run --allow HOST")
	}
	if r.Host == "" {
		return decideLiteral(p, r)
	}
	name, err := NormalizeName(r.Host)
	if err != nil {
		return denied(ReasonInvalidName, "", err.Error())
	}
	if IsLocalhost(name) {
		return denied(ReasonSpecialAddress, "", fmt.Sprintf("%s names the services of the machine itself; no sandbox reaches those, whatever the rules say", name))
	}
	isDNS := r.Protocol == ProtocolDNS
	if !isDNS && r.Port == 0 {
		return denied(ReasonNotAllowed, "", "port 0 cannot be reached")
	}
	return decideTarget(p, target{
		text:    name,
		port:    r.Port,
		anyPort: isDNS,
		matches: func(rule Rule) bool { return rule.matchesHost(name) },
	})
}

// DecideAddr says whether an address may be dialled that our own resolution
// returned for a name which Decide allowed. One denied address refuses the
// whole answer: a caller does not pick the good ones out of it.
func DecideAddr(p Policy, d bailey.Decision, addr netip.Addr, port uint16) bailey.Decision {
	if d.Verdict != bailey.Allow {
		return d
	}
	if c := Classify(addr); c.Special() {
		return special(addr, c)
	}
	for _, rule := range p.Deny {
		if rule.matchesAddr(addr) && rule.deniesPort(port) {
			return denied(ReasonDeniedByRule, rule.String(), fmt.Sprintf("the deny rule %s names the address %s", rule, addr))
		}
	}
	return d
}

// DecideHostAddress says whether an address may be dialled that belongs to
// the machine bailey runs on. What listens there may count on the machine's
// own firewall, which a connection from the machine itself never meets, and
// whoever owns a name can make it resolve there. So only a rule for the very
// address and port opens it, or one for a name that the machine itself gives
// to the address (definesName: in its hosts file); never a wildcard and never
// mode open alone.
func DecideHostAddress(p Policy, d bailey.Decision, addr netip.AddrPort, definesName bool) bailey.Decision {
	if d.Verdict != bailey.Allow || definesName && d.Rule != "" && !strings.HasPrefix(d.Rule, "*.") {
		return d
	}
	for _, rule := range p.Allow {
		if rule.matchesAddr(addr.Addr()) && rule.allowsPort(addr.Port()) {
			return d
		}
	}
	return denied(ReasonHostAddress, d.Rule,
		fmt.Sprintf("%s is an address of the machine that runs this sandbox; only a rule for that address opens it, or one for a name that the machine's hosts file gives it", addr.Addr()))
}

// DeniedNames returns the deny rules for one name each that hold at a port.
// A connection that says no name may be for any of them, so where it goes is
// compared with what they resolve to (DecideNameless).
func (p Policy) DeniedNames(port uint16) []Rule {
	var out []Rule
	for _, rule := range p.Deny {
		if rule.Host != "" && !rule.Wildcard && !rule.Addr.IsValid() && rule.deniesPort(port) {
			out = append(out, rule)
		}
	}
	return out
}

// DecideNameless says whether a connection that names no host may go to any
// of some addresses, as far as one of DeniedNames is concerned, which resolves
// to found.
func DecideNameless(d bailey.Decision, rule Rule, to, found []netip.Addr) bailey.Decision {
	for _, a := range to {
		if slices.Contains(found, a) {
			return denied(ReasonDeniedByRule, rule.String(),
				fmt.Sprintf("the deny rule %s refuses %s, which is an address of %s: the connection names no host", rule, a, rule.Host))
		}
	}
	return d
}

// Unresolved is the decision about an allowed host whose addresses could not
// be found, by the error of the look-up: it has none where that wraps
// ErrNoAddress, and else nobody could say.
func Unresolved(name, rule string, err error) bailey.Decision {
	if errors.Is(err, ErrNoAddress) {
		return denied(ReasonUnresolved, rule, fmt.Sprintf("%s is allowed, and this machine finds no IPv4 address for it", name))
	}
	return denied(ReasonUnresolved, rule, fmt.Sprintf("%s is allowed, and the DNS of this machine failed to answer for it: no answer in time, or an error of its server; trying again may help", name))
}

func decideLiteral(p Policy, r Request) bailey.Decision {
	switch {
	case !r.Addr.IsValid():
		return denied(ReasonNoName, "", "nothing says which host is meant: no name and no address")
	case r.Port == 0:
		return denied(ReasonNotAllowed, "", "port 0 cannot be reached")
	}
	if c := Classify(r.Addr); c.Special() {
		return special(r.Addr, c)
	}
	return decideTarget(p, target{
		text:    hostText(r.Addr),
		port:    r.Port,
		anyPort: false,
		matches: func(rule Rule) bool { return rule.matchesAddr(r.Addr) },
	})
}

// target is what a request is about, once its name or address is known to be
// well formed.
type target struct {
	text    string // for sentences; a name, or an address as in a rule
	port    uint16
	anyPort bool // the question is about the name, whatever the port
	matches func(Rule) bool
}

func decideTarget(p Policy, t target) bailey.Decision {
	for _, rule := range p.Deny {
		if t.matches(rule) && rule.deniesPort(t.port) {
			return denied(ReasonDeniedByRule, rule.String(), fmt.Sprintf("the deny rule %s refuses %s", rule, t.text))
		}
	}
	rule, ports := findAllow(p.Allow, t)
	if rule != "" || p.Mode == bailey.NetOpen {
		return bailey.Decision{Verdict: bailey.Allow, Rule: rule, Reason: "", Detail: ""}
	}
	if len(ports) > 0 {
		return denied(ReasonPortNotAllowed, "", fmt.Sprintf("%s is allowed on port %s, not on %d; %s",
			t.text, strings.Join(ports, ", "), t.port, t.advice()))
	}
	return denied(ReasonNotAllowed, "", fmt.Sprintf("%s is not on the allow list of this sandbox; %s", t.flag(), t.advice()))
}

// findAllow returns the rule that allows a target, or the ports that the rules
// about it name. Of several it takes one that names the very host before a
// wildcard, in whatever order they stand: DecideHostAddress asks which it was.
func findAllow(list []Rule, t target) (rule string, ports []string) {
	for _, r := range list {
		switch {
		case !t.matches(r):
		case !t.anyPort && !r.allowsPort(t.port):
			ports = append(ports, r.portText())
		case !r.Wildcard:
			return r.String(), nil
		case rule == "":
			rule = r.String()
		}
	}
	return rule, ports
}

// advice says which flag opens the target, or that there is none, as for a
// name without a dot.
func (t target) advice() string {
	if _, err := ParseRule(t.flag()); err != nil {
		return "and no rule can name it"
	}
	return "the person who started this can allow it with: bailey run --allow " + t.flag()
}

func (t target) flag() string {
	if t.anyPort {
		return t.text
	}
	return t.text + ":" + strconv.FormatUint(uint64(t.port), 10)
}

func (r Rule) portText() string {
	if r.Port == 0 {
		return "80 and 443"
	}
	return strconv.FormatUint(uint64(r.Port), 10)
}

// hostText writes an address as a rule does: IPv6 in brackets.
func hostText(a netip.Addr) string {
	return Rule{Host: "", Wildcard: false, Addr: a, Port: 0}.String()
}

func special(a netip.Addr, c Class) bailey.Decision {
	return denied(ReasonSpecialAddress, "", fmt.Sprintf("%s is %s; no sandbox reaches those, whatever the rules say", a, c))
}

func denied(reason, rule, detail string) bailey.Decision {
	return bailey.Decision{Verdict: bailey.Deny, Rule: rule, Reason: reason, Detail: detail}
}
