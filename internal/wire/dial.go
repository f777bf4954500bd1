package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// MaxAddress is the most bytes of an address that a program inside has opened.
const MaxAddress = 8 << 10

// ErrNothingListens is wrapped by Dial's error when nothing inside takes
// connections at the port.
var ErrNothingListens = errors.New("nothing listens there")

// Half is a connection of which each direction can end by itself.
type Half interface {
	net.Conn
	CloseWrite() error
}

// Dial has sandboxd connect to a port of the sandbox's loopback, and passes
// bytes between that and conn until both directions have ended or one is lost.
// It closes conn but for an error from before that: ErrNothingListens, or a
// lost wire.
func (h *Host) Dial(ctx context.Context, port uint16, conn Half) error {
	s, err := h.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = setDeadline(s, time.Unix(1, 0))
		_ = conn.Close()
	})
	defer stop()
	if err := WriteHeader(s, &Header{Op: OpDial, Port: port}); err != nil {
		return err
	}
	frames := NewReader(s, FromSandbox)
	f, err := frames.Next()
	switch {
	case err != nil:
		return fmt.Errorf("connect inside: %w", err)
	case f.Type == Failed:
		return fmt.Errorf("connect inside to port %d: %w", port, ErrNothingListens) // what the sandbox says of it is of no use
	case f.Type != Ready:
		return fmt.Errorf("connect inside: answer of type %d: %w", f.Type, ErrFrame)
	}
	passing{frames: frames, w: NewWriter(s), stream: s, conn: conn, bytes: Stdin, end: StdinEOF}.run()
	return nil
}

// Joined passes bytes between a stream of OpDial, inside, and the connection
// that it asked for.
func Joined(stream io.ReadWriteCloser, conn Half) {
	passing{frames: NewReader(stream, FromHost), w: NewWriter(stream), stream: stream, conn: conn, bytes: Stdout, end: StdoutEOF}.run()
}

// passing is the traffic of one connection over a stream.
type passing struct {
	frames *Reader // of the other side
	w      *Writer
	stream io.ReadWriteCloser
	conn   Half
	bytes  Type // of what this side sends
	end    Type // when there is no more
}

func (p passing) run() {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p.send()
	}()
	p.receive()
	<-sent
	p.abort()
}

// abort ends both directions. The other side sees the end of a stream that did
// not say so first.
func (p passing) abort() {
	_ = setDeadline(p.stream, time.Unix(1, 0))
	_ = p.stream.Close()
	_ = p.conn.Close()
}

func (p passing) send() {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.conn.Read(buf)
		if n > 0 && p.w.Send(p.bytes, buf[:n]) != nil {
			p.abort()
			return
		}
		if errors.Is(err, io.EOF) {
			_ = p.w.Send(p.end, nil) // a lost stream shows in receive
			return
		}
		if err != nil {
			p.abort()
			return
		}
	}
}

func (p passing) receive() {
	for {
		f, err := p.frames.Next()
		switch {
		case err == nil && (f.Type == Stdin || f.Type == Stdout):
			if _, err := p.conn.Write(f.Payload); err != nil {
				p.abort()
				return
			}
		case err == nil && (f.Type == StdinEOF || f.Type == StdoutEOF):
			_ = p.conn.CloseWrite() // a lost connection shows in send
			return
		default:
			p.abort()
			return
		}
	}
}

// Addresses has sandboxd take addresses that programs inside want opened in a
// browser, and answers each by answer, one after the other, until the context
// ends or the wire is lost. What it answers is cut to a frame.
func (h *Host) Addresses(ctx context.Context, answer func(address string) string) error {
	s, err := h.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { _ = setDeadline(s, time.Unix(1, 0)) })
	defer stop()
	if err := WriteHeader(s, &Header{Op: OpOpen}); err != nil {
		return err
	}
	frames, w := NewReader(s, FromSandbox), NewWriter(s)
	for {
		f, err := frames.Next()
		if err != nil {
			return fmt.Errorf("take addresses: %w", err)
		}
		switch f.Type {
		case Ready:
			continue
		case Stdout:
		default:
			return fmt.Errorf("take addresses: frame of type %d: %w", f.Type, ErrFrame)
		}
		says := answer(string(f.Payload))
		if err := w.Send(Stdin, []byte(says[:min(len(says), MaxPayload)])); err != nil {
			return err
		}
	}
}
