package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
)

// FD is the descriptor that holds the wire inside the sandbox, and ModelFD that
// of the wire to the model gateway, in a sandbox that has one.
const (
	FD      = 3
	ModelFD = 4

	// PassCalls is the number of a prctl(2) that only gVisor's kernel knows, and
	// only a sandbox's first process may make, before it has started another: it
	// has the kernel itself pass model calls on over the wire whose descriptor is
	// the one argument. Linux has no option of this number and answers EINVAL.
	PassCalls = 0x62616c7a
)

// ModelAddr is where model calls are taken inside a sandbox.
const ModelAddr = "127.0.0.1:4749"

// window is how many bytes of one stream may wait on the receiving side.
const window = 256 << 10

// closeWait bounds how long the memory of a stream that we closed and the
// other side did not is kept.
const closeWait = time.Minute

// Pair makes the two ends of a wire: a stream socket for the host, which the
// runtime's poller serves, and one to be handed to the sandbox. The caller
// closes both.
func Pair() (host, sandbox *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make wire: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "wire"), os.NewFile(uintptr(fds[1]), "wire"), nil
}

// Host is the host's end of a wire.
type Host struct {
	session *yamux.Session
	asking  sync.WaitGroup

	mu     sync.Mutex
	closed bool // nobody asks any more
}

// NewHost starts the host's end on conn, which it closes in Close. Everything
// read from conn is held to the rules of the package.
func NewHost(conn io.ReadWriteCloser) (*Host, error) {
	s, err := yamux.Client(&guard{ReadWriteCloser: joinWrites(conn)}, settings())
	if err != nil {
		return nil, fmt.Errorf("start wire: %w", err)
	}
	return &Host{session: s}, nil
}

// Open opens a stream. It does not wait for sandboxd to run: what is written
// before waits in the socket. When that is full, because the sandbox reads
// nothing, this and every use of a stream but Read wait until Close.
func (h *Host) Open() (io.ReadWriteCloser, error) {
	s, err := h.session.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	return s, nil
}

// Ping returns when sandboxd has answered, or the context ends, or the wire
// is lost.
func (h *Host) Ping(ctx context.Context) error { return h.ask(ctx, &Header{Op: OpPing}) }

// Model asks sandboxd to take model calls, and returns when it does.
func (h *Host) Model(ctx context.Context) error { return h.ask(ctx, &Header{Op: OpModel}) }

// Hide has files of a mount hidden, and returns when they are: by then nothing
// may have been started.
func (h *Host) Hide(ctx context.Context, what Hide) error {
	return h.ask(ctx, &Header{Op: OpHide, Hide: what})
}

// Shutdown asks sandboxd to end every process: SIGTERM, SIGKILL a second
// later. It returns when they are gone and sandboxd is about to exit.
func (h *Host) Shutdown(ctx context.Context) error { return h.ask(ctx, &Header{Op: OpShutdown}) }

// ask returns by the end of ctx, whatever the sandbox does: when it reads
// nothing, yamux waits without a bound to open a stream, to write to it and to
// close it. The question then waits for the answer or for Close.
func (h *Host) ask(ctx context.Context, question *Header) error {
	answer := make(chan error, 1)
	h.mu.Lock()
	if !h.closed {
		h.asking.Go(func() { answer <- h.exchange(ctx, question) })
	} else {
		answer <- fmt.Errorf("ask sandboxd: %w", os.ErrClosed)
	}
	h.mu.Unlock()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *Host) exchange(ctx context.Context, question *Header) error {
	s, err := h.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { _ = setDeadline(s, time.Unix(1, 0)) })
	defer stop()
	if err := WriteHeader(s, question); err != nil {
		return err
	}
	f, err := NewReader(s, FromSandbox).Next()
	switch {
	case err != nil:
		return fmt.Errorf("ask sandboxd: %w", err)
	case f.Type == Failed:
		_, message, _ := f.Failure()
		return fmt.Errorf("ask sandboxd: %q", message)
	case f.Type != Ready:
		return fmt.Errorf("ask sandboxd: answer of type %d: %w", f.Type, ErrFrame)
	}
	return nil
}

func setDeadline(s io.ReadWriteCloser, t time.Time) error {
	if d, ok := s.(interface{ SetDeadline(time.Time) error }); ok {
		return d.SetDeadline(t)
	}
	return errors.ErrUnsupported
}

// Done is closed when the wire is lost or closed: the sandbox has ended, has
// broken the rules, or Close was called.
func (h *Host) Done() <-chan struct{} { return h.session.CloseChan() }

// Close ends every stream and closes the connection.
func (h *Host) Close() error {
	err := h.session.Close()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.asking.Wait()
	if err != nil {
		return fmt.Errorf("close wire: %w", err)
	}
	return nil
}

// Sandbox is the sandbox's end of a wire.
type Sandbox struct {
	session *yamux.Session
}

// NewSandbox starts the sandbox's end on conn.
func NewSandbox(conn io.ReadWriteCloser) (*Sandbox, error) {
	s, err := yamux.Server(joinWrites(conn), settings())
	if err != nil {
		return nil, fmt.Errorf("start wire: %w", err)
	}
	return &Sandbox{session: s}, nil
}

// Accept waits for the next stream that the host opens. Its error means that
// the wire is lost.
func (s *Sandbox) Accept() (io.ReadWriteCloser, error) {
	stream, err := s.session.AcceptStream()
	if err != nil {
		return nil, fmt.Errorf("accept stream: %w", err)
	}
	return stream, nil
}

// Close ends every stream and closes the connection.
func (s *Sandbox) Close() error {
	if err := s.session.Close(); err != nil {
		return fmt.Errorf("close wire: %w", err)
	}
	return nil
}

// settings are yamux's. No timer may end the wire: a person can suspend the
// host's end for days.
func settings() *yamux.Config {
	return &yamux.Config{
		AcceptBacklog:          64, // also bounds how many opens may be unanswered
		EnableKeepAlive:        false,
		KeepAliveInterval:      math.MaxInt64,
		ConnectionWriteTimeout: math.MaxInt64,
		MaxStreamWindowSize:    window,
		StreamOpenTimeout:      0,
		StreamCloseTimeout:     closeWait,
		LogOutput:              io.Discard,
	}
}

// joiner makes one write of yamux's two (a header, then its body): a system
// call costs more than the copy, above all inside gVisor. One goroutine of
// yamux does all the writing.
type joiner struct {
	io.ReadWriteCloser

	buf  []byte
	held int // bytes of a header that wait in buf
}

func joinWrites(conn io.ReadWriteCloser) io.ReadWriteCloser {
	return &joiner{ReadWriteCloser: conn}
}

func (j *joiner) Write(p []byte) (int, error) {
	if j.held == 0 {
		if !isDataHeader(p) {
			return j.ReadWriteCloser.Write(p)
		}
		j.buf = append(j.buf[:0], p...)
		j.held = len(p)
		return len(p), nil
	}
	j.buf = append(j.buf, p...)
	j.held = 0
	if _, err := j.ReadWriteCloser.Write(j.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}
