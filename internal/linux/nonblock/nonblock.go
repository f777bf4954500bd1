package nonblock

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"unsafe"
)

// Conn is a socket that the runtime polls. Reads and writes may go on at the same
// time.
type Conn struct {
	io.Closer

	raw syscall.RawConn
}

// Socket is what net and os have for one.
type Socket interface {
	io.Closer
	syscall.Conn
}

// New returns a Conn for a socket, which goes on to hold the descriptor and its
// deadlines.
func New(s Socket) (*Conn, error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("use a socket: %w", err)
	}
	return &Conn{s, raw}, nil
}

// Read waits for something, and reads. The error of the end is io.EOF.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return c.ReadInto(func() []byte { return p }, nil)
}

// ReadInto waits without a buffer: it takes one for each try, and gives it back
// after one that read nothing.
func (c *Conn) ReadInto(take func() []byte, giveBack func()) (n int, err error) {
	ended := c.raw.Read(func(fd uintptr) bool {
		n, err = once(syscall.SYS_READ, fd, take())
		if n == 0 && giveBack != nil {
			giveBack()
		}
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case ended != nil:
		return 0, ended //nolint:wrapcheck // net.ErrClosed and the like are told apart
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// Wait waits for something to be read, and leaves it there. The error of the end
// is io.EOF.
func (c *Conn) Wait() (err error) {
	var n int
	var one [1]byte
	ended := c.raw.Read(func(fd uintptr) bool {
		for again := true; again; again = errors.Is(err, syscall.EINTR) {
			n, _, err = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		}
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case ended != nil:
		return ended //nolint:wrapcheck // as above
	case err == nil && n == 0:
		return io.EOF
	}
	return err //nolint:wrapcheck // as above
}

// Write writes all of p.
func (c *Conn) Write(p []byte) (int, error) {
	var done int
	var err error
	ended := c.raw.Write(func(fd uintptr) bool {
		for done < len(p) && err == nil {
			var n int
			n, err = once(syscall.SYS_WRITE, fd, p[done:])
			done += n
		}
		if errors.Is(err, syscall.EAGAIN) {
			err = nil
			return false
		}
		return true
	})
	if ended != nil {
		return done, ended //nolint:wrapcheck // as above
	}
	return done, err
}

// once reads or writes once; p is not empty.
func once(call, fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
