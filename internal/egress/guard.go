package egress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxHead      = 64 << 10 // bytes of a request's line and fields
	maxChunkLine = 32       // bytes of a chunk's size; extensions are refused
)

// guard stands between a connection and net/http. It lets through only
// requests that can be framed in one way, which net/http does not promise: it
// takes Content-Length together with Transfer-Encoding, bare line feeds and
// more. What follows a request that breaks the rules is never read.
//
// net/http interrupts a Read by a deadline and goes on later, so everything
// read stays in the guard until it is passed on.
type guard struct {
	net.Conn         // the sandbox's side
	raw      []byte  // read, not judged
	space    []byte  // for raw
	ready    []byte  // judged, not passed on
	state    framing // what the next raw byte is
	left     int64   // bytes of body or chunk to come
	fault    error   // why nothing more is read; sticky

	in, out *atomic.Int64
	badHead atomic.Pointer[badRequestError] // set before the stand-in for a bad head is passed on
	badBody atomic.Pointer[badRequestError] // set before a body's reader gets it as an error
	open    atomic.Int64                    // requests passed on and not yet served
	begun   atomic.Bool                     // the first of them is being answered
	halved  bool                            // the client ended its half before that
	nudge   chan struct{}                   // a deadline was set, or a request served
	closed  chan struct{}
	once    sync.Once
}

// newGuard makes a guard for a connection of which some bytes are read
// already. It counts in in and out.
func newGuard(c net.Conn, read []byte, in, out *atomic.Int64) *guard {
	return &guard{Conn: c, raw: read, in: in, out: out, nudge: make(chan struct{}, 1), closed: make(chan struct{})}
}

// framing is where in a request the guard is.
type framing uint8

const (
	atHead framing = iota
	inBody
	atChunkSize
	inChunk
	atChunkEnd
	atLastLine // the empty line after the last chunk: trailers are refused
	opaque     // after an upgrade to WebSocket: not HTTP any more
)

// badRequestError is a request that is refused for its form.
type badRequestError struct{ reason, detail string }

func (b *badRequestError) Error() string { return b.detail }

// standIn is what net/http gets for a head that was refused: the handler then
// answers by the reason and never looks at it, but for the host, as net/http
// reads ahead: a refusal is that of the last request, not of the one before.
const (
	standIn     = "GET / HTTP/1.1\r\nHost: " + standInHost + "\r\nConnection: close\r\n\r\n"
	standInHost = "invalid" // RFC 6761 §6.4: nobody's
)

// Read passes on judged bytes.
func (g *guard) Read(b []byte) (int, error) {
	for len(g.ready) == 0 {
		if g.fault != nil {
			return 0, g.fault
		}
		if len(g.raw) == 0 && (g.state == inBody || g.state == inChunk || g.state == opaque) {
			return g.readBody(b)
		}
		progress, err := g.judge()
		if err != nil {
			g.fail(err)
			continue
		}
		if progress {
			continue
		}
		if err := g.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, g.ready)
	g.ready = g.ready[n:]
	return n, nil
}

// readBody reads what needs no judging straight into b.
func (g *guard) readBody(b []byte) (int, error) {
	if g.state != opaque {
		b = b[:min(int64(len(b)), g.left)]
	}
	n, err := g.Conn.Read(b)
	g.out.Add(int64(n))
	if g.state != opaque {
		g.spend(int64(n))
	}
	return n, err
}

// spend counts bytes of a body or chunk that were passed on.
func (g *guard) spend(n int64) {
	g.left -= n
	switch {
	case g.left > 0:
	case g.state == inBody:
		g.state = atHead
	case g.state == inChunk:
		g.state = atChunkEnd
	}
}

// endPoll is how often it is looked whether a client that has ended its half
// is still there for the answer, and maxQuiet how often that may be without a
// byte of the answer in between, if the answer had begun before the end.
const (
	endPoll  = time.Second
	maxQuiet = 5
)

// holdEnd keeps the end of the client's data back until what it asked is
// answered. A client may end its half after a request (RFC 9112 §9.6 asks
// servers to bear it, and `nc` does), but net/http takes an end that it sees
// while it serves for a client that is gone. One that is gone looks the same
// until something is written to it, or until the kernel's keep-alive asks it;
// so in the middle of an answer that stands still the end counts.
//
// It returns how the wait ended: a deadline, by which net/http interrupts a
// Read, or the end after all.
func (g *guard) holdEnd() error {
	g.halved = g.halved || !g.begun.Load()
	poll := time.NewTicker(endPoll)
	defer poll.Stop()
	quiet, in := 0, g.in.Load()
	for g.open.Load() > 0 && (g.halved || quiet < maxQuiet) {
		select {
		case <-g.closed:
			return io.EOF
		case <-g.nudge:
		case <-poll.C:
			quiet++
		}
		if now := g.in.Load(); now != in {
			quiet, in = 0, now
		}
		var none [1]byte // nothing follows an end
		if _, err := g.Conn.Read(none[:]); !errors.Is(err, io.EOF) {
			return err
		}
	}
	return io.EOF
}

// served tells that the handler is done with a request.
func (g *guard) served() {
	g.begun.Store(false)
	g.open.Add(-1)
	g.wake()
}

func (g *guard) wake() {
	select {
	case g.nudge <- struct{}{}:
	default:
	}
}

// SetReadDeadline also reaches a Read that holds the end back.
func (g *guard) SetReadDeadline(t time.Time) error {
	err := g.Conn.SetReadDeadline(t)
	g.wake()
	return err
}

// SetDeadline is SetReadDeadline, and the other half.
func (g *guard) SetDeadline(t time.Time) error {
	err := g.Conn.SetDeadline(t)
	g.wake()
	return err
}

// fail stops reading for good. A bad head is shown to the handler, which can
// explain; a bad body ends the request that it belongs to.
func (g *guard) fail(err error) {
	bad, ok := errors.AsType[*badRequestError](err)
	switch {
	case !ok:
		g.fault = err
	case g.state == atHead:
		g.badHead.Store(bad)
		g.ready = []byte(standIn)
		g.open.Add(1)
		g.fault = io.EOF
	default:
		g.badBody.Store(bad)
		g.fault = err
	}
}

// fillSize is how much is read at once of a head, in bytes.
const fillSize = 4096

// fill reads. All that was judged is passed on by then, so its memory is used
// again.
func (g *guard) fill() error {
	if len(g.raw) == 0 {
		if g.space == nil {
			g.space = make([]byte, 0, fillSize)
		}
		g.raw = g.space
	}
	g.raw = slices.Grow(g.raw, fillSize)
	end := len(g.raw)
	n, err := g.Conn.Read(g.raw[end : end+fillSize])
	g.raw = g.raw[:end+n]
	g.out.Add(int64(n))
	switch {
	case n > 0:
		return nil
	case errors.Is(err, io.EOF) && g.state == atHead:
		return g.holdEnd()
	}
	return err
}

// judge moves bytes from raw to ready as far as they can be framed, and
// reports whether any moved.
func (g *guard) judge() (progress bool, err error) {
	if len(g.raw) == 0 {
		return false, nil
	}
	switch g.state {
	case atHead:
		return g.judgeHead()
	case inBody, inChunk:
		n := min(int64(len(g.raw)), g.left)
		g.pass(int(n))
		g.spend(n)
		return true, nil
	case atChunkSize:
		return g.judgeChunkSize()
	case atChunkEnd, atLastLine:
		return g.judgeLineEnd()
	case opaque:
		g.pass(len(g.raw))
		return true, nil
	}
	return false, errors.New("bug: unknown framing")
}

func (g *guard) pass(n int) {
	g.ready = g.raw[:n:n]
	g.raw = g.raw[n:]
}

func (g *guard) judgeHead() (bool, error) {
	end := bytes.Index(g.raw, []byte("\r\n\r\n"))
	if end < 0 && len(g.raw) > maxHead || end > maxHead {
		return false, &badRequestError{reasonBadRequest, fmt.Sprintf("the head of the request is longer than %d bytes", maxHead)}
	}
	if end < 0 {
		// A line feed without its carriage return would never end the head.
		return false, checkLineEnds(g.raw)
	}
	head := g.raw[:end+4]
	h, err := parseHead(head)
	if err != nil {
		return false, err
	}
	g.pass(len(head))
	g.open.Add(1)
	switch {
	case h.webSocket:
		g.state = opaque
	case h.chunked:
		g.state = atChunkSize
	case h.length > 0:
		g.state, g.left = inBody, h.length
	}
	return true, nil
}

// judgeChunkSize reads a size of 1 to 8 hexadecimal digits and a line end
// (RFC 9112 §7.1, without extensions, which nobody uses but smugglers).
func (g *guard) judgeChunkSize() (bool, error) {
	end := bytes.Index(g.raw, []byte("\r\n"))
	if end < 0 && len(g.raw) < maxChunkLine {
		return false, nil
	}
	if end < 1 || end > 8 {
		return false, malformed("the chunk size is not 1 to 8 hexadecimal digits")
	}
	var size int64
	for _, c := range g.raw[:end] {
		digit := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if digit < 0 || c < '0' {
			return false, malformed("the chunk size is not hexadecimal")
		}
		size = size<<4 | int64(digit)
	}
	g.pass(end + 2)
	g.left = size
	g.state = inChunk
	if size == 0 {
		g.state = atLastLine
	}
	return true, nil
}

func (g *guard) judgeLineEnd() (bool, error) {
	if g.raw[0] != '\r' || len(g.raw) > 1 && g.raw[1] != '\n' {
		return false, malformed("a chunk does not end where its size says, or the body has trailers")
	}
	if len(g.raw) < 2 {
		return false, nil
	}
	g.pass(2)
	if g.state == atLastLine {
		g.state = atHead
	} else {
		g.state = atChunkSize
	}
	return true, nil
}

// Write counts what goes to the sandbox.
func (g *guard) Write(b []byte) (int, error) {
	n, err := g.Conn.Write(b)
	g.in.Add(int64(n))
	return n, err
}

// Close ends the connection in an orderly way and tells whoever waits.
func (g *guard) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Conn.Close()
}

// oneConn is a listener that has one connection and then waits for its end.
type oneConn struct {
	g     *guard
	given bool
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.given {
		l.given = true
		return l.g, nil
	}
	<-l.g.closed
	return nil, http.ErrServerClosed
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.g.LocalAddr() }
