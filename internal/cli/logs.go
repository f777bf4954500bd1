package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/journal"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type logsCommand struct {
	Follow bool `short:"f" help:"Go on with what is written, until the sandbox ends."`
	Since  text `placeholder:"TIME" help:"Only what was written since then: a duration back (10m), or a time (2026-01-31T12:00:00Z)."`
	Tail   *int `short:"n" placeholder:"N" help:"Only the last N lines."`
	Raw    bool `help:"Print the bytes as they were written, with what drives a terminal: to a file or a pipe only."`
	JSON   bool `name:"json" help:"Print JSON lines."`

	Name string `arg:"" optional:"" placeholder:"NAME" help:"Name of the sandbox. Default: the only one of this workspace that runs, or the last that ran."`
}

// Help is what `bailey logs --help` says beyond the flags.
func (logsCommand) Help() string {
	return `Prints what the command of a sandbox in the background wrote, its standard errors to yours, and what bailey said of it. Nothing of it can drive your terminal: colours and movement are left out, and of what was written over in a line the last is left.

The last 8M of output are kept (bailey run --log-size), for a week, of the last 20 sandboxes that have ended. What is missing is said, to the byte.

With --json: an object a line with time, stream (stdout, stderr, bailey) and text, or data (base64) where the bytes are no text; where output was thrown away, one with type "truncated" and bytes.

Examples:
  bailey logs api-3f2a91c0
  bailey logs -f --tail 20 api-3f2a91c0
  bailey logs --raw api-3f2a91c0 > whole.txt`
}

// Run prints the log.
func (c *logsCommand) Run(a *app) error {
	p, err := c.printer(a)
	if err != nil {
		return err
	}
	name, err := c.whose(a)
	if err != nil {
		return err
	}
	r, err := journal.Open(a.host.Dirs.State, a.host.UID, name)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // it is read only
	for {
		lasts := r.Lasts() // before the look: what comes behind it is seen the next time
		if err := c.all(r, p); err != nil {
			return err
		}
		p.rest(!c.Follow || !lasts)
		if !c.Follow || !lasts {
			return nil
		}
		select {
		case <-a.ctx.Done():
			return nil
		case <-time.After(followPoll):
		}
	}
}

// whose is the name of the sandbox that is meant.
func (c *logsCommand) whose(a *app) (string, error) {
	if c.Name != "" {
		return c.Name, nil
	}
	name, _, err := run.Choose(a.ctx, a.host, "")
	if bailey.KindOf(err) == bailey.NotFound {
		return a.lastHere(err)
	}
	return name, err
}

// lastHere is the last sandbox that ran in the background in this workspace; if
// there was none, the error is none.
func (a *app) lastHere(none error) (string, error) {
	runs, err := journal.Runs(a.host.Dirs.State, a.host.UID)
	if err != nil {
		return "", err
	}
	here := a.host.Dir
	if resolved, err := filepath.EvalSymlinks(here); err == nil {
		here = resolved
	}
	for _, k := range runs {
		if within, err := filepath.Rel(k.Workspace, here); err == nil && filepath.IsLocal(within) {
			return k.Name, nil
		}
	}
	return "", none
}

// followPoll is how often --follow looks.
const followPoll = 100 * time.Millisecond

// all prints what there is now.
func (c *logsCommand) all(r *journal.Reader, p *logPrinter) error {
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return bailey.WrapError(bailey.Unavailable, "read the log", err, "")
		}
		if rec.Skipped > 0 {
			p.skipped(rec.Skipped)
		}
		if len(rec.Data) > 0 && !rec.Time.Before(p.since) {
			p.record(rec)
		}
	}
}

func (c *logsCommand) printer(a *app) (*logPrinter, error) {
	p := &logPrinter{out: a.stdout, errs: a.stderr, json: c.JSON, raw: c.Raw, tail: -1}
	if c.Raw && (pty.IsTerminal(a.host.Stdout) || pty.IsTerminal(a.host.Stderr)) {
		return nil, bailey.NewError(bailey.Invalid, "logs: --raw does not print to a terminal, which the bytes could drive", "send standard output and errors to a file or a pipe")
	}
	if c.Raw && c.JSON {
		return nil, bailey.NewError(bailey.Invalid, "logs: --raw and --json", "give one")
	}
	if c.Tail != nil {
		if p.tail = *c.Tail; p.tail < 0 {
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("logs: --tail %d", p.tail), "give a number of lines, such as --tail 20")
		}
	}
	var err error
	p.since, err = sinceTime(string(c.Since), a.now())
	return p, err
}

// sinceTime reads a duration back from now, or a time.
func sinceTime(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, bailey.NewError(bailey.Invalid, fmt.Sprintf("logs: --since: %q is no time", s), "give a duration back, such as 10m, or a time, such as 2026-01-31T12:00:00Z")
	}
	return t, nil
}

// logPrinter prints records.
type logPrinter struct {
	out, errs io.Writer
	json, raw bool
	since     time.Time
	tail      int // the last so many lines of what is there at first; -1 is all
	held      []func()
	text      [2]journal.Text
}

// print prints something now, or keeps it while only the last is wanted.
func (p *logPrinter) print(f func()) {
	if p.tail < 0 {
		f()
		return
	}
	if p.held = append(p.held, f); len(p.held) > 2*p.tail+64 {
		p.held = slices.Clone(p.held[len(p.held)-p.tail:])
	}
}

// rest prints what was kept, and with last also a line that has no end.
func (p *logPrinter) rest(last bool) {
	if last && !p.json && !p.raw {
		p.unended()
	}
	held := p.held
	if p.tail >= 0 {
		held = held[max(0, len(held)-p.tail):]
	}
	p.held, p.tail = nil, -1
	for _, f := range held {
		f()
	}
}

// unended prints the lines that have no end yet.
func (p *logPrinter) unended() {
	for i, to := range []io.Writer{p.out, p.errs} {
		if line := p.text[i].Rest(); line != "" {
			p.print(func() { _, _ = fmt.Fprintln(to, line) })
		}
	}
}

func (p *logPrinter) skipped(n int64) {
	if p.json {
		p.line(map[string]any{"type": "truncated", "bytes": n})
		return
	}
	_, _ = fmt.Fprintf(p.errs, "bailey: the %s before this are not kept any more (bailey run --log-size)\n", spell.Count(int(n), "byte"))
}

func (p *logPrinter) record(r journal.Record) {
	to, i := p.out, 0
	if r.Stream != journal.Stdout {
		to, i = p.errs, 1
	}
	switch {
	case p.json:
		e := entry(r)
		p.print(func() { p.line(e) })
	case p.raw && r.Stream == journal.Said:
	case p.raw:
		for line := range lines(r.Data) {
			kept := slices.Clone(line)
			p.print(func() { _, _ = to.Write(kept) })
		}
	case r.Stream == journal.Said:
		p.unended() // it was written before this
		var said journal.Text
		said.Lines(r.Data, func(line string) { p.print(func() { _, _ = fmt.Fprintln(to, line) }) })
	default:
		p.text[i].Lines(r.Data, func(line string) { p.print(func() { _, _ = fmt.Fprintln(to, line) }) })
	}
}

// lines cuts behind each end of a line.
func lines(b []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := slices.Index(b, '\n') + 1
			if n == 0 {
				n = len(b)
			}
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// logEntry is the published form of a record.
type logEntry struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream"`
	Text   string    `json:"text,omitempty"`
	Data   []byte    `json:"data,omitempty"`
}

func entry(r journal.Record) logEntry {
	e := logEntry{Time: r.Time.UTC(), Stream: "stdout"}
	switch r.Stream {
	case journal.Stderr:
		e.Stream = "stderr"
	case journal.Said:
		e.Stream = "bailey"
	case journal.Stdout:
	}
	if utf8.Valid(r.Data) {
		e.Text = string(r.Data)
	} else {
		e.Data = slices.Clone(r.Data)
	}
	return e
}

func (p *logPrinter) line(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return
	}
	_, _ = p.out.Write(append(terminal.SanitizeJSON(b), '\n'))
}
