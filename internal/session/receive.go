package session

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/wire"
)

// receive handles what the sandbox sends until the command is over.
func (r *run) receive(stream io.Reader) ending {
	frames := wire.NewReader(stream, wire.FromSandbox)
	for {
		f, err := frames.Next()
		if err != nil {
			return ending{err: fmt.Errorf("%w: %w", ErrLost, err)}
		}
		end, over := r.handle(f)
		if over {
			return end
		}
	}
}

// handle does what one frame says, and reports whether it is the last.
func (r *run) handle(f wire.Frame) (ending, bool) {
	switch f.Type {
	case wire.Started:
		return r.started(int(f.Number()))
	case wire.Stdout:
		r.write(1, f.Payload)
	case wire.Stderr:
		r.write(2, f.Payload)
	case wire.Credit:
		r.credit.add(f.Number())
	case wire.Stopped:
		select {
		case r.stops <- struct{}{}:
		default: // one is on its way
		}
	case wire.Exited:
		exit, err := f.Exit()
		if err != nil {
			return ending{err: fmt.Errorf("%w: %w", ErrLost, err)}, true
		}
		return ending{exit: exit, err: r.broken}, true
	case wire.Failed:
		return failed(f), true
	default: // Reader passes no other but Ready
		return ending{err: fmt.Errorf("%w: type %d: %w", ErrLost, f.Type, wire.ErrFrame)}, true
	}
	return ending{}, false
}

// failed makes an error of a command that did not start.
func failed(f wire.Frame) ending {
	kind, message, err := f.Failure()
	if err != nil {
		return ending{err: fmt.Errorf("%w: %w", ErrLost, err)}
	}
	message = terminal.Sanitize(message)
	switch kind {
	case wire.FailNotFound:
		return ending{
			exit: wire.Exit{Code: bailey.ExitNotFound},
			err:  bailey.NewError(bailey.NotFound, message, "only what is installed system-wide or was named with --tool is in the sandbox"),
		}
	case wire.FailNotExecutable:
		return ending{exit: wire.Exit{Code: bailey.ExitCannotRun}, err: bailey.NewError(bailey.Invalid, message, "")}
	case wire.FailOther:
	}
	return ending{exit: wire.Exit{Code: bailey.ExitBailey}, err: bailey.NewError(bailey.Unavailable, message, "")}
}

// started makes the terminal raw and begins to read input.
func (r *run) started(pid int) (ending, bool) {
	if r.running() {
		return ending{err: fmt.Errorf("%w: started twice: %w", ErrLost, wire.ErrFrame)}, true
	}
	if r.o.Started != nil {
		r.o.Started(pid)
	}
	if r.screen != nil {
		if err := r.screen.raw(); err != nil {
			return ending{err: err}, true
		}
		r.resize() // it may have changed since the command was sent
	}
	end := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cleaned {
		return ending{}, true
	}
	r.inputEnd = end
	r.guard(func() {
		defer close(end)
		r.typed()
	})
	return ending{}, false
}

// typed sends the input as the sandbox has room for it. It may wait for that:
// cleanUp does not wait for it forever.
func (r *run) typed() {
	r.mu.Lock()
	w := r.w // there, since the command has started
	r.mu.Unlock()
	r.keys.seq = r.o.DetachKeys
	buf := make([]byte, 32<<10)
	for r.input != nil {
		room := r.credit.wait()
		if room == 0 {
			return // the command is over
		}
		n, err := r.input.Read(buf[:min(room, len(buf))])
		r.credit.take(n)
		if n > 0 && r.keys.pass(buf[:n], r.typedOn) {
			r.leave()
			return
		}
		if err != nil {
			break
		}
	}
	switch {
	case r.o.Attached && r.screen != nil:
		r.leave() // our terminal is gone, and not the command's
		return
	case r.screen != nil:
		_ = w.Send(wire.Signal, []byte{byte(syscall.SIGHUP)}) // our terminal is gone; harmless after the end
		return
	case r.o.Terminal != nil:
		return // it lasts as long as the command
	}
	_ = w.Send(wire.StdinEOF, nil)
}

// write writes output. One that cannot be written any more is closed inside,
// so that the command gets SIGPIPE as it would without a sandbox.
func (r *run) write(n int, p []byte) {
	out := r.o.Stdout
	if n == 2 {
		out = r.o.Stderr
	}
	var err error
	switch {
	case r.shown[n-1] != nil:
		err = r.shown[n-1].write(p)
	case out != nil:
		_, err = out.Write(p)
	}
	if err == nil {
		return
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, io.ErrClosedPipe) && r.broken == nil {
		r.broken = bailey.WrapError(bailey.Unavailable, "cannot write the command's output", err, "")
	}
	if r.screen != nil {
		r.send(wire.Signal, []byte{byte(syscall.SIGHUP)})
		return
	}
	r.send(wire.CloseOut, []byte{byte(n)})
}

// credit is how many bytes of input the sandbox has room for.
type credit struct {
	mu      sync.Mutex
	changed sync.Cond
	room    int
	closed  bool
}

func newCredit(room int) *credit {
	c := &credit{room: room}
	c.changed.L = &c.mu
	return c
}

// add gives room for n more bytes, never more than the window.
func (c *credit) add(n uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room = min(c.room+int(min(n, wire.StdinWindow)), wire.StdinWindow)
	c.changed.Broadcast()
}

func (c *credit) take(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room -= n
}

func (c *credit) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.changed.Broadcast()
}

// wait returns the room once there is some, and 0 after close.
func (c *credit) wait() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.room == 0 && !c.closed {
		c.changed.Wait()
	}
	if c.closed {
		return 0
	}
	return c.room
}
