package sandboxd

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/wire"
)

// serve does what one stream asks for.
func (d *daemon) serve(stream io.ReadWriteCloser) {
	defer stream.Close()
	h, err := wire.ReadHeader(stream)
	if err != nil {
		_ = wire.NewWriter(stream).Send(wire.Failed, wire.FailPayload(wire.FailOther, err.Error()))
		return
	}
	switch h.Op {
	case wire.OpExec:
		d.running.Add(1)
		defer d.running.Done()
		d.exec(stream, &h.Exec)
	case wire.OpPing:
		_ = wire.NewWriter(stream).Send(wire.Ready, nil)
	case wire.OpHide:
		w := wire.NewWriter(stream)
		if err := hideFiles(h.Hide); err != nil {
			_ = w.Send(wire.Failed, wire.FailPayload(wire.FailOther, err.Error()))
			return
		}
		_ = w.Send(wire.Ready, nil)
	case wire.OpDial:
		dial(stream, h.Port)
	case wire.OpOpen:
		takeAddresses(stream)
	case wire.OpModel:
		w := wire.NewWriter(stream)
		if err := d.calls(); err != nil {
			_ = w.Send(wire.Failed, wire.FailPayload(wire.FailOther, err.Error()))
			return
		}
		_ = w.Send(wire.Ready, nil)
	case wire.OpShutdown:
		d.endAll()
		d.waitTold()
		_ = wire.NewWriter(stream).Send(wire.Ready, nil)
		_ = d.wire.Close() // Accept returns, and with it Main
	}
}

// waitTold waits a short time until the host was told how each command ended.
func (d *daemon) waitTold() {
	told := make(chan struct{})
	go func() {
		defer close(told)
		d.running.Wait()
	}()
	timer := time.NewTimer(drainIdle + killGrace)
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
	}
}

// exec runs one command until it has ended and its output was sent.
func (d *daemon) exec(stream io.ReadWriteCloser, x *wire.Exec) {
	w := wire.NewWriter(stream)
	if err := writeFiles(x.Files); err != nil {
		_ = w.Send(wire.Failed, wire.FailPayload(wire.FailOther, err.Error()))
		return
	}
	<-d.guarded
	c, fail := d.start(x)
	if fail != nil {
		_ = w.Send(wire.Failed, wire.FailPayload(fail.kind, fail.message))
		return
	}
	if x.Main {
		d.main.Store(c)
	}
	if err := w.Send(wire.Started, wire.NumberPayload(uint32(c.pid))); err != nil {
		c.abandon()
		return
	}
	r := &relay{c: c, w: w, typed: newInbox()}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.follow(wire.NewReader(stream, wire.FromHost))
	}()
	go r.feed()
	r.startOutputs()

	status, hostThere := r.wait(gone)
	r.typed.close()
	c.closeInput()
	if !hostThere {
		c.abandon()
		return
	}
	for _, o := range r.outputs {
		o.finish()
	}
	_ = w.Send(wire.Exited, wire.ExitPayload(exitOf(status))) // nobody may be there to be told
	for _, o := range r.outputs {
		o.release() // in any case: processes in the background write on
	}
}

// relay is the traffic of one command.
type relay struct {
	c       *command
	w       *wire.Writer
	typed   *inbox
	outputs []*output
}

// wait returns when the command has ended (true), or the host's end of the
// stream is gone before that (false).
func (r *relay) wait(gone <-chan struct{}) (unix.WaitStatus, bool) {
	for {
		select {
		case status := <-r.c.exit:
			return status, true
		case s := <-r.c.stops:
			for _, o := range r.outputs {
				o.settle()
			}
			_ = r.w.Send(wire.Stopped, []byte{byte(s)}) // a lost host shows in gone
		case <-gone:
			select { // both at once: the end of the command is what counts
			case status := <-r.c.exit:
				return status, true
			default:
				return 0, false
			}
		}
	}
}

func exitOf(status unix.WaitStatus) wire.Exit {
	if status.Signaled() {
		return wire.Exit{Code: 0, Signal: status.Signal()}
	}
	return wire.Exit{Code: status.ExitStatus(), Signal: 0}
}

// follow does what the host's frames say until the stream ends.
func (r *relay) follow(frames *wire.Reader) {
	for {
		f, err := frames.Next()
		if err != nil {
			return
		}
		if !r.obey(f) {
			return
		}
	}
}

// obey does what one frame says. It reports false for one that breaks the
// rules.
func (r *relay) obey(f wire.Frame) bool {
	switch f.Type {
	case wire.Stdin:
		return r.typed.put(f.Payload)
	case wire.StdinEOF:
		r.typed.end()
	case wire.Resize:
		rows, cols := f.Resize()
		r.c.resize(rows, cols)
	case wire.Signal:
		s, err := f.SignalNumber()
		if err != nil {
			return false
		}
		r.c.signal(s)
	case wire.CloseOut:
		n, err := f.Output()
		if err != nil {
			return false
		}
		r.c.closeOutput(n)
	default: // the sandbox's own types: Reader passes none
		return false
	}
	return true
}

// abandon ends a command whose host is gone: SIGHUP, as a closed terminal
// gives, and SIGKILL if that did not end it.
func (c *command) abandon() {
	c.signal(syscall.SIGHUP)
	c.signal(syscall.SIGCONT)
	c.close()
	timer := time.NewTimer(termGrace)
	defer timer.Stop()
	select {
	case <-c.exit:
	case <-timer.C:
		c.signal(syscall.SIGKILL)
	}
}

// closeInput ends a write to a command that has ended. With pipes, a process
// in the background sees the end of its input, too.
func (c *command) closeInput() {
	if c.tty == nil {
		_ = c.stdin.Close() // closed already at the end of the input
		return
	}
	_ = c.tty.SetWriteDeadline(time.Unix(1, 0))
}

// closeOutput closes the reading end of an output that the host cannot write
// any more. The command's next write there gives SIGPIPE.
func (c *command) closeOutput(n int) {
	f := c.stdout
	if n == 2 {
		f = c.stderr
	}
	if f != nil && c.tty == nil {
		_ = f.Close() // once more at the end
	}
}

// output carries one output of a command to the host.
type output struct {
	file *os.File
	typ  wire.Type
	w    *wire.Writer
	done chan struct{} // closed when nothing more will be sent
	free chan struct{} // closed by release: throw the rest away

	asked chan chan struct{} // by settle, of run; closed in answer

	mu     sync.Mutex
	ending bool // finish has set the last deadline
}

// drainIdle is how long, after the end of a command, its output may stay
// silent before a process in the background that holds it open is no longer
// waited for.
const drainIdle = 200 * time.Millisecond

// drainMost bounds what is sent after the end of a command and after
// drainIdle: more than the kernel holds for any pipe of an unprivileged user
// (pipe(7): 1 MiB), so that nothing the command itself wrote is lost, and a
// process in the background that writes for ever is not waited for.
const drainMost = 1 << 20

func (r *relay) startOutputs() {
	r.outputs = []*output{{file: r.c.stdout, typ: wire.Stdout, w: r.w}}
	if r.c.stderr != nil {
		r.outputs = append(r.outputs, &output{file: r.c.stderr, typ: wire.Stderr, w: r.w})
	}
	for _, o := range r.outputs {
		o.done, o.free, o.asked = make(chan struct{}), make(chan struct{}), make(chan chan struct{}, 1)
		go o.run()
	}
}

// run sends until the output ends, or the deadline that finish sets has
// passed and what was written before is sent too. After release it keeps
// reading for the sake of processes in the background: they would get
// SIGPIPE, or stop at a full pipe.
func (o *output) run() {
	defer o.file.Close()
	buf := make([]byte, outputBuffer)
	open := o.send(buf)
	close(o.done)
	if !open {
		return
	}
	<-o.free
	_ = o.file.SetReadDeadline(time.Time{}) // it had one, so it takes one
	for {
		if _, err := o.file.Read(buf); err != nil {
			return
		}
	}
}

// outputBuffer is how much is read at once: what a pipe holds by default.
const outputBuffer = wire.MaxPayload

// send sends what is read. It reports whether the output is still open.
func (o *output) send(buf []byte) bool {
	for {
		n, err := o.file.Read(buf)
		if n > 0 && o.w.Send(o.typ, buf[:n]) != nil {
			return false
		}
		if os.IsTimeout(err) {
			open := o.sendRest(buf)
			if !open || !o.settled() {
				return open
			}
			continue
		}
		if err != nil { // end, EIO of a terminal, or closed by CloseOut
			return false
		}
	}
}

// sendRest sends what is in the kernel's buffer now, without waiting.
func (o *output) sendRest(buf []byte) bool {
	for sent := 0; sent < drainMost; {
		n, err := readNow(o.file, buf)
		if n > 0 && o.w.Send(o.typ, buf[:n]) != nil {
			return false
		}
		if n <= 0 {
			return errors.Is(err, unix.EAGAIN)
		}
		sent += n
	}
	return true
}

// settleMost bounds how long the news of a stop waits for a host that does not
// read what was written before it.
const settleMost = time.Second

// settle waits until what a command wrote before it stopped has been sent: a
// program leaves its full screen first, and then it stops.
func (o *output) settle() {
	sent := make(chan struct{})
	select {
	case o.asked <- sent:
	default:
		return // one that took too long
	}
	_ = o.file.SetReadDeadline(time.Now())
	timer := time.NewTimer(settleMost)
	defer timer.Stop()
	select {
	case <-sent:
	case <-o.done:
	case <-timer.C:
	}
}

// settled answers settle, and reports whether the deadline was of that alone.
func (o *output) settled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case sent := <-o.asked:
		close(sent)
	default:
	}
	if o.ending {
		return false
	}
	_ = o.file.SetReadDeadline(time.Time{})
	return true
}

// finish waits until everything that the ended command wrote has been sent.
func (o *output) finish() {
	// A file that was closed takes no deadline and needs none.
	o.mu.Lock()
	o.ending = true
	_ = o.file.SetReadDeadline(time.Now().Add(drainIdle))
	o.mu.Unlock()
	<-o.done
}

// release lets run throw away what comes from now on.
func (o *output) release() { close(o.free) }
