package proxy

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// A sandbox can be refused much faster than anybody reads. What was allowed
// is always written; of what was denied, this many in each second, and then
// how many were left out.
const (
	denialsPerSecond = 200
	denialWindow     = time.Second
)

// journal writes events as JSON lines. It is safe for concurrent use. Writing
// blocks while the reader is behind: no connection gets ahead of its record.
type journal struct {
	sandbox bailey.SandboxID
	now     func() time.Time

	mu      sync.Mutex
	out     io.Writer
	line    []byte    // the memory of what is written
	window  time.Time // start of the second being counted
	denials int       // in it
	left    int       // out of the record, not yet told
	broken  bool      // the reader is gone
}

// Record writes an event, or counts it if too many were denied.
func (j *journal) Record(ev bailey.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	if now.Sub(j.window) >= denialWindow {
		j.window, j.denials = now, 0
		j.tellLeft(now)
	}
	if ev.Type == bailey.EventNetDecision && ev.Verdict != bailey.Allow.String() {
		j.denials++
		if j.denials > denialsPerSecond {
			j.left++
			return
		}
	}
	j.write(ev)
}

// flush tells what is still untold; it is called at the end.
func (j *journal) flush() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tellLeft(j.now())
}

func (j *journal) tellLeft(now time.Time) {
	if j.left == 0 {
		return
	}
	ev := j.event(bailey.EventWarning, now, fmt.Sprintf("%d more denied connections and questions were not recorded: too many in a second", j.left))
	ev.Reason = policy.ReasonNotRecorded
	j.write(ev)
	j.left = 0
}

// say writes an event of the role itself.
func (j *journal) say(t bailey.EventType, message string) {
	j.Record(j.event(t, j.now(), message))
}

func (j *journal) event(t bailey.EventType, at time.Time, message string) bailey.Event {
	var ev bailey.Event
	ev.Time = at
	ev.Type = t
	ev.Sandbox = j.sandbox
	ev.Message = message
	return ev
}

func (j *journal) write(ev bailey.Event) {
	if j.broken {
		return
	}
	line, err := appendLine(j.line[:0], &ev)
	if err != nil {
		return // unreachable: an Event holds nothing that cannot be marshalled
	}
	j.line = line
	if _, err := j.out.Write(line); err != nil {
		j.broken = true // whoever started us is gone; the peer socket ends us
	}
}
