package egress

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// Bounds of what a sandbox can have a person asked.
const (
	askPatience  = 30 * time.Second // for an answer
	maxAsks      = 16               // at once
	maxAskPeak   = 20               // in a row
	askEvery     = 6 * time.Second  // and then one in this time
	askMemory    = 5 * time.Minute  // how long what was refused is not asked again
	maxRefused   = 256              // of those
	askCheckTime = 24 * time.Hour   // far beyond any of the above
)

// target is what a person is asked about: a host or an address, and a port.
type target struct {
	host string
	addr netip.Addr // where there is no host
	port uint16
}

func targetOf(r policy.Request) target {
	if r.Host != "" {
		return target{host: r.Host, port: r.Port}
	}
	return target{addr: r.Addr, port: r.Port}
}

// asks are the questions to a person of one sandbox. The zero value is ready.
type asks struct {
	mu      sync.Mutex
	open    map[target]*asking
	refused map[target]time.Time // until when it is not asked again
	tokens  int                  // questions that were spent of the peak
	last    time.Time            // when one was given back
}

// asking is one question, however many connections wait for its answer. The
// fields after done may be read once done is closed.
type asking struct {
	request  policy.Request
	deadline time.Time
	done     chan struct{}
	decision bailey.Decision
	once     bool // the answer is for those who wait, and no rule
}

// hold waits for a person's answer and leaves the decision that it makes.
func (f *flow) hold(s *standing) {
	f.asking.Store(true)
	defer f.asking.Store(false)
	p := f.p
	a, fresh, refusal := p.asks.join(s.ask, p.cfg.Now())
	if a == nil {
		f.decision = *refusal
		return
	}
	if fresh {
		p.recordAsk(bailey.EventNetAsk, s.ask, f.decision, f.protocol)
	}
	wait := time.NewTimer(a.deadline.Sub(p.cfg.Now()))
	defer wait.Stop()
	if d := p.rules.Decide(s.ask); d.Verdict != bailey.Ask { // it was changed before we were to be found
		p.asks.end(p, targetOf(s.ask), ruled(d), false)
	}
	select {
	case <-a.done:
	case <-wait.C:
		p.asks.end(p, targetOf(s.ask), denial(policy.ReasonNotAnswered, fmt.Sprintf("nobody answered within %s whether %s may be reached; bailey net allow lets it through", askPatience, textOf(s.ask))), false)
		<-a.done
	case <-f.done:
		f.decision = denial(policy.ReasonNotAnswered, "the connection ended before anybody answered")
		return
	}
	f.once, f.decision = a.once, a.decision
	f.settleHeld(s)
}

// settleHeld decides what was held once more: between the answer and now the
// policy may have changed again.
func (f *flow) settleHeld(s *standing) {
	if f.decision.Verdict != bailey.Allow {
		return
	}
	now := *s
	now.once = f.once
	f.standing.Store(&now)
	f.decision = f.p.decide(&now)
	if f.decision.Verdict == bailey.Ask {
		f.decision = denial(policy.ReasonPolicyChanged, "the rule that let it through was taken away at once")
	}
}

// join returns the open question about a request, or makes it; or why it is
// not asked.
func (a *asks) join(r policy.Request, now time.Time) (q *asking, fresh bool, refusal *bailey.Decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := targetOf(r)
	if q := a.open[t]; q != nil {
		return q, false, nil
	}
	refuse := func(reason, detail string) (*asking, bool, *bailey.Decision) {
		d := denial(reason, detail)
		return nil, false, &d
	}
	if until, ok := a.refused[t]; ok && now.Before(until) {
		return refuse(policy.ReasonAnsweredNo, fmt.Sprintf("%s was asked for and not allowed; it is asked for again in %s, and bailey net allow lets it through before", textOf(r), until.Sub(now).Round(time.Second)))
	}
	if len(a.open) >= maxAsks {
		return refuse(policy.ReasonTooMany, fmt.Sprintf("%d questions are open already, so %s is not asked for", len(a.open), textOf(r)))
	}
	if !a.spend(now) {
		return refuse(policy.ReasonTooMany, fmt.Sprintf("too much was asked lately, so %s is not asked for now", textOf(r)))
	}
	if a.open == nil {
		a.open = map[target]*asking{}
	}
	q = &asking{request: r, deadline: now.Add(askPatience), done: make(chan struct{})}
	a.open[t] = q
	return q, true, nil
}

// spend takes one of the questions that may be asked now.
func (a *asks) spend(now time.Time) bool {
	if back := int(min(now.Sub(a.last), askCheckTime) / askEvery); back > 0 {
		a.tokens, a.last = max(0, a.tokens-back), now
	}
	if a.tokens >= maxAskPeak {
		return false
	}
	a.tokens++
	return true
}

// end answers a question, unless that was done before, and reports whether it
// was open.
func (a *asks) end(p *Proxy, t target, d bailey.Decision, once bool) bool {
	a.mu.Lock()
	q := a.open[t]
	if q == nil {
		a.mu.Unlock()
		return false
	}
	delete(a.open, t)
	if d.Verdict != bailey.Allow {
		a.remember(t, p.cfg.Now())
	}
	q.decision, q.once = d, once
	close(q.done)
	a.mu.Unlock()
	p.recordAsk(bailey.EventNetAnswered, q.request, d, q.request.Protocol)
	return true
}

// remember keeps what was refused from being asked again at once. When there is
// too much of it all is forgotten: a person is asked again, and nothing opens.
func (a *asks) remember(t target, now time.Time) {
	if a.refused == nil || len(a.refused) >= maxRefused {
		a.refused = map[target]time.Time{}
	}
	a.refused[t] = now.Add(askMemory)
}

// settle answers the questions that a changed policy answers.
func (a *asks) settle(p *Proxy) {
	a.mu.Lock()
	list := make([]policy.Request, 0, len(a.open))
	for _, q := range a.open {
		list = append(list, q.request)
	}
	a.mu.Unlock()
	for _, r := range list {
		if d := p.rules.Decide(r); d.Verdict != bailey.Ask {
			a.end(p, targetOf(r), ruled(d), false)
		}
	}
}

// Answer lets the connections through that wait for a person's answer about a
// host, or an address in its place, and a port, or refuses them; no rule comes
// of it. It reports whether there was such a question.
func (p *Proxy) Answer(host string, port uint16, allow bool) bool {
	t := target{host: host, port: port}
	if a, err := netip.ParseAddr(host); err == nil {
		t = target{addr: a, port: port}
	}
	d := denial(policy.ReasonAnsweredNo, "a person was asked and refused")
	if allow {
		d = bailey.Decision{Verdict: bailey.Allow, Rule: "", Reason: policy.ReasonAnsweredYes, Detail: ""}
	}
	return p.asks.end(p, t, d, allow)
}

// ruled is what a question ends with that a rule answered.
func ruled(d bailey.Decision) bailey.Decision {
	if d.Verdict == bailey.Allow {
		d.Reason = policy.ReasonAnsweredYes
	}
	return d
}

func denial(reason, detail string) bailey.Decision {
	return bailey.Decision{Verdict: bailey.Deny, Rule: "", Reason: reason, Detail: detail}
}

// textOf names what is asked for as a person would write it.
func textOf(r policy.Request) string {
	host := r.Host
	if host == "" {
		host = r.Addr.String()
	}
	return fmt.Sprintf("%s:%d", host, r.Port)
}

func (p *Proxy) recordAsk(kind bailey.EventType, r policy.Request, d bailey.Decision, protocol string) {
	var ev bailey.Event
	ev.Time = p.cfg.Now()
	ev.Type = kind
	ev.Sandbox = p.cfg.Sandbox
	ev.Protocol = protocol
	ev.Host = r.Host
	if r.Host == "" {
		ev.Address = r.Addr.String()
	}
	ev.Port = r.Port
	ev.Method = r.Method
	ev.Reason = d.Reason
	ev.Rule = d.Rule
	ev.Message = d.Detail
	if kind == bailey.EventNetAnswered {
		ev.Verdict = d.Verdict.String()
	}
	p.cfg.Recorder.Record(ev)
}
