package airlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/linux/origdst"
)

// atOnce is how long a refusal may take before a program would call it slow.
const atOnce = 200 * time.Millisecond

// proxy stands outside and accepts what arrives at the listeners.
type proxy struct {
	arrived chan arrival
}

type arrival struct {
	listener string
	from, to netip.AddrPort
	text     string // of a datagram
}

func serve(t *testing.T, l *airlock.Lock) *proxy {
	t.Helper()
	p := &proxy{arrived: make(chan arrival, 100)}
	for name, f := range map[string]*os.File{"tcp": l.TCP, "dns-tcp": l.DNSTCP} {
		ln, err := net.FileListener(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		go p.accept(name, ln.(*net.TCPListener))
	}
	pc, err := net.FilePacketConn(l.DNSUDP)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	go p.answer(pc.(*net.UDPConn))
	return p
}

func (p *proxy) accept(name string, ln *net.TCPListener) {
	for {
		c, err := ln.AcceptTCP()
		if err != nil {
			return
		}
		to, _ := origdst.Of(c)
		_, _ = io.WriteString(c, "hello from the proxy")
		_ = c.Close()
		p.arrived <- arrival{listener: name, from: c.RemoteAddr().(*net.TCPAddr).AddrPort(), to: to}
	}
}

func (p *proxy) answer(pc *net.UDPConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := pc.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		_, _ = pc.WriteToUDPAddrPort([]byte("answer"), from)
		p.arrived <- arrival{listener: "dns-udp", from: from, text: string(buf[:n])}
	}
}

func (p *proxy) next(t *testing.T) arrival {
	t.Helper()
	select {
	case a := <-p.arrived:
		return a
	case <-time.After(5 * time.Second):
		t.Fatal("nothing arrived at the proxy")
		return arrival{}
	}
}

func (p *proxy) nothing(t *testing.T) {
	t.Helper()
	select {
	case a := <-p.arrived:
		t.Errorf("the proxy got %+v", a)
	default:
	}
}

func dial(t *testing.T, l *airlock.Lock, to string) net.Conn {
	t.Helper()
	var c net.Conn
	inside(t, l, func() (err error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		c, err = d.DialContext(t.Context(), "tcp4", to)
		return err
	})
	return c
}

func TestTCP_EndsAtTheProxyWithItsDestination(t *testing.T) {
	t.Parallel()
	l := build(t)
	p := serve(t, l)
	for _, tc := range []struct{ to, listener string }{
		{"93.184.215.14:443", "tcp"},
		{"169.254.169.254:80", "tcp"}, // the proxy decides, not the rules
		{"10.0.0.1:22", "tcp"},
		{"192.0.0.1:8888", "tcp"}, // the gateway itself
		{"192.0.0.1:15001", "tcp"},
		{"192.0.0.1:15053", "tcp"},
		{"8.8.8.8:53", "dns-tcp"},
		{"192.0.0.1:53", "dns-tcp"},
	} {
		c := dial(t, l, tc.to)
		text, err := io.ReadAll(c)
		if err != nil || string(text) != "hello from the proxy" {
			t.Errorf("%s: read %q, %v", tc.to, text, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		got := p.next(t)
		want := arrival{listener: tc.listener, from: got.from, to: netip.MustParseAddrPort(tc.to)}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(arrival{}), cmp.Comparer(equalAddrPort)); diff != "" {
			t.Errorf("%s: %s", tc.to, diff)
		}
		if got.from.Addr() != airlock.Address().Addr() {
			t.Errorf("%s: came from %s", tc.to, got.from)
		}
	}
}

func equalAddrPort(a, b netip.AddrPort) bool { return a == b }

func TestDNS_IsAnsweredWhomeverItAsks(t *testing.T) {
	t.Parallel()
	l := build(t)
	p := serve(t, l)
	for _, to := range []string{"192.0.0.1:53", "8.8.8.8:53", "169.254.169.253:53"} {
		c := dialUDP(t, l, to)
		if _, err := io.WriteString(c, to); err != nil {
			t.Fatal(err)
		}
		if got := p.next(t); got.listener != "dns-udp" || got.text != to {
			t.Errorf("%s: the proxy got %+v", to, got)
		}
		buf := make([]byte, 100)
		n, err := c.Read(buf) // connected: only an answer from the address asked counts
		if err != nil || string(buf[:n]) != "answer" {
			t.Errorf("%s: answer %q, %v", to, buf[:n], err)
		}
	}
}

func dialUDP(t *testing.T, l *airlock.Lock, to string) net.Conn {
	t.Helper()
	var c net.Conn
	inside(t, l, func() (err error) {
		c, err = (&net.Dialer{}).DialContext(t.Context(), "udp4", to)
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestUDP_IsRefusedAtOnce sends many, since the kernel would by default let
// only the first few rejections through in a second.
func TestUDP_IsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	l := build(t)
	p := serve(t, l)
	for _, to := range []string{"1.2.3.4:443", "1.2.3.4:123", "192.0.0.1:443", "192.0.0.1:15053", "10.0.0.1:5353"} {
		for range 20 {
			c := dialUDP(t, l, to)
			start := time.Now()
			if _, err := io.WriteString(c, "x"); err != nil {
				t.Fatal(err)
			}
			_, err := c.Read(make([]byte, 1))
			if took := time.Since(start); !errors.Is(err, syscall.ECONNREFUSED) || took > atOnce {
				t.Fatalf("%s: %v after %s, want ECONNREFUSED at once", to, err, took)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	p.nothing(t)
}

// TestRaw_IsRefusedAtOnce covers what is neither TCP nor UDP.
func TestRaw_IsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	needRaw(t)
	for name, proto := range map[string]int{
		"ICMP": unix.IPPROTO_ICMP, "SCTP": unix.IPPROTO_SCTP, "6in4": unix.IPPROTO_IPV6, "IPIP": unix.IPPROTO_IPIP,
		"GRE": unix.IPPROTO_GRE, "ESP": unix.IPPROTO_ESP, "UDP-Lite": unix.IPPROTO_UDPLITE, "DCCP": unix.IPPROTO_DCCP, "253": 253,
	} {
		for _, to := range []string{"1.2.3.4", "192.0.0.1"} {
			t.Run(name+" "+to, func(t *testing.T) {
				t.Parallel()
				inside(t, build(t), func() error { return rawRefused(proto, netip.MustParseAddr(to)) })
			})
		}
	}
}

func needRaw(t *testing.T) {
	t.Helper()
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP); err == nil {
		_ = unix.Close(fd)
	} else {
		t.Fatalf("raw socket: %v", err)
	}
}

var errSilence = errors.New("no answer")

// rawRefused sends one packet and waits for the error that the answer raises.
func rawRefused(proto int, to netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, proto)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVERR, 1); err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
		return err
	}
	echo := []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0} // ICMP echo request, checksum right
	if err := unix.Send(fd, echo, 0); err != nil {
		return err
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, int(atOnce/time.Millisecond))
	if err == nil && n == 0 {
		err = errSilence
	}
	if err != nil {
		return err
	}
	soErr, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if got := syscall.Errno(soErr); err == nil && got != syscall.EHOSTUNREACH {
		err = fmt.Errorf("got %w, want EHOSTUNREACH", got)
	}
	return err
}

func TestIPv6_FailsAtOnceAndLoopbackLives(t *testing.T) {
	t.Parallel()
	l := build(t)
	for _, network := range []string{"tcp6", "udp6"} {
		start := time.Now()
		err := tryInside(l, func() error {
			c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(context.Background(), network, "[2606:4700::1111]:443")
			if err == nil {
				_ = c.Close()
			}
			return err
		})
		if took := time.Since(start); !errors.Is(err, syscall.ENETUNREACH) || took > atOnce {
			t.Errorf("%s: %v after %s, want ENETUNREACH at once", network, err, took)
		}
	}
	inside(t, l, func() error {
		for _, at := range []string{"[::1]:0", "127.0.0.1:0"} {
			ln, err := net.Listen("tcp", at)
			if err != nil {
				return err
			}
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				return err
			}
			if err := errors.Join(c.Close(), ln.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestSpoof_IsDropped(t *testing.T) {
	t.Parallel()
	needRaw(t)
	l, err := airlock.BuildWith(airlock.Rules())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p := serve(t, l)
	for _, from := range []string{"192.0.0.3", "10.0.0.7", "127.0.0.1", "8.8.8.8", "192.0.0.1", "255.255.255.255"} {
		inside(t, l, func() error { return sendUDP(netip.MustParseAddr(from), airlock.Gateway(), "spoofed") })
	}
	// The positive twin: the same bytes by the same socket from the right
	// address. It comes after the others, so that they were dropped by then.
	inside(t, l, func() error { return sendUDP(airlock.Address().Addr(), airlock.Gateway(), "mine") })
	if got := p.next(t); got.text != "mine" || got.from.Addr() != airlock.Address().Addr() {
		t.Errorf("A121: the proxy got %+v first", got)
	}
	p.nothing(t)
}

// sendUDP writes one UDP datagram to port 53 with any source address.
func sendUDP(from, to netip.Addr, text string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	udp := append([]byte{0x30, 0x39, 0, 53, 0, byte(8 + len(text)), 0, 0}, text...) // checksum 0: none
	ip := []byte{0x45, 0, 0, byte(20 + len(udp)), 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	src, dst := from.As4(), to.As4()
	packet := append(append(append(ip, src[:]...), dst[:]...), udp...)
	return unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: dst})
}

func TestLoopbackDestination_IsDropped(t *testing.T) {
	t.Parallel()
	needRaw(t)
	l := build(t)
	p := serve(t, l)
	// Routed out by eth0 as no honest program would: by binding to the device.
	inside(t, l, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "eth0"); err != nil {
			return err
		}
		err = unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 1}})
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENETUNREACH) {
			return err
		}
		return sendUDP(airlock.Address().Addr(), airlock.Gateway(), "mine")
	})
	if got := p.next(t); got.text != "mine" {
		t.Errorf("A068: the proxy got %+v first", got)
	}
}

func TestTwoLocks_DoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	a, b := build(t), build(t)
	pa, pb := serve(t, a), serve(t, b)
	inside(t, a, func() error {
		ln, err := net.Listen("tcp4", "192.0.0.2:9999") // the same address as b's
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = ln.Close() })
		return nil
	})
	c := dial(t, a, "203.0.113.1:80")
	_ = c.Close()
	pa.next(t)
	pb.nothing(t)
	err := tryInside(b, func() error {
		c, err := net.DialTimeout("tcp4", "192.0.0.2:9999", time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("b's own port 9999: %v, want ECONNREFUSED", err)
	}
	pa.nothing(t)
}

// TestClosedListeners_LeaveNoRoute is the crash of a proxy (A130).
func TestClosedListeners_LeaveNoRoute(t *testing.T) {
	t.Parallel()
	l := build(t)
	ns := l.Sandbox
	for _, f := range []*os.File{l.TCP, l.DNSUDP, l.DNSTCP} {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for {
		var names []string
		inside(t, &airlock.Lock{Sandbox: ns}, func() (err error) {
			names, err = links()
			return err
		})
		if cmp.Equal(names, []string{"lo"}) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("A130: links %v are left after the listeners were closed", names)
		}
	}
	err := tryInside(l, func() error {
		c, err := net.DialTimeout("tcp4", "203.0.113.1:80", time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("got %v, want ENETUNREACH", err)
	}
}
