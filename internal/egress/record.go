package egress

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
)

// openAfter is how long an allowed connection lasts before it is on record
// while it goes on: whoever follows the record sees it within that time, and a
// bailey that is killed has left out only what is younger.
const openAfter = 700 * time.Millisecond

// Bounds of what a record holds of a request, in bytes.
const (
	maxPath    = 256
	maxProgram = 64
)

// trace is what a flow's records say of the connection as such.
type trace struct {
	number  uint64 // of the connection in the run
	began   time.Time
	refused netip.Addr // that the host resolves to; zero where it was not for an address
	program string     // what the first request says that sent it; "" for none

	mu    sync.Mutex
	timer *time.Timer // until an open connection is on record
	over  bool
}

// begin gives the connection its number and its start.
func (p *Proxy) begin(f *flow) { f.number, f.began = p.numbers.Add(1), p.cfg.Now() }

// event is the flow as it stands.
func (f *flow) event(t bailey.EventType) bailey.Event {
	var ev bailey.Event
	ev.Time = f.p.cfg.Now()
	ev.Type = t
	ev.Sandbox = f.p.cfg.Sandbox
	ev.Protocol = f.protocol
	ev.Host = f.host
	ev.Port = f.dest.Port()
	ev.Method = printable(f.seen.method)
	ev.Path = printableTo(f.seen.path, maxPath)
	ev.Program = f.program
	ev.Connection = f.number
	switch {
	case f.refused.IsValid():
		ev.Address = f.refused.String()
	case f.dest.IsValid():
		ev.Address = f.dest.Addr().String()
	}
	ev.Verdict = f.decision.Verdict.String()
	ev.Rule = f.decision.Rule
	ev.Reason = f.decision.Reason
	ev.Message = f.decision.Detail
	f.measure(&ev)
	return ev
}

// measure sets what changes while a connection is open. It may run beside the
// flow.
func (f *flow) measure(ev *bailey.Event) {
	if to := f.dialled.Load(); to != nil {
		ev.Address = to.Addr().String()
	}
	ev.BytesIn = f.in.Load()
	ev.BytesOut = f.out.Load()
	ev.DurationMS = ev.Time.Sub(f.began).Milliseconds()
}

func (f *flow) record() { f.p.cfg.Recorder.Record(f.event(bailey.EventNetDecision)) }

// recordRequest records what was decided about one request of a connection
// that goes on. If all are refused that is all there is to say at its end.
func (f *flow) recordRequest(refused bool) {
	ev := f.event(bailey.EventNetDecision)
	ev.BytesIn, ev.BytesOut = 0, 0
	f.p.cfg.Recorder.Record(ev)
	f.told = f.told || refused
}

// announce has an allowed connection recorded if it is still open in a while.
func (f *flow) announce() {
	ev := f.event(bailey.EventNetOpen)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
	f.timer = time.AfterFunc(openAfter, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.over { // else its end is on record
			ev.Time = f.p.cfg.Now()
			f.measure(&ev)
			f.p.cfg.Recorder.Record(ev)
			ev.Type = bailey.EventNetFlow
			f.timer = time.AfterFunc(flowEvery, func() { f.progress(ev, flowEvery) })
		}
	})
}

// Between which times an open connection that is in use says how far it is, and
// one that is not is looked at.
const (
	flowEvery  = time.Second
	flowSeldom = 16 * time.Second
)

// progress says how far a connection is, if it moved, and comes again.
func (f *flow) progress(ev bailey.Event, after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	in, out := ev.BytesIn, ev.BytesOut
	ev.Time = f.p.cfg.Now()
	f.measure(&ev)
	if ev.BytesIn != in || ev.BytesOut != out {
		f.p.cfg.Recorder.Record(ev)
		after = flowEvery
	} else {
		after = min(2*after, flowSeldom)
	}
	f.timer = time.AfterFunc(after, func() { f.progress(ev, after) })
}

// conclude ends what announce began: the next record is that of the end.
func (f *flow) conclude() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	if f.timer != nil {
		f.timer.Stop()
	}
}

// programOf returns the first product of a User-Agent (RFC 9110 §10.1.5), such
// as "curl/8.5.0". It is what the client says, and may be anything.
func programOf(h http.Header) string {
	product, _, _ := strings.Cut(h.Get("User-Agent"), " ")
	name, version, _ := strings.Cut(product, "/")
	if len(product) > maxProgram || name == "" || !isToken(name) || version != "" && !isToken(version) {
		return ""
	}
	return product
}
