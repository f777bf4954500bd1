package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// flow is one connection of the sandbox: what was read of it, what was
// decided and what became of it. One goroutine owns it, but for the counters.
type flow struct {
	p    *Proxy
	down *net.TCPConn // the sandbox's side

	dest netip.AddrPort // where the sandbox sent it: a port, a literal, a key for pins
	head []byte         // read from down and not yet passed on

	explicit bool   // it was made to the explicit proxy
	forward  bool   // there, and it asks for requests to be forwarded, not for a tunnel
	tunnel   string // name that a tunnel or request of the explicit proxy is for; empty: none, or dest's address

	protocol string
	host     string // normalised name; empty where the identity is dest's address
	spoken   bool   // the connection itself said host
	sealed   bool   // it says no host, and of those that it may be for one is to be seen inside
	seen     asked  // the HTTP request that the event is about
	asked    asked  // the HTTP request that is decided, where rules tell them apart
	decision bailey.Decision
	dialled  atomic.Pointer[netip.AddrPort] // the HTTP transport may still dial when all else is over

	in, out atomic.Int64 // bytes to and from the sandbox
	kept    bool         // the connection ended in its own time: no reset
	told    bool         // its refusal is recorded already
	trace

	byPin bool // the host was looked for among the names of our DNS
	once  bool // a person let this connection through
	live       // what a change of the policy looks at
}

// run is the line of stages. Whatever returns early has set the decision, or
// leaves the zero one, which denies.
func (f *flow) run(ctx context.Context) {
	if !f.locate() || f.explicit && !f.enter(ctx) {
		return
	}
	if hosts := f.gitHosts(); len(hosts) > 0 {
		f.serveGit(ctx, hosts)
		return
	}
	for {
		kind := f.sniff()
		switch kind {
		case kindTLS:
			f.serveTLS(ctx)
		case kindHTTP:
			f.serveHTTP(ctx)
		case kindRaw:
			f.serveRaw(ctx)
		case kindSilent:
			if f.serveSilent(ctx) {
				continue // the client spoke first after all
			}
		case kindGone, kindUnclear:
			f.refuseUnread(kind)
		}
		return
	}
}

// locate reads where the sandbox sent the connection, and refuses the one to
// the listener itself, which would go round for ever. Some ports beside the
// listener's, at the same address, are the explicit proxy.
func (f *flow) locate() bool {
	f.protocol = policy.ProtocolTCP
	dest, err := f.p.cfg.OriginalDst(f.down)
	if err != nil {
		f.refuse(policy.ReasonProxyItself, "the connection was not redirected: "+err.Error())
		return false
	}
	f.dest = netip.AddrPortFrom(dest.Addr().Unmap(), dest.Port())
	local, ok := f.down.LocalAddr().(*net.TCPAddr)
	if !ok {
		f.refuse(policy.ReasonProxyItself, "the connection has no local address")
		return false
	}
	here := netip.AddrPortFrom(local.AddrPort().Addr().Unmap(), local.AddrPort().Port())
	if here == f.dest {
		f.refuse(policy.ReasonProxyItself, "the connection was made to the proxy itself")
		return false
	}
	f.explicit = here.Addr() == f.dest.Addr() && slices.Contains(f.p.cfg.Explicit, f.dest.Port())
	return true
}

// decide asks the policy about the flow's name, or about its literal address
// if it has none, and keeps the answer, which stands until the policy changes.
// Where a person has to be asked it waits for them.
func (f *flow) decide() bool {
	s := &standing{ask: f.request(), spoken: f.spoken, byPin: f.byPin, tunnel: f.tunnel, once: f.once}
	f.standing.Store(s) // before the policy is looked at: who changes it looks here afterwards
	f.decision = f.p.decide(s)
	if f.decision.Verdict == bailey.Ask {
		f.hold(s)
	}
	if f.decision.Verdict != bailey.Allow {
		f.standing.Store(nil) // it will be explained, and ended, as what it is
		return false
	}
	f.granted = f.decision
	return true
}

// asked is what a rule can see of an HTTP request. The zero value is none.
type asked struct {
	method, path, query string

	targets []string // see policy.Targets
	login   string   // of a command over SSH
}

// request is the flow as a question to the policy.
func (f *flow) request() policy.Request {
	return policy.Request{
		Protocol: f.protocol, Host: f.host, Addr: f.dest.Addr(), Port: f.dest.Port(),
		Method: f.asked.method, Path: f.asked.path, Query: f.asked.query, Targets: f.asked.targets, Login: f.asked.login,
	}
}

// candidate is whom a connection may be for, and what was decided about it.
type candidate struct {
	host     string
	decision bailey.Decision
}

// identify finds whom a connection is for that says no name, and decides it.
func (f *flow) identify(byPin bool) bool { return f.search(byPin) && f.decide() }

// search looks for whom a connection is for that says no name: the host that
// the tunnel is for, or one that our own DNS gave the address for, if the
// policy lets it be reached at this port, or would have a person asked; else
// the address itself. It may be for any of those hosts, so one that a deny rule
// names ends the search.
func (f *flow) search(byPin bool) bool {
	f.spoken, f.byPin, f.sealed = false, byPin, false
	var names []string
	switch {
	case !byPin:
	case f.tunnel != "":
		names = []string{f.tunnel}
	default:
		names = f.p.cfg.Pins.Names(f.dest.Addr(), f.p.cfg.Now())
	}
	list := make([]candidate, 0, len(names)+1)
	for _, name := range append(names, "") { // no name: the address itself
		f.host = name
		f.decision = f.p.rules.Decide(f.request())
		f.sealed = f.sealed || f.p.rules.Opens(f.request())
		list = append(list, candidate{name, f.decision})
		if f.decision.Verdict == bailey.Deny && f.decision.Rule != "" {
			return false
		}
	}
	best := list[0] // the latest name makes the best message
	if i := slices.IndexFunc(list, func(c candidate) bool { return c.decision.Verdict == bailey.Allow }); i >= 0 {
		best = list[i]
	}
	f.host, f.decision = best.host, best.decision
	return best.decision.Verdict != bailey.Deny
}

// judged are addresses that a decided request may be passed on to, and the
// judgement itself, which is asked once more before the kernel gets one. It
// holds nothing that changes: the HTTP transport dials when it likes.
type judged struct {
	addrs   []netip.Addr
	judge   func(netip.Addr) bailey.Decision
	through string // what the upstream proxy is asked for; empty: the addresses are dialled
}

// none reports whether there is nowhere to go.
func (j judged) none() bool { return len(j.addrs) == 0 && j.through == "" }

// resolve returns the addresses to dial, judged: all or none. If the address
// that the sandbox chose is among them it comes first: it is ours as well.
func (f *flow) resolve(ctx context.Context) judged {
	addrs, err := f.addresses(ctx)
	through := f.through()
	if through != "" && !errors.Is(err, policy.ErrManyNames) {
		err = nil // the upstream proxy may know one
	}
	if err != nil {
		f.decision = policy.Unresolved(f.host, f.decision.Rule, err)
		return judged{}
	}
	f.aims.Store(&addrs) // before they are judged, as in decide
	judge := f.addrJudge()
	for _, a := range addrs {
		d := judge(a)
		if d.Verdict != bailey.Allow {
			f.refused = a
			if f.host != "" {
				d.Detail = fmt.Sprintf("%s resolves to %s: %s", f.host, a, d.Detail)
			}
			f.decision = d
			return judged{}
		}
	}
	// What a rule of the user's allows by its address, or by the name that was
	// looked up, is meant whatever else lies there.
	if !f.spoken && !f.p.rules.OfUser(f.request()) && !f.passNameless(ctx, addrs) {
		return judged{}
	}
	f.announce()
	return judged{addrs[:min(len(addrs), maxDials)], judge, through}
}

// passNameless holds the deny rules for names against a connection that says
// none: it may not go where such a name resolves to. A name that nobody can
// resolve now refuses the connection, or a sandbox would only have to keep the
// resolver busy.
func (f *flow) passNameless(ctx context.Context, addrs []netip.Addr) bool {
	denied := f.p.rules.Policy().DeniedNames(f.dest.Port())
	if len(denied) > maxDenied {
		f.refuse(policy.ReasonDeniedByRule, fmt.Sprintf("the connection names no host, and the deny rules name %d, more than the %d whose addresses are looked up", len(denied), maxDenied))
		return false
	}
	for _, l := range f.p.lookupAll(ctx, denied) {
		if l.err != nil && !errors.Is(l.err, policy.ErrNoAddress) {
			f.refuse(policy.ReasonUnresolved, fmt.Sprintf("the connection names no host, and the DNS of this machine failed to say which addresses the deny rule %s covers", l.rule))
			return false
		}
		if f.decision = policy.DecideNameless(f.decision, l.rule, addrs, l.addrs); f.decision.Verdict != bailey.Allow {
			return false
		}
	}
	return true
}

// found is what a denied name resolves to.
type found struct {
	rule  policy.Rule
	addrs []netip.Addr
	err   error
}

// lookupAll resolves the names of some rules at once; the resolver bounds how
// many questions are under way, and keeps the answers.
func (p *Proxy) lookupAll(ctx context.Context, rules []policy.Rule) []found {
	out := make([]found, len(rules))
	var all sync.WaitGroup
	for i, rule := range rules {
		all.Go(func() {
			addrs, err := p.cfg.Resolver.Lookup(ctx, rule.Host)
			out[i] = found{rule, addrs, err}
		})
	}
	all.Wait()
	return out
}

// addrJudge returns what judges one address of the host as it is decided now,
// by the policy of the moment in which it is asked.
func (f *flow) addrJudge() func(netip.Addr) bailey.Decision {
	p, s := f.p, standing{ask: f.request(), once: f.once}
	return func(a netip.Addr) bailey.Decision { return p.judge(&s, a) }
}

// addresses returns what our own resolution finds for the host, or the
// literal where that is the identity.
func (f *flow) addresses(ctx context.Context) ([]netip.Addr, error) {
	switch f.host {
	case "":
		return []netip.Addr{f.dest.Addr()}, nil
	case policy.ServiceHost: // on this machine, wherever the service listens
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	found, err := f.p.cfg.Resolver.Lookup(ctx, f.host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(found))
	if slices.Contains(found, f.dest.Addr()) {
		addrs = append(addrs, f.dest.Addr())
	}
	for _, a := range found {
		if a != f.dest.Addr() {
			addrs = append(addrs, a)
		}
	}
	return addrs, nil
}

// refuse sets a denial that is not the policy's own.
func (f *flow) refuse(reason, detail string) {
	f.decision = bailey.Decision{Verdict: bailey.Deny, Rule: f.decision.Rule, Reason: reason, Detail: detail}
}

// finish records and closes the sandbox's side; it runs on every path, and it
// is the edge that a panic does not get past. Who sees the connection refused and
// makes another finds this one on record before that. (What is cut is reset
// first: see serve.)
func (f *flow) finish() {
	if v := recover(); v != nil {
		f.refuse(policy.ReasonBadRequest, "bug: the connection made the proxy panic")
		var ev bailey.Event
		ev.Time = f.p.cfg.Now()
		ev.Type = bailey.EventError
		ev.Sandbox = f.p.cfg.Sandbox
		ev.Message = fmt.Sprintf("bug: a connection made the proxy panic: %s", printable(fmt.Sprint(v)))
		f.p.cfg.Recorder.Record(ev)
	}
	f.conclude()
	used := f.dialled.Load() != nil
	if !used { // whatever the sandbox was answered came from us
		f.in.Store(0)
	}
	f.endCut()
	if allowed := f.decision.Verdict == bailey.Allow; !f.told || allowed && (used || f.decision.Reason != "") {
		f.record()
	}
	if f.kept {
		_ = f.down.Close()
	} else {
		reset(f.down)
	}
}

// printable makes what the sandbox said fit for an event: one line of
// printable ASCII, at most 128 bytes.
func printable(s string) string { return printableTo(s, 128) }

func printableTo(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	q := strconv.QuoteToASCII(s)
	q = q[1 : len(q)-1]
	return q[:min(len(q), limit)]
}
