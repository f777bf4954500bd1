package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// Bounds of the connections that a sandbox makes over a wire for calls.
const (
	// spareCalls is how many streams wait to be used. The host opens every
	// stream, ahead of its use, so that the rule that a sandbox opens none holds
	// here too.
	spareCalls = 32
	// MaxCalls is how many connections there are at most. More wait inside.
	MaxCalls = 1024
)

// Calls is the host's end of a wire on which the sandbox makes connections, as
// a net.Listener: what it accepts is one of them.
type Calls struct {
	session *yamux.Session
	begun   chan net.Conn
	done    chan struct{}
	once    sync.Once

	mu   sync.Mutex
	open int // spares, and connections that are not closed
	idle int // spares
}

// NewCalls starts the host's end on conn, which it closes in Close. Everything
// read from conn is held to the rules of the package.
func NewCalls(conn io.ReadWriteCloser) (*Calls, error) {
	s, err := yamux.Client(&guard{ReadWriteCloser: joinWrites(swift(conn))}, settings())
	if err != nil {
		return nil, fmt.Errorf("start wire: %w", err)
	}
	c := &Calls{session: s, begun: make(chan net.Conn), done: make(chan struct{})}
	go func() {
		<-s.CloseChan()
		c.end()
	}()
	go c.refill()
	return c, nil
}

// Accept waits for a connection: a stream on which the sandbox has said
// something. Its error means that the wire is lost or closed.
func (c *Calls) Accept() (net.Conn, error) {
	select {
	case conn := <-c.begun:
		return conn, nil
	case <-c.done:
		return nil, net.ErrClosed
	}
}

// Close ends every connection and the wire.
func (c *Calls) Close() error {
	c.end()
	if err := c.session.Close(); err != nil {
		return fmt.Errorf("close wire: %w", err)
	}
	return nil
}

func (c *Calls) end() { c.once.Do(func() { close(c.done) }) }

// Addr is the wire's own; there is nothing to tell.
func (c *Calls) Addr() net.Addr { return c.session.Addr() }

// refill opens streams until enough wait.
func (c *Calls) refill() {
	for c.take() {
		s, err := c.session.OpenStream()
		if err != nil {
			c.give(true)
			return
		}
		go c.await(&call{Stream: s, calls: c})
	}
}

// take reports whether one more spare is wanted, and counts it.
func (c *Calls) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle >= spareCalls || c.open >= MaxCalls {
		return false
	}
	c.idle++
	c.open++
	return true
}

// give counts a stream that is gone.
func (c *Calls) give(spare bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if spare {
		c.idle--
	}
}

// await hands a spare on when the sandbox uses it.
func (c *Calls) await(s *call) {
	n, err := s.Stream.Read(s.first[:])
	if err != nil || n == 0 {
		_ = s.Stream.Close()
		c.give(true)
		c.refill()
		return
	}
	s.rest = s.first[:n]
	c.mu.Lock()
	c.idle--
	c.mu.Unlock()
	c.refill()
	select {
	case c.begun <- s:
	case <-c.done:
		_ = s.Close()
	}
}

// call is a stream as a net.Conn.
type call struct {
	*yamux.Stream

	calls *Calls
	first [1]byte
	rest  []byte       // read already
	taken atomic.Int64 // bytes since its buffer was last let go of
	once  sync.Once
}

// mostKept is how much may have come through a stream's buffer, in bytes, before
// the buffer is let go of when it is answered: yamux keeps it at its largest, and
// an answer may last for minutes after a large request.
const mostKept = 16 << 10

// Read reads what the sandbox sends.
func (s *call) Read(p []byte) (int, error) {
	if len(s.rest) > 0 && len(p) > 0 {
		n := copy(p, s.rest)
		s.rest = s.rest[n:]
		return n, nil
	}
	n, err := s.Stream.Read(p)
	s.taken.Add(int64(n))
	return n, err
}

// Write writes a part of an answer.
func (s *call) Write(p []byte) (int, error) {
	if s.taken.Load() > mostKept {
		s.taken.Store(0)
		s.Shrink() // if it is empty
	}
	return s.Stream.Write(p)
}

// Close ends the connection.
func (s *call) Close() error {
	err := s.Stream.Close()
	s.once.Do(func() {
		s.calls.give(false)
		s.calls.refill()
	})
	return err
}

// Caller is the sandbox's end of a wire for calls.
type Caller struct {
	session *yamux.Session
	buffers sync.Pool // of *[relayMost]byte
}

// NewCaller starts the sandbox's end on conn.
func NewCaller(conn io.ReadWriteCloser) (*Caller, error) {
	s, err := yamux.Server(joinWrites(swift(conn)), settings())
	if err != nil {
		return nil, fmt.Errorf("start wire: %w", err)
	}
	return &Caller{session: s, buffers: sync.Pool{New: func() any { return new([relayMost]byte) }}}, nil
}

// Dial returns a connection to the host's listener, waiting for one as long as
// the wire lasts. The host learns of it with the first byte that is written.
func (c *Caller) Dial() (net.Conn, error) {
	s, err := c.session.AcceptStream()
	if err != nil {
		return nil, fmt.Errorf("accept stream: %w", err)
	}
	return s, nil
}

// Forward passes the connections of a listener on until the wire is lost, and
// closes it. One that has said nothing takes no stream, so that none of the few
// that wait is held by a program that connects ahead of its use. There are
// MaxCalls at a time; more wait in the listener's queue.
func (c *Caller) Forward(l net.Listener) {
	places := make(chan struct{}, MaxCalls)
	go func() {
		<-c.session.CloseChan()
		_ = l.Close()
	}()
	for {
		select {
		case places <- struct{}{}:
		case <-c.session.CloseChan():
			return
		}
		inside, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as no descriptor left
			<-places
			select {
			case <-time.After(acceptPause):
				continue
			case <-c.session.CloseChan():
				return
			}
		}
		go func() {
			defer func() { <-places }()
			c.pass(inside)
		}()
	}
}

// acceptPause is how long nothing is accepted when that failed.
const acceptPause = 20 * time.Millisecond

// pass waits for the first bytes of a connection and passes it on.
func (c *Caller) pass(inside net.Conn) {
	in, err := c.intake(inside)
	if err == nil {
		err = in.conn.Wait()
	}
	var call net.Conn
	if err == nil {
		call, err = c.Dial()
	}
	if err != nil {
		_ = inside.Close()
		return
	}
	relay(in, call)
}

// relay passes bytes between a connection inside and one of the wire until
// both directions have ended. It closes both.
func relay(in *intake, call net.Conn) {
	inside := in.conn
	defer inside.Close()
	defer call.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		err := copySmall(inside, call)
		if err != nil { // nobody reads inside any more: nothing needs to come
			_ = call.SetReadDeadline(time.Unix(1, 0))
		}
		_ = inside.Close()
	}()
	err := in.copy(call)
	_ = call.Close() // the host sees the end; its answer may still come
	if err != nil && !errors.Is(err, net.ErrClosed) {
		_ = inside.Close()
	}
	<-answered
}

// Sizes of a relay's buffers, in bytes. That for answers is small, because there
// may be hundreds of connections that wait for the next piece of one, and grows
// while a long one fills it. What comes from inside is waited for without any.
const (
	relayLeast = 4 << 10
	relayMost  = 64 << 10
)

func copySmall(to io.Writer, from io.Reader) error {
	least := make([]byte, relayLeast)
	for buf := least; ; {
		got, err := from.Read(buf)
		if got > 0 {
			if _, err := to.Write(buf[:got]); err != nil {
				return err //nolint:wrapcheck // it is only looked whether there is one
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err //nolint:wrapcheck // likewise
		case got < len(buf):
			buf = least
		case got < relayMost:
			buf = make([]byte, 4*got)
		}
	}
}
