package session

import (
	"bytes"
	"io"
	"sync"

	"github.com/bailey-dev/bailey/internal/wire"
)

// client is one that is attached to a Hub.
type client struct {
	conn       io.ReadWriteCloser
	rows, cols uint16 // of its terminal; the Hub's mu guards them
	untaken    int    // bytes of input that it sent and nobody has read; likewise

	written chan struct{} // closed when nothing more will be written

	mu     sync.Mutex
	more   sync.Cond
	frames []frame
	size   int // bytes of output in frames
	missed int // bytes of output left out since it has no room
	credit uint32
	last   bool // nothing comes behind frames
	gone   bool
}

// frame is one to be written.
type frame struct {
	t wire.Type
	p []byte
}

func newClient(conn io.ReadWriteCloser) *client {
	c := &client{conn: conn, written: make(chan struct{})}
	c.more.L = &c.mu
	return c
}

// queue has output written when there is room for it.
func (c *client) queue(t wire.Type, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.missed > 0 || c.size+len(p) > mostQueued {
		c.missed += len(p) + c.drop()
		c.more.Signal()
		return
	}
	c.frames = append(c.frames, frame{t, bytes.Clone(p)})
	c.size += len(p)
	c.more.Signal()
}

// drop drops the output that waits, and returns how much that was.
func (c *client) drop() int {
	kept := c.frames[:0]
	for _, f := range c.frames {
		if f.t != wire.Stdout && f.t != wire.Stderr {
			kept = append(kept, f)
		}
	}
	n := c.size
	c.frames, c.size = kept, 0
	return n
}

func (c *client) start(pid int) { c.put(wire.Started, wire.NumberPayload(uint32(pid))) }

func (c *client) put(t wire.Type, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames = append(c.frames, frame{t, p})
	c.more.Signal()
}

// took notes that n bytes of its input have been read. The Hub's mu is held.
func (c *client) took(n int) {
	c.untaken = max(0, c.untaken-n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credit += uint32(n)
	c.more.Signal()
}

func (c *client) end(e wire.Exit) {
	c.put(wire.Exited, wire.ExitPayload(e))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = true
	c.more.Signal()
}

// stop ends the writing.
func (c *client) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.more.Signal()
}

// write writes what is queued until there will be no more. again says what is
// written in the place of what was left out.
func (c *client) write(again func(*client) (wire.Type, []byte)) {
	defer close(c.written)
	w := wire.NewWriter(c.conn)
	for {
		f, ok := c.next()
		if !ok {
			return
		}
		if f.t == 0 {
			f.t, f.p = again(c)
		}
		if w.Send(f.t, f.p) != nil {
			_ = c.conn.Close() // follow sees it
			return
		}
	}
}

// next waits for the next frame; one without a type stands for what was left
// out. It is false at the end.
func (c *client) next() (f frame, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.gone:
			return frame{}, false
		case c.credit > 0:
			f = frame{wire.Credit, wire.NumberPayload(c.credit)}
			c.credit = 0
			return f, true
		case c.missed > 0 && !c.opens():
			return frame{}, true
		case len(c.frames) > 0:
			f = c.frames[0]
			c.frames = c.frames[1:]
			if f.t == wire.Stdout || f.t == wire.Stderr {
				c.size -= len(f.p)
			}
			return f, true
		case c.last:
			return frame{}, false
		}
		c.more.Wait()
	}
}

// caughtUp returns how much output was left out. What comes next is shown. The
// Hub's mu is held, so that nothing comes in between.
func (c *client) caughtUp() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.missed
	c.missed = 0
	return n
}

// opens reports whether the first frame has to come before all output.
func (c *client) opens() bool { return len(c.frames) > 0 && c.frames[0].t == wire.Started }
