package transcript

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Bounds of what a Reader keeps and hands out.
const (
	MaxLine   = 4 << 20   // bytes of a line; a longer one is left out
	MaxEvents = 100_000   // handed out; more are only counted
	MaxReport = 256 << 10 // bytes of a report
	MaxPlan   = 100       // items of a plan
	lineRunes = 200       // of Event.Line, Item.Text and the like
	wordRunes = 64        // of a tool's name or a reason
	mostOpen  = 1000      // calls whose end is awaited
)

// Kind is what an Event tells of.
type Kind string

// The kinds.
const (
	Turn  Kind = "turn"  // the model was asked once more
	Call  Kind = "tool"  // the agent uses a tool
	Text  Kind = "text"  // the model says something
	Plan  Kind = "plan"  // the list of what is to be done, whole
	Fault Kind = "error" // the agent says that something went wrong; it may go on
	End   Kind = "end"   // the agent says that it is done
)

// Event is one thing that an agent said of its work.
type Event struct {
	Kind Kind
	Turn int    // how many turns have begun
	Tool string // of a Call: the tool's name, in the agent's words
	Line string // one printable line: what a Call is about, the beginning of a Text, a Fault's or an End's reason
	Plan []Item // of a Plan
}

// Item is a part of a plan.
type Item struct {
	Text string // one printable line
	Step Step
}

// Step is how far an item is.
type Step string

// The steps.
const (
	Pending Step = "pending"
	Active  Step = "active"
	Done    Step = "done"
	Dropped Step = "dropped"
)

// Reasons of an end that are the same for every agent. Claude Code has more,
// which come in its own words: error_max_turns, error_during_execution,
// error_max_budget_usd.
const (
	Success  = "success"
	MaxTurns = "error_max_turns"
	Failed   = "error"
	Aborted  = "aborted"
)

// Summary is what the lines so far come to.
type Summary struct {
	Ended   bool   // the agent said that it is done
	Reason  string // of the end: [a-z0-9_]; empty without one
	Error   string // the last fault, one printable line; an end by success forgets those before it
	Turns   int
	Calls   int    // uses of tools
	Report  string // the last words, as long as MaxReport
	Cut     bool   // Report was longer
	Plan    []Item // as it was last
	Lines   int    // that were read
	Unknown int    // of Lines: of no known form
	TooLong int    // of Lines: longer than MaxLine
}

// dialect understands the lines of one agent.
type dialect interface {
	// line reads one line, which is not empty, and reports whether it is of a
	// known form. It must not keep the bytes.
	line(r *Reader, line []byte) bool
	// settle says what is still to be said when there are no more lines.
	settle(r *Reader)
}

func dialects() map[string]func() dialect {
	return map[string]func() dialect{
		"claude":   func() dialect { return &claude{} },
		"codex":    func() dialect { return &codex{} },
		"gemini":   func() dialect { return &gemini{} },
		"opencode": func() dialect { return &opencode{} },
		"pi":       func() dialect { return &pi{} },
	}
}

// Agents lists the agents whose streams are understood, sorted.
func Agents() []string { return slices.Sorted(maps.Keys(dialects())) }

// Reader is an io.WriteCloser for one agent's standard output. It is for one
// goroutine at a time.
type Reader struct {
	dialect dialect
	event   func(Event)
	rest    []byte // of a line that has not ended
	skip    bool   // the line was too long
	events  int
	sum     Summary

	open  map[string]struct{} // calls that have begun and not ended
	heard bool                // the model has spoken in this turn
}

// New makes a Reader of an agent's stream, by the name of its preset. The
// function is called for each event, from within Write and Close; it may be
// nil. An agent whose stream is not known is a *bailey.Error of kind
// Unsupported.
func New(agent string, event func(Event)) (*Reader, error) {
	d, ok := dialects()[agent]
	if !ok {
		return nil, bailey.NewError(bailey.Unsupported, fmt.Sprintf("the event stream of %q is not known", agent),
			"agents that take tasks: "+strings.Join(Agents(), ", "))
	}
	if event == nil {
		event = func(Event) {}
	}
	return &Reader{dialect: d(), event: event, open: map[string]struct{}{}}, nil
}

// Write takes the next bytes, cut anywhere. It never fails.
func (r *Reader) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			r.keep(p)
			break
		}
		r.keep(p[:i])
		r.endLine()
		p = p[i+1:]
	}
	return n, nil
}

// keep adds to the line that has not ended, as far as it may be long.
func (r *Reader) keep(p []byte) {
	if len(r.rest)+len(p) > MaxLine {
		r.skip, r.rest = true, nil
	}
	if !r.skip {
		r.rest = append(r.rest, p...)
	}
}

// maxParts bounds the objects and lists of a line: each takes a hundred times
// its own size once it is decoded.
const maxParts = 20_000

func (r *Reader) endLine() {
	line := bytes.TrimSpace(r.rest)
	switch {
	case r.skip || bytes.Count(line, []byte("{"))+bytes.Count(line, []byte("[")) > maxParts:
		r.sum.Lines++
		r.sum.TooLong++
	case len(line) > 0:
		r.sum.Lines++
		if !r.dialect.line(r, line) {
			r.sum.Unknown++
		}
	}
	r.skip = false
	if r.rest = r.rest[:0]; cap(r.rest) > MaxLine/16 {
		r.rest = nil // one long line is not paid for until the end
	}
}

// Close takes the last line as it is. It never fails.
func (r *Reader) Close() error {
	if r.skip || len(r.rest) > 0 {
		r.endLine()
	}
	r.dialect.settle(r)
	return nil
}

// Summary returns what has been read so far.
func (r *Reader) Summary() Summary {
	s := r.sum
	s.Plan = slices.Clone(s.Plan)
	return s
}

func (r *Reader) tell(e Event) {
	e.Turn = r.sum.Turns
	if r.events++; r.events <= MaxEvents || e.Kind == End {
		r.event(e)
	}
}

// turn begins a turn.
func (r *Reader) turn() {
	r.sum.Turns++
	r.heard = true
	r.tell(Event{Kind: Turn})
}

// model says that the model speaks. For the agents that do not say when a turn
// begins, it is one if a tool has answered since.
func (r *Reader) model() {
	if !r.heard {
		r.turn()
	}
}

// begin says that a call began; id may be empty.
func (r *Reader) begin(id, tool, about string) {
	if len(r.open) < mostOpen && id != "" {
		r.open[id] = struct{}{}
	}
	r.sum.Calls++
	r.tell(Event{Kind: Call, Tool: short(tool, wordRunes), Line: about})
}

// answered says that a call ended: what the model says when all have is a new
// turn.
func (r *Reader) answered(id string) {
	delete(r.open, id)
	if len(r.open) == 0 {
		r.heard = false
	}
}

// text tells of what the model said. It is the report if nothing follows.
func (r *Reader) text(s string) {
	if strings.TrimSpace(s) == "" {
		return
	}
	r.report(s)
	r.tell(Event{Kind: Text, Line: oneLine(s)})
}

func (r *Reader) report(s string) {
	r.sum.Report, r.sum.Cut = validated(s, MaxReport)
}

func (r *Reader) plan(items []Item) {
	if len(items) > MaxPlan {
		items = items[:MaxPlan]
	}
	r.sum.Plan = slices.Clone(items)
	r.tell(Event{Kind: Plan, Plan: slices.Clone(items)})
}

func (r *Reader) fault(s string) {
	if s = oneLine(s); s == "" {
		s = "the agent gave no reason"
	}
	r.sum.Error = s
	r.tell(Event{Kind: Fault, Line: s})
}

// end is the agent's word that it is done; the last one stands.
func (r *Reader) end(reason string) {
	if reason = word(reason); reason == "" {
		reason = Failed
	}
	if reason == Success {
		r.sum.Error = ""
	}
	r.sum.Ended, r.sum.Reason = true, reason
	r.tell(Event{Kind: End, Line: reason})
}
