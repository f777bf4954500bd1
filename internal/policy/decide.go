package policy

import (
	"errors"
	"fmt"
	"iter"
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
	ProtocolSSH  = "ssh" // a command of git: Method is its name, Path its repository
)

// Policy is what one sandbox may reach. The zero Policy reaches nothing.
type Policy struct {
	Mode  bailey.NetMode `json:"mode"`
	Allow []Rule         `json:"allow,omitempty"`
	Deny  []Rule         `json:"deny,omitempty"`
	DNS   bailey.DNSMode `json:"dns,omitzero"`
	Ask   bool           `json:"ask,omitempty"`   // what no rule names is asked for, not refused
	Learn bool           `json:"learn,omitempty"` // nothing has to be reached: what is asked for is of interest
}

// Validate refuses a policy that cannot mean what its author thinks. The
// error is a *bailey.Error with a hint.
func (p Policy) Validate() error {
	switch p.Mode {
	case bailey.NetNone, bailey.NetOpen, bailey.NetFull:
	case bailey.NetAllow:
		if len(p.Allow) == 0 && !p.Ask && !p.Learn {
			return bailey.NewError(bailey.Invalid, "network mode allow has no allow rule, so nothing could be reached",
				"add a rule such as --allow example.com, or use --net none")
		}
	default:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("unknown network mode %d", p.Mode), "use none, allow, open or full")
	}
	for _, r := range p.Allow {
		if r.Range.IsValid() {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("the allow rule %s is a range of addresses", r), "ranges are for deny rules; name the host, with addresses")
		}
	}
	for _, r := range slices.Concat(p.Allow, p.Deny) {
		if r.Host == "" && !r.Addr.IsValid() && !r.Range.IsValid() {
			return bailey.NewError(bailey.Invalid, "a network rule is empty", "name a host, such as example.com")
		}
	}
	return nil
}

// Request is one question: may this be resolved, may this be connected, may
// this be asked of a host?
type Request struct {
	Protocol string     // ProtocolDNS asks about a name alone, for any port
	Host     string     // the name; normalised here, so any wire form will do
	Addr     netip.Addr // looked at only when Host is empty: a literal address
	Port     uint16     // of the connection; 0 for DNS
	Method   string     // of an HTTP request; empty: none can be seen
	Path     string     // of an HTTP request, as on the wire, without query
	Query    string     // of an HTTP request, as on the wire, without the question mark
	Targets  []string   // of an HTTP request: other paths that its fields name (see Targets)
	Login    string     // of a command over SSH: the user of the host
}

// Decide answers a Request of a policy that is asked once.
func Decide(p Policy, r Request) bailey.Decision { return NewIndex(p).Decide(r) }

// Decide answers a Request. It is pure, cannot fail, and denies what it does
// not understand. An allowed name is not yet an allowed connection: each
// address it resolves to has to pass DecideAddr.
func (x *Index) Decide(r Request) bailey.Decision {
	mode := x.policy.Mode
	if mode != bailey.NetAllow && mode != bailey.NetOpen && mode != bailey.NetFull {
		return denied(ReasonModeNone, "", "this sandbox has no network"+toStarter+" can allow a host with: bailey run --allow HOST")
	}
	t, refusal := x.read(r)
	if refusal != nil {
		return *refusal
	}
	if d := x.denial(t); d != nil {
		return *d
	}
	if d := x.overSSH(t); d != nil {
		return *d
	}
	rule, why := findAllow(t.rules(x.allow), t)
	if rule != nil {
		return bailey.Decision{Verdict: bailey.Allow, Rule: rule.text, Reason: "", Detail: ""}
	}
	if isReserved(t.Host) {
		return denied(ReasonNotAllowed, "", fmt.Sprintf("%s stands for this machine, and no rule opens that service%s can with: bailey run --host-service PORT", t.flag(), toStarter))
	}
	if !mode.ByList() || t.anyPort && x.policy.DNS == bailey.DNSOpen {
		return bailey.Decision{Verdict: bailey.Allow, Rule: "", Reason: "", Detail: ""}
	}
	d := t.unlisted(why)
	if x.policy.Ask && d.Reason != ReasonBadPath && d.Reason != ReasonSealed && t.nameable() {
		d.Verdict = bailey.Ask
	}
	return d
}

// denial returns what a deny rule says of a target, or nil.
func (x *Index) denial(t *target) *bailey.Decision {
	for e := range t.rules(x.deny) {
		if e.rule.byAddress() {
			continue // it holds at some addresses: DecideAddr's to say
		}
		reason := t.refusedBy(e.rule)
		var detail string
		switch reason {
		case "":
			continue
		case ReasonDeniedByRule:
			detail = fmt.Sprintf("the deny rule %s refuses %s", e.rule.Brief(), t.text)
		case ReasonBadPath:
			detail = fmt.Sprintf("a deny rule is about paths of %s, and this one can be read in two ways: %v", t.text, t.badPath)
		default:
			detail = fmt.Sprintf("a deny rule is about some requests to %s, and those of this connection cannot be seen", t.text)
		}
		d := denied(reason, e.text, detail)
		return &d
	}
	return nil
}

// DecideAddr says whether an address may be dialled that our own resolution
// returned for a request which Decide answered with d. One denied address
// refuses the whole answer: a caller does not pick the good ones out of it.
func (x *Index) DecideAddr(r Request, d bailey.Decision, addr netip.Addr) bailey.Decision {
	if d.Verdict != bailey.Allow {
		return d
	}
	t, refusal := x.read(r)
	if refusal != nil {
		return *refusal
	}
	if t.Host == ServiceHost {
		return x.decideService(t, d, addr)
	}
	if e := x.deniesAddr(t, addr); e != nil {
		return denied(ReasonDeniedByRule, e.text, fmt.Sprintf("the deny rule %s names the address %s", e.rule.Brief(), addr))
	}
	c := Classify(addr)
	about, ok := x.addressRule(t, addr)
	switch {
	case ok:
		return d
	case about != nil && c.nameable(): // and no rule without addresses allowed it
		return denied(ReasonAddress, about.text, fmt.Sprintf("the rule %s allows other addresses than %s: %s", about.text, addr, brief(join(about.rule.Narrow.Addresses))))
	case about == nil && (c == ClassPublic || c == ClassPrivate && x.policy.Mode == bailey.NetFull):
		return d // by the mode
	}
	return special(addr, c)
}

// deniesAddr returns the deny rule that keeps a request from an address, or
// nil: one for the address or a range that holds it, or one for the name that
// names such addresses.
func (x *Index) deniesAddr(t *target, addr netip.Addr) *entry {
	for e := range x.deny.at(addr) {
		if !e.rule.byAddress() && t.refusedBy(e.rule) != "" {
			return e
		}
	}
	for e := range t.rules(x.deny) {
		if e.rule.byAddress() && within(addr.Unmap(), e.rule.Narrow.Addresses) && t.refusedBy(e.rule) != "" {
			return e
		}
	}
	return nil
}

// addressRule reports whether an allow rule about a request allows an address
// for it; if none does it returns one that names other addresses, or nil.
func (x *Index) addressRule(t *target, addr netip.Addr) (about *entry, ok bool) {
	for e := range t.rules(x.allow) {
		switch {
		case t.outside(e.rule) != "":
		case e.rule.allowsAddr(addr, x.policy.Mode):
			return e, true
		case about == nil && e.rule.Narrow != nil && len(e.rule.Narrow.Addresses) > 0:
			about = e
		}
	}
	return about, false
}

// decideService is DecideAddr for a service of this machine, which is on its
// loopback and nowhere else. The name alone resolves to what stands for it.
func (x *Index) decideService(t *target, d bailey.Decision, addr netip.Addr) bailey.Decision {
	if t.anyPort && addr == ServiceAddr() && x.services {
		return d
	}
	loopback := addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || addr == netip.IPv6Loopback()
	for e := range t.rules(x.allow) {
		if e.rule.Service && !t.anyPort && e.rule.Port == t.Port && loopback {
			return d
		}
	}
	return special(addr, Classify(addr))
}

// DecideHostAddress says whether an address may be dialled that belongs to
// the machine bailey runs on. What listens there may count on the machine's
// own firewall, which a connection from the machine itself never meets, and
// whoever owns a name can make it resolve there. So only a rule for the very
// address and port opens it, or one for a name that the machine itself gives
// to the address (definesName: in its hosts file); never a wildcard and never
// a mode alone.
func (x *Index) DecideHostAddress(r Request, d bailey.Decision, addr netip.Addr, definesName bool) bailey.Decision {
	if d.Verdict != bailey.Allow {
		return d
	}
	t, refusal := x.read(r)
	if refusal != nil {
		return *refusal
	}
	if t.Host == ServiceHost {
		return x.decideService(t, d, addr)
	}
	for e := range t.rules(x.allow) {
		if t.outside(e.rule) == "" && e.rule.opensMachine(addr, definesName) {
			return d
		}
	}
	for e := range x.allow.at(addr) { // a rule for the address opens it to its names too
		if t.outside(e.rule) == "" && e.rule.opensMachine(addr, false) {
			return d
		}
	}
	return denied(ReasonHostAddress, d.Rule,
		fmt.Sprintf("%s is an address of the machine that runs this sandbox; only a rule for that address opens it, or one for a name that the machine's hosts file gives it", addr))
}

// DeniedNames returns the deny rules for one name each that hold at a port.
// A connection that says no name may be for any of them, so where it goes is
// compared with what they resolve to (DecideNameless). Fenced rules are left
// out: a sandbox that wrote their file would have its data looked up.
func (p Policy) DeniedNames(port uint16) []Rule {
	var out []Rule
	for _, rule := range p.Deny {
		if rule.Host != "" && !rule.Wildcard && !rule.Fenced && !rule.Addr.IsValid() && rule.deniesPort(port) {
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
		if slices.Contains(found, a) && (!rule.byAddress() || within(a, rule.Narrow.Addresses)) {
			return denied(ReasonDeniedByRule, rule.String(),
				fmt.Sprintf("the deny rule %s refuses %s, which is an address of %s: the connection names no host", rule, a, rule.Host))
		}
	}
	return d
}

// OfUser reports whether a request is allowed by a rule that the user answers
// for: one that is not fenced. Such a rule means its address or name whatever
// else lies there; a fenced one may be a stranger's, and takes nothing off what
// the deny rules say of a connection that names no host.
func (x *Index) OfUser(r Request) bool {
	t, refusal := x.read(r)
	if refusal != nil {
		return false
	}
	for e := range t.rules(x.allow) {
		if !e.rule.Fenced && t.outside(e.rule) == "" {
			return true
		}
	}
	return false
}

// Pins reports whether a rule says which addresses the host of a request may
// have: then only who dials it can keep that.
func (x *Index) Pins(r Request) bool {
	t, refusal := x.read(r)
	if refusal != nil {
		return true
	}
	for e := range t.rules(x.allow) {
		if e.rule.Narrow != nil && len(e.rule.Narrow.Addresses) > 0 && t.outside(e.rule) == "" {
			return true
		}
	}
	return false
}

// Unresolved is the decision about an allowed host whose addresses could not
// be found, by the error of the look-up: it has none where that wraps
// ErrNoAddress, and else nobody could say.
func Unresolved(name, rule string, err error) bailey.Decision {
	if errors.Is(err, ErrNoAddress) {
		return denied(ReasonUnresolved, rule, fmt.Sprintf("%s is allowed, and this machine finds no IPv4 address for it", name))
	}
	if errors.Is(err, ErrManyNames) {
		return denied(ReasonTooMany, rule, fmt.Sprintf("%s is allowed, and this sandbox has asked for too many different names in a short time; go on in a minute, or name the host in a rule", name))
	}
	return denied(ReasonUnresolved, rule, fmt.Sprintf("%s is allowed, and the DNS of this machine failed to answer for it: no answer in time, or an error of its server; trying again may help", name))
}

// ByRequest reports whether rules tell the requests to a host and port apart,
// so that each has to be decided.
func (x *Index) ByRequest(r Request) bool {
	t, refusal := x.read(r)
	if refusal != nil {
		return false
	}
	for _, b := range []table{x.allow, x.deny} {
		for e := range t.rules(b) {
			if e.rule.ofRequests() {
				return true
			}
		}
	}
	return false
}

// Opens reports whether TLS to a host and port is to be opened: some rule about
// them can be kept only by seeing the requests inside.
func (x *Index) Opens(r Request) bool {
	t, refusal := x.read(r)
	if refusal != nil {
		return false
	}
	for e := range t.rules(x.allow) {
		if e.rule.InsideTLS() && e.rule.allowsPort(t.Port) {
			return true
		}
	}
	for e := range t.rules(x.deny) {
		if e.rule.InsideTLS() && e.rule.deniesPort(t.Port) {
			return true
		}
	}
	return false
}

// Opened returns the rules for which TLS is opened, those that allow first.
// Where there is no network there are none.
func (p Policy) Opened() []Rule {
	var out []Rule
	for _, r := range slices.Concat(p.Allow, p.Deny) {
		if p.Mode != bailey.NetNone && r.InsideTLS() {
			out = append(out, r)
		}
	}
	return out
}

// findAllow returns the rule that allows a target, or why those about it do
// not.
func findAllow(list iter.Seq[*entry], t *target) (rule *entry, why []outsider) {
	for e := range list {
		reason := t.outside(e.rule)
		if reason == "" {
			return e, nil
		}
		why = append(why, outsider{reason, e.rule})
	}
	return nil, why
}

// outsider is a rule about a target that does not speak of the request.
type outsider struct {
	reason string
	rule   Rule
}

// unlisted says why no rule allows a target. Of several reasons it gives the
// one that came closest.
func (t *target) unlisted(why []outsider) bailey.Decision {
	for _, o := range why {
		switch o.reason {
		case ReasonBadPath:
			return denied(o.reason, "", fmt.Sprintf("rules are about paths of %s, and this one can be read in two ways: %v", t.text, t.badPath))
		case ReasonPath:
			return denied(o.reason, "", fmt.Sprintf("of %s only %s is allowed, not %s", t.text, o.rule.Brief(), t.shown()))
		case ReasonMethod:
			return denied(o.reason, "", fmt.Sprintf("of %s only %s is allowed, not %s", t.text, o.rule.Brief(), t.asked()))
		case ReasonSealed:
			return denied(o.reason, "", fmt.Sprintf("of %s only %s is allowed, and the requests of this connection cannot be seen", t.text, o.rule.Brief()))
		}
	}
	if len(why) > 0 {
		ports := make([]string, 0, len(why))
		for _, o := range why {
			ports = append(ports, o.rule.portText())
		}
		return denied(ReasonPortNotAllowed, "", fmt.Sprintf("%s is allowed on port %s, not on %d%s",
			t.text, strings.Join(ports, ", "), t.Port, t.advice()))
	}
	return denied(ReasonNotAllowed, "", t.flag()+" is not on the allow list of this sandbox"+t.advice())
}

// toStarter begins what a refusal says to the one who started the sandbox.
const toStarter = "; the person who started this"

// advice says which flag opens the target, or that there is none, as for a
// name without a dot.
func (t *target) advice() string {
	if !t.nameable() {
		return "; and no rule can name it"
	}
	return toStarter + " can allow it with: bailey run --allow " + t.flag()
}

// WithoutAdvice is the detail of a decision for somebody who is told in another
// way what to do: not inside of a sandbox.
func WithoutAdvice(detail string) string {
	said, _, _ := strings.Cut(detail, toStarter)
	return said
}

// nameable reports whether an allow rule could speak of the target.
func (t *target) nameable() bool {
	return !IsMetadata(t.Host) && (t.Host == "" || strings.Contains(t.Host, ".")) && (t.Host != "" || !t.Addr.Is6()) && t.Port != dnsPort
}

func (t *target) flag() string {
	if t.anyPort {
		return t.text
	}
	return t.text + ":" + strconv.FormatUint(uint64(t.Port), 10)
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
	if c.nameable() {
		return denied(ReasonSpecialAddress, "", fmt.Sprintf("%s is %s; only a rule whose addresses name it reaches one", a, c))
	}
	return denied(ReasonSpecialAddress, "", fmt.Sprintf("%s is %s; no sandbox reaches those, whatever the rules say", a, c))
}

func denied(reason, rule, detail string) bailey.Decision {
	return bailey.Decision{Verdict: bailey.Deny, Rule: rule, Reason: reason, Detail: detail}
}
