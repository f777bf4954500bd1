package embedded

import (
	"io"
	"net"
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/socket/netstack"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/usermem"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/bailey-dev/bailey/internal/wire"
)

// passCalls listens at wire.ModelAddr in the sandbox's network and passes what
// connects there on over the wire. The first process could do that too, and
// does where the kernel is the host's; but each message would then wake it
// twice, and waking a process is dear in gVisor.
func passCalls(t *kernel.Task, args arch.SyscallArguments) error {
	if err := mayAsk(t); err != nil {
		return err
	}
	stack, ok := t.NetworkNamespace().Stack().(*netstack.Stack)
	if !ok {
		return linuxerr.EOPNOTSUPP
	}
	file := t.GetFile(args[1].Int())
	if file == nil {
		return linuxerr.EBADF
	}
	f, err := newKernelFile(t.Kernel().SupervisorContext(), file)
	if err != nil {
		return err
	}
	l, err := listenInside(stack, netip.MustParseAddrPort(wire.ModelAddr))
	if err != nil {
		_ = f.Close() // it never fails
		return err
	}
	caller, err := wire.NewCaller(f)
	if err != nil {
		_, _ = l.Close(), f.Close()
		return linuxerr.EINVAL
	}
	go caller.Forward(l)
	return nil
}

// kernelFile is an open file of the sandbox's kernel, used by the kernel itself.
type kernelFile struct {
	ctx           context.Context // of gVisor's kernel
	file          *vfs.FileDescription
	full, free    chan struct{}
	reads, writes waiter.Entry
}

// newKernelFile takes over the reference to file.
func newKernelFile(ctx context.Context, file *vfs.FileDescription) (*kernelFile, error) {
	f := &kernelFile{ctx: ctx, file: file}
	f.reads, f.full = waiter.NewChannelEntry(readable)
	f.writes, f.free = waiter.NewChannelEntry(waiter.WritableEvents | waiter.EventHUp | waiter.EventErr)
	if err := file.EventRegister(&f.reads); err != nil {
		file.DecRef(ctx)
		return nil, err
	}
	if err := file.EventRegister(&f.writes); err != nil {
		file.EventUnregister(&f.reads)
		file.DecRef(ctx)
		return nil, err
	}
	return f, nil
}

// Read waits for something, and reads.
func (f *kernelFile) Read(p []byte) (int, error) {
	for {
		n, err := f.file.Read(f.ctx, usermem.BytesIOSequence(p), vfs.ReadOptions{})
		switch {
		case n > 0:
			return int(n), nil
		case linuxerr.Equals(linuxerr.ErrWouldBlock, err) || linuxerr.Equals(linuxerr.EAGAIN, err):
			<-f.full
		case err == nil && len(p) > 0:
			return 0, io.EOF
		default:
			return 0, err
		}
	}
}

// Write writes all of p.
func (f *kernelFile) Write(p []byte) (done int, err error) {
	for done < len(p) {
		n, err := f.file.Write(f.ctx, usermem.BytesIOSequence(p[done:]), vfs.WriteOptions{})
		done += int(n)
		switch {
		case linuxerr.Equals(linuxerr.ErrWouldBlock, err) || linuxerr.Equals(linuxerr.EAGAIN, err):
			<-f.free
		case err != nil:
			return done, err
		}
	}
	return done, nil
}

// Close lets go of the file.
func (f *kernelFile) Close() error {
	f.file.EventUnregister(&f.reads)
	f.file.EventUnregister(&f.writes)
	f.file.DecRef(f.ctx)
	return nil
}

// listener is a listener in the sandbox's network.
type listener struct {
	ep     tcpip.Endpoint
	wq     *waiter.Queue
	entry  waiter.Entry
	comes  chan struct{}
	closed chan struct{}
	addr   netip.AddrPort
}

// backlog is how many connections wait to be accepted.
const backlog = 4096

func listenInside(s *netstack.Stack, at netip.AddrPort) (*listener, error) {
	l := &listener{wq: new(waiter.Queue), closed: make(chan struct{}), addr: at}
	ep, err := s.Stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, l.wq)
	if err != nil {
		return nil, linuxerr.ENOMEM
	}
	l.ep = ep
	if err := ep.Bind(tcpip.FullAddress{Addr: tcpip.AddrFrom4(at.Addr().As4()), Port: at.Port()}); err != nil {
		ep.Close()
		return nil, linuxerr.EADDRINUSE
	}
	if err := ep.Listen(backlog); err != nil {
		ep.Close()
		return nil, linuxerr.EADDRINUSE
	}
	l.entry, l.comes = waiter.NewChannelEntry(waiter.ReadableEvents)
	l.wq.EventRegister(&l.entry)
	return l, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		ep, wq, err := l.ep.Accept(nil)
		if err == nil {
			return newInside(ep, wq), nil
		}
		if _, ok := err.(*tcpip.ErrWouldBlock); !ok {
			return nil, net.ErrClosed
		}
		select {
		case <-l.comes:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener. It is called once.
func (l *listener) Close() error {
	close(l.closed)
	l.ep.Close()
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }

// inside is a connection of a program in the sandbox (wire.Inside).
type inside struct {
	*gonet.TCPConn

	ep     tcpip.Endpoint
	entry  waiter.Entry
	comes  chan struct{}
	closed chan struct{}
	once   sync.Once
}

const readable = waiter.ReadableEvents | waiter.EventHUp | waiter.EventErr

func newInside(ep tcpip.Endpoint, wq *waiter.Queue) *inside {
	c := &inside{TCPConn: gonet.NewTCPConn(wq, ep), ep: ep, closed: make(chan struct{})}
	c.entry, c.comes = waiter.NewChannelEntry(readable)
	wq.EventRegister(&c.entry)
	ep.SocketOptions().SetDelayOption(false)
	return c
}

// Wait implements wire.Inside.
func (c *inside) Wait() error {
	if err := c.ready(); err != nil {
		return err
	}
	if _, err := c.ep.Read(io.Discard, tcpip.ReadOptions{Peek: true}); err != nil {
		return io.EOF // or it is broken, which is the same to the caller
	}
	return nil
}

// ready waits until there is something to be read, or nothing will ever be.
func (c *inside) ready() error {
	for c.ep.Readiness(readable) == 0 {
		select {
		case <-c.comes:
		case <-c.closed:
			return net.ErrClosed
		}
	}
	return nil
}

// Close ends it, and whoever waits.
func (c *inside) Close() error {
	c.once.Do(func() {
		close(c.closed)
		_ = c.TCPConn.Close() // it never fails
	})
	return nil
}

// ReadInto implements wire.Inside.
func (c *inside) ReadInto(take func() []byte, giveBack func()) (int, error) {
	if err := c.ready(); err != nil {
		return 0, err
	}
	n, err := c.Read(take())
	if n == 0 {
		giveBack()
	}
	return n, err
}
