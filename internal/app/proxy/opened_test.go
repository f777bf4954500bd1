package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// inspected is a policy under which TLS to allow.test is opened, some requests
// to narrow.test pass, and other.test is spliced.
func inspected(t *testing.T) policy.Policy {
	t.Helper()
	p := policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{
		narrowed(t, "narrow.test", policy.Narrow{Methods: []string{"GET"}, Paths: []string{"/v1/*"}}),
		narrowed(t, "*.wild.test", policy.Narrow{Inspect: true}),
		{Host: "other.test"},
	}}
	for _, at := range []string{"allow.test", "allow.test:9443", "allow.test:9447", "allow.test:9448", "allow.test:9449", "allow.test:9450"} {
		p.Allow = append(p.Allow, narrowed(t, at, policy.Narrow{Inspect: true}))
	}
	return p
}

// openLab is a lab with that policy, and with a server of HTTP/2 at port 9443.
func openLab(t *testing.T, opts ...option) *lab {
	t.Helper()
	l := newLab(t, inspected(t), opts...)
	for _, name := range []string{"narrow.test", "a.wild.test", "b.wild.test"} {
		l.rebind(name, allowed)
	}
	l.webAs(l.world, allowed+":9443", l.ca.ServerConfig("h2", "http/1.1"))
	return l
}

// shake does a handshake from the sandbox. The connection goes to where the
// evil host is, as the name alone counts.
func (l *lab) shake(name string, port int, protos ...string) *tls.Conn {
	l.t.Helper()
	c, err := l.tryShake(&tls.Config{ServerName: name, RootCAs: l.trusted, NextProtos: protos}, port)
	if err != nil {
		l.t.Fatalf("handshake for %s: %v", name, err)
	}
	return c
}

func (l *lab) tryShake(config *tls.Config, port int) (*tls.Conn, error) {
	l.t.Helper()
	c := tls.Client(l.dial("tcp4", l.at(strconv.Itoa(port))), config)
	return c, c.Handshake()
}

// at is where the sandbox connects to for a port. On those of the web the name
// alone counts, wherever that is; on others who has looked nothing up is given
// 0.3 s to speak, which a busy machine can take.
func (l *lab) at(port string) string {
	l.t.Helper()
	if port == "443" || port == "80" {
		return net.JoinHostPort(evil, port)
	}
	l.lookup("udp", resolver+":53", "allow.test.", mdns.TypeA)
	return net.JoinHostPort(allowed, port)
}

// isOpened reports whether a connection ended at the proxy.
func (l *lab) isOpened(c *tls.Conn) bool {
	chain := c.ConnectionState().VerifiedChains
	return len(chain) > 0 && bytes.Equal(chain[0][len(chain[0])-1].Raw, l.root.DER())
}

// sayTLS is say, inside TLS.
func (l *lab) sayTLS(name string, port int, text string) string {
	l.t.Helper()
	var b []byte
	for range 2 { // on a busy machine a handshake may take longer than the proxy waits, and then nothing is said
		c := l.shake(name, port)
		_, _ = io.WriteString(c, text)
		b, _ = io.ReadAll(c)
		_ = c.Close()
		if len(b) > 0 {
			break
		}
	}
	return string(b)
}

// client is an HTTP client in the sandbox that speaks HTTP/2, or does not.
func (l *lab) client(h2 bool) *http.Client {
	t := &http.Transport{
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(addr)
			return l.tryDial("tcp4", l.at(port))
		},
		TLSClientConfig:   &tls.Config{RootCAs: l.trusted},
		ForceAttemptHTTP2: h2,
	}
	l.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: time.Minute}
}

func (l *lab) fetch(c *http.Client, url string) (res *http.Response, body string) {
	l.t.Helper()
	res, err := c.Get(url)
	if err != nil {
		l.t.Fatalf("%s: %v", url, err)
	}
	b, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		l.t.Fatalf("%s: %v", url, err)
	}
	return res, string(b)
}

// What is opened, and that the rest is not.
func TestOpened_OnlyWhatRulesWant(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	for name, want := range map[string]bool{"allow.test": true, "ALLOW.test": true, "narrow.test": true, "a.wild.test": true, "other.test": false} {
		c := l.shake(name, 443)
		if got := l.isOpened(c); got != want {
			t.Errorf("%s is opened: %v", name, got)
		}
		leaf := c.ConnectionState().PeerCertificates[0]
		if want && (len(leaf.DNSNames) != 1 || leaf.DNSNames[0] != strings.ToLower(name) || len(leaf.IPAddresses) > 0 || !leaf.NotAfter.Before(time.Now().Add(8*24*time.Hour))) {
			t.Errorf("%s: a leaf for %v, until %v", name, leaf.DNSNames, leaf.NotAfter)
		}
		_ = c.Close()
		if got, err := l.get(evil+":443", &tls.Config{ServerName: name}); err != nil || !strings.Contains(got, "HTTP/1.1 ") || strings.Contains(got, "hello from "+allowed+":443 as "+strings.ToLower(name)) == (name == "narrow.test") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	ev := l.event("the whole connection", func(ev bailey.Event) bool {
		return ev.Host == "allow.test" && ev.Verdict == "allow" && ev.Method == "GET" && ev.Path == "/"
	})
	if ev.Protocol != "tls" || ev.Address != allowed || ev.BytesIn == 0 || ev.BytesOut == 0 {
		t.Errorf("%+v", ev)
	}
	if _, err := l.get(evil+":443", &tls.Config{ServerName: "evil.test"}); !isReset(err) {
		t.Errorf("unlisted: %v", err)
	}
	l.untouched(evil)
}

// Rules about requests are kept inside TLS, over both versions of HTTP.
func TestOpened_RulesAboutRequests(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	for _, h2 := range []bool{false, true} {
		c := l.client(h2)
		for _, step := range []struct {
			method, path, reason string
			status               int
		}{
			{"GET", "/v1/a?q=1", "", 200},
			{"POST", "/v1/a", policy.ReasonMethod, 403},
			{"GET", "/v2/a", policy.ReasonPath, 403},
			{"GET", "/v1/%2e%2e/v2", policy.ReasonBadPath, 403},
			{"GET", "/v1//x", policy.ReasonBadPath, 403},
			{"GET", "/v1/b", "", 200},
		} {
			r, _ := http.NewRequest(step.method, "https://narrow.test"+step.path, nil)
			res, err := c.Do(r)
			if err != nil {
				t.Fatalf("h2 %v, %s: %v", h2, step.path, err)
			}
			b, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != step.status || res.Header.Get("X-Bailey-Reason") != step.reason || (res.ProtoMajor == 2) != h2 {
				t.Errorf("h2 %v, %s %s: %d %s %s %q", h2, step.method, step.path, res.StatusCode, res.Proto, res.Header.Get("X-Bailey-Reason"), b)
			}
		}
	}
	for _, r := range l.requests() {
		if !strings.Contains(r, "narrow.test /v1/a?q=1") && !strings.Contains(r, "narrow.test /v1/b") {
			t.Errorf("passed on: %s", r)
		}
	}
	for _, want := range [][3]string{{policy.ReasonPath, "GET", "/v2/a"}, {policy.ReasonMethod, "POST", "/v1/a"}, {policy.ReasonBadPath, "GET", "/v1/%2e%2e/v2"}} {
		l.await("two events of "+want[0], func() bool {
			n := 0
			for _, ev := range l.events {
				if ev.Verdict == "deny" && ev.Reason == want[0] && ev.Method == want[1] && ev.Path == want[2] && ev.Host == "narrow.test" {
					n++
				}
			}
			return n == 2
		})
	}
}

// A deny rule about requests opens TLS as well, in every mode.
func TestOpened_DenyRules(t *testing.T) {
	t.Parallel()
	l := newLab(t, policy.Policy{Mode: bailey.NetOpen, Deny: []policy.Rule{narrowed(t, "allow.test", policy.Narrow{Paths: []string{"/secret/*"}})}})
	for path, status := range map[string]int{"/x": 200, "/secret/x": 403, "/a/../secret/x": 403} {
		if got := l.sayTLS("allow.test", 443, "GET "+path+" HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", status)) {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// Without a root that speaks for the host nothing passes that ought to be seen.
func TestOpened_FailsClosedWithoutRoot(t *testing.T) {
	t.Parallel()
	l := openLab(t, withoutRoot)
	for _, name := range []string{"allow.test", "narrow.test"} {
		if _, err := l.get(evil+":443", &tls.Config{ServerName: name}); !isReset(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ev := l.denied(policy.ReasonSealed); !strings.Contains(ev.Message, "start it again") {
		t.Errorf("%+v", ev)
	}
	l.untouched(allowed)
}

// A004, A014, A022, A030 to A037, A105, A133 to A148: the attacks of plain
// HTTP/1.1 inside TLS.
func TestOpened_RefusalsHTTP1(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	const ok = "Host: allow.test\r\n"
	for _, c := range []struct {
		what, text string
		status     int
		reason     string
	}{
		{"fronting, A004", "GET /x HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421, "name-mismatch"},
		{"another allowed name, A004", "GET /x HTTP/1.1\r\nHost: other.test\r\n\r\n", 421, "name-mismatch"},
		{"two dots, A014", "GET /x HTTP/1.1\r\nHost: allow.test..\r\n\r\n", 400, "invalid-name"},
		{"absolute form to another, A022", "GET http://evil.test/x HTTP/1.1\r\n" + ok + "\r\n", 400, "name-mismatch"},
		{"absolute form, A022", "GET http://allow.test/x HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"https form, A022", "GET https://allow.test/x HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"other port, A032", "GET /x HTTP/1.1\r\nHost: allow.test:8443\r\n\r\n", 400, "name-mismatch"},
		{"two Hosts, A033", "GET /x HTTP/1.1\r\n" + ok + "Host: evil.test\r\n\r\n", 400, "no-name"},
		{"comma, A033", "GET /x HTTP/1.1\r\nHost: allow.test,evil.test\r\n\r\n", 400, ""},
		{"obs-fold, A033", "GET /x HTTP/1.1\r\nHost: allow.test\r\n .evil.test\r\n\r\n", 400, "bad-request"},
		{"percent, A034", "GET /x HTTP/1.1\r\nHost: evil.test%00.allow.test\r\n\r\n", 400, "invalid-name"},
		{"NUL, A034", "GET /x HTTP/1.1\r\nHost: evil.test\x00.allow.test\r\n\r\n", 400, "bad-request"},
		{"no HTTP, A105", "SSH-2.0-x\r\n\r\n", 400, "bad-request"},
		{"bytes, A105", "\x00\x01\x02\r\n\r\n", 400, "bad-request"},
		{"CL.TE, A133", "POST /x HTTP/1.1\r\n" + ok + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", 400, "bad-request"},
		{"TE.TE, A134", "POST /x HTTP/1.1\r\n" + ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400, "bad-request"},
		{"TE on 1.0, A134", "POST /x HTTP/1.0\r\n" + ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"},
		{"bare LF, A136", "GET /x HTTP/1.1\nHost: allow.test\n\n", 400, "bad-request"},
		{"bare CR, A136", "GET /x HTTP/1.1\r\nHost: allow.test\rX: y\r\n\r\n", 400, "bad-request"},
		{"fragment, A145", "GET /x#y HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"CONNECT", "CONNECT evil.test:443 HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"TRACE", "TRACE /x HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"h2c preface, A148", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad-request"},
		{"endless head", "GET /x HTTP/1.1\r\n" + ok + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 70) + "\r\n", 400, "bad-request"},
	} {
		got := l.sayTLS("allow.test", 443, c.text)
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.status)) || !strings.Contains(got, "X-Bailey-Reason: "+c.reason) || !strings.Contains(got, "Connection: close") {
			t.Errorf("%s: %q; want %d, %s", c.what, got, c.status, c.reason)
		}
	}
	for _, size := range []string{"0x5", "5;a", "+5", " 5", "00000000000000005", "5\n"} { // A137
		got := l.sayTLS("allow.test", 443, "POST /body HTTP/1.1\r\n"+ok+"Transfer-Encoding: chunked\r\n\r\n"+size+"\r\nhello\r\n0\r\n\r\n")
		if strings.Contains(got, "5 bytes") {
			t.Errorf("A137, chunk size %q: %q", size, got)
		}
	}
	if got := l.requests(); slices.ContainsFunc(got, func(r string) bool { return !strings.Contains(r, "POST allow.test /body") }) {
		t.Errorf("requests reached a server: %q", got)
	}
	l.untouched(evil)
	// The twin: what the attacks are made of passes when it is well formed.
	got := l.sayTLS("allow.test", 443, "POST /body HTTP/1.1\r\nHost: ALLOW.test.:443\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	if !strings.Contains(got, "5 bytes") {
		t.Errorf("the twin: %q", got)
	}
}

// A030 inside TLS, and one event for the part that was good.
func TestOpened_KeepAlive(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	c := l.shake("allow.test", 443)
	r := bufio.NewReader(c)
	for _, step := range []struct {
		host   string
		status int
	}{{"allow.test", 200}, {"allow.test", 200}, {"other.test", 421}} {
		_, _ = fmt.Fprintf(c, "GET /keep HTTP/1.1\r\nHost: %s\r\n\r\n", step.host)
		if res, body := response(t, r, "GET"); res.StatusCode != step.status {
			t.Errorf("%s: %d %q", step.host, res.StatusCode, body)
		}
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on: %v", err)
	}
	l.denied(policy.ReasonNameMismatch)
	l.event("the good part", func(ev bailey.Event) bool { return ev.Verdict == "allow" && ev.Path == "/keep" && ev.BytesIn > 0 })
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.seen[allowed+":443"]; n != 1 {
		t.Errorf("%d upstream connections for two requests", n)
	}
}

// What goes out is rebuilt (A036, A140), answers lose Alt-Svc (A108) and
// trailers (A138), and no body is touched.
func TestOpened_Rebuilt(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	got := l.sayTLS("allow.test", 443, "GET /headers?a=1;b=%zz HTTP/1.1\r\nHost: allow.test\r\nUser-Agent: mine\r\nAuthorization: Bearer x\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: evil.test\r\nForwarded: host=evil.test\r\nX_Forwarded_Host: evil.test\r\nX-Host: evil.test\r\nx.original_host: evil.test\r\n"+
		"Connection: close, X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nTE: trailers\r\nProxy-Authorization: x\r\n\r\n")
	_, body, _ := strings.Cut(got, "\r\n\r\n")
	if !strings.Contains(body, `"Authorization":["Bearer x"]`) || !strings.Contains(body, `"User-Agent":["mine"]`) {
		t.Errorf("%q", got)
	}
	for _, gone := range []string{"Forwarded", "X-Hop", "Upgrade", "Http2", "Te\"", "Proxy", "evil"} {
		if strings.Contains(body, gone) {
			t.Errorf("%s in %s", gone, body)
		}
	}
	for _, h2 := range []bool{false, true} {
		for _, url := range []string{"https://allow.test/alt", "https://allow.test:9443/alt"} {
			res, body := l.fetch(l.client(h2), url)
			want := "HTTP/1.1" // what the client speaks, if the host does
			if h2 && strings.Contains(url, ":9443") {
				want = "HTTP/2.0"
			}
			if res.Header.Get("Alt-Svc") != "" || body != want {
				t.Errorf("%s: Alt-Svc %q, %q", url, res.Header.Get("Alt-Svc"), body)
			}
		}
		r, _ := http.NewRequest("POST", "https://allow.test:9443/trailers", io.NopCloser(strings.NewReader("hello")))
		r.Trailer = http.Header{"X-Mine": {"smuggled"}}
		res, err := l.client(h2).Do(r)
		if h2 && err != nil {
			t.Fatal(err)
		}
		if err == nil {
			b, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if h2 && string(b) != "hello" || len(res.Trailer) > 0 || strings.Contains(fmt.Sprint(res.Trailer), "smuggled") {
				t.Errorf("h2 %v: %q, trailers %v", h2, b, res.Trailer)
			}
		}
		res, body = l.fetch(l.client(h2), "https://allow.test/big")
		if res.StatusCode != 200 || len(body) != 64<<20 {
			t.Errorf("h2 %v: %d bytes", h2, len(body))
		}
	}
}

// gRPC: both directions at once, and trailers at the end.
func TestOpened_GRPC(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	in, out := io.Pipe()
	r, _ := http.NewRequest("POST", "https://allow.test:9443/grpc.Service/Echo", in)
	r.Header.Set("Content-Type", "application/grpc+proto")
	r.Header.Set("Te", "trailers")
	res, err := l.client(true).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	for i := range 3 {
		word := fmt.Sprintf("message %d", i)
		_, _ = io.WriteString(out, word)
		got := make([]byte, len(word))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != word {
			t.Fatalf("%q, %v", got, err)
		}
	}
	_ = out.Close()
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if res.Trailer.Get("Grpc-Status") != "0" || res.Header.Get("X-Te") != "trailers" {
		t.Errorf("trailers %v, headers %v", res.Trailer, res.Header)
	}
}

// Nothing is held back: the first part of a stream arrives while it goes on.
func TestOpened_Streams(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	for _, h2 := range []bool{false, true} {
		res, err := l.client(h2).Get("https://allow.test/stream")
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(res.Body).ReadString('\n')
		if err != nil || line != "first\n" {
			t.Errorf("%q, %v", line, err)
		}
		_ = res.Body.Close()
	}
}

// A149, A150.
func TestOpened_WebSocket(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	key := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef"))
	ask := func(port int, path, upgrade string) (*tls.Conn, *bufio.Reader) {
		c := l.shake("allow.test", port)
		_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: allow.test\r\nConnection: Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", path, upgrade, key)
		return c, bufio.NewReader(c)
	}
	for _, port := range []int{443, 9443} { // also of a host that would rather speak HTTP/2
		c, r := ask(port, "/ws", "websocket")
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != 101 {
			t.Fatalf("A149, port %d: %v, %v", port, res, err)
		}
		_, _ = io.WriteString(c, "frames")
		got := make([]byte, 6)
		if _, err := io.ReadFull(r, got); err != nil || string(got) != "frames" {
			t.Errorf("%q, %v", got, err)
		}
		_ = c.Close()
	}
	for path, upgrade := range map[string]string{"/fakews": "websocket", "/no101": "websocket", "/ws": "websocket, foo", "/ws?1": "TLS/1.0"} {
		c, r := ask(443, path, upgrade)
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode == 101 {
			t.Errorf("A149 and A150, %s: %v, %v", path, res, err)
		}
		_ = c.Close()
	}
}

// A024 to A029, A138, A144, A145, A152, A153 and a request that names no host:
// requests that a library would not send.
func TestOpened_RefusalsHTTP2(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	usual := func(change ...string) []string {
		h := []string{":method", "GET", ":scheme", "https", ":authority", "allow.test", ":path", "/x"}
		for i := 0; i < len(change); i += 2 {
			if k := slices.Index(h, change[i]); k >= 0 && strings.HasPrefix(change[i], ":") {
				h[k+1] = change[i+1]
				if change[i+1] == "-" {
					h = slices.Delete(h, k, k+2)
				}
				continue
			}
			h = append(h, change[i], change[i+1])
		}
		return h
	}
	for _, c := range []struct {
		what   string
		fields []string
		status string // of an answer; "" for a reset stream or connection
		reason string
	}{
		{"good", usual(), "200", ""},
		{"good, with a port and a Host", usual(":authority", "Allow.test:443", "host", "Allow.test:443"), "200", ""},
		{"absolute :path, A024", usual(":path", "https://evil.test/x"), "", ""},
		{"absolute :path of its own, A024", usual(":path", "https://allow.test/x"), "", ""},
		{"authority and Host, A025", usual("host", "evil.test"), "", ""},
		{"two Hosts, A025", usual("host", "allow.test", "host", "evil.test"), "", ""},
		{"Host alone, A026", usual(":authority", "-", "host", "evil.test"), "421", "name-mismatch"},
		{"Host alone that is right, A026", usual(":authority", "-", "host", "allow.test"), "200", ""},
		{"no host at all", usual(":authority", "-"), "400", "no-name"},
		{":scheme http, A028", usual(":scheme", "http"), "400", "bad-request"},
		{":scheme ftp, A028", usual(":scheme", "ftp"), "", ""},
		{"coalescing, A029", usual(":authority", "other.test"), "421", "name-mismatch"},
		{"fronting, A004", usual(":authority", "evil.test"), "421", "name-mismatch"},
		{"other port, A032", usual(":authority", "allow.test:8443"), "400", "name-mismatch"},
		{"user, A033", usual(":authority", "allow.test@evil.test"), "", ""},
		{"percent, A034", usual(":authority", "evil.test%00.allow.test"), "400", "invalid-name"},
		{"CONNECT, A152", []string{":method", "CONNECT", ":authority", "169.254.169.254:80"}, "400", "bad-request"},
		{"CONNECT to itself, A152", []string{":method", "CONNECT", ":authority", "allow.test:443"}, "400", "bad-request"},
		{"extended CONNECT, A152", []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "allow.test", ":path", "/ws"}, "", ""},
		{"TRACE", usual(":method", "TRACE"), "400", "bad-request"},
		{"no slash, A153", usual(":path", "Service/Method"), "", ""},
		{"star", usual(":path", "*"), "400", "bad-request"},
		{"fragment, A145", usual(":path", "/x#y"), "400", "bad-request"},
		{"Transfer-Encoding, A144", usual("transfer-encoding", "chunked"), "", ""},
		{"Connection, A144", usual("connection", "x"), "", ""},
		{"line feed in a value, A144", usual("x", "a\r\nb: c"), "", ""},
		{"line feed in a path, A144", usual(":path", "/x\r\nHost: evil.test"), "", ""},
		{"capitals, A144", usual("X-Y", "z"), "", ""},
		{"method of two words, A144", usual(":method", "GET /x"), "", ""},
		{"two authorities", usual(":authority", "allow.test", ":authority2", "x"), "", ""},
		{"wrong length, A144", usual("content-length", "5"), "", ""},
		{"many fields", append(usual(), manyFields(300)...), "400", "bad-request"},
	} {
		status, reason := l.rawHTTP2(c.fields)
		ok := status == c.status && reason == c.reason
		if c.status == "" { // refused, in whichever way
			ok = status == "" || status[0] == '4'
		}
		if !ok {
			t.Errorf("%s: %q %q, want %q %q", c.what, status, reason, c.status, c.reason)
		}
	}
	for _, r := range l.requests() {
		if r != allowed+":443 GET allow.test /x" {
			t.Errorf("passed on: %s", r)
		}
	}
	if n := len(l.requests()); n != 3 {
		t.Errorf("%d requests were passed on, not the 3 good ones", n)
	}
	l.untouched(evil, metadata)
}

func manyFields(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("x-%d", i), "y")
	}
	return out
}

// framer is a connection from the sandbox in which HTTP/2 is written by hand.
func (l *lab) framer() (*tls.Conn, *http2.Framer) {
	l.t.Helper()
	c := l.shake("allow.test", 443, "h2")
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		l.t.Fatalf("ALPN chose %q", got)
	}
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	return c, f
}

func encode(fields []string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

// rawHTTP2 sends one request and returns the status and reason of the answer;
// none if the stream or the connection was reset.
func (l *lab) rawHTTP2(fields []string) (status, reason string) {
	l.t.Helper()
	c, f := l.framer()
	defer func() { _ = c.Close() }()
	return askRaw(f, 1, fields)
}

// askRaw is rawHTTP2 in a connection that there is.
func askRaw(f *http2.Framer, stream uint32, fields []string) (status, reason string) {
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: encode(fields), EndHeaders: true, EndStream: true})
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return "", ""
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, h := range frame.Fields {
				if h.Name == "x-bailey-reason" {
					reason = h.Value
				}
			}
			return frame.PseudoValue("status"), reason
		case *http2.RSTStreamFrame:
			return "", ""
		case *http2.GoAwayFrame:
			if frame.ErrCode != http2.ErrCodeNo {
				return "", ""
			}
		}
	}
}

// A172: floods end the connection, and the proxy serves others as before.
func TestOpened_Floods(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	request := encode([]string{":method", "GET", ":scheme", "https", ":authority", "allow.test", ":path", "/stream"})
	floods := map[string]func(f *http2.Framer, i uint32) error{
		"rapid reset": func(f *http2.Framer, i uint32) error {
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: request, EndHeaders: true, EndStream: true}); err != nil {
				return err
			}
			return f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		},
		"CONTINUATION": func(f *http2.Framer, i uint32) error {
			if i == 0 {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: request})
			}
			return f.WriteContinuation(1, false, encode([]string{fmt.Sprintf("x-%d", i), strings.Repeat("y", 4000)}))
		},
		"PING":     func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) },
		"SETTINGS": func(f *http2.Framer, _ uint32) error { return f.WriteSettings() },
		"HPACK bomb": func(f *http2.Framer, i uint32) error {
			var b bytes.Buffer
			enc := hpack.NewEncoder(&b)
			big := hpack.HeaderField{Name: "x", Value: strings.Repeat("y", 3900)}
			for range 5000 {
				_ = enc.WriteField(big)
			}
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: append(bytes.Clone(request), b.Bytes()...), EndHeaders: true, EndStream: true})
		},
	}
	for what, flood := range floods {
		c, f := l.framer() // nothing is read: queues have to be bounded too
		_ = c.SetDeadline(time.Now().Add(4 * time.Second))
		ended := false
		for i := uint32(0); i < 1_000_000 && !ended; i++ {
			ended = flood(f, i) != nil // the connection is gone, or no more is taken
		}
		if !ended && what != "SETTINGS" { // which are answered one for many: they fill nothing
			t.Errorf("A172 %s: 1,000,000 of them are taken", what)
		}
		_ = c.Close()
		if res, _ := l.fetch(l.client(true), "https://allow.test/x"); res.StatusCode != 200 {
			t.Errorf("after %s: %d", what, res.StatusCode)
		}
	}
	if most := l.mostMemory(); most > 300<<20 {
		t.Errorf("the proxy took %d MiB", most>>20)
	}
}

// mostMemory is the peak of the role's resident memory, in bytes (proc(5),
// VmHWM). The shell before it has become it.
func (l *lab) mostMemory() int64 {
	l.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.cmd.Process.Pid))
	if err != nil {
		l.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		l.t.Fatal(err)
	}
	return kib << 10
}

// No more streams at once than are promised, and those beyond wait or fail.
func TestOpened_StreamsAreBounded(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	c, f := l.framer()
	defer func() { _ = c.Close() }()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && !s.IsAck() {
			if n, ok := s.Value(http2.SettingMaxConcurrentStreams); !ok || n > 100 {
				t.Errorf("%d streams at once, %v", n, ok)
			}
			return
		}
	}
}

// A021: no session is resumed, with this host or another.
func TestOpened_NoResumption(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{RootCAs: l.trusted, ClientSessionCache: tls.NewLRUClientSessionCache(10), MaxVersion: version}
		for _, name := range []string{"allow.test", "allow.test", "narrow.test"} {
			config.ServerName = name
			c, err := l.tryShake(config, 443)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(c, "GET /v1/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
			if got, err := io.ReadAll(c); err != nil || !strings.Contains(string(got), "200 OK") {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			if c.ConnectionState().DidResume {
				t.Errorf("A021, %x, %s: the session was resumed", version, name)
			}
			_ = c.Close()
		}
	}
}

// A016 and A013: a ClientHello in pieces, and old versions of TLS.
func TestOpened_Hellos(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	c := tls.Client(&trickle{Conn: l.dial("tcp4", evil+":443")}, &tls.Config{ServerName: "allow.test", RootCAs: l.trusted})
	if err := c.Handshake(); err != nil || !l.isOpened(c) {
		t.Errorf("A016, byte by byte: %v", err)
	}
	_ = c.Close()
	if _, err := l.tryShake(&tls.Config{ServerName: "allow.test", RootCAs: l.trusted, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, 443); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	// A105: a protocol other than HTTP.
	if _, err := l.tryShake(&tls.Config{ServerName: "allow.test", RootCAs: l.trusted, NextProtos: []string{"foo"}}, 443); err == nil {
		t.Error("ALPN foo is spoken")
	}
	l.event("ALPN", func(ev bailey.Event) bool {
		return ev.Reason == policy.ReasonBadTLS && strings.Contains(ev.Message, "nothing but HTTP")
	})
	l.untouched(allowed, evil)
}

// trickle writes byte by byte.
type trickle struct{ net.Conn }

func (c *trickle) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// A program that trusts the host's own certificate alone is told apart.
func TestOpened_ClientThatPins(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	if _, err := l.tryShake(&tls.Config{ServerName: "allow.test", RootCAs: l.ca.Pool()}, 443); err == nil {
		t.Error("a certificate of the proxy's is good for who does not trust it")
	}
	if ev := l.denied(policy.ReasonRootRejected); ev.Host != "allow.test" || !strings.Contains(ev.Message, "does not trust") {
		t.Errorf("%+v", ev)
	}
	l.untouched(allowed)
}

// A166: a host that cannot prove its name gets nothing, whatever the client
// says, and the client learns why.
func TestOpened_UpstreamCertificates(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	wrong, err := l.ca.Leaf("evil.test")
	if err != nil {
		t.Fatal(err)
	}
	for port, bad := range map[int]struct {
		cert tls.Certificate
		says string
	}{
		9447: {*wrong, "not allow.test"},
		9448: {selfSigned(t, time.Now().Add(time.Hour)), "unknown authority"},
		9449: {selfSigned(t, time.Now().Add(-time.Hour)), ""},
	} {
		l.webAs(l.world, fmt.Sprintf("%s:%d", allowed, port), &tls.Config{Certificates: []tls.Certificate{bad.cert}, MinVersion: tls.VersionTLS12})
		for _, h2 := range []bool{false, true} {
			c := l.client(h2)
			c.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true // the client's -k
			res, body := l.fetch(c, fmt.Sprintf("https://allow.test:%d/x", port))
			if res.StatusCode != 502 || res.Header.Get("X-Bailey-Reason") != policy.ReasonCertificate || !strings.Contains(body, bad.says) {
				t.Errorf("A166, port %d: %d %q", port, res.StatusCode, body)
			}
		}
	}
	// What is no TLS at all, and what ends at once.
	l.serve(l.world, allowed+":9450", func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n") })
	if res, body := l.fetch(l.client(true), "https://allow.test:9450/x"); res.StatusCode != 502 || res.Header.Get("X-Bailey-Reason") != policy.ReasonUpstream {
		t.Errorf("no TLS: %d %q", res.StatusCode, body)
	}
	if got := l.requests(); len(got) > 0 {
		t.Errorf("requests reached a server: %q", got)
	}
	if res, _ := l.fetch(l.client(true), "https://allow.test/x"); res.StatusCode != 200 {
		t.Errorf("the twin: %d", res.StatusCode)
	}
}

func selfSigned(t *testing.T, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, DNSNames: []string{"allow.test"}, NotBefore: until.Add(-48 * time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A032: what a refused request of HTTP/2 says of its host decides nothing about those
// that follow it, and is not in the record of the connection. As long as what is
// kept of a name for the record, it ends where that still is one.
func TestOpened_RefusedHostIsForgotten(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 55)
	free := label + "." + label + ".free.wild.test" // another one, all of which is allowed
	free = strings.Repeat("b", 128-len(free)) + free
	ask := func(f *http2.Framer, stream uint32, host, path string) string {
		status, reason := askRaw(f, stream, []string{":method", "GET", ":scheme", "https", ":authority", host, ":path", path})
		return status + " " + reason
	}
	for what, p := range map[string]policy.Policy{
		"allow": {Mode: bailey.NetAllow, Allow: []policy.Rule{
			narrowed(t, "allow.test", policy.Narrow{Paths: []string{"/v1/*"}}), {Host: "free.wild.test", Wildcard: true},
		}},
		"open": {Mode: bailey.NetOpen, Deny: []policy.Rule{narrowed(t, "allow.test", policy.Narrow{Paths: []string{"/secret/*"}})}},
	} {
		l := newLab(t, p)
		l.rebind(free, second)
		for _, first := range []bool{true, false} { // that it is the connection's first request
			c, f := l.framer()
			if !first {
				if got := ask(f, 1, "allow.test", "/v1/good"); got != "200 " {
					t.Errorf("%s, the twin: %s", what, got)
				}
			}
			for i, host := range []string{free + "..", free + ".:99", "allow.test:8443"} {
				stream := uint32(4*i + 3)
				if got := ask(f, stream, host, "/v1/x"); !strings.HasPrefix(got, "400 ") {
					t.Errorf("%s, %s: %s", what, host, got)
				}
				if got := ask(f, stream+2, "allow.test", "/secret/x"); !strings.HasPrefix(got, "403 ") {
					t.Errorf("%s, after %s: %s", what, host, got)
				}
			}
			if got := ask(f, 99, "allow.test", "/v1/good"); got != "200 " {
				t.Errorf("%s, the twin: %s", what, got)
			}
			_ = c.Close()
		}
		for _, got := range l.requests() {
			if got != allowed+":443 GET allow.test /v1/good" {
				t.Errorf("%s, passed on: %s", what, got)
			}
		}
		l.untouched(second)
		l.await("the two connections, and a second request", func() bool {
			n := 0
			for _, ev := range l.events {
				if ev.Verdict == "allow" && ev.Protocol == "tls" {
					n++
					if ev.Host != "allow.test" || ev.Address != allowed {
						t.Errorf("%s: the record of a connection: %+v", what, ev)
					}
				}
			}
			return n == 3
		})
	}
}

// A105: where rules want to see inside, another protocol is no way around that, on
// whichever port: a server may take for TLS what is not read as such here (a
// ClientHello in the form of SSL 2). A client of TLS may be slow.
func TestOpened_NoOtherProtocol(t *testing.T) {
	t.Parallel()
	p := inspected(t)
	p.Allow = append(p.Allow, narrowed(t, "allow.test:7", policy.Narrow{Inspect: true}), narrowed(t, "allow.test:22", policy.Narrow{Inspect: true}),
		narrowed(t, second+":7", policy.Narrow{Inspect: true}), policy.Rule{Host: "other.test", Port: 7}, policy.Rule{Host: "denied.test", Port: 22})
	l := newLab(t, p)
	l.rebind("other.test", evil)
	l.webAs(l.world, allowed+":9443", l.ca.ServerConfig("h2", "http/1.1"))
	for _, name := range []string{"allow.test", "other.test", "denied.test"} {
		l.lookup("udp", "11.0.0.53:53", name, mdns.TypeA) // which a connection without a name goes by
	}
	const hello = "\x80\x2e\x01\x03\x03\x00\x15\x00\x00\x00\x10"
	for _, addr := range []string{allowed + ":7", allowed + ":9443", second + ":7", allowed + ":22"} {
		if got, err := l.say(addr, hello); !isReset(err) {
			t.Errorf("%s: %q, %v", addr, got, err)
		}
	}
	l.denied(policy.ReasonSealed)
	if b, err := io.ReadAll(l.dial("tcp4", allowed+":22")); !isReset(err) {
		t.Errorf("a server that speaks first: %q, %v", b, err)
	}
	l.denied(policy.ReasonSilent)
	l.untouched(allowed)
	c := l.dial("tcp4", evil+":7")
	_, _ = io.WriteString(c, hello)
	if b := make([]byte, len(hello)); func() bool { _, err := io.ReadFull(c, b); return err != nil || string(b) != hello }() {
		t.Errorf("the twin: %q", b)
	}
	slow := l.dial("tcp4", allowed+":9443")
	time.Sleep(700 * time.Millisecond)
	s := tls.Client(slow, &tls.Config{ServerName: "allow.test", RootCAs: l.trusted})
	if err := s.Handshake(); err != nil || !l.isOpened(s) {
		t.Errorf("a slow client: %v", err)
	}
}

// A172: what requests of HTTP/2 hold of memory is bounded for the sandbox, not for
// each connection alone.
func TestOpened_RequestsAreBounded(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	const conns, each = 24, 64
	fields := []string{":method", "POST", ":scheme", "https", ":authority", "allow.test", ":path", "/stream"}
	head := encode(append(fields, manyLongFields()...))
	var mu sync.Mutex
	refused := 0
	for range conns {
		_, f := l.framer()
		go func() {
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.PseudoValue("status") == "503" {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}
		}()
		for i := range uint32(each) {
			const most = 16 << 10
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head[:most]})
			for rest := head[most:]; len(rest) > 0; {
				n := min(most, len(rest))
				_ = f.WriteContinuation(2*i+1, n == len(rest), rest[:n])
				rest = rest[n:]
			}
		}
	}
	l.denied(policy.ReasonTooMany)
	deadline := time.Now().Add(time.Minute)
	for enough := false; !enough && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		mu.Lock()
		enough = refused >= conns*each-512-16 // those that pass are few
		mu.Unlock()
	}
	mu.Lock()
	defer mu.Unlock()
	if refused < conns*each-512-16 {
		t.Errorf("%d of %d requests at once are refused", refused, conns*each)
	}
	if got := l.sayTLS("allow.test", 443, "GET /x HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "200 OK") {
		t.Errorf("the twin, by HTTP/1.1: %q", got)
	}
}

func manyLongFields() []string {
	var out []string
	for i := range 15 {
		out = append(out, fmt.Sprintf("x-%d", i), strings.Repeat("\x7e", 3900)+fmt.Sprint(i))
	}
	return out
}
