package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// output is everything that bailey itself says during a run. It goes to
// stderr: sentences before the command starts and after it ends, never in
// between, so that a full-screen program is not disturbed; or events as JSON
// lines, at once.
type output struct {
	mu      sync.Mutex
	w       io.Writer
	json    bool
	quiet   bool
	sandbox bailey.SandboxID
	now     func() time.Time
	held    bool
	later   []string
}

// event reports e as a JSON line, if that is what was asked for.
func (o *output) event(e bailey.Event) {
	if !o.json {
		return
	}
	if e.Time.IsZero() {
		e.Time = o.now()
	}
	e.Time = e.Time.UTC()
	e.Sandbox = o.sandbox
	b, err := json.Marshal(e)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.w.Write(append(terminal.SanitizeJSON(b), '\n'))
}

// failed reports an error as the last event.
func (o *output) failed(err error) {
	message, code := err.Error(), bailey.ExitBailey
	if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
		message += " (" + e.Hint + ")"
	}
	o.event(bailey.Event{Type: bailey.EventError, Message: message, ExitCode: &code})
}

// Report writes an error as the one event of a run that never began.
func Report(w io.Writer, err error) {
	(&output{w: w, json: true, now: time.Now}).failed(err)
}

// say prints one sentence for a person, now or when the terminal is free.
func (o *output) say(format string, args ...any) {
	if o.json || o.quiet {
		return
	}
	o.print(fmt.Sprintf(format, args...))
}

// must prints what even --quiet does not silence: why a run ended badly.
func (o *output) must(format string, args ...any) {
	if o.json {
		return
	}
	o.print(fmt.Sprintf(format, args...))
}

func (o *output) print(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held {
		o.later = append(o.later, line)
		return
	}
	_, _ = fmt.Fprintf(o.w, "bailey: %s\n", terminal.Sanitize(line))
}

// hold keeps sentences back; release prints them.
func (o *output) hold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = true
}

func (o *output) release() {
	o.mu.Lock()
	later := o.later
	o.later, o.held = nil, false
	o.mu.Unlock()
	for _, line := range later {
		o.print(line)
	}
}
