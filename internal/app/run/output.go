package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// output is everything that bailey itself says during a run. It goes to
// stderr: sentences before the command starts and after it ends, never in
// between, so that a full-screen program is not disturbed; or events as JSON
// lines, at once until the command's end, and those after it when nothing of
// the sandbox is left.
//
// Whoever reads it may stop reading: mu is never held while something is
// written, so that what is held back holds nobody up.
type output struct {
	json    bool
	quiet   bool
	sandbox bailey.SandboxID
	now     func() time.Time

	turn sync.Mutex // of who writes
	w    io.Writer
	open bool // the command has begun a line there and not ended it

	mu    sync.Mutex
	held  holding
	later [][]byte
	over  bool // the last has been said
}

// holding is what is held back.
type holding uint8

const (
	nothing    holding = iota
	sentences          // a program has the terminal
	everything         // there is still something to be taken down
)

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
	o.put(everything, append(terminal.SanitizeJSON(b), '\n'))
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
	o.put(sentences, fmt.Appendf(nil, "bailey: %s\n", terminal.Sanitize(line)))
}

// put writes a line, or keeps it while so much is held back.
func (o *output) put(from holding, line []byte) {
	o.mu.Lock()
	keep, over := o.held >= from, o.over
	if keep && !over {
		o.later = append(o.later, line)
	}
	o.mu.Unlock()
	if !keep && !over {
		o.write(line)
	}
}

// write writes a line of ours as a line, whatever the command wrote before.
func (o *output) write(line []byte) {
	o.turn.Lock()
	defer o.turn.Unlock()
	if o.open {
		line = append([]byte{'\n'}, line...)
		o.open = false
	}
	_, _ = o.w.Write(line)
}

// hold keeps lines back; release writes them.
func (o *output) hold(what holding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = what
}

func (o *output) release() {
	o.mu.Lock()
	later := o.later
	o.later, o.held = nil, nothing
	o.mu.Unlock()
	for _, line := range later {
		o.write(line)
	}
}

// end says all that was held back and the last event. Whoever says something
// later, since it was kept from that until now, is not heard.
func (o *output) end(last bailey.Event) {
	o.hold(everything)
	o.event(last)
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.release()
}

// beside returns what a command's output has to be written to. Where it goes
// to the same place as events it is followed, so that a line which the command
// leaves open does not swallow an event.
func (o *output) beside(stdout, stderr *os.File) (out, errs io.Writer) {
	if !o.json {
		return stdout, stderr
	}
	if sameFile(stdout, stderr) {
		return beside{o, stdout}, beside{o, stderr}
	}
	return stdout, beside{o, stderr}
}

func sameFile(a, b *os.File) bool {
	one, err := a.Stat()
	other, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// beside is a file of the command's that lines of ours are written to as well.
type beside struct {
	ours *output
	file *os.File
}

// Write writes to the file, never into one of our lines.
func (b beside) Write(p []byte) (int, error) {
	b.ours.turn.Lock()
	defer b.ours.turn.Unlock()
	n, err := b.file.Write(p)
	if n > 0 {
		b.ours.open = p[n-1] != '\n'
	}
	return n, err
}

// File is where it writes to.
func (b beside) File() *os.File { return b.file }
