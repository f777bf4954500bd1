package run

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/journal"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/session"
)

// DefaultLogSize is how much of the output of a run in the background is kept.
const DefaultLogSize config.Bytes = 8 << 20

// Background is what a request says about running in the background. There the
// sandbox is held by a process of its own (Hold), whose output is kept, and
// which others attach to.
type Background struct {
	Detach     bool         // --detach: return when the command runs
	Detachable bool         // --detachable: attach to it at once
	Keys       string       // --detach-keys
	LogSize    config.Bytes // --log-size; 0 is DefaultLogSize

	held *held // in the process that holds it
}

// InBackground reports whether the run is held by another process.
func (b Background) InBackground() bool { return b.Detach || b.Detachable }

// keys are those that leave the command.
func (b Background) keys() ([]byte, error) {
	if b.Keys == "" {
		return session.ParseKeys(session.DefaultDetachKeys)
	}
	seq, err := session.ParseKeys(b.Keys)
	if e, ok := err.(*bailey.Error); ok { //nolint:errorlint // it is ours, unwrapped
		return nil, bailey.NewError(e.Kind, "--detach-keys: "+e.Message, e.Hint)
	}
	return seq, err
}

// held is the run as its holder has it.
type held struct {
	hello hello
	front *front
	kept  *journal.Writer // nil until it has a name
	hub   *session.Hub    // likewise
	lost  func(error)     // says once that output could not be kept
}

// terminal reports whether the command gets a terminal.
func (b Background) terminal(h Host) bool {
	if b.held != nil {
		return b.held.hello.TTY
	}
	return pty.IsTerminal(h.Stdin) && pty.IsTerminal(h.Stdout) && pty.IsTerminal(h.Stderr)
}

// voice is where bailey's own sentences go.
func (b Background) voice(h Host) io.Writer {
	if b.held == nil {
		return h.Stderr
	}
	return b.held
}

// notes are lines of the header. What --detach starts is told of when it runs:
// what cannot start is in no background.
func (b Background) notes(name string) []string {
	if b.held == nil || b.Detach {
		return nil
	}
	return []string{b.where(name, b.held.hello.TTY)}
}

// where says how one comes to a sandbox in the background.
func (b Background) where(name string, tty bool) string {
	leave := ""
	if tty && b.keysText() != "none" {
		leave = "; " + b.keysText() + " leaves it running"
	}
	return fmt.Sprintf("in the background: bailey attach %s, bailey logs %s, bailey stop %s%s", name, name, name, leave)
}

func (b Background) keysText() string {
	if b.Keys == "" {
		return session.DefaultDetachKeys
	}
	return b.Keys
}

// Write says something to whoever started the run, as long as it starts, and
// keeps it.
func (d *held) Write(p []byte) (int, error) {
	d.front.tell(note{Said: string(p)})
	if d.kept != nil {
		_ = d.kept.Write(journal.Said, p)
	} else {
		d.front.before = append(d.front.before, p...)
	}
	return len(p), nil
}

// prepareBackground makes what the output of a run in the background goes to.
func (u *running) prepareBackground() error {
	d := u.req.Background.held
	if d == nil {
		return nil
	}
	size := u.req.Background.LogSize
	if size == 0 {
		size = DefaultLogSize
	}
	w, err := journal.Create(u.host.Dirs.State, u.host.UID, journal.Run{
		Name: u.plan.name, ID: u.plan.spec.ID, Started: u.started, Workspace: u.plan.workspace, Command: u.req.Command, TTY: u.plan.tty, Limit: int64(size),
	})
	if err != nil {
		return err
	}
	d.kept = w
	_ = w.Write(journal.Said, d.front.before)
	d.hub = session.NewHub(u.plan.tty, d.hello.Rows, d.hello.Cols)
	d.front.begun(u.Stop)
	return nil
}

// named says that there is a sandbox of that name.
func (b Background) named(name string) {
	if b.held != nil {
		b.held.front.tell(note{Name: name})
	}
}

// seated changes the options of the command's session to those of a run in the
// background, and waits for who wants to see its beginning.
func (u *running) seated(o session.Options) session.Options {
	d := u.req.Background.held
	if d == nil {
		return o
	}
	o.Stdin = nil
	o.Stdout, o.Stderr = d.output(1), d.output(2)
	if u.plan.tty {
		o.Terminal = d.hub.Seat()
	}
	begun := o.Started
	o.Started = func(pid int) {
		begun(pid)
		d.hub.Started(pid)
		d.front.tell(note{Started: true})
	}
	if d.hello.Attach {
		select {
		case <-d.hub.First():
		case <-time.After(attachWithin):
		case <-u.ctx.Done():
		}
	}
	return o
}

// attachWithin is how long the command waits for who started it.
const attachWithin = 5 * time.Second

// output is where an output of the command goes: what is shown is kept before.
func (d *held) output(n int) io.Writer {
	s := journal.Stdout
	if n == 2 {
		s = journal.Stderr
	}
	return io.MultiWriter(keeper{d, s}, d.hub.Output(n))
}

type keeper struct {
	d *held
	s journal.Stream
}

// Write keeps p. A full disk is no reason to end the command.
func (k keeper) Write(p []byte) (int, error) {
	if err := k.d.kept.Write(k.s, p); err != nil && k.d.lost != nil {
		k.d.lost(err)
	}
	return len(p), nil
}

// leftBackground tells those attached that the command has ended.
func (u *running) leftBackground(r session.Result) {
	if d := u.req.Background.held; d != nil {
		d.hub.Ended(r.Exit)
	}
}

// background adds to what `bailey ps` shows.
func (u *running) background(i *control.Info) {
	i.TTY = u.plan.tty
	if d := u.req.Background.held; d != nil {
		i.Detached = true
		if d.hub != nil {
			i.Attached = d.hub.Attached()
		}
	}
}

// Seat answers whether one may attach.
func (u *running) Seat() error {
	if d := u.req.Background.held; d == nil || d.hub == nil {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("sandbox %s belongs to the terminal that it was started at", u.plan.name),
			fmt.Sprintf("bailey shell %s opens a shell of yours in it; what is to be attached to is started with --detach or --detachable", u.plan.name))
	}
	return nil
}

// Attach answers `bailey attach`.
func (u *running) Attach(conn net.Conn) {
	_ = u.req.Background.held.hub.Serve(conn) // the client has been told what went wrong
}
