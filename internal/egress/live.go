package egress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// live is what a change of the policy needs to know of a flow, and what it
// does to it. The flow writes what it is about to ask before it looks at the
// policy, and a change replaces the policy before it looks at the flows: so
// one of the two always sees the other.
type live struct {
	cancel   context.CancelFunc // ends the flow
	done     <-chan struct{}    // closed when it is ended
	standing atomic.Pointer[standing]
	aims     atomic.Pointer[[]netip.Addr] // all that the host resolved to
	asking   atomic.Bool                  // a person is asked: the policy may say so
	cutBy    atomic.Pointer[bailey.Decision]
	requests sync.Map    // *http.Request → *standing: those of HTTP that are under way
	loans    sync.Map    // *http.Request → []string: the secrets that one under way carries
	isOpened atomic.Bool // its TLS ends here

	granted bailey.Decision // the last that let it through; the flow's own goroutine's
}

// standing is what a flow was decided as. It never changes.
type standing struct {
	ask    policy.Request
	spoken bool // the connection itself said the host
	byPin  bool // the host was looked for among the names of our DNS
	tunnel string
	once   bool // a person let this connection through
}

// decide answers for what stands by the policy of now. What a person let
// through once is no rule: it holds where the policy would have them asked.
func (p *Proxy) decide(s *standing) bailey.Decision {
	d := p.rules.Decide(s.ask)
	if s.once && d.Verdict == bailey.Ask {
		return bailey.Decision{Verdict: bailey.Allow, Rule: "", Reason: policy.ReasonAnsweredYes, Detail: "a person was asked and let this connection through"}
	}
	return d
}

// judge decides what stands and one address for it.
func (p *Proxy) judge(s *standing, a netip.Addr) bailey.Decision {
	return p.judgeBy(s, a, p.cfg.HostAddress)
}

// judgeBy is judge by somebody who knows which addresses are this machine's.
func (p *Proxy) judgeBy(s *standing, a netip.Addr, isOurs func(netip.Addr) bool) bailey.Decision {
	d := p.rules.DecideAddr(s.ask, p.decide(s), a)
	if d.Verdict == bailey.Allow && isOurs(a) {
		defines := s.ask.Host != "" && p.cfg.HostDefines(s.ask.Host, a)
		return p.rules.DecideHostAddress(s.ask, d, a, defines)
	}
	return d
}

func (p *Proxy) enter(f *flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flows[f] = struct{}{}
}

func (p *Proxy) leave(f *flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.flows, f)
}

func (p *Proxy) all() []*flow {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*flow, 0, len(p.flows))
	for f := range p.flows {
		out = append(out, f)
	}
	return out
}

// reviewPatience is how long the look-up of a denied name may take that could
// be what an open connection goes to: less than the second in which a change
// has reached every connection.
const reviewPatience = 700 * time.Millisecond

// Adopt puts a policy in place of the one before and resets every connection
// that it refuses. It returns how many; by then they are on their way down.
// The policy is a valid one.
func (p *Proxy) Adopt(ctx context.Context, next policy.Policy) (cut int) {
	before := p.rules.Adopt(next)
	p.asks.settle(p)
	var nameless []*flow
	for _, f := range p.all() {
		switch d := f.review(); {
		case d.Verdict == bailey.Deny:
			f.cut(d)
			cut++
		case f.mayBeAnother():
			nameless = append(nameless, f)
		}
	}
	return cut + p.reviewNameless(ctx, nameless, next.NewDenials(before))
}

// review decides a flow again, as what it was decided as and to where it went.
func (f *flow) review() bailey.Decision {
	d := bailey.Decision{Verdict: bailey.Allow, Rule: "", Reason: "", Detail: ""}
	// One that waits for a person was never open: its question has been settled,
	// and it decides once more when it wakes.
	if s := f.standing.Load(); s != nil && !f.asking.Load() { // nil: it has still to be decided, or was refused
		d = f.reviewOne(s)
	}
	f.requests.Range(func(_, v any) bool {
		if s, ok := v.(*standing); ok && d.Verdict == bailey.Allow {
			d = f.reviewOne(s)
		}
		return d.Verdict == bailey.Allow
	})
	return d
}

// serving notes a request that was let through and is under way. Over HTTP/2
// there are several.
func (f *flow) serving(r *http.Request) {
	if s := f.standing.Load(); s != nil {
		f.requests.Store(r, s)
	}
}

func (f *flow) served(r *http.Request) {
	f.requests.Delete(r)
	f.loans.Delete(r)
}

func (f *flow) reviewOne(s *standing) bailey.Decision {
	through := bailey.Decision{Verdict: bailey.Allow, Rule: "", Reason: "", Detail: ""}
	d := f.p.decide(s)
	switch {
	case d.Verdict == bailey.Ask && f.asking.Load():
		return through
	case d.Verdict == bailey.Ask:
		d.Verdict = bailey.Deny // no rule lets it through any more: the next connection is asked for
		return d
	case d.Verdict == bailey.Deny:
		return d
	case f.isUnseen(s.ask):
		return unseen()
	}
	if aims := f.aims.Load(); aims != nil {
		for _, a := range *aims {
			if d := f.p.judge(s, a); d.Verdict != bailey.Allow {
				d.Verdict = bailey.Deny
				return d
			}
		}
	}
	return f.reviewPins(s)
}

// reviewPins holds the rules against every name that a connection may be for
// which says none, as search does.
func (f *flow) reviewPins(s *standing) bailey.Decision {
	names := []string{""}
	switch {
	case s.spoken:
		names = nil
	case s.tunnel != "":
		names = append(names, s.tunnel)
	case s.byPin:
		names = append(names, f.p.cfg.Pins.Names(s.ask.Addr, f.p.cfg.Now())...)
	}
	for _, name := range names {
		ask := s.ask
		ask.Host = name
		if d := f.p.rules.Decide(ask); d.Verdict == bailey.Deny && d.Rule != "" {
			return d
		}
		if f.isUnseen(ask) {
			return unseen()
		}
	}
	return bailey.Decision{Verdict: bailey.Allow, Rule: "", Reason: "", Detail: ""}
}

// isUnseen reports whether rules want to see inside what is passed on unseen.
func (f *flow) isUnseen(r policy.Request) bool {
	return r.Protocol != policy.ProtocolHTTP && !f.isOpened.Load() && f.p.rules.Opens(r)
}

func unseen() bailey.Decision {
	return denial(policy.ReasonSealed, "rules want to see inside what goes there now")
}

// mayBeAnother reports whether a connection can go to a host that a deny rule
// names without saying so: see resolve.
func (f *flow) mayBeAnother() bool {
	s := f.standing.Load()
	return s != nil && !s.spoken && f.aims.Load() != nil && !f.p.rules.OfUser(s.ask)
}

// reviewNameless is passNameless for connections that are open, and for deny
// rules that are new.
func (p *Proxy) reviewNameless(ctx context.Context, flows []*flow, fresh []policy.Rule) (cut int) {
	denied := policy.Policy{Deny: fresh}
	names := slices.DeleteFunc(slices.Clone(fresh), func(r policy.Rule) bool {
		return len(policy.Policy{Deny: []policy.Rule{r}}.DeniedNames(r.Port)) == 0
	})
	if len(flows) == 0 || len(names) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	var all []found
	if len(names) <= maxDenied {
		all = p.lookupAll(ctx, names)
	}
	for _, f := range flows {
		if d := f.against(all, len(denied.DeniedNames(f.dest.Port()))); d.Verdict == bailey.Deny {
			f.cut(d)
			cut++
		}
	}
	return cut
}

// against compares where a connection went with what denied names resolve to,
// of which so many hold at its port.
func (f *flow) against(all []found, count int) bailey.Decision {
	d := bailey.Decision{Verdict: bailey.Allow, Rule: "", Reason: "", Detail: ""}
	aims := f.aims.Load()
	switch {
	case count == 0 || aims == nil:
		return d
	case len(all) == 0:
		return bailey.Decision{Verdict: bailey.Deny, Rule: "", Reason: policy.ReasonDeniedByRule, Detail: fmt.Sprintf("the connection names no host, and more than %d deny rules are new", maxDenied)}
	}
	for _, l := range all {
		if len(policy.Policy{Deny: []policy.Rule{l.rule}}.DeniedNames(f.dest.Port())) == 0 {
			continue
		}
		if l.err != nil && !errors.Is(l.err, policy.ErrNoAddress) {
			return bailey.Decision{Verdict: bailey.Deny, Rule: l.rule.String(), Reason: policy.ReasonUnresolved, Detail: fmt.Sprintf("the connection names no host, and the DNS of this machine failed to say which addresses the deny rule %s covers", l.rule)}
		}
		if d = policy.DecideNameless(d, l.rule, *aims, l.addrs); d.Verdict == bailey.Deny {
			return d
		}
	}
	return d
}

// cut ends a flow for what the policy says of it now.
func (f *flow) cut(d bailey.Decision) {
	d.Reason, d.Detail = policy.ReasonPolicyChanged, "the rules were changed while the connection was open: "+d.Detail
	if f.cutBy.CompareAndSwap(nil, &d) {
		f.cancel()
	}
}

// endCut leaves the decision of a flow that was cut to be recorded. What it
// was until then has an event of its own, like a connection that was used well
// before a request was refused.
func (f *flow) endCut() {
	by := f.cutBy.Load()
	if by == nil {
		return
	}
	f.kept = false
	if s := f.standing.Load(); s != nil {
		f.host = s.ask.Host
	}
	if f.dialled.Load() != nil {
		f.decision = f.granted
		f.record()
		f.in.Store(0)
		f.out.Store(0)
	}
	f.decision, f.told = *by, false
}
