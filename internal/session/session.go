package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/wire"
)

// defaultGrace is how long a command may take to end after a SIGTERM or a
// SIGHUP before Run returns without it.
const defaultGrace = 1500 * time.Millisecond

// ErrLost is wrapped by Run's error when the sandbox went away while the
// command ran: it was killed, or ran out of memory, or sandboxd broke the
// rules of the wire.
var ErrLost = errors.New("the sandbox ended before its command did")

// ErrDetached is the error of a session that somebody left while the command
// runs on.
var ErrDetached = errors.New("detached")

// Terminal is a terminal for a command that is not one of this process's files.
// Read returns what was typed, and io.EOF after Close.
type Terminal interface {
	io.ReadCloser
	Size() (rows, cols uint16)
	Resized() <-chan struct{} // has an element when the size is another
}

// Opener opens streams to a sandbox: a wire.Host, or what Dial returns.
type Opener interface {
	Open() (io.ReadWriteCloser, error)
}

// Options say what to run and with which standard files.
type Options struct {
	// Command is what to run. Run sets TTY and the size itself.
	Command wire.Exec

	// Stdin is read as the command's input; nil is an empty one. It is not
	// closed.
	Stdin *os.File

	// Stdout and Stderr get the command's output. What goes to a terminal is
	// filtered; when both and Stdin are terminals, the command gets a terminal
	// of its own. A writer that writes to a file for somebody says which by a
	// method File.
	Stdout, Stderr io.Writer

	// Grace is how long the command may take to end after a SIGTERM or SIGHUP
	// to this process; 0 means a second and a half.
	Grace time.Duration

	// Terminal, in place of the three files, is a terminal that others hold: its
	// keys are the command's input. All output goes to Stdout, unfiltered.
	Terminal Terminal

	// Attached says that the command is another's (Hub): signals to this process
	// end the session and not the command, with ErrDetached.
	Attached bool

	// DetachKeys, when they are typed one after another, end the session with
	// ErrDetached. Empty are none.
	DetachKeys []byte

	// Started is called with the command's pid inside once it runs, before
	// any of its output and from another goroutine; may be nil.
	Started func(pid int)
}

// Result is how a command ended.
type Result struct {
	wire.Exit

	TTY     bool            // it had a terminal
	Dropped terminal.Counts // what was filtered from its output to the terminal
}

// Status returns the exit code that says the same (bailey.ExitSignalBase).
func (r Result) Status() int {
	if r.Signal != 0 {
		return bailey.ExitSignalBase + int(r.Signal)
	}
	return r.Code
}

// Run runs one command until it has ended and its output is written, and
// hands on signals that this process gets meanwhile. The terminal is as it
// was when Run returns or panics.
//
// A command that could not be started gives a *bailey.Error and a Result
// whose code is 127, 126 or 125. Otherwise the error wraps ErrLost, or is the
// context's cause, or says which output could not be written; the result then
// holds what is known.
func Run(ctx context.Context, opener Opener, o Options) (Result, error) {
	r := &run{
		o:       o,
		done:    make(chan ending, 8),
		stops:   make(chan struct{}, 1),
		sending: make(chan struct{}, 1),
		credit:  newCredit(wire.StdinWindow),
	}
	if o.Grace <= 0 {
		r.o.Grace = defaultGrace
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, handled()...)
	defer signal.Stop(signals)

	if err := r.prepare(); err != nil {
		return Result{}, err
	}
	defer r.cleanUp()
	if err := r.begin(opener); err != nil {
		return Result{}, err
	}
	end := r.loop(ctx, signals)
	r.cleanUp()
	return r.result(end), end.err
}

// handled are the signals that Run deals with. SIGPIPE is among them so that
// a closed standard output is an error of the write and not our end. One that
// this process was started to ignore, as by nohup(1), is left alone: so it was
// asked for. (Of others than SIGHUP and SIGINT the runtime does not keep that.)
func handled() []os.Signal {
	list := []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGTSTP,
		syscall.SIGCONT, syscall.SIGPIPE,
	}
	return slices.DeleteFunc(list, signal.Ignored)
}

// run is one command as the host sees it.
type run struct {
	o       Options
	screen  *screen       // the user's terminal, or nil
	shown   [2]*filtered  // where standard output and errors are terminals
	input   io.ReadCloser // or nil
	keys    keys
	credit  *credit
	stops   chan struct{} // the command was stopped
	sending chan struct{} // holds an element while a frame of send is on its way
	done    chan ending
	broken  error // the first output that could not be written; receive's own

	mu       sync.Mutex
	stream   io.ReadWriteCloser // once it is open
	w        *wire.Writer       // once the command was sent
	inputEnd chan struct{}      // made when the command has started, closed when nothing reads the input
	cleaned  bool
}

// ending is why a command is over.
type ending struct {
	exit wire.Exit
	err  error
}

// terminalOf returns the terminal that w writes to, or nil.
func terminalOf(w io.Writer) *os.File {
	f, _ := w.(*os.File)
	if named, ok := w.(interface{ File() *os.File }); ok {
		f = named.File()
	}
	if !pty.IsTerminal(f) {
		return nil
	}
	return f
}

// prepare finds out which of the standard files are terminals, and the size of
// the one that the command gets.
func (r *run) prepare() error {
	if t := r.o.Terminal; t != nil {
		x := &r.o.Command
		x.TTY = true
		x.Rows, x.Cols = t.Size()
		r.input = t
		return nil
	}
	stdout, stderr := terminalOf(r.o.Stdout), terminalOf(r.o.Stderr)
	switch {
	case stdout != nil && stderr != nil && pty.IsTerminal(r.o.Stdin):
		s, err := newScreen(r.o.Stdin, stdout, r.o.Stdout)
		if err != nil {
			return err
		}
		r.screen, r.shown = s, [2]*filtered{s.filtered, s.filtered}
	default:
		// One of them may be a terminal all the same. Each has a filter of its
		// own: one sequence is never made of both.
		if stdout != nil {
			r.shown[0] = newFiltered(r.o.Stdout)
		}
		if stderr != nil {
			r.shown[1] = newFiltered(r.o.Stderr)
		}
	}
	x := &r.o.Command
	if x.TTY = r.screen != nil; x.TTY {
		size := r.screen.size()
		x.Rows, x.Cols = size.Rows, size.Cols
	}
	if r.o.Stdin == nil {
		return nil
	}
	input, err := pty.NewInput(r.o.Stdin)
	if err != nil {
		return fmt.Errorf("open standard input: %w", err)
	}
	r.input = input
	return nil
}

// begin has the command sent, and what comes back read. It waits for the
// former, unless the sandbox does not take it.
func (r *run) begin(opener Opener) error {
	h := wire.Header{Op: wire.OpExec, Exec: r.o.Command}
	if err := h.Validate(); err != nil {
		return bailey.WrapError(bailey.Invalid, "cannot run the command", err, "")
	}
	sent := make(chan struct{})
	r.guard(func() {
		stream, err := r.open(opener, &h)
		close(sent)
		if err != nil {
			r.done <- ending{err: err}
			return
		}
		r.done <- r.receive(stream)
	})
	soon(func() { <-sent })
	return nil
}

// open opens the stream and sends the command.
func (r *run) open(opener Opener, h *wire.Header) (io.Reader, error) {
	stream, err := opener.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	r.mu.Lock()
	r.stream = stream
	late := r.cleaned
	r.mu.Unlock()
	if late { // nobody waits for it any more
		return nil, errors.Join(ErrLost, stream.Close())
	}
	if err := wire.WriteHeader(stream, h); errors.Is(err, wire.ErrTooLarge) {
		return nil, bailey.WrapError(bailey.Invalid, "cannot run the command", err, "pass large data in a file")
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.w = wire.NewWriter(stream)
	return stream, nil
}

// guard runs f in a goroutine and makes an ending of its panic, so that the
// terminal is restored before anything else.
func (r *run) guard(f func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				r.done <- ending{err: fmt.Errorf("session panicked: %v", p)}
			}
		}()
		f()
	}()
}

// cleanUp ends the reading of input, closes the stream and restores the
// terminal. It may be called twice.
func (r *run) cleanUp() {
	r.mu.Lock()
	again, stream, inputEnd := r.cleaned, r.stream, r.inputEnd
	r.cleaned = true
	r.mu.Unlock()
	if again {
		return
	}
	defer r.restore()
	if r.input != nil {
		_ = r.input.Close() // our own pipe
	}
	r.credit.close()
	soon(func() {
		if stream != nil {
			_ = stream.Close() // the other end may be gone
		}
		if inputEnd != nil {
			<-inputEnd
		}
	})
}

// restore undoes what the command left on at the terminals, and gives the one
// that it had back as it was found.
func (r *run) restore() {
	for _, f := range r.shown {
		switch {
		case f == nil:
		case r.screen == nil:
			f.finish(nil)
		default:
			f.finish(func() error { return pty.DiscardOutput(r.screen.out) })
		}
	}
	if r.screen != nil {
		r.screen.giveBack()
	}
}

// stuckAfter is how long a sandbox may take to take a frame, and a terminal
// to take a few bytes. Whoever holds one of them up for longer holds up
// neither our signals nor the end.
const stuckAfter = 500 * time.Millisecond

// soon runs f and waits for it, but no longer than stuckAfter; f then goes on
// until what it waits for is closed.
func soon(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	awaitSoon(ended)
}

// awaitSoon waits for ended, but no longer than stuckAfter.
func awaitSoon(ended <-chan struct{}) bool {
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

func (r *run) result(end ending) Result {
	res := Result{Exit: end.exit, TTY: r.o.Command.TTY}
	for i, f := range r.shown {
		if f != nil && (i == 0 || f != r.shown[0]) {
			res.Dropped.Add(f.dropped())
		}
	}
	return res
}

// loop waits for the end and deals with signals until then.
func (r *run) loop(ctx context.Context, signals <-chan os.Signal) ending {
	var late <-chan time.Time // when the grace of a SIGTERM or SIGHUP is over
	ended := syscall.Signal(0)
	var resized <-chan struct{}
	if r.o.Terminal != nil {
		resized = r.o.Terminal.Resized()
	}
	for {
		select {
		case <-resized:
			r.resize()
		case end := <-r.done:
			return end
		case <-ctx.Done():
			return ending{err: context.Cause(ctx)}
		case <-late:
			return ending{exit: wire.Exit{Signal: ended}}
		case <-r.stops:
			r.followStop()
		case s := <-signals:
			if number, ok := s.(syscall.Signal); ok && r.take(number) && late == nil {
				ended = number
				late = time.After(r.o.Grace)
			}
		}
	}
}

// take deals with one signal. It reports whether the command has to end now.
func (r *run) take(s syscall.Signal) bool {
	switch s {
	case syscall.SIGPIPE:
	case syscall.SIGWINCH:
		r.resize()
	case syscall.SIGTSTP:
		r.suspend()
	case syscall.SIGCONT:
		r.resume()
	default:
		if r.o.Attached {
			r.leave()
			return false
		}
		r.send(wire.Signal, []byte{byte(s)})
		// Before the command has started nothing inside takes an interrupt.
		return s == syscall.SIGTERM || s == syscall.SIGHUP || (s == syscall.SIGINT && !r.running())
	}
	return false
}

func (r *run) running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inputEnd != nil
}

// send sends a frame that the sandbox has to take soon. Otherwise it goes on
// its way alone, and those that follow are lost until it is taken: a sandbox
// that reads nothing cannot be told anything. An error shows as the end of
// the stream elsewhere.
func (r *run) send(t wire.Type, payload []byte) {
	r.mu.Lock()
	w := r.w
	r.mu.Unlock()
	if w == nil {
		return // the sandbox has not even taken the command
	}
	select {
	case r.sending <- struct{}{}:
	case <-time.After(stuckAfter):
		return
	}
	soon(func() {
		defer func() { <-r.sending }()
		_ = w.Send(t, payload)
	})
}

func (r *run) resize() {
	if t := r.o.Terminal; t != nil {
		r.send(wire.Resize, wire.ResizePayload(t.Size()))
		return
	}
	if r.screen == nil {
		return
	}
	size := r.screen.size()
	r.send(wire.Resize, wire.ResizePayload(size.Rows, size.Cols))
}

// suspend stops this process as its shell asked (kill -TSTP, or Ctrl-Z while
// the command has no terminal), after the command's own when that has no
// terminal to be redrawn on.
func (r *run) suspend() {
	if !pty.JobControlled() {
		return // nobody could continue us: POSIX ignores the signal then
	}
	if r.screen != nil {
		r.screen.suspend()
		r.redraw()
		return
	}
	if r.o.Attached {
		_ = pty.Stop() // the command is not ours to stop
		return
	}
	r.send(wire.Signal, []byte{byte(syscall.SIGSTOP)})
	_ = pty.Stop() // if we cannot stop, we go on
	r.send(wire.Signal, []byte{byte(syscall.SIGCONT)})
}

// resume makes the terminal ours again after a stop that was not suspend's.
func (r *run) resume() {
	if r.screen != nil {
		r.screen.resume()
		r.redraw()
	}
}

// redraw has the command paint its screen again.
func (r *run) redraw() {
	r.resize()
	r.send(wire.Signal, []byte{byte(syscall.SIGWINCH)}) // the size may be the same
}

// followStop follows a command that was stopped inside, by Ctrl-Z or by
// itself: this process stops too, and its shell has the terminal. Without
// such a shell nobody could say "continue", so the command goes on at once.
func (r *run) followStop() {
	if r.screen != nil && pty.JobControlled() {
		r.screen.suspend()
	}
	r.send(wire.Signal, []byte{byte(syscall.SIGCONT)})
	r.redraw()
}
