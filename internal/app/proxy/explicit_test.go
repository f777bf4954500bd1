package proxy_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/policy"
)

var (
	httpProxy  = airlock.Gateway().String() + ":3128"
	socksProxy = airlock.Gateway().String() + ":1080"
)

// outcome does something that makes one connection and waits for its event.
func (l *lab) outcome(do func()) bailey.Event {
	l.t.Helper()
	decision := func(ev bailey.Event) bool { return ev.Type == bailey.EventNetDecision && ev.Protocol != "dns" }
	l.mu.Lock()
	before := len(l.events)
	l.mu.Unlock()
	do()
	var found bailey.Event
	l.await("the event of a connection", func() bool {
		i := slices.IndexFunc(l.events[before:], decision)
		if i >= 0 {
			found = l.events[before+i]
		}
		return i >= 0
	})
	return found
}

// opened is a connection of the sandbox, read by way of a buffer.
type opened struct {
	net.Conn
	r *bufio.Reader
}

func (o opened) Read(b []byte) (int, error) { return o.r.Read(b) }

func (l *lab) open(addr string) opened {
	l.t.Helper()
	c := l.dial("tcp4", addr)
	return opened{c, bufio.NewReader(c)}
}

// connectTo asks the HTTP proxy for a tunnel, and returns its answer.
func (l *lab) connectTo(c opened, target string) (status int, head http.Header, body string) {
	l.t.Helper()
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: client/2.0 (of c2VjcmV0)\r\nProxy-Authorization: Basic c2VjcmV0OnNlY3JldA==\r\n\r\n", target, target)
	return l.answerTo(c)
}

func (l *lab) answerTo(c opened) (status int, head http.Header, body string) {
	l.t.Helper()
	res, err := http.ReadResponse(c.r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return 0, nil, err.Error()
	}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(c)
		return res.StatusCode, res.Header, string(b)
	}
	return res.StatusCode, res.Header, ""
}

// socksTo asks the SOCKS5 proxy for a command at a host, as a name unless it
// is an address, and returns the reply's code; 0xff: none came.
func (l *lab) socksTo(c opened, command byte, host string, port uint16) byte {
	l.t.Helper()
	request := []byte{5, 1, 0, 5, command, 0}
	if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
		kind := map[bool]byte{true: 1, false: 4}[a.Is4()]
		request = append(append(request, kind), a.AsSlice()...)
	} else {
		request = append(append(request, 3, byte(len(host))), host...)
	}
	_, _ = c.Write(binary.BigEndian.AppendUint16(request, port))
	reply := make([]byte, 12)
	if n, err := io.ReadFull(c, reply); err != nil || reply[0] != 5 || reply[1] != 0 || reply[2] != 5 {
		l.t.Logf("the SOCKS proxy answers %v, %v", reply[:n], err)
		return 0xff
	}
	return reply[3]
}

// use speaks a protocol over a connection as far as it is let, and reports
// whether the server answered.
func (l *lab) use(c net.Conn, protocol, name string) bool {
	switch protocol {
	case "tls", "tls-noname":
		config := &tls.Config{RootCAs: l.ca.Pool(), ServerName: name}
		if protocol == "tls-noname" {
			config = &tls.Config{InsecureSkipVerify: true}
		}
		s := tls.Client(c, config)
		if s.Handshake() != nil {
			return false
		}
		_, _ = fmt.Fprintf(s, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
		b, _ := io.ReadAll(s)
		return strings.Contains(string(b), "hello from")
	case "http":
		_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
		b, _ := io.ReadAll(c)
		return strings.Contains(string(b), "hello from")
	case "echo": // the client speaks first
		_, _ = io.WriteString(c, "echo\n")
		b := make([]byte, 5)
		_, err := io.ReadFull(c, b)
		return err == nil && string(b) == "echo\n"
	case "banner": // the server does
		b := make([]byte, 4)
		_, err := io.ReadFull(c, b)
		return err == nil && string(b) == "SSH-"
	}
	return false
}

// way is how a connection is made.
type way struct {
	name string
	make func(l *lab, host, addr string, port uint16, protocol string) bool
}

func ways() []way {
	through := func(l *lab, c opened, granted bool, host, protocol string) bool {
		defer func() { _ = c.Close() }()
		return granted && l.use(c, protocol, host)
	}
	return []way{
		{"redirected", func(l *lab, host, addr string, port uint16, protocol string) bool {
			if host != addr {
				l.lookup("udp", "9.9.9.9:53", host, mdns.TypeA)
			}
			return through(l, l.open(fmt.Sprintf("%s:%d", addr, port)), true, host, protocol)
		}},
		{"CONNECT", func(l *lab, host, _ string, port uint16, protocol string) bool {
			c := l.open(httpProxy)
			status, _, _ := l.connectTo(c, fmt.Sprintf("%s:%d", host, port))
			return through(l, c, status == 200, host, protocol)
		}},
		{"SOCKS5", func(l *lab, host, _ string, port uint16, protocol string) bool {
			c := l.open(socksProxy)
			return through(l, c, l.socksTo(c, 1, host, port) == 0, host, protocol)
		}},
		{"SOCKS5 at the other port, by address", func(l *lab, host, addr string, port uint16, protocol string) bool {
			if host != addr {
				l.lookup("udp", "9.9.9.9:53", host, mdns.TypeA)
			}
			c := l.open(httpProxy)
			return through(l, c, l.socksTo(c, 1, addr, port) == 0, host, protocol)
		}},
	}
}

// What is decided does not depend on whether a program knows of the proxy: the
// verdict, the reason, the rule, the name and the address are the same.
func TestExplicit_DecidesAsTransparent(t *testing.T) {
	t.Parallel()
	p := allow(t, "allow.test", "allow.test:7", "allow.test:22", "*.wild.test", "mixed.test", "denied.test", "private.test", second+":22", second+":443", "allow.test:8443")
	p.Allow = append(p.Allow, narrowed(t, "other.test:80", policy.Narrow{Methods: []string{"POST"}}))
	p.Deny = rules(t, "denied.test", "allow.test:8443")
	l := newLab(t, p, withHosts(host+" a.wild.test\n"))
	for _, c := range []struct {
		host, addr string
		port       uint16
		protocol   string
		reason     string // empty: allowed
	}{
		{"allow.test", allowed, 443, "tls", ""},
		{"allow.test", allowed, 80, "http", ""},
		{"allow.test", allowed, 7, "echo", ""},
		{"allow.test", allowed, 22, "banner", ""},
		{"allow.test", allowed, 8443, "tls", "denied-by-rule"},
		{"allow.test", allowed, 8080, "http", "port-not-allowed"},
		{"evil.test", evil, 443, "tls", "not-allowed"},
		{"evil.test", evil, 80, "http", "not-allowed"},
		{"denied.test", second, 80, "http", "denied-by-rule"},
		{"private.test", private, 443, "tls", "special-address"},
		{"mixed.test", allowed, 80, "http", "special-address"},
		{"other.test", allowed, 80, "http", "method-not-allowed"},
		{"allow.test", allowed, 443, "tls-noname", "no-name"},
		{"allow.test", allowed, 443, "echo", "unknown-protocol"},
		{second, second, 22, "banner", ""},
		{second, second, 443, "tls-noname", ""},
		{second, second, 7, "echo", "port-not-allowed"},
		{metadata, metadata, 22, "banner", "special-address"},
	} {
		var first bailey.Event
		for i, w := range ways() {
			if w.name == "SOCKS5 at the other port, by address" && (c.reason != "" && c.host != c.addr) {
				continue // the address alone may be refused before the name is said: for less, never for more
			}
			answered := false
			ev := l.outcome(func() { answered = w.make(l, c.host, c.addr, c.port, c.protocol) })
			if answered != (c.reason == "") || (ev.Verdict == "allow") != answered || ev.Reason != c.reason {
				t.Errorf("%s:%d %s, %s: answered %v, %+v; want reason %q", c.host, c.port, c.protocol, w.name, answered, ev, c.reason)
			}
			if i == 0 {
				first = ev
			}
			if said := ev.Program == "client/2.0"; ev.Protocol == "tls" && said != (w.name == "CONNECT") {
				t.Errorf("%s:%d %s, %s: the program is %q", c.host, c.port, c.protocol, w.name, ev.Program)
			}
			if ev.Host != first.Host || ev.Port != first.Port || ev.Rule != first.Rule || ev.Verdict == "allow" && (ev.Address != first.Address || ev.Protocol != first.Protocol) {
				t.Errorf("%s:%d %s, %s: %+v; redirected %+v", c.host, c.port, c.protocol, w.name, ev, first)
			}
		}
	}
	l.untouched(evil, private, metadata)
}

// A006: what is said in a tunnel names the host that it was asked for, or the
// connection ends; and each refusal says why.
func TestExplicit_NameMismatch(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", "other.test", "allow.test:8080"))
	tunnel := func(target string) opened {
		c := l.open(httpProxy)
		if status, _, body := l.connectTo(c, target); status != 200 {
			t.Fatalf("CONNECT %s: %d %s", target, status, body)
		}
		return c
	}
	for _, name := range []string{"evil.test", "other.test", "a.allow.test"} { // allowed or not
		ev := l.outcome(func() {
			c := tunnel("allow.test:443")
			if l.use(c, "tls", name) {
				t.Errorf("A006: SNI %s passes a tunnel for allow.test", name)
			}
		})
		if ev.Reason != "name-mismatch" || ev.Host != name || ev.Verdict != "deny" {
			t.Errorf("A006: %s: %+v", name, ev)
		}
		ev = l.outcome(func() {
			c := tunnel("allow.test:80")
			_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", name)
			if b, _ := io.ReadAll(c); !strings.Contains(string(b), "X-Bailey-Reason: name-mismatch") {
				t.Errorf("A006: Host %s in a tunnel for allow.test: %q", name, b)
			}
		})
		if ev.Reason != "name-mismatch" {
			t.Errorf("A006: %s: %+v", name, ev)
		}
		ev = l.outcome(func() {
			c := l.open(socksProxy)
			if code := l.socksTo(c, 1, "allow.test", 443); code != 0 || l.use(c, "tls", name) {
				t.Errorf("A006: SNI %s passes a SOCKS connection for allow.test (reply %d)", name, code)
			}
		})
		if ev.Reason != "name-mismatch" {
			t.Errorf("A006: %s: %+v", name, ev)
		}
	}
	ev := l.outcome(func() { // a name is none of an address
		c := tunnel("allow.test:8080")
		_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s:8080\r\n\r\n", allowed)
		_, _ = io.ReadAll(c)
	})
	if ev.Reason != "name-mismatch" {
		t.Errorf("an address in a tunnel for a name: %+v", ev)
	}
	if got := l.requests(); len(got) != 0 {
		t.Errorf("requests reached a server: %q", got)
	}
	for _, name := range []string{"allow.test", "ALLOW.test."} { // the twin; A014: one dot
		c := tunnel(name + ":443")
		if !l.use(c, "tls", "allow.test") {
			t.Errorf("%s does not pass", name)
		}
	}
}

// A CONNECT that is refused is told why, and SOCKS by its code.
func TestExplicit_Refusals(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: bailey.NetOpen, Deny: rules(t, "denied.test")}
	l := newLab(t, p)
	gateway := airlock.Gateway().String()
	for _, c := range []struct {
		what, host string
		port       uint16
		status     int
		code       byte
		reason     string
	}{
		{"denied", "denied.test", 443, 403, 2, "denied-by-rule"},
		{"A012: NUL", "evil.test\x00.allow.test", 443, 400, 2, "invalid-name"},
		{"A014: two dots", "allow.test..", 443, 400, 2, "invalid-name"},
		{"A060: decimal", "2130706433", 80, 400, 2, "invalid-name"},
		{"A060: octal", "0177.0.0.1", 80, 400, 2, "invalid-name"},
		{"A060: hex", "0x7f.1", 80, 400, 2, "invalid-name"},
		{"A060: short", "127.1", 80, 400, 2, "invalid-name"},
		{"A060: padded", "127.000.000.001", 80, 400, 2, "invalid-name"},
		{"A061: this network", "0.0.0.0", 80, 403, 2, "special-address"},
		{"A061: by name", "zero.test", 80, 403, 2, "special-address"},
		{"A062: a zone", "fe80::1%vs", 80, 400, 2, "invalid-name"},
		{"A063: link-local by name", "meta.test", 80, 403, 2, "special-address"},
		{"A063: link-local", metadata, 80, 403, 2, "special-address"},
		{"A064: the listener", gateway, 15001, 403, 2, "special-address"},
		{"A064: the proxy by way of itself", gateway, 3128, 403, 2, "special-address"},
		{"A064: the proxy's loopback", "127.0.0.1", 80, 403, 2, "special-address"},
		{"A064: the host by name", "host.test", 80, 403, 2, "host-address"},
		{"localhost", "localhost", 80, 403, 2, "special-address"},
		{"a service that no rule opens", policy.ServiceHost, 80, 403, 2, "not-allowed"},
		{"nobody", "nobody.test", 80, 502, 4, "unresolved"},
		{"port 53", "allow.test", 53, 403, 2, "not-allowed"},
		{"port 53 of an address", allowed, 53, 403, 2, "not-allowed"},
		{"a wildcard", "*.allow.test", 80, 400, 2, "invalid-name"},
		{"userinfo", "allow.test@evil.test", 80, 400, 2, "invalid-name"},
		{"unicode, A050", "ａllow.test", 80, 400, 2, "invalid-name"},
	} {
		if !strings.ContainsAny(c.host, "\x00:") {
			ev := l.outcome(func() {
				conn := l.open(httpProxy)
				status, head, body := l.connectTo(conn, fmt.Sprintf("%s:%d", c.host, c.port))
				verb := "bailey refused CONNECT "
				if policy.Unreached(c.reason) != "" {
					verb = "bailey could not pass on CONNECT "
				}
				if status != c.status || head.Get("X-Bailey-Reason") != c.reason || !strings.HasPrefix(body, verb) {
					t.Errorf("%s: CONNECT: %d %v %q", c.what, status, head, body)
				}
			})
			if ev.Reason != c.reason || ev.Verdict != "deny" || ev.Port != c.port {
				t.Errorf("%s: %+v", c.what, ev)
			}
		}
		ev := l.outcome(func() {
			if code := l.socksTo(l.open(socksProxy), 1, c.host, c.port); code != c.code {
				t.Errorf("%s: SOCKS: %#x", c.what, code)
			}
		})
		if ev.Reason != c.reason || ev.Verdict != "deny" {
			t.Errorf("%s: %+v", c.what, ev)
		}
	}
	for _, six := range []string{"[2606:4700::1111]:443", "[::1]:80", "[::ffff:127.0.0.1]:80"} {
		if status, _, body := l.connectTo(l.open(httpProxy), six); status != 403 || !strings.Contains(body, "IPv4 alone") {
			t.Errorf("%s: %d %q", six, status, body)
		}
	}
	for _, zone := range []string{"[fe80::1%25eth0]:80", "[::1%25lo]:80", "[fe80::1%vs]:80", "fe80::1%vs:80", "[127.0.0.1]:80"} { // A062
		if status, head, body := l.connectTo(l.open(httpProxy), zone); status != 400 || head.Get("X-Bailey-Reason") != "invalid-name" {
			t.Errorf("A062: %s: %d %v %q", zone, status, head, body)
		}
	}
	if code := l.socksTo(l.open(socksProxy), 1, "2606:4700::1111", 443); code != 8 {
		t.Errorf("IPv6 by SOCKS: %#x", code)
	}
	for _, command := range []byte{2, 3, 0, 9} { // BIND, UDP ASSOCIATE
		if code := l.socksTo(l.open(socksProxy), command, "allow.test", 443); code != 7 {
			t.Errorf("SOCKS command %d: %#x", command, code)
		}
	}
	l.untouched(allowed, second, evil, private, metadata, host, "127.0.0.1")
	if c := l.open(socksProxy); l.socksTo(c, 1, "allow.test", 80) != 0 || !l.use(c, "http", "allow.test") { // the twin
		t.Error("allow.test does not pass by SOCKS")
	}
}

// The head of a request to the proxy is read in one way, or not at all.
func TestExplicit_StrictHeads(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", "allow.test:443"))
	for _, c := range []struct {
		what, text string
		status     int
		reason     string
	}{
		{"no port", "CONNECT allow.test HTTP/1.1\r\nHost: allow.test\r\n\r\n", 400, "bad-request"},
		{"port 0", "CONNECT allow.test:0 HTTP/1.1\r\n\r\n", 400, "bad-request"},
		{"long port", "CONNECT allow.test:0443 HTTP/1.1\r\n\r\n", 400, "bad-request"},
		{"big port", "CONNECT allow.test:65979 HTTP/1.1\r\n\r\n", 400, "bad-request"},
		{"two names, A033", "CONNECT allow.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", 400, "name-mismatch"},
		{"another port", "CONNECT allow.test:443 HTTP/1.1\r\nHost: allow.test:80\r\n\r\n", 400, "name-mismatch"},
		{"two Hosts, A033", "CONNECT allow.test:443 HTTP/1.1\r\nHost: allow.test\r\nHost: allow.test\r\n\r\n", 400, "no-name"},
		{"a body", "CONNECT allow.test:443 HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody", 400, "bad-request"},
		{"chunks", "CONNECT allow.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"},
		{"bare LF, A136", "CONNECT allow.test:443 HTTP/1.1\nHost: allow.test\n\n", 400, "bad-request"},
		{"NUL, A034", "CONNECT evil.test\x00.allow.test:443 HTTP/1.1\r\n\r\n", 400, "bad-request"},
		{"obs-fold", "CONNECT allow.test:443 HTTP/1.1\r\nX: y\r\n z\r\n\r\n", 400, "bad-request"},
		{"two spaces", "CONNECT  allow.test:443 HTTP/1.1\r\n\r\n", 400, "bad-request"},
		{"HTTP/2", "CONNECT allow.test:443 HTTP/2.0\r\n\r\n", 400, "bad-request"},
		{"a URL", "CONNECT https://allow.test:443 HTTP/1.1\r\n\r\n", 400, "invalid-name"},
		{"endless", "CONNECT allow.test:443 HTTP/1.1\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 70) + "\r\n", 400, "bad-request"},
		{"many fields", "CONNECT allow.test:443 HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 300) + "\r\n", 400, "bad-request"},
		{"lower case", "connect allow.test:443 HTTP/1.1\r\nHost: allow.test\r\n\r\n", 400, "bad-request"},
		{"a page of the proxy's", "GET / HTTP/1.1\r\nHost: " + httpProxy + "\r\n\r\n", 400, "bad-request"},
		{"origin form", "GET / HTTP/1.1\r\nHost: allow.test\r\n\r\n", 400, "bad-request"},
		{"https URL", "GET https://allow.test/ HTTP/1.1\r\nHost: allow.test\r\n\r\n", 400, "bad-request"},
		{"target and Host, A022", "GET http://allow.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 400, "name-mismatch"},
		{"a port that is none", "GET http://allow.test:/ HTTP/1.1\r\nHost: allow.test:\r\n\r\n", 400, "bad-request"},
		{"unlisted", "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, "not-allowed"},
		{"unlisted port", "GET http://allow.test:81/ HTTP/1.1\r\nHost: allow.test:81\r\n\r\n", 403, "port-not-allowed"},
		{"A060: a number", "GET http://2130706433/ HTTP/1.1\r\nHost: 2130706433\r\n\r\n", 400, "invalid-name"},
		{"A061: this network", "GET http://0.0.0.0/ HTTP/1.1\r\nHost: 0.0.0.0\r\n\r\n", 403, "special-address"},
		{"A064: itself", "GET http://" + httpProxy + "/ HTTP/1.1\r\nHost: " + httpProxy + "\r\n\r\n", 403, "special-address"},
		{"IPv6", "GET http://[::1]/ HTTP/1.1\r\nHost: [::1]\r\n\r\n", 403, "not-allowed"},
		{"CL.TE, A133", "POST http://allow.test/ HTTP/1.1\r\nHost: allow.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", 400, "bad-request"},
	} {
		ev := l.outcome(func() {
			got, err := l.say(httpProxy, c.text)
			if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.status)) || !strings.Contains(got, "X-Bailey-Reason: "+c.reason+"\r\n") {
				t.Errorf("%s: %q, %v; want %d, %s", c.what, got, err, c.status, c.reason)
			}
		})
		if ev.Reason != c.reason || ev.Verdict != "deny" {
			t.Errorf("%s: %+v", c.what, ev)
		}
	}
	for _, c := range []struct{ what, text, reason string }{
		{"SOCKS4", "\x04\x01\x00\x50\x0b\x00\x00\x0a\x00", "bad-request"},
		{"TLS", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "bad-tls"},
		{"SOCKS, no method", "\x05\x00", "bad-request"},
		{"SOCKS, GSSAPI alone", "\x05\x01\x01", "bad-request"},
		{"SOCKS, another version", "\x05\x01\x00\x04\x01\x00\x01\x00\x00\x00\x00\x00\x00", "bad-request"},
		{"SOCKS, unknown address", "\x05\x01\x00\x05\x01\x00\x02\x00\x00\x00\x00\x00\x00", "bad-request"},
		{"SOCKS, empty name", "\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50", "bad-request"},
	} {
		ev := l.outcome(func() { _, _ = l.say(socksProxy, c.text) })
		if ev.Reason != c.reason || ev.Verdict != "deny" {
			t.Errorf("%s: %+v", c.what, ev)
		}
	}
	if ev := l.outcome(func() { _ = l.open(httpProxy).Close() }); ev.Reason != "silent" {
		t.Errorf("a client that goes: %+v", ev)
	}
	if got := l.requests(); len(got) != 0 {
		t.Errorf("requests reached a server: %q", got)
	}
	l.untouched(allowed, evil)
}

// What is valid passes: without Host, with a name and password, with bytes that
// follow at once, one request after the other.
func TestExplicit_Passes(t *testing.T) {
	t.Parallel()
	p := allow(t, "allow.test", "allow.test:7", "other.test", second)
	l := newLab(t, p)
	for what, text := range map[string]string{
		"HTTP/1.0, no Host": "CONNECT allow.test:7 HTTP/1.0\r\n\r\n",
		"Host without port": "CONNECT allow.test:7 HTTP/1.1\r\nHost: Allow.test\r\nContent-Length: 0\r\n\r\n",
	} {
		c := l.open(httpProxy)
		_, _ = io.WriteString(c, text+"at once\n") // what follows at once is of the tunnel
		if status, _, body := l.answerTo(c); status != 200 {
			t.Fatalf("%s: %d %q", what, status, body)
		}
		b := make([]byte, 8)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "at once\n" {
			t.Errorf("%s: %q, %v", what, b, err)
		}
	}
	c := l.open(socksProxy) // RFC 1929, byte by byte, and what follows at once
	for _, b := range []byte("\x05\x02\x01\x02\x01\x04user\x04pass\x05\x01\x00\x03\x0aallow.test\x00\x07at once\n") {
		_, _ = c.Write([]byte{b})
	}
	want := "\x05\x02\x01\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00at once\n"
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Errorf("name and password: %q, %v", b, err)
	}
	// A157: what a relay inside adds for itself goes nowhere, and changes nothing.
	for _, c := range []struct{ host, status string }{{"allow.test", "200 OK"}, {second, "200 OK"}, {"evil.test", "403 Forbidden"}} {
		got, err := l.say(socksProxy, "GET http://"+c.host+"/headers?a=%zz HTTP/1.1\r\nHost: "+c.host+"\r\nProxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nX-Kept: yes\r\n\r\nGET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n")
		if err != nil || !strings.HasPrefix(got, "HTTP/1.1 "+c.status) || !strings.Contains(got, "Connection: close\r\n") {
			t.Errorf("A157: %s: %q, %v", c.host, got, err)
		}
		if strings.Contains(got, "c2VjcmV0") || strings.Contains(got, "Proxy-") || strings.Contains(got, "X-Kept") != (c.status == "200 OK") {
			t.Errorf("A157: %s: the server was told %q", c.host, got)
		}
	}
	if got := l.requests(); !slices.Equal(got, []string{allowed + ":80 GET allow.test /headers?a=%zz", second + ":80 GET " + second + " /headers?a=%zz"}) {
		t.Errorf("requests %q", got)
	}
}

// A service of this machine is reached by its name through the proxy too.
func TestExplicit_ServiceOfTheMachine(t *testing.T) {
	t.Parallel()
	service, err := policy.ServiceRule(80)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{service}})
	for _, w := range ways()[:3] {
		ev := l.outcome(func() {
			if !w.make(l, policy.ServiceHost, policy.ServiceAddr().String(), 80, "http") {
				t.Errorf("%s: no answer", w.name)
			}
		})
		if ev.Verdict != "allow" || ev.Host != policy.ServiceHost || ev.Address != "127.0.0.1" {
			t.Errorf("%s: %+v", w.name, ev)
		}
		ev = l.outcome(func() {
			if w.make(l, policy.ServiceHost, policy.ServiceAddr().String(), 443, "tls") {
				t.Errorf("%s: another port answers", w.name)
			}
		})
		if ev.Verdict != "deny" || ev.Reason != "not-allowed" {
			t.Errorf("%s: %+v", w.name, ev)
		}
	}
}
