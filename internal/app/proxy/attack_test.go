package proxy_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/proxy"
	"github.com/bailey-dev/bailey/internal/policy"
)

func TestMain(m *testing.M) {
	if os.Getenv("BAILEY_TEST_ROLE") == "proxy" {
		os.Exit(proxy.Main(nil))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // they wait far more than they work
		panic(err)
	}
	os.Exit(m.Run())
}

// The name decides where a TLS connection goes, never the address: A001, A002,
// A013, A040, A078, A104.
func TestTLS_NameDecides(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", "two.test"))
	for _, c := range []struct{ what, dest, name string }{
		{"as it should be", allowed + ":443", "allow.test"},
		{"evil destination, A001, A002", evil + ":443", "allow.test"},
		{"private destination", private + ":443", "allow.test"},
		{"upper case, A013", allowed + ":443", "ALLOW.TEST"},
		{"first address dead, second lives", "11.9.9.9:443", "two.test"},
	} {
		got, err := l.get(c.dest, &tls.Config{ServerName: c.name})
		want := "hello from " + allowed
		if c.name == "two.test" {
			want = "hello from " + second
		}
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %q, %v", c.what, got, err)
		}
	}
	ev := l.event("allowed", func(ev bailey.Event) bool {
		return ev.Protocol == "tls" && ev.Verdict == "allow" && ev.Host == "allow.test"
	})
	if ev.Address != allowed || ev.Port != 443 || ev.Rule != "allow.test" || ev.BytesIn < 500 || ev.BytesOut < 200 || ev.Sandbox != "sbx_0123456789abcdef" {
		t.Errorf("event: %+v", ev)
	}
	l.lookup("udp", "192.0.0.1:53", "allow.test", mdns.TypeA) // a name for the address, which must not help any of these
	before := len(l.questions())
	for _, c := range []struct{ what, dest, name, reason string }{
		{"another name on the shared address, A040", allowed + ":443", "evil.test", policy.ReasonNotAllowed},
		{"another name", evil + ":443", "evil.test", policy.ReasonNotAllowed},
		{"data in a name, A078", evil + ":443", "mfzwizltoq.evil.test", policy.ReasonNotAllowed},
		{"below a bare host", allowed + ":443", "x.allow.test", policy.ReasonNotAllowed},
		{"suffix without a dot, A041", allowed + ":443", "notallow.test", policy.ReasonNotAllowed},
		{"prefix, A042", allowed + ":443", "allow.test.evil.test", policy.ReasonNotAllowed},
		{"no name, A008", allowed + ":443", "", policy.ReasonNoName},
		{"other port, A104", allowed + ":8443", "allow.test", policy.ReasonPortNotAllowed},
	} {
		_, err := l.get(c.dest, &tls.Config{ServerName: c.name})
		if !isReset(err) {
			t.Errorf("%s: %v, want a reset", c.what, err)
		}
		h, _, _ := net.SplitHostPort(c.dest)
		l.event(c.what, func(ev bailey.Event) bool {
			return ev.Verdict == "deny" && ev.Reason == c.reason && ev.Protocol == "tls" && ev.Host == c.name &&
				ev.Address == h && ev.Message != ""
		})
	}
	l.untouched(evil, private)
	if asked := l.questions(); len(asked) != before {
		t.Errorf("refusing asked questions: %v", asked[before:])
	}
	for _, q := range l.questions() {
		if strings.Contains(q, "AAAA") || strings.Contains(q, "evil.test") { // the search list would add it
			t.Errorf("question %q", q)
		}
	}
}

// Server names that crypto/tls hands over as they are: A009, A010, A014.
func TestTLS_BadNames(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", "11.0.0.10:443"))
	for _, name := range []string{
		allowed, "[::1]", "allow.test:443", " allow.test", "*.allow.test", "evil.test/allow.test",
		"evil.test\x00.allow.test", "allow.test..", "allow.test.", "evil.test\n.allow.test", "b\xc3\xbccher.test", "xn--allow-.test",
		"2130706433", "0x7f.1", "127.1",
	} {
		c := l.dial("tcp4", evil+":443")
		_, _ = c.Write(clientHello(t, name, nil))
		if b, err := io.ReadAll(c); !isReset(err) {
			t.Errorf("%q: %q, %v, want a reset", name, b, err)
		}
	}
	l.event("NUL escaped", func(ev bailey.Event) bool {
		return ev.Reason == policy.ReasonInvalidName && ev.Host == `evil.test\x00.allow.test`
	})
	// Twin: the same bytes with a proper name are passed on.
	c := l.dial("tcp4", evil+":443")
	if _, err := c.Write(clientHello(t, "allow.test", nil)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || b[0] != 0x16 {
		t.Errorf("proper name: %x, %v", b, err)
	}
	l.untouched(evil)
}

// clientHello returns the bytes of a ClientHello with any server name and
// further extensions.
func clientHello(t *testing.T, name string, extra []byte) []byte {
	t.Helper()
	const stand = "stand-in.test"
	a, b := net.Pipe()
	go func() { _ = tls.Client(a, &tls.Config{ServerName: stand}).Handshake(); _ = a.Close() }()
	buf := make([]byte, 16<<10)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	h := buf[:n]
	h = replaceName(t, h, stand, name)
	return appendExtensions(h, extra)
}

func u16(b []byte) int { return int(b[0])<<8 | int(b[1]) }

func put16(b []byte, v int) { b[0], b[1] = byte(v>>8), byte(v) }

// extensionsAt finds the length field of the extensions in a record.
func extensionsAt(h []byte) int {
	at := 5 + 4 + 2 + 32
	at += 1 + int(h[at])
	at += 2 + u16(h[at:])
	return at + 1 + int(h[at])
}

func grow(h []byte, by int) {
	put16(h[3:], u16(h[3:])+by)
	put16(h[7:], u16(h[7:])+by) // the low half of the handshake's length
	at := extensionsAt(h)
	put16(h[at:], u16(h[at:])+by)
}

func replaceName(t *testing.T, h []byte, old, name string) []byte {
	t.Helper()
	i := bytes.Index(h, []byte(old))
	if i < 0 {
		t.Fatal("no server name in the ClientHello")
	}
	by := len(name) - len(old)
	put16(h[i-2:], len(name))
	put16(h[i-5:], len(name)+3)
	put16(h[i-7:], len(name)+5)
	grow(h, by)
	return slices.Concat(h[:i], []byte(name), h[i+len(old):])
}

func appendExtensions(h, extra []byte) []byte {
	// before the last: pre_shared_key would have to stay last, and is not there
	grow(h, len(extra))
	return append(h, extra...)
}

// ech is encrypted_client_hello as a browser sends it, real or not: A018.
func ech() []byte {
	body := slices.Concat([]byte{0, 0, 1, 0, 1, 7, 0, 32}, make([]byte, 32), []byte{0, 144}, make([]byte, 144))
	return slices.Concat([]byte{0xfe, 0x0d, byte(len(body) >> 8), byte(len(body))}, body)
}

func TestTLS_ECH(t *testing.T) {
	t.Parallel()
	refusing := newLab(t, allow(t, "allow.test"))
	for _, c := range []struct {
		what  string
		lab   *lab
		hello []byte
		pass  bool
	}{
		{"ech", refusing, clientHello(t, "allow.test", ech()), false},
		{"twin: no ech", refusing, clientHello(t, "allow.test", nil), true},
		{"open", newLab(t, policy.Policy{Mode: bailey.NetOpen}), clientHello(t, "allow.test", ech()), true},
	} {
		conn := c.lab.dial("tcp4", allowed+":443")
		if _, err := conn.Write(c.hello); err != nil {
			t.Fatal(err)
		}
		_, err := io.ReadFull(conn, make([]byte, 5))
		if (err == nil) != c.pass {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if ev := refusing.denied(policy.ReasonECH); ev.Host != "allow.test" {
		t.Errorf("event %+v", ev)
	}
}

// A016: a ClientHello in pieces is the same ClientHello; one that does not
// end, or is too long, is refused.
func TestTLS_Fragments(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	records := func(h []byte, size int) []byte {
		var out []byte
		for p := range slices.Chunk(h[5:], size) {
			out = slices.Concat(out, []byte{0x16, 3, 1, byte(len(p) >> 8), byte(len(p))}, p)
		}
		return out
	}
	long := func(name string) []byte { // 20 kB of padding, in two records
		h := clientHello(t, name, slices.Concat([]byte{0, 21, 20000 >> 8, 20000 & 0xff}, make([]byte, 20000)))
		return records(h, 16000)
	}
	for _, c := range []struct {
		what  string
		hello []byte
		bytes bool // one TCP segment a byte
		pass  bool
	}{
		{"one-byte records", records(clientHello(t, "allow.test", nil), 1), false, true},
		{"one-byte records, evil", records(clientHello(t, "evil.test", nil), 1), false, false},
		{"one-byte segments", clientHello(t, "allow.test", nil), true, true},
		{"one-byte segments, evil", clientHello(t, "evil.test", nil), true, false},
		{"20 kB", long("allow.test"), false, true},
		{"20 kB, evil", long("evil.test"), false, false},
		{"not a ClientHello", []byte("\x16\x03\x01\x00\x05hello"), false, false},
		{"A176 endless", slices.Repeat([]byte("\x16\x03\x01\x00\x04\x01\xff\xff\xff"), 10000), false, false},
	} {
		conn := l.dial("tcp4", allowed+":443")
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetNoDelay(true)
		}
		size := len(c.hello)
		if c.bytes {
			size = 1
		}
		for p := range slices.Chunk(c.hello, size) {
			if _, err := conn.Write(p); err != nil {
				break
			}
		}
		_, err := io.ReadFull(conn, make([]byte, 5))
		if (err == nil) != c.pass {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	// A hello that stops is closed within the sniff time, with nothing dialled.
	conn := l.dial("tcp4", allowed+":443")
	started := time.Now()
	if _, err := conn.Write(clientHello(t, "allow.test", nil)[:60]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); !isReset(err) || time.Since(started) > 7*time.Second {
		t.Errorf("A170 half a hello: %v after %s", err, time.Since(started))
	}
	l.denied(policy.ReasonBadTLS)
}

// A018 and A069 to A073, A084: an answer with a special address is refused
// whole, by DNS and by the connection, also after rebinding.
func TestResolution_SpecialAddresses(t *testing.T) {
	t.Parallel()
	names := []string{"private.test", "meta.test", "mixed.test", "mixed2.test", "loop.test", "zero.test", "cnamepriv.test", "hosts.test"}
	l := newLab(t, allow(t, append(names, "cname.test", "allow.test", "hostsok.test")...), withHosts("127.0.0.1 hosts.test\n"+allowed+" hostsok.test\n"))
	for _, name := range names {
		if _, err := l.get(allowed+":443", &tls.Config{ServerName: name}); !isReset(err) {
			t.Errorf("tls %s: %v, want a reset", name, err)
		}
		l.event(name, func(ev bailey.Event) bool {
			return ev.Host == name && ev.Protocol == "tls" && ev.Reason == policy.ReasonSpecialAddress
		})
		if got, err := l.say(allowed+":80", "GET / HTTP/1.1\r\nHost: "+name+"\r\n\r\n"); err != nil || !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "special-address") {
			t.Errorf("http %s: %q, %v", name, got, err)
		}
		if r := l.lookup("udp", "9.9.9.9:53", name, mdns.TypeA); r.Rcode != mdns.RcodeNameError || len(r.Answer) != 0 {
			t.Errorf("dns %s: %v", name, r)
		}
	}
	// Twins: an alias to a host that is not listed has the identity of the
	// name that was asked for, and the hosts file counts.
	for name, want := range map[string]string{"cname.test": evil, "hostsok.test": allowed} {
		if got, err := l.get(allowed+":443", &tls.Config{ServerName: name}); err != nil || !strings.Contains(got, "hello from "+want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := l.get(evil+":443", &tls.Config{ServerName: "evil.test"}); !isReset(err) {
		t.Errorf("the alias' target became reachable by its own name: %v", err)
	}
	l.untouched(private, metadata, "127.0.0.1", host)
}

// A072: a name that is bound to another address later is judged again.
func TestResolution_Rebinding(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "rebind.test"))
	l.rebind("rebind.test", allowed)
	if got, err := l.get(evil+":443", &tls.Config{ServerName: "rebind.test"}); err != nil || !strings.Contains(got, "hello from "+allowed) {
		t.Fatalf("before: %q, %v", got, err)
	}
	l.rebind("rebind.test", private)
	until := time.Now().Add(20 * time.Second) // our own cache keeps for 10
	for {
		if _, err := l.get(evil+":443", &tls.Config{ServerName: "rebind.test"}); err != nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("rebound, and still the old answer")
		}
		time.Sleep(200 * time.Millisecond) // nothing to wait on: the cache is another process's
	}
	l.denied(policy.ReasonSpecialAddress)
	l.untouched(private)
}

// A052 to A066: literals of special ranges and of the host itself.
func TestLiterals(t *testing.T) {
	t.Parallel()
	open := newLab(t, policy.Policy{Mode: bailey.NetOpen, Deny: rules(t, evil, "denied.test")})
	listed := newLab(t, allow(t, allowed+":22", allowed+":443", allowed+":80"))
	for _, c := range []struct {
		what   string
		lab    *lab
		dest   string
		reason string // empty: reached
	}{
		{"open: public", open, allowed + ":22", ""},
		{"open: private", open, private + ":22", policy.ReasonSpecialAddress},
		{"open: metadata", open, metadata + ":22", policy.ReasonSpecialAddress},
		{"open: the host itself, A064", open, host + ":22", policy.ReasonHostAddress},
		{"open: gateway, A066", open, "192.0.0.1:22", policy.ReasonSpecialAddress},
		{"open: denied", open, evil + ":22", policy.ReasonDeniedByRule},
		{"listed", listed, allowed + ":22", ""},
		{"not listed", listed, evil + ":22", policy.ReasonNotAllowed},
		{"other port of a listed one, A104", listed, allowed + ":7", policy.ReasonPortNotAllowed},
		{"database port", listed, evil + ":5432", policy.ReasonNotAllowed},
	} {
		conn := c.lab.dial("tcp4", c.dest)
		b := make([]byte, 256)
		n, err := conn.Read(b)
		if c.reason == "" {
			if want := "SSH-2.0-banner-of-" + allowed; err != nil || !strings.HasPrefix(string(b[:n]), want) {
				t.Errorf("%s: %q, %v", c.what, b[:n], err)
			}
			continue
		}
		if !isReset(err) {
			t.Errorf("%s: %q, %v, want a reset", c.what, b[:n], err)
		}
		h, _, _ := net.SplitHostPort(c.dest)
		c.lab.event(c.what, func(ev bailey.Event) bool { return ev.Address == h && ev.Reason == c.reason })
	}
	// The proxy's own listener, which would go round for ever: A064.
	if b, err := io.ReadAll(open.dial("tcp4", "192.0.0.1:15001")); !isReset(err) {
		t.Errorf("the listener itself: %q, %v", b, err)
	}
	open.denied(policy.ReasonProxyItself)
	// TLS and HTTP without a name.
	for _, l := range []*lab{open, listed} {
		if got, err := l.get(allowed+":443", &tls.Config{}); err != nil || !strings.Contains(got, "hello from "+allowed) {
			t.Errorf("TLS to a literal: %q, %v", got, err)
		}
		if got, err := l.say(allowed+":80", "GET / HTTP/1.1\r\nHost: "+allowed+"\r\nConnection: close\r\n\r\n"); err != nil || !strings.Contains(got, "hello from "+allowed) {
			t.Errorf("HTTP to a literal: %q, %v", got, err)
		}
		if got, _ := l.say(allowed+":80", "GET / HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"); !strings.Contains(got, "X-Bailey-Reason: name-mismatch") {
			t.Errorf("a literal Host that is not the destination: %q", got)
		}
		for _, h := range []string{"2130706433", "0177.0.0.1", "0x7f.1", "127.1", "127.000.000.001", "[::1]", "[::ffff:127.0.0.1]", "[fe80::1%25eth0]"} { // A060, A062
			if got, _ := l.say(allowed+":80", "GET / HTTP/1.1\r\nHost: "+h+"\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
				t.Errorf("Host %s: %q", h, got)
			}
		}
	}
	open.untouched(private, metadata, "127.0.0.1", host, evil)
	listed.untouched(private, metadata, "127.0.0.1", host, evil)
}

// The machine's own addresses are reached through a rule for the address, or
// for a name that the machine itself gives to it, and through nothing else.
func TestHostAddress(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "hosts.test", "host.test", "*.wild.test"), withHosts(host+" hosts.test\n"))
	if got, err := l.get(allowed+":443", &tls.Config{ServerName: "hosts.test"}); err != nil || !strings.Contains(got, "hello from "+host) {
		t.Errorf("named by the machine: %q, %v", got, err)
	}
	if _, err := l.get(allowed+":443", &tls.Config{ServerName: "host.test"}); !isReset(err) {
		t.Errorf("named by the DNS: %v", err)
	}
	l.event("named by the DNS", func(ev bailey.Event) bool {
		return ev.Host == "host.test" && ev.Reason == policy.ReasonHostAddress
	})
	if _, err := l.get(allowed+":443", &tls.Config{ServerName: "a.wild.test"}); !isReset(err) {
		t.Errorf("by wildcard: %v", err)
	}
	l.event("by wildcard", func(ev bailey.Event) bool {
		return ev.Host == "a.wild.test" && ev.Reason == policy.ReasonHostAddress
	})
	byAddress := newLab(t, allow(t, "host.test", host+":443"))
	if got, err := byAddress.get(allowed+":443", &tls.Config{ServerName: "host.test"}); err != nil || !strings.Contains(got, "hello from "+host) {
		t.Errorf("with a rule for the address: %q, %v", got, err)
	}
	if got, _ := byAddress.say(allowed+":80", "GET / HTTP/1.1\r\nHost: host.test\r\n\r\n"); !strings.Contains(got, "X-Bailey-Reason: host-address") {
		t.Errorf("a rule for another port of the address: %q", got)
	}
}

// What the kernel delivers to the machine itself is the machine's, also where
// no link has the address: a range on the loopback link, a local route.
func TestHostAddress_LocalRoutes(t *testing.T) {
	t.Parallel()
	l := newLab(t, policy.Policy{Mode: bailey.NetOpen})
	l.web(l.hostSide, "0.0.0.0:8080", false)
	dials := func(addr string) error {
		return l.hostSide.do(func() error {
			c, err := net.DialTimeout("tcp4", addr, 10*time.Second)
			if err == nil {
				_ = c.Close()
			}
			return err
		})
	}
	l.hostSide.must(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr("12.0.0.1/24")
		if err != nil {
			return err
		}
		_, local, err := net.ParseCIDR("13.0.0.0/24")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(lo, addr),
			netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: local, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}))
	})
	for addr, name := range map[string]string{"12.0.0.7": "own1.test", "13.0.0.7": "own2.test"} {
		if err := dials(addr + ":8080"); err != nil {
			t.Fatalf("twin: the machine does not answer on %s: %v", addr, err)
		}
		l.mu.Lock()
		clear(l.seen)
		l.mu.Unlock()
		for what, c := range map[string][2]string{"by number": {addr, addr}, "by a name": {allowed, name}} {
			if got, _ := l.say(c[0]+":8080", "GET / HTTP/1.1\r\nHost: "+c[1]+":8080\r\n\r\n"); !strings.Contains(got, "X-Bailey-Reason: host-address") {
				t.Errorf("%s, %s: %q", addr, what, got)
			}
		}
	}
	if got, err := l.say(allowed+":8080", "GET / HTTP/1.1\r\nHost: allow.test:8080\r\nConnection: close\r\n\r\n"); err != nil || !strings.Contains(got, "hello from "+allowed) {
		t.Errorf("twin: another machine: %q, %v", got, err)
	}
}

// secondHello changes the name in every ClientHello of a client but the first.
type secondHello struct {
	net.Conn
	name string
	seen int
}

func (c *secondHello) Write(b []byte) (int, error) {
	out := bytes.Clone(b)
	for at := 0; at+6 <= len(out); at += 5 + u16(out[at+3:]) {
		if out[at] == 0x16 && out[at+5] == 1 {
			if c.seen++; c.seen > 1 {
				copy(out[at:], bytes.Replace(out[at:], []byte("allow.test"), []byte(c.name), 1))
			}
		}
	}
	_, err := c.Conn.Write(out)
	return len(b), err
}

// A020: the ClientHello that follows a HelloRetryRequest is held to the name
// of the first.
func TestTLS_HelloRetry(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test:9444"))
	shake := func(name string) (string, int, error) {
		c := &secondHello{Conn: l.dial("tcp4", allowed+":9444"), name: name}
		s := tls.Client(c, &tls.Config{ServerName: "allow.test", RootCAs: l.ca.Pool()})
		if err := s.Handshake(); err != nil {
			return "", c.seen, err
		}
		b, err := io.ReadAll(s)
		return string(b), c.seen, err
	}
	if got, hellos, err := shake("allow.test"); err != nil || hellos != 2 || !strings.Contains(got, "after a retry") {
		t.Errorf("twin: %q after %d hellos, %v", got, hellos, err)
	}
	if got, hellos, err := shake("other.test"); hellos != 2 || !isReset(err) {
		t.Errorf("A020 another name: %q after %d hellos, %v", got, hellos, err)
	}
	if ev := l.denied(policy.ReasonNameMismatch); ev.Host != "allow.test" || ev.Protocol != "tls" || !strings.Contains(ev.Message, "other.test") {
		t.Errorf("event %+v", ev)
	}
}

// Deny rules for names hold for connections that say none: where our own DNS
// gave the address for such a name, and where such a name resolves to.
func TestDeny_Nameless(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: bailey.NetOpen, Deny: rules(t, "denied.test:22", "denied.test:443", "denied.test:80", "*.evil.test:22", "none.test")}
	l := newLab(t, p)
	l.rebind("x.evil.test", evil)
	for _, name := range []string{"x.evil.test", "evil.test", "denied.test", "beside.test"} { // the latest pin is not the denied one
		if got := answers(l.lookup("udp", "192.0.0.1:53", name, mdns.TypeA)); len(got) != 1 {
			t.Fatalf("%s is %v", name, got)
		}
	}
	for what, dest := range map[string]string{"by pin": evil + ":22", "by address": second + ":22"} {
		if got, err := l.say(dest, "SSH-2.0-x\r\n"); !isReset(err) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
		h, _, _ := net.SplitHostPort(dest)
		l.event(what, func(ev bailey.Event) bool {
			return ev.Address == h && ev.Port == 22 && ev.Reason == policy.ReasonDeniedByRule
		})
	}
	if _, err := l.get(second+":443", &tls.Config{}); !isReset(err) {
		t.Errorf("TLS without a name: %v", err)
	}
	if got, _ := l.say(second+":80", "GET / HTTP/1.1\r\nHost: "+second+"\r\n\r\n"); !strings.Contains(got, "X-Bailey-Reason: denied-by-rule") {
		t.Errorf("HTTP to the address: %q", got)
	}
	l.untouched(evil, second)
	// Twins: the same address by another name, another port, another address.
	if got, err := l.get(second+":443", &tls.Config{ServerName: "beside.test"}); err != nil || !strings.Contains(got, "hello from "+second) {
		t.Errorf("a name that is not denied: %q, %v", got, err)
	}
	for what, dest := range map[string]string{"another port": second + ":7", "another address": allowed + ":7"} {
		c := l.dial("tcp4", dest)
		_, _ = io.WriteString(c, "\x00ping")
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "\x00ping" {
			t.Errorf("%s: %q, %v", what, b, err)
		}
	}
	// A list that a stranger put in the place of the mode takes nothing off that.
	stranger := func(text string) policy.Rule {
		r := rules(t, text)[0]
		r.Fenced = true
		return r
	}
	listed := newLab(t, policy.Policy{
		Mode: bailey.NetAllow, Allow: []policy.Rule{stranger(second + ":7"), stranger("beside.test:7"), stranger(allowed + ":7")}, Deny: rules(t, "denied.test"),
	})
	for _, pinned := range []bool{false, true} {
		if pinned {
			listed.lookup("udp", "192.0.0.1:53", "beside.test", mdns.TypeA)
		}
		if got, err := listed.say(second+":7", "\x00ping"); !isReset(err) {
			t.Errorf("a stranger's rule, by name %v: %q, %v", pinned, got, err)
		}
	}
	listed.denied(policy.ReasonDeniedByRule)
	listed.untouched(second)
	c := listed.dial("tcp4", allowed+":7")
	_, _ = io.WriteString(c, "\x00ping")
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Errorf("the twin: %v", err)
	}
	// What cannot be resolved may be anywhere.
	broken := newLab(t, policy.Policy{Mode: bailey.NetOpen, Deny: rules(t, "broken.test")})
	if got, err := broken.say(allowed+":7", "\x00ping"); !isReset(err) {
		t.Errorf("a denied name that DNS fails for: %q, %v", got, err)
	}
	broken.denied(policy.ReasonUnresolved)
}

// What a lenient server could take for a request does not pass as another
// protocol on a port that a rule names: its Host would be nobody's business.
func TestRaw_NoRequests(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test:7"))
	l.lookup("udp", "192.0.0.1:53", "allow.test", mdns.TypeA)
	const rest = "\r\nHost: evil.test\r\n\r\n"
	for _, text := range []string{
		"GET /\x01 HTTP/1.1" + rest, "\x0bGET / HTTP/1.1" + rest, "\x00GET / HTTP/1.1" + rest, "garbage\r\nGET / HTTP/1.1" + rest,
		"GET /" + rest, "PROXY TCP4 1.2.3.4 11.0.0.10 1 7\r\nGET / HTTP/1.1" + rest, "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c............GET / HTTP/1.1" + rest,
	} {
		for _, cut := range []int{0, 3, len(text) - 20} {
			c := l.dial("tcp4", allowed+":7")
			_, _ = io.WriteString(c, text[:cut])
			if cut > 0 {
				time.Sleep(50 * time.Millisecond) // the client's own slowness is what is tested
			}
			_, refused := io.WriteString(c, text[cut:]) // takes the reset, if that was first
			b, err := io.ReadAll(c)
			if strings.Contains(string(b), "evil.test") || !isReset(errors.Join(refused, err)) && !strings.HasPrefix(string(b), "HTTP/1.1 400 ") {
				t.Errorf("%q after %d bytes: %q, %v", text, cut, b, err)
			}
		}
	}
	if ev := l.denied(policy.ReasonBadRequest); ev.Port != 7 {
		t.Errorf("event %+v", ev)
	}
	c := l.dial("tcp4", allowed+":7") // the twin is TestRaw_NamesByPin too
	const hello = "SSH-2.0-x\r\nnot HTTP\r\n"
	_, _ = io.WriteString(c, hello)
	b := make([]byte, len(hello))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != hello {
		t.Errorf("twin: %q, %v", b, err)
	}
}

// A look-up that nobody answers is not the name's fault.
func TestUnresolved_SaysWhy(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "broken.test", "none.test"))
	for name, want := range map[string]string{"broken.test": "failed to answer", "none.test": "finds no IPv4 address"} {
		if got, _ := l.say(allowed+":80", "GET / HTTP/1.1\r\nHost: "+name+"\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", name, got)
		}
		l.event(name, func(ev bailey.Event) bool { return ev.Host == name && strings.Contains(ev.Message, want) })
	}
}

// A104, A105, A106 and other protocols: names by pin, silence, raw bytes.
func TestRaw_NamesByPin(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test:22", "allow.test:7", "allow.test:8443", "allow.test:8080", "two.test:22", "allow.test"))
	// Before DNS gave the address, nothing ties it to a name.
	if got, err := l.say(allowed+":22", "SSH-2.0-client\r\n"); !isReset(err) {
		t.Errorf("no pin: %q, %v", got, err)
	}
	if got := answers(l.lookup("udp", "192.0.0.1:53", "allow.test", mdns.TypeA)); !slices.Equal(got, []string{allowed}) {
		t.Fatalf("allow.test is %v", got)
	}
	c := l.dial("tcp4", allowed+":22") // server speaks first
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, "banner-of-"+allowed) {
		t.Errorf("silent client: %q, %v", line, err)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	ev := l.event("ssh", func(ev bailey.Event) bool { return ev.Port == 22 && ev.Verdict == "allow" })
	if ev.Host != "allow.test" || ev.Protocol != "tcp" || ev.Rule != "allow.test:22" || ev.BytesIn == 0 {
		t.Errorf("event %+v", ev)
	}
	c = l.dial("tcp4", allowed+":7") // client speaks first, and ends its half first
	_, _ = io.WriteString(c, "\x00ping")
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "\x00ping" {
		t.Errorf("echo: %q, %v", b, err)
	}
	for _, c := range []struct{ what, dest, text, reason string }{
		{"raw on 443, A105", allowed + ":443", "CANARY\n", policy.ReasonUnknown},
		{"raw on 80, A105", allowed + ":80", "SSH-2.0-x\r\n", policy.ReasonUnknown},
		{"binary on 443", allowed + ":443", "\x00\x01\x02", policy.ReasonUnknown},
		{"port without rule", allowed + ":25", "EHLO x\r\n", policy.ReasonPortNotAllowed},
		{"address without pin", evil + ":22", "SSH-2.0-x\r\n", policy.ReasonNotAllowed},
	} {
		if got, err := l.say(c.dest, c.text); !isReset(err) {
			t.Errorf("%s: %q, %v", c.what, got, err)
		}
		h, p, _ := net.SplitHostPort(c.dest)
		l.event(c.what, func(ev bailey.Event) bool {
			return ev.Address == h && fmt.Sprint(ev.Port) == p && ev.Reason == c.reason && ev.Protocol == "tcp"
		})
	}
	// A pin does not help a TLS or HTTP connection that names another host,
	// however slowly it says so.
	for _, pause := range []time.Duration{0, time.Second} {
		for dest, hello := range map[string]string{
			allowed + ":8443":    string(clientHello(t, "evil.test", nil)),
			allowed + ":8080":    "GET / HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n",
			allowed + ":8080 ":   "get / http/1.1\r\nHost: evil.test:8080\r\n\r\n",
			allowed + ":8080  ":  "\r\nGET / HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n",
			allowed + ":8080   ": "GET /" + strings.Repeat("x", 9000) + " HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n",
		} {
			dest = strings.TrimSpace(dest)
			before := len(l.requests())
			c := l.dial("tcp4", dest)
			time.Sleep(pause) // the client's own slowness is what is tested
			_, _ = io.WriteString(c, hello)
			b, err := io.ReadAll(c)
			if !isReset(err) && !strings.HasPrefix(string(b), "HTTP/1.1 40") {
				t.Errorf("%s after %s: %q, %v", dest, pause, b, err)
			}
			if got := l.requests(); len(got) != before {
				t.Errorf("a request was passed on: %v", got[before:])
			}
		}
		if got, err := l.say(allowed+":8080", "GET / HTTP/1.1\r\nHost: allow.test:8080\r\nConnection: close\r\n\r\n"); err != nil || !strings.Contains(got, "hello from "+allowed) {
			t.Errorf("twin: %q, %v", got, err)
		}
	}
	// Silence on a web port ends within the sniff time.
	started := time.Now()
	if b, err := io.ReadAll(l.dial("tcp4", allowed+":443")); !isReset(err) || time.Since(started) > 7*time.Second {
		t.Errorf("A106 silence: %q, %v after %s", b, err, time.Since(started))
	}
	l.denied(policy.ReasonSilent)
	// and where no rule speaks of the port, at once.
	started = time.Now()
	if b, err := io.ReadAll(l.dial("tcp4", evil+":9999")); !isReset(err) || time.Since(started) > 2*time.Second {
		t.Errorf("silence on a hopeless port: %q, %v after %s", b, err, time.Since(started))
	}
	l.untouched(evil)
}

// A076 to A088 from inside: every DNS server is ours.
func TestDNS(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", "*.wild.test", "cname.test", "missing.test"))
	for _, network := range []string{"udp", "tcp"} {
		for _, server := range []string{"192.0.0.1:53", "9.9.9.9:53", resolver + ":53", "1.1.1.1:53"} {
			if got := answers(l.lookup(network, server, "AlloW.test", mdns.TypeA)); !slices.Equal(got, []string{allowed}) {
				t.Errorf("%s %s: %v", network, server, got)
			}
			for _, name := range []string{"mfzwizltoq.evil.test", "evil.test", "allow.test.evil.test"} {
				for _, kind := range []uint16{mdns.TypeA, mdns.TypeTXT, mdns.TypeNULL} {
					if r := l.lookup(network, server, name, kind); r.Rcode != mdns.RcodeNameError {
						t.Errorf("%s %s %s: %v", network, server, name, r)
					}
				}
			}
			if r := l.lookup(network, server, "allow.test", mdns.TypeHTTPS); r.Rcode != mdns.RcodeSuccess || len(r.Answer) != 0 {
				t.Errorf("HTTPS: %v", r)
			}
		}
	}
	if got := answers(l.lookup("udp", "9.9.9.9:53", "cname.test", mdns.TypeA)); !slices.Equal(got, []string{evil}) {
		t.Errorf("alias: %v, want the address alone", got)
	}
	if r := l.lookup("udp", "9.9.9.9:53", "missing.test", mdns.TypeA); r.Rcode != mdns.RcodeNameError {
		t.Errorf("a name that is not there: %v", r)
	}
	// A077: below a wildcard the question does not leave, whatever is there.
	for _, name := range []string{"nowhere.wild.test", "mfzwizltoq.wild.test", "a.wild.test"} {
		if got := answers(l.lookup("udp", "9.9.9.9:53", name, mdns.TypeA)); len(got) != 1 || !strings.HasPrefix(got[0], "198.18.0.") {
			t.Errorf("A077 %s: %v, want what stands for it", name, got)
		}
	}
	want := []string{"allow.test A", "cname.test A", "missing.test A"}
	if got := l.questions(); !slices.Equal(slices.Compact(slices.Sorted(slices.Values(got))), want) {
		t.Errorf("questions that left: %v, want %v", got, want)
	}
	l.event("exfiltration is seen", func(ev bailey.Event) bool {
		return ev.Protocol == "dns" && ev.Host == "mfzwizltoq.evil.test" && ev.Reason == policy.ReasonNotAllowed
	})
}

// The end of the sandbox does not wait for a name server that does not answer
// (the lab checks how long it takes).
func TestDNS_TheEndDoesNotWait(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "hang.test"))
	question, err := new(mdns.Msg).SetQuestion("hang.test.", mdns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.dial("udp4", "192.0.0.1:53").Write(question); err != nil {
		t.Fatal(err)
	}
	l.await("the question at the server", func() bool { return slices.Contains(l.asked, "hang.test A") })
}

// Whatever a sandbox sends, its record is a short line (the lab checks each):
// one that is too long to read would be a denial that nobody sees. An
// ampersand takes six bytes in JSON.
func TestEvents_AreShort(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	long := strings.Repeat("&", 60000)
	const host = "Host: allow.test\r\n"
	for what, text := range map[string]string{
		"method":       long[:7000] + " / HTTP/1.1\r\n" + host + "\r\n",
		"target":       "GET /" + long[:7000] + "# HTTP/1.1\r\n" + host + "\r\n",
		"version":      "GET / HTTP/1.1" + long + "\r\n" + host + "\r\n",
		"field's name": "GET / HTTP/1.1\r\n" + host + long + ": \x01\r\n\r\n",
		"field":        "GET / HTTP/1.1\r\n" + host + "X: \x01" + long + "\r\n\r\n",
		"host":         "GET / HTTP/1.1\r\nHost: " + strings.Repeat("%", 60000) + "\r\n\r\n",
		"port":         "GET / HTTP/1.1\r\nHost: allow.test:" + strings.Repeat("*", 60000) + "\r\n\r\n",
		"later method": "GET / HTTP/1.1\r\n" + host + "\r\n" + long + " / HTTP/1.1\r\n" + host + "\r\n",
	} {
		got, err := l.say(allowed+":80", text)
		if !strings.Contains(got, "HTTP/1.1 400 ") || len(got) > maxEvent {
			t.Errorf("%s: %.300q, %v", what, got, err)
		}
	}
	for _, name := range []string{strings.Repeat("&", 60000), strings.Repeat("\x00", 250)} {
		c := l.dial("tcp4", allowed+":443")
		_, _ = c.Write(clientHello(t, name, nil))
		if b, err := io.ReadAll(c); !isReset(err) {
			t.Errorf("server name: %q, %v", b, err)
		}
	}
	l.lookup("udp", "192.0.0.1:53", strings.Repeat(strings.Repeat("\\&", 61)+".", 4), mdns.TypeA)
	l.await("ten refusals", func() bool {
		n := 0
		for _, ev := range l.events {
			if ev.Verdict == "deny" && ev.Protocol != "dns" {
				n++
			}
		}
		return n >= 10
	})
	l.event("name", func(ev bailey.Event) bool { return ev.Protocol == "dns" && ev.Reason == policy.ReasonInvalidName })
}

// A connection beyond the cap is refused, and others go on.
func TestConnectionCap(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", allowed+":7"))
	var held []net.Conn
	for range 512 {
		c := l.dial("tcp4", allowed+":7")
		_, _ = io.WriteString(c, "x\n")
		if _, err := io.ReadFull(c, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if b, err := io.ReadAll(l.dial("tcp4", allowed+":7")); !isReset(err) {
		t.Errorf("beyond the cap: %q, %v", b, err)
	}
	l.denied(policy.ReasonTooMany)
	_, _ = io.WriteString(held[0], "y\n")
	if b := make([]byte, 2); true {
		if _, err := io.ReadFull(held[0], b); err != nil || string(b) != "y\n" {
			t.Errorf("held: %q, %v", b, err)
		}
	}
	_ = held[1].Close()
	l.event("closed", func(ev bailey.Event) bool { return ev.Verdict == "allow" && ev.Port == 7 })
	if got, err := l.get(evil+":443", &tls.Config{ServerName: "allow.test"}); err != nil || !strings.Contains(got, "hello") {
		t.Errorf("after one closed: %q, %v", got, err)
	}
}

// An upstream that refuses is told apart from a policy that does.
func TestUpstreamRefuses(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test:9443", "allow.test:9080", "missing.test"))
	if _, err := l.get(allowed+":9443", &tls.Config{ServerName: "allow.test"}); !isReset(err) {
		t.Errorf("closed port: %v", err)
	}
	l.event("upstream", func(ev bailey.Event) bool {
		return ev.Verdict == "allow" && ev.Reason == policy.ReasonUpstream && ev.Port == 9443 && ev.Message != ""
	})
	if got, err := l.say(allowed+":9080", "GET / HTTP/1.1\r\nHost: allow.test:9080\r\n\r\n"); err != nil || !strings.HasPrefix(got, "HTTP/1.1 502 ") {
		t.Errorf("closed port, http: %q, %v", got, err)
	}
	if got, err := l.say(allowed+":80", "GET / HTTP/1.1\r\nHost: missing.test\r\n\r\n"); err != nil || !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.Contains(got, "X-Bailey-Reason: unresolved") {
		t.Errorf("no address, http: %q, %v", got, err)
	}
}

func response(t *testing.T, r *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}
