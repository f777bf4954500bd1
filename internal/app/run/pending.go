package run

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
)

// pending is what waits for a person's answer, as the proxy said. It is the
// process that hostile bytes reach first: the list is bounded, and each entry
// ends by itself.
type pending struct {
	now func() time.Time

	mu   sync.Mutex
	open []control.Pending // in the order in which they were asked
	wake chan struct{}     // closed when it changes; nil: nobody looks
}

// How long an answer is waited for, which the proxy keeps, and how many
// questions are remembered.
const (
	askPatience = 30 * time.Second
	mostPending = 32
)

func (p *pending) add(e bailey.Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	host := e.Host
	if host == "" {
		host = e.Address
	}
	p.expire()
	if host == "" || len(p.open) >= mostPending || p.find(host, e.Port) >= 0 {
		return false
	}
	now := p.now()
	p.open = append(p.open, control.Pending{Host: host, Port: e.Port, Protocol: e.Protocol, Asked: now, Until: now.Add(askPatience)})
	p.changed()
	return true
}

func (p *pending) remove(e bailey.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	host := e.Host
	if host == "" {
		host = e.Address
	}
	if i := p.find(host, e.Port); i >= 0 {
		p.open = slices.Delete(p.open, i, i+1)
		p.changed()
	}
}

func (p *pending) find(host string, port uint16) int {
	return slices.IndexFunc(p.open, func(o control.Pending) bool { return o.Host == host && o.Port == port })
}

// expire drops what nobody can answer any more.
func (p *pending) expire() {
	now := p.now()
	p.open = slices.DeleteFunc(p.open, func(o control.Pending) bool { return now.After(o.Until) })
}

func (p *pending) changed() {
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

// list returns what waits, with the name of its sandbox.
func (p *pending) list(sandbox string) []control.Pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	out := slices.Clone(p.open)
	for i := range out {
		out[i].Sandbox = sandbox
	}
	return out
}

// first returns what has waited longest, or nil, and what is closed when that
// may be another.
func (p *pending) first() (*control.Pending, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	if p.wake == nil {
		p.wake = make(chan struct{})
	}
	if len(p.open) == 0 {
		return nil, p.wake
	}
	one := p.open[0]
	return &one, p.wake
}

// asked takes a question of the proxy's.
func (r *ruling) asked(e bailey.Event) {
	if !r.asking.add(e) {
		return
	}
	r.u.out.event(e)
	host := e.Host
	if host == "" {
		host = e.Address
	}
	if r.u.plan.tty {
		r.u.ring()
		return
	}
	r.u.out.must("%s:%d waits for an answer, %s: bailey net allow %s:%d --sandbox %s (or net deny; --once, --always)", host, e.Port, askPatience, host, e.Port, r.u.plan.name)
}

// answered takes what came of one.
func (r *ruling) answered(e bailey.Event) {
	r.asking.remove(e)
	r.u.out.event(e)
	host := e.Host
	if host == "" {
		host = e.Address
	}
	r.u.out.say("%s", fmt.Sprintf("%s:%d: %s (%s)", host, e.Port, e.Verdict, e.Reason))
}

// ring has the terminal make a sound. It is all that can be said on a terminal
// that the sandbox's program has: a line would stand in its picture, and a
// prompt there could be its own. One at a time: whoever reads the terminal may
// not do so.
func (u *running) ring() {
	if u.out.json || !u.ringing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer u.ringing.Store(false)
		_, _ = u.host.Stderr.Write([]byte{'\a'})
	}()
}
