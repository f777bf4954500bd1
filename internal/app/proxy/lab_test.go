package proxy_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/app/proxy"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/thread"
	"github.com/bailey-dev/bailey/internal/pki"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/testkit/ca"
)

// The world of these tests: a host namespace that the proxy runs in, joined
// by a cable to a namespace with servers, some at addresses that look public
// and some at addresses that must never be reached; and a real airlock.
const (
	allowed  = "11.0.0.10"
	second   = "11.0.0.11"
	evil     = "11.0.0.66"
	resolver = "11.0.0.53"
	host     = "11.0.0.1" // of the machine the proxy runs on
	private  = "10.0.0.5"
	metadata = "169.254.169.254"
)

// space is a network namespace that code can be run in.
type space struct{ file *os.File }

func newSpace(t *testing.T) *space {
	t.Helper()
	s := &space{}
	if err := thread.Run(func() (err error) { s.file, err = netns.New(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.file.Close() })
	return s
}

// do runs f on a thread in the namespace.
func (s *space) do(f func() error) error {
	return thread.Run(func() error {
		if err := netns.Enter(s.file); err != nil {
			return err
		}
		return f()
	})
}

func (s *space) must(t *testing.T, f func() error) {
	t.Helper()
	if err := s.do(f); err != nil {
		t.Fatal(err)
	}
}

// lab is one world with one proxy in it.
type lab struct {
	t        *testing.T
	ca       *ca.CA
	hostSide *space
	world    *space
	sandbox  *space

	cmd    *exec.Cmd
	peer   *os.File
	stderr *strings.Builder
	told   *os.File // our end of its control socket

	mu     sync.Mutex
	change *sync.Cond
	events []bailey.Event
	opened []bailey.Event              // net.open
	zone   map[string][]string         // name → addresses, or one "=target" for a CNAME
	asked  []string                    // questions that reached the world's DNS
	seen   map[string]int              // connections that reached a server, by its address
	got    []string                    // requests: "ADDRESS METHOD HOST PATH"
	hosts  string                      // lines of the host's /etc/hosts
	odd    map[string]mdns.HandlerFunc // names that the world's DNS answers in another way

	secrets []gate.Secret
	closed  bool      // the proxy gets no root, whatever the rules want
	root    *pki.Root // with which TLS is opened, or nil
	trusted *x509.CertPool
}

type option func(*lab)

func withoutRoot(l *lab) { l.closed = true }

func withHosts(lines string) option { return func(l *lab) { l.hosts = lines } }

func withOdd(odd map[string]mdns.HandlerFunc) option { return func(l *lab) { l.odd = odd } }

func rules(t *testing.T, texts ...string) []policy.Rule {
	t.Helper()
	var out []policy.Rule
	for _, s := range texts {
		r, err := policy.ParseDenyRule(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func allow(t *testing.T, texts ...string) policy.Policy {
	t.Helper()
	return policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, texts...)}
}

func newLab(t *testing.T, p policy.Policy, opts ...option) *lab {
	t.Helper()
	l := &lab{
		t: t, stderr: &strings.Builder{}, seen: map[string]int{},
		zone: map[string][]string{
			"allow.test": {allowed}, "other.test": {allowed}, "evil.test": {evil}, "private.test": {private},
			"meta.test": {metadata}, "mixed.test": {allowed, "127.0.0.1"}, "mixed2.test": {"127.0.0.1", allowed},
			"loop.test": {"127.0.0.1"}, "zero.test": {"0.0.0.0"}, "host.test": {host}, "a.wild.test": {host},
			"denied.test": {second}, "beside.test": {second}, "own1.test": {"12.0.0.7"}, "own2.test": {"13.0.0.7"},
			"cname.test": {"=evil.test"}, "cnamepriv.test": {"=private.test"}, "two.test": {"11.0.0.99", second},
			"b.wild.test": {allowed}, "priv.wild.test": {private},
		},
	}
	l.change = sync.NewCond(&l.mu)
	for _, o := range opts { // before anything runs that reads what they set
		o(l)
	}
	authority, err := ca.New(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l.ca = authority
	l.hostSide, l.world = newSpace(t), newSpace(t)
	l.cable()
	l.startWorld()
	l.startProxy(p)
	return l
}

// cable joins the host's and the world's namespaces.
func (l *lab) cable() {
	l.t.Helper()
	l.hostSide.must(l.t, func() error {
		up := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up0"}, PeerName: "world0", PeerNamespace: netlink.NsFd(int(l.world.file.Fd()))}
		if err := netlink.LinkAdd(up); err != nil {
			return err
		}
		return setUp("up0", host+"/8")
	})
	l.world.must(l.t, func() error {
		return setUp("world0", allowed+"/8", second+"/8", evil+"/8", resolver+"/8", private+"/32", metadata+"/32")
	})
	l.hostSide.must(l.t, func() error {
		link, err := netlink.LinkByName("up0")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}, Scope: netlink.SCOPE_LINK})
	})
}

func setUp(name string, addrs ...string) error {
	for _, n := range []string{"lo", name} {
		link, err := netlink.LinkByName(n)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		if n != name {
			continue
		}
		for _, a := range addrs {
			addr, err := netlink.ParseAddr(a)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, addr); err != nil {
				return err
			}
		}
	}
	return nil
}

// startWorld starts the servers: HTTP, TLS, a server that speaks first, an
// echo, and DNS; and services on the host's own addresses and loopback.
func (l *lab) startWorld() {
	l.t.Helper()
	for _, a := range []string{allowed, second, evil, private, metadata} {
		l.web(l.world, a+":80", false)
		l.web(l.world, a+":8080", false)
		l.web(l.world, a+":443", true)
		l.web(l.world, a+":8443", true)
		l.serve(l.world, a+":22", func(c net.Conn) {
			_, _ = io.WriteString(c, "SSH-2.0-banner-of-"+a+"\r\n")
			_, _ = io.Copy(c, c)
		})
		l.retrying(a + ":9444")
		l.serve(l.world, a+":7", func(c net.Conn) { _, _ = io.Copy(c, c) })
	}
	for _, a := range []string{"127.0.0.1", host} {
		l.web(l.hostSide, a+":80", false)
		l.web(l.hostSide, a+":443", true)
	}
	l.dns()
}

func (l *lab) listen(s *space, addr string) net.Listener {
	l.t.Helper()
	var ln net.Listener
	s.must(l.t, func() (err error) {
		ln, err = net.Listen("tcp4", addr)
		return err
	})
	l.t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// counting notes every connection that a listener accepts.
type counting struct {
	net.Listener
	l *lab
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.l.mu.Lock()
		c.l.seen[c.Addr().String()]++
		c.l.change.Broadcast()
		c.l.mu.Unlock()
	}
	return conn, err
}

func (l *lab) serve(s *space, addr string, handle func(net.Conn)) {
	l.t.Helper()
	ln := counting{l.listen(s, addr), l}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				handle(c)
			}()
		}
	}()
}

func (l *lab) web(s *space, addr string, secure bool) {
	l.t.Helper()
	var config *tls.Config
	if secure {
		config = l.ca.ServerConfig("http/1.1")
	}
	l.webAs(s, addr, config)
}

// webAs is web with its own idea of TLS; nil is none.
func (l *lab) webAs(s *space, addr string, config *tls.Config) {
	l.t.Helper()
	ln := counting{l.listen(s, addr), l}
	srv := &http.Server{
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // attacks make noise

		DisableGeneralOptionsHandler: true, // OPTIONS * is noted like the others

		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.note(fmt.Sprintf("%s %s %s %s", addr, r.Method, r.Host, r.RequestURI))
			l.page(w, r, addr)
		}),
	}
	l.t.Cleanup(func() { _ = srv.Close() })
	if config != nil {
		srv.TLSConfig = config
		go func() { _ = srv.ServeTLS(ln, "", "") }()
		return
	}
	go func() { _ = srv.Serve(ln) }()
}

// retrying is a TLS server that asks every client for another ClientHello.
func (l *lab) retrying(addr string) {
	l.t.Helper()
	config := l.ca.ServerConfig("http/1.1")
	config.CurvePreferences = []tls.CurveID{tls.CurveP384} // of which no client sends a key at first
	l.serve(l.world, addr, func(c net.Conn) {
		s := tls.Server(c, config)
		if s.Handshake() == nil {
			_, _ = io.WriteString(s, "hello from "+addr+" after a retry")
			_ = s.Close()
		}
	})
}

// page answers a request of the world's web servers.
func (l *lab) page(w http.ResponseWriter, r *http.Request, addr string) {
	switch r.URL.Path {
	case "/headers":
		_ = json.NewEncoder(w).Encode(r.Header)
	case "/body":
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%d bytes", n)
	case "/big":
		_, _ = io.CopyN(w, zeros{}, 64<<20)
	case "/stream":
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case "/alt":
		w.Header().Set("Alt-Svc", `h3=":443", h2="other.test:443"`)
		_, _ = io.WriteString(w, r.Proto)
	case "/trailers", "/grpc.Service/Echo":
		l.trailers(w, r)
	case "/ws", "/fakews", "/no101":
		webSocket(w, r)
	default:
		_, _ = fmt.Fprintf(w, "hello from %s as %s", addr, r.Host)
	}
}

// trailers echoes each part of a body as it comes, and ends with a trailer.
func (l *lab) trailers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	w.Header().Set("X-Te", r.Header.Get("Te"))
	w.Header().Set("Trailer", "Grpc-Status")
	_ = http.NewResponseController(w).EnableFullDuplex()
	_ = http.NewResponseController(w).Flush()
	buf := make([]byte, 1<<10)
	for {
		n, err := r.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		_ = http.NewResponseController(w).Flush()
		if err != nil {
			break
		}
	}
	w.Header().Set("Grpc-Status", "0")
	w.Header().Set("X-In-Trailer", strings.Join(r.Trailer["X-Mine"], ","))
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func webSocket(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/no101" {
		_, _ = io.WriteString(w, "not today")
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	accept := proxy.WebSocketAccept(r.Header.Get("Sec-WebSocket-Key"))
	if r.URL.Path == "/fakews" {
		accept = "AAAA"
	}
	_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept)
	_, _ = io.Copy(c, rw)
}

func (l *lab) note(request string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, request)
}

func (l *lab) dns() {
	l.t.Helper()
	handler := mdns.HandlerFunc(func(w mdns.ResponseWriter, r *mdns.Msg) {
		m := new(mdns.Msg).SetReply(r)
		m.RecursionAvailable = true
		l.mu.Lock()
		q := r.Question[0]
		name := strings.TrimSuffix(strings.ToLower(q.Name), ".")
		l.asked = append(l.asked, name+" "+mdns.TypeToString[q.Qtype])
		l.change.Broadcast()
		if odd := l.odd[name]; odd != nil {
			l.mu.Unlock()
			odd(w, r)
			return
		}
		if name == "broken.test" {
			l.mu.Unlock()
			m.Rcode = mdns.RcodeServerFailure
			_ = w.WriteMsg(m)
			return
		}
		if name == "hang.test" {
			l.mu.Unlock()
			return
		}
		owner := q.Name
		for len(l.zone[name]) == 1 && strings.HasPrefix(l.zone[name][0], "=") {
			target := l.zone[name][0][1:]
			m.Answer = append(m.Answer, &mdns.CNAME{Hdr: mdns.RR_Header{Name: owner, Rrtype: mdns.TypeCNAME, Class: 1}, Target: target + "."})
			name, owner = target, target+"."
		}
		for _, a := range l.zone[name] {
			if q.Qtype == mdns.TypeA {
				m.Answer = append(m.Answer, &mdns.A{Hdr: mdns.RR_Header{Name: owner, Rrtype: mdns.TypeA, Class: 1}, A: net.ParseIP(a)})
			}
		}
		if len(l.zone[name]) == 0 {
			m.Rcode = mdns.RcodeNameError
		}
		l.mu.Unlock()
		_ = w.WriteMsg(m)
	})
	var pc net.PacketConn
	l.world.must(l.t, func() (err error) {
		pc, err = net.ListenPacket("udp4", resolver+":53")
		return err
	})
	for _, s := range []*mdns.Server{{PacketConn: pc, Handler: handler}, {Listener: l.listen(l.world, resolver+":53"), Handler: handler}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		l.t.Cleanup(func() { _ = s.Shutdown() })
	}
}

func (l *lab) rebind(name string, addrs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.zone[name] = addrs
}

// startProxy starts the role as an unprivileged user in the host's namespace,
// with its own /etc/resolv.conf and /etc/hosts, and hands it an airlock.
func (l *lab) startProxy(p policy.Policy) {
	l.t.Helper()
	settings, err := json.Marshal(gate.Settings{Sandbox: "sbx_0123456789abcdef", Policy: p, Root: l.makeRoot(p), Secrets: l.secrets})
	if err != nil {
		l.t.Fatal(err)
	}
	settingsR, settingsW := pipe(l.t)
	eventsR, eventsW := pipe(l.t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "peer")
	l.peer = os.NewFile(uintptr(fds[0]), "peer")
	l.cmd = l.command()
	control := l.newControl()
	l.cmd.ExtraFiles = []*os.File{settingsR, theirs, eventsW, control}
	l.hostSide.must(l.t, l.cmd.Start)
	for _, f := range []*os.File{settingsR, theirs, eventsW} {
		_ = f.Close()
	}
	collected := make(chan struct{})
	go func() { defer close(collected); l.collect(eventsR) }()
	l.t.Cleanup(func() { l.end(collected) })
	if _, err := settingsW.Write(settings); err != nil {
		l.t.Fatal(err)
	}
	_ = settingsW.Close()
	lock, err := airlock.Build()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = lock.Close() })
	l.sandbox = &space{lock.Sandbox}
	if err := fdpass.SendListeners(l.peer, lock.TCP, lock.DNSUDP, lock.DNSTCP); err != nil {
		l.t.Fatal(err)
	}
}

// makeRoot makes the root with which TLS is opened. The sandbox of these tests
// trusts it, and the world's own.
func (l *lab) makeRoot(p policy.Policy) *pki.Sealed {
	l.t.Helper()
	root, err := gate.NewRoot("lab", p, time.Now(), time.Hour)
	if err != nil {
		l.t.Fatal(err)
	}
	l.trusted = l.ca.Pool()
	if root == nil || l.closed {
		return nil
	}
	l.root = root
	l.trusted.AppendCertsFromPEM(root.PEM())
	sealed, err := root.Seal()
	if err != nil {
		l.t.Fatal(err)
	}
	return sealed
}

func (l *lab) command() *exec.Cmd {
	l.t.Helper()
	dir, err := os.MkdirTemp("", "proxylab-")
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		l.t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"resolv.conf": []byte("nameserver " + resolver + "\nsearch evil.test\noptions timeout:30 attempts:1\n"),
		"hosts":       []byte("127.0.0.1 localhost\n" + l.hosts), "role": exe, "roots.pem": l.ca.PEM(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		l.t.Fatal(err)
	}
	const script = `mount --bind "$1/resolv.conf" /etc/resolv.conf && mount --bind "$1/hosts" /etc/hosts &&
		for f in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
			if [ -e "$f" ]; then mount --bind "$1/roots.pem" "$f" || exit; fi
		done &&
		exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all -- "$1/role"`
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", dir)
	cmd.Env = append(os.Environ(), "BAILEY_TEST_ROLE=proxy")
	cmd.Stderr = l.stderr
	return cmd
}

// endTime is how long the role may take to end: less than a look-up may, which
// must not be waited for.
const endTime = 7 * time.Second

// end closes the peer socket, which is how a run ends, and expects the role
// to end in order.
func (l *lab) end(collected chan struct{}) {
	_ = l.peer.Close()
	done := make(chan error, 1)
	go func() { done <- l.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			l.t.Errorf("the proxy ended with %v: %s", err, l.stderr)
		}
	case <-time.After(endTime):
		l.t.Error("the proxy outlives its peer")
		_ = l.cmd.Process.Kill()
		<-done
	}
	<-collected
	if s := l.stderr.String(); s != "" {
		l.t.Errorf("the proxy wrote to its standard error, which is the caller's terminal: %.500s", s)
	}
	if l.t.Failed() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, ev := range l.events {
			b, _ := json.Marshal(ev)
			l.t.Logf("event: %s", b)
		}
		l.t.Logf("asked: %v; seen: %v; got: %v; stderr: %s", l.asked, l.seen, l.got, l.stderr)
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

// maxEvent is more than any event needs, whatever a sandbox sends, and far
// below what bailey run takes for one.
const maxEvent = 8 << 10

func (l *lab) collect(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if len(line) > maxEvent {
			l.t.Errorf("an event of %d bytes: %.200q", len(line), line)
		}
		var ev bailey.Event
		if err := json.Unmarshal(line, &ev); err != nil {
			l.t.Errorf("event %.200q: %v", line, err)
			continue
		}
		l.mu.Lock()
		if ev.Type == bailey.EventNetOpen { // how long a test takes is no matter of most
			l.opened = append(l.opened, ev)
		} else {
			l.events = append(l.events, ev)
		}
		l.change.Broadcast()
		l.mu.Unlock()
	}
}

// event waits for an event that fits.
func (l *lab) event(what string, fits func(bailey.Event) bool) bailey.Event {
	l.t.Helper()
	var found bailey.Event
	l.await("event: "+what, func() bool {
		i := slices.IndexFunc(l.events, fits)
		if i >= 0 {
			found = l.events[i]
		}
		return i >= 0
	})
	return found
}

// await waits until something of what the lab notes is so. It holds mu while
// it asks.
func (l *lab) await(what string, so func() bool) {
	l.t.Helper()
	deadline := time.AfterFunc(30*time.Second, func() { l.change.Broadcast() })
	defer deadline.Stop()
	until := time.Now().Add(30 * time.Second)
	l.mu.Lock()
	defer l.mu.Unlock()
	for !so() {
		if time.Now().After(until) {
			l.t.Fatalf("not seen: %s", what)
		}
		l.change.Wait()
	}
}

// denied waits for the event of a refusal.
func (l *lab) denied(reason string) bailey.Event {
	l.t.Helper()
	return l.event("denied: "+reason, func(ev bailey.Event) bool {
		return ev.Type == bailey.EventNetDecision && ev.Verdict == "deny" && ev.Reason == reason && ev.Protocol != "dns"
	})
}

// untouched asserts that no connection reached a server of an address.
func (l *lab) untouched(addrs ...string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, n := range l.seen {
		h, _, _ := net.SplitHostPort(at)
		if slices.Contains(addrs, h) {
			l.t.Errorf("%d connections reached %s", n, at)
		}
	}
}

func (l *lab) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

func (l *lab) questions() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

// dial connects from the sandbox. A connection that is reset before connect
// has returned is one that was refused early: reading it says so.
func (l *lab) dial(network, addr string) net.Conn {
	l.t.Helper()
	c, err := l.tryDial(network, addr)
	if isReset(err) {
		return refusedConn{net.Conn(nil), err}
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// refusedConn is a connection that was reset in connect.
type refusedConn struct {
	net.Conn
	err error
}

func (c refusedConn) Read([]byte) (int, error)    { return 0, c.err }
func (c refusedConn) Write([]byte) (int, error)   { return 0, c.err }
func (c refusedConn) Close() error                { return nil }
func (c refusedConn) SetDeadline(time.Time) error { return nil }

func (l *lab) tryDial(network, addr string) (net.Conn, error) {
	var c net.Conn
	err := l.sandbox.do(func() (err error) {
		c, err = (&net.Dialer{Timeout: 20 * time.Second}).Dial(network, addr)
		return err
	})
	if err == nil {
		l.t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
	}
	return c, err
}

// get does a TLS handshake and a request from the sandbox.
func (l *lab) get(addr string, config *tls.Config) (string, error) {
	l.t.Helper()
	config.RootCAs = l.trusted
	if config.ServerName == "" {
		config.InsecureSkipVerify = true
	}
	c := tls.Client(l.dial("tcp4", addr), config)
	defer func() { _ = c.Close() }() // the event comes at the end
	if err := c.Handshake(); err != nil {
		return "", err
	}
	_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", config.ServerName)
	b, err := io.ReadAll(c)
	return string(b), err
}

// say sends bytes over a connection of the sandbox and returns all that came
// back and how it ended.
func (l *lab) say(addr, text string) (string, error) {
	l.t.Helper()
	for try := 0; ; try++ {
		dialled := time.Now()
		c := l.dial("tcp4", addr)
		_, _ = io.WriteString(c, text) // a refusal may come first: reading says which
		late := time.Since(dialled) > 100*time.Millisecond
		b, err := io.ReadAll(c)
		_ = c.Close()
		// One that speaks late is rightly taken for one that waits for the
		// host: on a busy machine that is no answer to what it said.
		if late && len(b) == 0 && try < 5 {
			continue
		}
		return string(b), err
	}
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// lookup asks a DNS server, any DNS server, from the sandbox. A datagram that is
// not answered is sent again, as resolvers do (resolv.conf(5), attempts).
func (l *lab) lookup(network, server, name string, kind uint16) *mdns.Msg {
	l.t.Helper()
	for try := 1; ; try++ {
		r, err := l.ask(network, server, mdns.Fqdn(name), kind)
		if err == nil {
			return r
		}
		if network != "udp" || try == 3 || !errors.Is(err, os.ErrDeadlineExceeded) {
			l.t.Fatalf("%s %s at %s: %v", network, name, server, err)
		}
	}
}

func (l *lab) ask(network, server, name string, kind uint16) (*mdns.Msg, error) {
	l.t.Helper()
	m := new(mdns.Msg).SetQuestion(name, kind)
	conn := l.dial(network+"4", server)
	defer conn.Close() // or those before it would have all the places of the responder
	r, _, err := (&mdns.Client{Net: network, Timeout: 10 * time.Second}).ExchangeWithConn(m, &mdns.Conn{Conn: conn})
	return r, err
}

func answers(m *mdns.Msg) []string {
	var out []string
	for _, rr := range m.Answer {
		if a, ok := rr.(*mdns.A); ok {
			out = append(out, netip.MustParseAddr(a.A.String()).String())
		} else {
			out = append(out, rr.String())
		}
	}
	return out
}

// newControl makes the socket by which the proxy is told things, and returns
// its end.
func (l *lab) newControl() *os.File {
	l.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	l.told = os.NewFile(uintptr(fds[0]), "control")
	l.t.Cleanup(func() { _ = theirs.Close(); _ = l.told.Close() })
	return theirs
}
