package sandboxd

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/wire"
)

// inbox holds input between the wire and the command, so that a command that
// does not read never holds up a signal or a resize. It holds at most
// wire.StdinWindow bytes; the host knows by Credit frames how much fits.
type inbox struct {
	mu     sync.Mutex
	filled sync.Cond // something changed
	data   []byte
	unpaid int  // bytes received and not yet given credit for
	ended  bool // no more will come
	closed bool // no more is wanted
}

func newInbox() *inbox {
	in := &inbox{}
	in.filled.L = &in.mu
	return in
}

// put adds p. It reports false when the host sent more than it may.
func (in *inbox) put(p []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.unpaid+len(p) > wire.StdinWindow {
		return false
	}
	in.unpaid += len(p)
	if !in.ended && !in.closed {
		in.data = append(in.data, p...)
		in.filled.Signal()
	}
	return true
}

// end says that no more comes: the command sees the end of its input after
// what is there.
func (in *inbox) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.filled.Signal()
}

// close says that no more is wanted.
func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.data = nil
	in.filled.Signal()
}

// take waits for bytes, moves up to len(buf) of them there and returns how
// many. It reports false when there will be none.
func (in *inbox) take(buf []byte) (int, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.data) == 0 && !in.ended && !in.closed {
		in.filled.Wait()
	}
	if len(in.data) == 0 {
		return 0, false
	}
	n := copy(buf, in.data)
	in.data = in.data[:copy(in.data, in.data[n:])]
	return n, true
}

// paid says that credit for n bytes is about to be given.
func (in *inbox) paid(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unpaid -= n
}

// feed writes the command's input and gives credit for it.
func (r *relay) feed() {
	buf := make([]byte, 16<<10)
	for {
		n, ok := r.typed.take(buf)
		if !ok {
			break
		}
		if err := r.write(buf[:n]); err != nil {
			r.typed.close() // the command does not read any more: the rest is for nobody
		}
		r.typed.paid(n)
		if r.w.Send(wire.Credit, wire.NumberPayload(uint32(n))) != nil {
			return
		}
	}
	if r.c.tty == nil {
		_ = r.c.stdin.Close() // the end of the input; once more at the end
	}
}

func (r *relay) write(p []byte) error {
	if r.c.tty == nil {
		_, err := r.c.stdin.Write(p)
		return err
	}
	return r.typeIn(p)
}

// typeIn writes to the terminal what a person typed. Before a character that
// makes a signal it discards what the command has not read, as Linux does
// (n_tty.c, isig): gVisor's line discipline looks at no character behind an
// unread line, so Ctrl-C after a typed line would come too late for ever.
func (r *relay) typeIn(p []byte) error {
	for len(p) > 0 {
		i := pty.SignalChar(r.c.tty, p)
		if i < 0 {
			i = len(p)
		}
		if i == 0 {
			_ = pty.DiscardTyped(r.c.tty) // without it the signal comes later
			i = 1
		}
		if _, err := r.c.tty.Write(p[:i]); err != nil {
			return err
		}
		if i == 1 && p[0] == pty.CharSuspend {
			time.AfterFunc(stickTime, func() { r.c.reap.unstick(r.c) })
		}
		p = p[i:]
	}
	return nil
}

// stickTime is how long after Ctrl-Z the command's own group is continued when
// its first process did not stop. Linux stops no process of a group that has
// no shell (POSIX: an orphaned one), but gVisor does, and when that meets a
// child in vfork(2), its parent waits for it and cannot stop: nobody is told,
// and nobody would continue them.
const stickTime = 500 * time.Millisecond

func (c *command) resize(rows, cols uint16) {
	if c.tty != nil {
		_ = pty.SetSize(c.tty, pty.Size{Rows: rows, Cols: cols}) // a closed terminal has no size
	}
}

// readNow reads what is there without waiting. It returns 0 at the end and a
// bare errno.
func readNow(f *os.File, buf []byte) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	n := 0
	var rerr error
	err = raw.Control(func(fd uintptr) {
		rerr = ignoreEINTR(func() error {
			n, rerr = unix.Read(int(fd), buf)
			return rerr
		})
	})
	if err != nil {
		return 0, err
	}
	return n, rerr
}
