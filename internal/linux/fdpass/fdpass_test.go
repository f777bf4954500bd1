package fdpass_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/fdpass"
)

func pair(t *testing.T, flags int) (a, b *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b = os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

type filer interface{ File() (*os.File, error) }

func file(t *testing.T, c filer, err error) *os.File {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func sockets(t *testing.T) (tcp, udp *os.File, addr string) {
	t.Helper()
	ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	tcp = file(t, ln, err)
	t.Cleanup(func() { _ = ln.Close() })
	pc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	udp = file(t, pc, err)
	t.Cleanup(func() { _ = pc.Close() })
	return tcp, udp, ln.Addr().String()
}

func TestListeners_CrossTheSocketAndServe(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]int{"blocking": 0, "non-blocking": unix.SOCK_NONBLOCK} {
		a, b := pair(t, flags)
		tcp, udp, addr := sockets(t)
		sent := make(chan error, 1)
		go func() { sent <- fdpass.SendListeners(a, tcp, udp, tcp) }()
		got, err := fdpass.ReceiveListeners(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := <-sent; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ln, err := net.FileListener(got.TCP)
		if err != nil {
			t.Fatal(err)
		}
		if ln.Addr().String() != addr {
			t.Errorf("%s: listener is at %s, want %s", name, ln.Addr(), addr)
		}
		if _, err := net.FilePacketConn(got.DNSUDP); err != nil {
			t.Error(err)
		}
		if err := got.Close(); err != nil {
			t.Error(err)
		}
		_ = ln.Close()
	}
}

func TestReceiveListeners_Refuses(t *testing.T) {
	tcp, udp, _ := sockets(t)
	before := openFiles(t)
	for want, send := range map[string]func(a *os.File) error{
		"closed the socket first": func(a *os.File) error { return a.Close() },
		"holds 0 descriptors":     func(a *os.File) error { _, err := a.Write([]byte{0}); return err },
		"descriptor 0":            func(a *os.File) error { return fdpass.SendListeners(a, udp, udp, tcp) },
		"descriptor 1":            func(a *os.File) error { return fdpass.SendListeners(a, tcp, tcp, tcp) },
		"descriptor 2":            func(a *os.File) error { return fdpass.SendListeners(a, tcp, udp, a) },
		"holds 4 descriptors": func(a *os.File) error {
			fd := int(tcp.Fd())
			return unix.Sendmsg(int(a.Fd()), []byte{0}, unix.UnixRights(fd, fd, fd, fd), nil, 0)
		},
		"holds too much": func(a *os.File) error {
			fds := make([]int, 40)
			for i := range fds {
				fds[i] = int(tcp.Fd())
			}
			return unix.Sendmsg(int(a.Fd()), []byte{0}, unix.UnixRights(fds...), nil, 0)
		},
	} {
		a, b := pair(t, 0)
		if err := send(a); err != nil {
			t.Fatalf("%s: send: %v", want, err)
		}
		if _, err := fdpass.ReceiveListeners(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
		_ = a.Close()
		_ = b.Close()
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors are open, %d were before: some leaked", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
