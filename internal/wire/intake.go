package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/bailey-dev/bailey/internal/linux/nonblock"
)

// intake reads a connection in pieces that are as large as may be, since each
// costs a message on the wire. It holds a buffer only while there is something in
// it: most connections wait, some for minutes.
type intake struct {
	conn    Inside
	buffers *sync.Pool // of *[relayMost]byte
	buf     *[relayMost]byte
}

// Inside is a connection of a program in the sandbox, as a Caller passes it on.
type Inside interface {
	io.WriteCloser
	// Wait waits for something to be read, and leaves it there. The error of the
	// end is io.EOF.
	Wait() error
	// ReadInto waits without a buffer: it takes one for each try, and gives it
	// back after one that read nothing.
	ReadInto(take func() []byte, giveBack func()) (int, error)
}

func (c *Caller) intake(conn net.Conn) (*intake, error) {
	if i, ok := conn.(Inside); ok {
		return &intake{conn: i, buffers: &c.buffers}, nil
	}
	s, ok := conn.(nonblock.Socket)
	if !ok {
		return nil, fmt.Errorf("read a connection of type %T: %w", conn, errors.ErrUnsupported)
	}
	n, err := nonblock.New(s)
	if err != nil {
		return nil, err
	}
	return &intake{conn: n, buffers: &c.buffers}, nil
}

// take takes a buffer for a read.
func (in *intake) take() []byte {
	in.buf, _ = in.buffers.Get().(*[relayMost]byte)
	return in.buf[:]
}

func (in *intake) giveBack() {
	in.buffers.Put(in.buf)
	in.buf = nil
}

// copy writes what comes, up to the end.
func (in *intake) copy(to io.Writer) error {
	for {
		n, err := in.conn.ReadInto(in.take, in.giveBack)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // it is only looked whether it is net.ErrClosed
		}
		_, err = to.Write(in.buf[:n])
		in.giveBack()
		if err != nil {
			return err //nolint:wrapcheck // likewise
		}
	}
}

// swift is a connection without what the runtime does for system calls that may
// wait, where that is possible.
func swift(conn io.ReadWriteCloser) io.ReadWriteCloser {
	s, ok := conn.(nonblock.Socket)
	if !ok {
		return conn
	}
	c, err := nonblock.New(s)
	if err != nil {
		return conn
	}
	return c
}
