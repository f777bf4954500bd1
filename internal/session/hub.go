package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/wire"
)

// Bounds of a Hub.
const (
	mostAttached = 16
	mostQueued   = 1 << 20 // bytes of output on the way to one of those attached
	mostTail     = 32 << 10

	// nudgeFor is how long a terminal is one column narrower, so that a program
	// which has the whole screen paints it again.
	nudgeFor = 40 * time.Millisecond

	// lastFor is how long one that is attached may take to take the last output
	// of a command that has ended.
	lastFor = time.Second
)

// errTooMany and errWindow are what a client of a Hub is told.
var (
	errTooMany = fmt.Errorf("%d are attached already", mostAttached)
	errWindow  = errors.New("more input than there was room for")
)

// Hub has one command seen by several at once: it gives all of them its output,
// and the command what any of them types. Each is a Run at the other end of a
// connection, with Options.Attached.
//
// One that does not read holds nobody up: what it has no room for is left out,
// and once it reads again its screen is painted anew.
type Hub struct {
	tty bool

	resized chan struct{}
	first   chan struct{} // closed when the first has attached

	mu      sync.Mutex
	more    sync.Cond // something came into inbox, or closed
	filter  terminal.Filter
	tail    []byte // of what was shown last on a terminal
	whole   bool   // tail is everything
	rows    uint16
	cols    uint16
	nudged  bool
	pid     int
	clients []*client
	inbox   []typed
	closed  bool
	exit    *wire.Exit
	any     bool
}

// typed is something that was typed at a client's.
type typed struct {
	by *client
	p  []byte
}

// NewHub makes a Hub for a command that has a terminal of that size, or none.
func NewHub(tty bool, rows, cols uint16) *Hub {
	h := &Hub{tty: tty, rows: rows, cols: cols, whole: true, resized: make(chan struct{}, 1), first: make(chan struct{})}
	h.more.L = &h.mu
	return h
}

// First is closed when somebody has attached for the first time.
func (h *Hub) First() <-chan struct{} { return h.first }

// Attached returns how many are attached.
func (h *Hub) Attached() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.clients)
}

// Started says that the command runs.
func (h *Hub) Started(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pid = pid
	for _, c := range h.clients {
		c.start(pid)
	}
}

// Output returns where the command's standard output (1) or errors (2) go.
func (h *Hub) Output(n int) io.Writer {
	if n == 2 && !h.tty {
		return hubOutput{h, wire.Stderr}
	}
	return hubOutput{h, wire.Stdout}
}

type hubOutput struct {
	h *Hub
	t wire.Type
}

// Write gives all that are attached a copy. It never waits for one of them.
func (o hubOutput) Write(p []byte) (int, error) {
	h := o.h
	h.mu.Lock()
	defer h.mu.Unlock()
	shown := p
	if h.tty {
		shown = h.filter.Filter(nil, p)
		h.keep(shown)
	}
	for part := range slices.Chunk(shown, wire.MaxPayload) {
		for _, c := range h.clients {
			c.queue(o.t, part)
		}
	}
	return len(p), nil
}

// keep keeps the end of what is shown.
func (h *Hub) keep(p []byte) {
	h.tail = append(h.tail, p...)
	if over := len(h.tail) - mostTail; over > mostTail/4 {
		h.tail = append(h.tail[:0], h.tail[over:]...)
		h.whole = false
	}
}

// repaint returns what makes an empty terminal look as the command's does, and
// has a program that has the whole screen paint it again.
func (h *Hub) repaint() []byte {
	b := h.filter.Reapply()
	if h.filter.Alternate() {
		b = append(b, "\x1b[H\x1b[2J"...)
		h.nudge()
		return b
	}
	tail := h.tail
	if !h.whole { // from the beginning of a line: a sequence has no end of line in it
		_, tail, _ = bytes.Cut(tail, []byte{'\n'})
	}
	return append(bytes.Clone(tail), b...)
}

// nudge makes the terminal narrower for a moment: a program told of the size
// that it knows already may paint nothing.
func (h *Hub) nudge() {
	if h.nudged || h.cols < 2 {
		return
	}
	h.nudged = true
	h.tellSize()
	time.AfterFunc(nudgeFor, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.nudged = false
		h.tellSize()
	})
}

func (h *Hub) tellSize() {
	select {
	case h.resized <- struct{}{}:
	default: // it is about to look
	}
}

// fit makes the terminal as large as fits into all that are attached.
func (h *Hub) fit() {
	rows, cols := uint16(0), uint16(0)
	for _, c := range h.clients {
		if c.rows == 0 || c.cols == 0 {
			continue
		}
		if rows == 0 || c.rows < rows {
			rows = c.rows
		}
		if cols == 0 || c.cols < cols {
			cols = c.cols
		}
	}
	if rows == 0 || rows == h.rows && cols == h.cols {
		return
	}
	h.rows, h.cols = rows, cols
	h.tellSize()
}

// Seat is the command's terminal as its own session has it (Options.Terminal).
func (h *Hub) Seat() Terminal { return seat{h} }

type seat struct{ h *Hub }

// Size is the size.
func (s seat) Size() (rows, cols uint16) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.h.nudged {
		return s.h.rows, s.h.cols - 1
	}
	return s.h.rows, s.h.cols
}

// Resized tells of another size.
func (s seat) Resized() <-chan struct{} { return s.h.resized }

// Read returns what anybody typed.
func (s seat) Read(p []byte) (int, error) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.inbox) == 0 && !h.closed {
		h.more.Wait()
	}
	if h.closed {
		return 0, io.EOF
	}
	e := &h.inbox[0]
	n := copy(p, e.p)
	e.by.took(n)
	if e.p = e.p[n:]; len(e.p) == 0 {
		h.inbox = h.inbox[1:]
	}
	return n, nil
}

// Close ends the reading.
func (s seat) Close() error {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.h.closed = true
	s.h.inbox = nil
	s.h.more.Broadcast()
	return nil
}

// Ended tells all that are attached how the command ended, and waits a moment
// for them to take it.
func (h *Hub) Ended(e wire.Exit) {
	h.mu.Lock()
	h.exit = &e
	clients := slices.Clone(h.clients)
	for _, c := range clients {
		c.end(e)
	}
	h.mu.Unlock()
	late := time.After(lastFor)
	for _, c := range clients {
		select {
		case <-c.written:
		case <-late:
			late = time.After(0)
		}
		_ = c.conn.Close()
	}
}

// Serve attaches the process at the other end of conn, until it leaves or the
// command ends. It closes conn. Who may connect is the caller's to check.
func (h *Hub) Serve(conn io.ReadWriteCloser) error {
	defer conn.Close()
	silent := time.AfterFunc(helloWait, func() { _ = conn.Close() })
	hello, err := wire.ReadHeader(conn)
	silent.Stop()
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	c := newClient(conn)
	if hello.Exec.TTY && h.tty {
		c.rows, c.cols = hello.Exec.Rows, hello.Exec.Cols
	}
	if err := h.add(c); err != nil {
		_ = wire.NewWriter(conn).Send(wire.Failed, wire.FailPayload(wire.FailOther, err.Error()))
		return err
	}
	go c.write(h.again)
	err = h.follow(c)
	h.remove(c)
	if h.over() {
		<-c.written // Ended closes the connection of one that does not read
	}
	c.stop()
	return err
}

func (h *Hub) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.exit != nil
}

func (h *Hub) add(c *client) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.exit != nil {
		return ErrLost
	}
	if len(h.clients) == mostAttached {
		return errTooMany
	}
	h.clients = append(h.clients, c)
	if !h.any {
		h.any = true
		close(h.first)
	}
	if h.pid != 0 {
		c.start(h.pid)
	}
	h.fit()
	if h.tty {
		for part := range slices.Chunk(h.repaint(), wire.MaxPayload) {
			c.queue(wire.Stdout, part)
		}
	}
	return nil
}

func (h *Hub) remove(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients = slices.DeleteFunc(h.clients, func(o *client) bool { return o == c })
	h.inbox = slices.DeleteFunc(h.inbox, func(t typed) bool { return t.by == c })
	h.fit()
}

// again returns what one is to be shown that has missed some output.
func (h *Hub) again(c *client) (wire.Type, []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missed := c.caughtUp()
	note := fmt.Appendf(nil, "[bailey: %d bytes of output are left out here, which were not read in time; bailey logs has what is kept]", missed)
	if !h.tty {
		return wire.Stderr, append(note, '\n')
	}
	b := append([]byte("\x1b[m\r\n"), note...)
	b = append(b, '\r', '\n')
	b = append(b, h.repaint()...)
	return wire.Stdout, b[max(0, len(b)-wire.MaxPayload):]
}

// follow does what a client's frames say until it is gone.
func (h *Hub) follow(c *client) error {
	frames := wire.NewReader(c.conn, wire.FromHost)
	for {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("attach: %w", err)
		}
		switch f.Type {
		case wire.Stdin:
			err = h.typed(c, f.Payload)
		case wire.Resize:
			h.mu.Lock()
			c.rows, c.cols = f.Resize()
			h.fit()
			h.mu.Unlock()
		default: // signals, and the end of its input, are its own
		}
		if err != nil {
			return err
		}
	}
}

func (h *Hub) typed(c *client, p []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.tty || h.closed {
		c.took(len(p)) // nobody reads it
		return nil
	}
	if c.untaken += len(p); c.untaken > wire.StdinWindow {
		return errWindow
	}
	h.inbox = append(h.inbox, typed{c, bytes.Clone(p)})
	h.more.Signal()
	return nil
}
