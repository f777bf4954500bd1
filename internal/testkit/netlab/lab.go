package netlab

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/ca"
)

// The addresses every lab has. Those that look public do so to any
// classification: 11.0.0.0/8 and 2600::/12 are neither reserved nor special in
// the IANA registries. Own and Own6 are the host's, the others lie behind its
// one link, in the lab's other namespace, so nothing leaves the machine.
var (
	Allowed    = netip.MustParseAddr("11.0.0.10")
	Evil       = netip.MustParseAddr("11.0.0.66")
	Resolver   = netip.MustParseAddr("11.0.0.53")
	Own        = netip.MustParseAddr("11.0.0.1")
	Own6       = netip.MustParseAddr("2600:11::1")
	Allowed6   = netip.MustParseAddr("2600:11::10")
	Evil6      = netip.MustParseAddr("2600:11::66")
	Private    = netip.MustParseAddr("10.11.12.13")
	Metadata   = netip.MustParseAddr("169.254.169.254")
	Loopback4  = netip.MustParseAddr("127.0.0.1")
	Loopback6  = netip.MustParseAddr("::1")
	CanaryPort = uint16(8080) // an HTTP service on the loopback, and on Private
	EchoPort   = uint16(7)    // raw echo on Allowed and Evil
)

// Lab is one network. Its methods are safe for concurrent use.
type Lab struct {
	tb    testing.TB
	dir   string
	ns    *os.File // the host: where commands run
	world *os.File // where the servers are
	ca    *ca.CA
	dns   *zone
	tap   *tap

	mu       sync.Mutex
	hosts    map[string]http.Handler
	requests []Request
	closers  []func()
}

// Request is an HTTP request that reached a server of the lab.
type Request struct {
	Time   time.Time
	To     netip.AddrPort // the lab's address it arrived at
	TLS    string         // the server name of the handshake; empty for plain HTTP
	Proto  string         // HTTP/1.1, HTTP/2.0
	Method string
	Host   string
	Path   string // path and query as sent
	Header http.Header
}

// New makes a lab with its servers running and takes it down at the end of
// the test. It fails the test with the reason where that cannot be done.
//
// Names answered at start: allow.test, www.allow.test, api.anthropic.com,
// api.openai.com and model.test are Allowed; evil.test is Evil; six.test has
// Allowed6 alone; metadata.google.internal is Metadata; private.test is
// Private; loop.test is 127.0.0.1 and ::1. Any other name does not exist.
// Servers: HTTP on 80, HTTPS on 443 (h2 and http/1.1, a certificate for any
// name) and echo on 7 of the allowed and the evil addresses; HTTP on Metadata:80,
// Private:8080, 127.0.0.1:8080, [::1]:8080, Own:8080 and [Own6]:8080, each
// answering with its canary.
func New(tb testing.TB) *Lab {
	tb.Helper()
	dir, err := os.MkdirTemp("", "netlab-")
	if err != nil {
		tb.Fatalf("netlab: %v", err)
	}
	l := &Lab{tb: tb, dir: dir, hosts: map[string]http.Handler{}}
	tb.Cleanup(l.close)
	if err := l.open(); err != nil {
		tb.Fatalf("netlab: %v", err)
	}
	return l
}

func (l *Lab) open() error {
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return fmt.Errorf("open lab folder: %w", err)
	}
	var err error
	if l.ca, err = ca.New(time.Now()); err != nil {
		return err
	}
	if err := l.writeFiles(); err != nil {
		return err
	}
	if err := l.enter(); err != nil {
		return err
	}
	if l.tap, err = l.startTap(); err != nil {
		return err
	}
	l.dns = newZone()
	if err := l.startDNS(); err != nil {
		return err
	}
	return l.startServers()
}

func (l *Lab) writeFiles() error {
	for name, data := range map[string]string{
		"ca.pem":      string(l.ca.PEM()),
		"resolv.conf": fmt.Sprintf("nameserver %s\noptions timeout:2 attempts:1\n", Resolver),
		"hosts":       "127.0.0.1 localhost\n::1 localhost ip6-localhost\n",
	} {
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(data), 0o644); err != nil {
			return fmt.Errorf("write lab file %s: %w", name, err)
		}
	}
	return nil
}

func (l *Lab) close() {
	l.mu.Lock()
	closers := l.closers
	l.closers = nil
	l.mu.Unlock()
	for _, c := range slices.Backward(closers) {
		c()
	}
	if err := os.RemoveAll(l.dir); err != nil {
		l.tb.Errorf("netlab: remove lab folder: %v", err)
	}
}

func (l *Lab) onClose(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, f)
}

// Dir is a folder of the lab that any user can enter; it goes with the lab.
func (l *Lab) Dir() string { return l.dir }

// CAFile is the PEM file of the root that signed every certificate of the lab.
func (l *Lab) CAFile() string { return filepath.Join(l.dir, "ca.pem") }

// CA is the authority behind the lab's certificates.
func (l *Lab) CA() *ca.CA { return l.ca }

// Listen opens a TCP listener inside the lab, on the host side for an address
// of the host's and else in the world; it is closed with the lab.
func (l *Lab) Listen(address string) net.Listener {
	l.tb.Helper()
	ln, err := l.listen(address)
	if err != nil {
		l.tb.Fatalf("netlab: %v", err)
	}
	return ln
}

func (l *Lab) listen(address string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen in lab: %w", err)
	}
	var ln net.Listener
	err = l.doFor(at.Addr(), func() error {
		var err error
		ln, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s in lab: %w", address, err)
	}
	l.onClose(func() { _ = ln.Close() })
	return ln, nil
}

// ListenPacket is Listen for UDP.
func (l *Lab) ListenPacket(address string) net.PacketConn {
	l.tb.Helper()
	pc, err := l.listenPacket(address)
	if err != nil {
		l.tb.Fatalf("netlab: %v", err)
	}
	return pc
}

func (l *Lab) listenPacket(address string) (net.PacketConn, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen in lab: %w", err)
	}
	var pc net.PacketConn
	err = l.doFor(at.Addr(), func() error {
		var err error
		pc, err = net.ListenPacket("udp", address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on udp %s in lab: %w", address, err)
	}
	l.onClose(func() { _ = pc.Close() })
	return pc, nil
}
