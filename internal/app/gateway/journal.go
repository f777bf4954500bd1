package gateway

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// A sandbox can be refused much faster than anybody reads: of what was refused
// this many are written in each second. Calls that were made are always.
const refusalsPerSecond = 50

// journal writes events as JSON lines. It is safe for concurrent use. Writing
// blocks while the reader is behind: no call gets ahead of its record.
type journal struct {
	sandbox bailey.SandboxID
	model   string
	now     func() time.Time

	mu       sync.Mutex
	out      io.Writer
	window   time.Time // start of the second being counted
	refusals int       // in it
	left     int       // refusals that are not written
	broken   bool      // the reader is gone

	sum    bailey.ModelUse // of all calls
	money  pricing.Money
	priced bool
}

// call writes the record of a request.
func (j *journal) call(e gateway.Entry) {
	ev := j.event(bailey.EventModelCall, e.Time, e.Message)
	ev.Model, ev.Status, ev.Reason, ev.Removed = e.Model, e.Status, e.Code, e.Removed
	ev.DurationMS = e.Took.Milliseconds()
	if e.Code != "" && e.Usage.Tokens() == 0 {
		ev.Type = bailey.EventModelRefused
	}
	use := useOf(e)
	ev.Use = &use
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.Endpoint == gateway.Generate && ev.Type == bailey.EventModelCall {
		j.add(use, e.Cost)
	}
	if ev.Type == bailey.EventModelRefused {
		if now := j.now(); now.Sub(j.window) >= time.Second {
			j.window, j.refusals = now, 0
		}
		if j.refusals++; j.refusals > refusalsPerSecond {
			j.left++
			return
		}
	}
	j.write(ev)
}

func useOf(e gateway.Entry) bailey.ModelUse {
	u := e.Usage
	use := bailey.ModelUse{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite + u.CacheWrite1h,
		Estimated: !e.Known && u.Tokens() > 0, Stream: e.Stream, Retried: e.Retried,
		Served: e.Served, Odd: e.Odd, Limits: e.Left, FirstMS: e.First.Milliseconds(),
	}
	switch e.Endpoint { //nolint:exhaustive // the others are calls, or refused
	case gateway.Models, gateway.Model:
		use.Asked = bailey.AskedModels
	case gateway.Count:
		use.Asked = bailey.AskedCount
	}
	if e.Cost != nil {
		use.CostUSD = e.Cost.Decimal()
	}
	return use
}

// add counts a call into the sum.
func (j *journal) add(u bailey.ModelUse, cost *pricing.Money) {
	j.sum.Requests++
	j.sum.Estimated = j.sum.Estimated || u.Estimated
	j.sum.Input += u.Input
	j.sum.Output += u.Output
	j.sum.CacheRead += u.CacheRead
	j.sum.CacheWrite += u.CacheWrite
	if cost != nil {
		j.money, j.priced = j.money.Plus(*cost), true
	}
}

// total writes the sum of all calls, the last event.
func (j *journal) total() {
	j.mu.Lock()
	defer j.mu.Unlock()
	ev := j.event(bailey.EventModelTotal, j.now(), "")
	sum := j.sum
	sum.Unrecorded = j.left
	if j.priced {
		sum.CostUSD = j.money.Decimal()
	}
	ev.Model, ev.Use = j.model, &sum
	j.write(ev)
}

// say writes an event of the role itself.
func (j *journal) say(t bailey.EventType, message string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.write(j.event(t, j.now(), message))
}

func (j *journal) event(t bailey.EventType, at time.Time, message string) bailey.Event {
	var ev bailey.Event
	ev.Time, ev.Type, ev.Sandbox, ev.Message = at, t, j.sandbox, message
	return ev
}

func (j *journal) write(ev bailey.Event) {
	if j.broken {
		return
	}
	line, err := json.Marshal(ev)
	if err != nil {
		return // unreachable: an Event holds nothing that cannot be marshalled
	}
	if _, err := j.out.Write(append(line, '\n')); err != nil {
		j.broken = true // whoever started us is gone, and so is the wire
	}
}

// recorder writes content for who asked for it.
type recorder struct {
	mu  sync.Mutex
	out io.Writer
}

func (r *recorder) write(x gateway.Exchange) {
	line, err := json.Marshal(modelgate.Exchange{
		Time: x.Time.UTC().Format(time.RFC3339Nano), Model: x.Model, Status: x.Status, Code: x.Code, Removed: x.Removed,
		Request: string(x.Ask), Response: string(x.Answer),
	})
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.out.Write(append(line, '\n')) // a full disk ends no call
}
