package delegate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/task"
)

const (
	mostEvent     = 1 << 20 // bytes of a line of events
	mostSaid      = 16      // warnings of a sandbox
	mostSaidBytes = 512
)

// meter reads bailey's own events of one sandbox (docs/events.md): what its
// model calls used, and what ended it. It is an io.Writer.
type meter struct {
	lines   lineReader
	sandbox bailey.SandboxID // of the first event: others are not of this run
	usage   task.Usage
	money   pricing.Money
	priced  bool
	heard   heard
	changed bool // the usage, since it was last asked
	trouble trouble
}

// trouble is what keeps the model from answering: calls that failed in a row, at
// the provider and not for what the agent did.
type trouble struct {
	row  int    // how many
	why  string // of the last: the gateway's sentence
	news string // what is to be told since it was last asked; "" is nothing
}

// failed counts a call that the provider did not answer. It is told of at the
// first, when the reason is another, and then ever more rarely: agents try again
// and again.
func (t *trouble) failed(why string) {
	t.row++
	if why != t.why || t.row&(t.row-1) == 0 {
		t.news = why + "; the agent tries again by itself"
		if t.row > 1 {
			t.news = fmt.Sprintf("%s, as %d calls in a row were not answered; the agent tries again by itself", why, t.row)
		}
	}
	t.why = why
}

// passed ends a row.
func (t *trouble) passed() {
	if t.row > 0 {
		t.news = "the model's provider answers again"
	}
	t.row, t.why = 0, ""
}

// tell returns what is to be told, once.
func (t *trouble) tell() string {
	news := t.news
	t.news = ""
	return news
}

// providers reports a reason (docs/events.md) that lies with the provider, or
// on the way to it.
func providers(reason string) bool {
	return strings.HasPrefix(reason, "provider_") || reason == "stream_broken"
}

func newMeter() *meter {
	m := &meter{}
	m.lines = lineReader{most: mostEvent, line: m.line}
	return m
}

// Write takes the next bytes, cut anywhere. It never fails.
func (m *meter) Write(p []byte) (int, error) { return m.lines.Write(p) }

func (m *meter) line(b []byte) {
	var e bailey.Event
	if json.Unmarshal(b, &e) != nil || e.Type == "" {
		return
	}
	if m.sandbox == "" && e.Sandbox.Valid() {
		m.sandbox = e.Sandbox
	}
	if e.Sandbox != "" && e.Sandbox != m.sandbox {
		return
	}
	switch e.Type { //nolint:exhaustive // the others say nothing of a task
	case bailey.EventModelCall:
		m.call(e)
		m.asked(e)
	case bailey.EventModelRefused:
		m.heard.Spent = m.heard.Spent || e.Reason == "budget_spent"
		m.asked(e)
	case bailey.EventModelTotal:
		m.total(e.Use)
	case bailey.EventLimitReached:
		m.heard.Limit = e.Limit
		m.say(e.Message)
	case bailey.EventSandboxExited:
		if e.Limit != "" {
			m.heard.Limit = e.Limit
		}
	case bailey.EventWarning, bailey.EventError:
		m.say(e.Message)
	}
}

func (m *meter) say(s string) {
	if s != "" && len(m.heard.Warnings) < mostSaid {
		m.heard.Warnings = append(m.heard.Warnings, line(s, mostSaidBytes))
	}
}

// asked takes down whether the provider answered a call.
func (m *meter) asked(e bailey.Event) {
	switch {
	case providers(e.Reason):
		why := line(e.Message, mostSaidBytes)
		if why == "" {
			why = "the model's provider did not answer (" + line(e.Reason, mostName) + ")"
		}
		m.heard.Failed++
		m.heard.Trouble = why
		m.trouble.failed(why)
	case e.Type == bailey.EventModelCall && e.Reason == "":
		m.trouble.passed()
	}
}

// call counts a call at its end. One that was made means that there was money
// for it.
func (m *meter) call(e bailey.Event) {
	if e.Use == nil {
		return
	}
	m.heard.Spent = false
	m.usage.Calls++
	m.usage.InputTokens = pricing.Add(m.usage.InputTokens, e.Use.Input)
	m.usage.OutputTokens = pricing.Add(m.usage.OutputTokens, e.Use.Output)
	m.usage.CacheReadTokens = pricing.Add(m.usage.CacheReadTokens, e.Use.CacheRead)
	m.usage.CacheWriteTokens = pricing.Add(m.usage.CacheWriteTokens, e.Use.CacheWrite)
	if money, err := pricing.ParseUSD(e.Use.CostUSD); err == nil && e.Use.CostUSD != "" {
		m.money, m.priced = m.money.Plus(money), true
	}
	m.changed = true
}

// total is the gateway's own sum, which stands at the end.
func (m *meter) total(u *bailey.ModelUse) {
	if u == nil {
		return
	}
	m.usage = task.Usage{Calls: u.Requests, InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite}
	if money, err := pricing.ParseUSD(u.CostUSD); err == nil && u.CostUSD != "" {
		m.money, m.priced = money, true
	}
	m.changed = true
}

// cost is in USD; nil if no call had a price.
func (m *meter) cost() *float64 {
	if !m.priced {
		return nil
	}
	v, err := strconv.ParseFloat(m.money.Decimal(), 64)
	if err != nil {
		return nil // unreachable: Decimal is a number
	}
	return &v
}

// lineReader cuts bytes into lines. One that is longer than most is left out.
type lineReader struct {
	most int
	line func([]byte)
	rest []byte
	skip bool
}

// Write takes the next bytes, cut anywhere. It never fails.
func (r *lineReader) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		end := i
		if i < 0 {
			end = len(p)
		}
		if len(r.rest)+end > r.most {
			r.skip, r.rest = true, nil
		}
		if !r.skip {
			r.rest = append(r.rest, p[:end]...)
		}
		if i < 0 {
			break
		}
		if !r.skip {
			r.line(r.rest)
		}
		r.rest, r.skip = r.rest[:0], false
		p = p[i+1:]
	}
	return n, nil
}
