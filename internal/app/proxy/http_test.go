package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// A022, A030 to A038, A049 and the framing attacks of plain HTTP, against the
// real role; each refusal with its reason, and nothing reaching a server.
func TestHTTP_Refusals(t *testing.T) {
	t.Parallel()
	p := allow(t, "allow.test", "*.a.test", "allow.test:8080")
	p.Deny = rules(t, "x.a.test")
	l := newLab(t, p)
	const ok = "Host: allow.test\r\n"
	for _, c := range []struct {
		what, dest, text string
		status           int
		reason           string
	}{
		{"unlisted", evil, "GET /x HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, "not-allowed"},
		{"fronting, A038", allowed, "GET /x HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, "not-allowed"},
		{"data in a name, A078", allowed, "GET /x HTTP/1.1\r\nHost: mfzwizltoq.evil.test\r\n\r\n", 403, "not-allowed"},
		{"denied beats allowed, A049", allowed, "GET /x HTTP/1.1\r\nHost: X.a.test.\r\n\r\n", 403, "denied-by-rule"},
		{"absolute form to another, A022", allowed, "GET http://evil.test/x HTTP/1.1\r\n" + ok + "\r\n", 400, "name-mismatch"},
		{"absolute form, port", allowed, "GET http://allow.test:81/x HTTP/1.1\r\n" + ok + "\r\n", 400, "name-mismatch"},
		{"absolute form, user", allowed, "GET http://allow.test@evil.test/x HTTP/1.1\r\n" + ok + "\r\n", 400, "name-mismatch"},
		{"https form", allowed, "GET https://allow.test/x HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"other port in Host, A032", allowed, "GET /x HTTP/1.1\r\nHost: allow.test:8443\r\n\r\n", 400, "name-mismatch"},
		{"empty port", allowed, "GET /x HTTP/1.1\r\nHost: allow.test:\r\n\r\n", 400, "name-mismatch"},
		{"two Hosts, A033", allowed, "GET /x HTTP/1.1\r\n" + ok + "Host: evil.test\r\n\r\n", 400, "no-name"},
		{"same Host twice", allowed, "GET /x HTTP/1.1\r\n" + ok + ok + "\r\n", 400, "no-name"},
		{"no Host", allowed, "GET /x HTTP/1.1\r\n\r\n", 400, "no-name"},
		{"empty Host", allowed, "GET /x HTTP/1.1\r\nHost: \r\n\r\n", 400, "no-name"},
		{"no Host, 1.0", allowed, "GET /x HTTP/1.0\r\n\r\n", 400, "no-name"},
		{"comma, A033", allowed, "GET /x HTTP/1.1\r\nHost: allow.test,evil.test\r\n\r\n", 400, ""},
		{"userinfo, A033", allowed, "GET /x HTTP/1.1\r\nHost: a@allow.test\r\n\r\n", 400, ""},
		{"obs-fold, A033", allowed, "GET /x HTTP/1.1\r\nHost: allow.test\r\n .evil.test\r\n\r\n", 400, "bad-request"},
		{"percent, A034", allowed, "GET /x HTTP/1.1\r\nHost: evil.test%00.allow.test\r\n\r\n", 400, "invalid-name"},
		{"percent, A034", allowed, "GET /x HTTP/1.1\r\nHost: %2e\r\n\r\n", 400, "invalid-name"},
		{"NUL, A034", allowed, "GET /x HTTP/1.1\r\nHost: evil.test\x00.allow.test\r\n\r\n", 400, "bad-request"},
		{"unicode, A050", allowed, "GET /x HTTP/1.1\r\nHost: ａllow.test\r\n\r\n", 400, ""},
		{"wildcard as Host", allowed, "GET /x HTTP/1.1\r\nHost: *.a.test\r\n\r\n", 400, "invalid-name"},
		{"two dots, A014", allowed, "GET /x HTTP/1.1\r\nHost: allow.test..\r\n\r\n", 400, "invalid-name"},
		{"number, A050e", allowed, "GET /x HTTP/1.1\r\nHost: 1.1\r\n\r\n", 400, "invalid-name"},
		{"CL.TE, A133", allowed, "POST /x HTTP/1.1\r\n" + ok + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", 400, "bad-request"},
		{"two lengths", allowed, "POST /x HTTP/1.1\r\n" + ok + "Content-Length: 6\r\nContent-Length: 6\r\n\r\nabcdef", 400, "bad-request"},
		{"length list", allowed, "POST /x HTTP/1.1\r\n" + ok + "Content-Length: 6, 6\r\n\r\nabcdef", 400, "bad-request"},
		{"length with plus", allowed, "POST /x HTTP/1.1\r\n" + ok + "Content-Length: +6\r\n\r\nabcdef", 400, "bad-request"},
		{"TE.TE, A134", allowed, "POST /x HTTP/1.1\r\n" + ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400, "bad-request"},
		{"TE list, A134", allowed, "POST /x HTTP/1.1\r\n" + ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"},
		{"TE with VT, A134", allowed, "POST /x HTTP/1.1\r\n" + ok + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400, "bad-request"},
		{"TE before colon", allowed, "POST /x HTTP/1.1\r\n" + ok + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"},
		{"TE on 1.0, A134", allowed, "POST /x HTTP/1.0\r\n" + ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"},
		{"bare LF, A136", allowed, "GET /x HTTP/1.1\nHost: allow.test\n\n", 400, "bad-request"},
		{"bare LF in fields, A136", allowed, "GET /x HTTP/1.1\r\nHost: allow.test\nX: y\r\n\r\n", 400, "bad-request"},
		{"bare CR, A136", allowed, "GET /x HTTP/1.1\r\nHost: allow.test\rX: y\r\n\r\n", 400, "bad-request"},
		{"leading line", allowed, "\r\nGET /x HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"CONNECT", allowed, "CONNECT evil.test:443 HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"CONNECT path", allowed, "CONNECT /x HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"TRACE", allowed, "TRACE /x HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"h2c preface, A148", allowed, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad-request"},
		{"HTTP/1.2", allowed, "GET /x HTTP/1.2\r\n" + ok + "\r\n", 400, "bad-request"},
		{"HTTP/2.0", allowed, "GET /x HTTP/2.0\r\n" + ok + "\r\n", 400, "bad-request"},
		{"fragment, A145", allowed, "GET /x#y HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"two spaces", allowed, "GET  /x HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"no path", allowed, "GET x HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"star, not OPTIONS", allowed, "GET * HTTP/1.1\r\n" + ok + "\r\n", 400, "bad-request"},
		{"Expect", allowed, "GET /x HTTP/1.1\r\n" + ok + "Expect: evil\r\n\r\n", 400, "bad-request"},
		{"endless head", allowed, "GET /x HTTP/1.1\r\n" + ok + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 70) + "\r\n", 400, "bad-request"},
		{"many fields", allowed, "GET /x HTTP/1.1\r\n" + ok + strings.Repeat("X: y\r\n", 300) + "\r\n", 400, "bad-request"},
		{"unlisted port 8080", evil + "!8080", "GET /x HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n", 403, "not-allowed"},
	} {
		dest := c.dest + ":80"
		if a, port, ok := strings.Cut(c.dest, "!"); ok {
			dest = a + ":" + port
		}
		got, err := l.say(dest, c.text)
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.status)) || !strings.Contains(got, "X-Bailey-Reason: "+c.reason) ||
			!strings.Contains(got, "Content-Type: text/plain; charset=utf-8\r\n") || !strings.Contains(got, "Connection: close") {
			t.Errorf("%s: %q, %v; want %d, %s", c.what, got, err, c.status, c.reason)
		}
	}
	if got := l.requests(); len(got) != 0 {
		t.Errorf("requests reached a server: %q", got)
	}
	l.untouched(allowed, evil)
	for _, q := range l.questions() {
		if strings.Contains(q, "evil") || strings.Contains(q, "x.a.test") {
			t.Errorf("a refused name was resolved: %s", q)
		}
	}
}

func TestHTTP_TellsHowToAllow(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	got, err := l.say(evil+":80", "GET /secret?token=hunter2 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	if err != nil || !strings.Contains(got, "bailey run --allow evil.test:80") || !strings.Contains(got, "bailey refused GET evil.test (port 80): not-allowed.") {
		t.Errorf("%q, %v", got, err)
	}
	if strings.Contains(got, "hunter2") {
		t.Errorf("the answer repeats the query: %q", got)
	}
	ev := l.denied(policy.ReasonNotAllowed)
	if flag, ok := policy.AllowFlag(ev); !ok || flag != "evil.test:80" || ev.Method != "GET" || ev.Protocol != "http" {
		t.Errorf("flag %q of %+v", flag, ev)
	}
}

// One connection, one identity: A030.
func TestHTTP_KeepAlive(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", "other.test"))
	c := l.dial("tcp4", evil+":80")
	r := bufio.NewReader(c)
	for i := range 3 {
		_, _ = fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: allow.test\r\n\r\n", i)
		if res, body := response(t, r, "GET"); res.StatusCode != 200 || !strings.HasPrefix(body, "hello from "+allowed) {
			t.Fatalf("%d: %d %q", i, res.StatusCode, body)
		}
	}
	l.mu.Lock()
	if n := l.seen[allowed+":80"]; n != 1 {
		t.Errorf("%d upstream connections for three requests", n)
	}
	l.mu.Unlock()
	for _, host := range []string{"evil.test", "other.test"} {
		c := l.dial("tcp4", evil+":80")
		r := bufio.NewReader(c)
		_, _ = fmt.Fprintf(c, "GET /first HTTP/1.1\r\nHost: ALLOW.test.\r\n\r\n")
		if res, _ := response(t, r, "GET"); res.StatusCode != 200 {
			t.Fatalf("first: %d", res.StatusCode)
		}
		_, _ = fmt.Fprintf(c, "GET /second HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		res, body := response(t, r, "GET")
		if res.StatusCode != 421 || res.Header.Get("X-Bailey-Reason") != policy.ReasonNameMismatch {
			t.Errorf("%s: %d %q", host, res.StatusCode, body)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("%s: the connection goes on: %v", host, err)
		}
	}
	for _, got := range l.requests() {
		if strings.Contains(got, "second") || strings.Contains(got, "ALLOW") {
			t.Errorf("passed on: %s", got)
		}
	}
	l.denied(policy.ReasonNameMismatch)
	l.event("the good part", func(ev bailey.Event) bool { return ev.Verdict == "allow" && ev.Host == "allow.test" && ev.BytesIn > 0 })
	// Pipelined requests are judged one by one too.
	got, _ := l.say(evil+":80", "GET /p1 HTTP/1.1\r\nHost: allow.test\r\n\r\nGET /p2 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	if !strings.Contains(got, "hello from "+allowed) || strings.Contains(got, evil) || strings.Count(got, "HTTP/1.1 ") > 2 {
		t.Errorf("pipelined: %q", got)
	}
	l.untouched(evil)
}

// What is passed on is rebuilt: hop-by-hop fields, upgrades and trust markers
// of the client do not survive, everything else does.
func TestHTTP_Rebuilt(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", "allow.test:8080"))
	got, err := l.say(evil+":80", "GET http://allow.test/headers?a=1;b=%zz&c HTTP/1.1\r\nHost: allow.test\r\n"+
		"User-Agent: mine\r\nX-Mine: 1\r\nAuthorization: Bearer x\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: evil.test\r\nForwarded: host=evil.test\r\n"+
		"Connection: close, X-Hop, Upgrade, HTTP2-Settings\r\nX-Hop: 1\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nTE: trailers\r\nProxy-Authorization: x\r\nKeep-Alive: x\r\n\r\n")
	if err != nil || !strings.HasPrefix(got, "HTTP/1.1 200 OK") {
		t.Fatalf("%q, %v", got, err)
	}
	_, body, _ := strings.Cut(got, "\r\n\r\n")
	for _, want := range []string{`"X-Mine":["1"]`, `"User-Agent":["mine"]`, `"Authorization":["Bearer x"]`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	for _, gone := range []string{"Forwarded", "X-Hop", "Upgrade", "Http2", "Te\"", "Proxy", "Keep-Alive", "Accept-Encoding", "evil"} {
		if strings.Contains(body, gone) {
			t.Errorf("%s in %s", gone, body)
		}
	}
	if got := l.requests(); len(got) != 1 || got[0] != allowed+":80 GET allow.test /headers?a=1;b=%zz&c" {
		t.Errorf("requests: %q", got)
	}
	for what, c := range map[string][2]string{
		"length":       {"POST /body HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "5 bytes"},
		"chunks":       {"POST /body HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n", "15 bytes"},
		"100-continue": {"POST /body HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", "5 bytes"},
		"HTTP/1.0":     {"GET /body HTTP/1.0\r\nHost: allow.test\r\n\r\n", "0 bytes"},
		"options":      {"OPTIONS * HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n", "HTTP/1.1 200"},
	} {
		if got, err := l.say(evil+":80", c[0]); err != nil || !strings.Contains(got, c[1]) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	if got, err := l.say(evil+":8080", "GET /port HTTP/1.1\r\nHost: Allow.test:8080\r\nConnection: close\r\n\r\n"); err != nil || !strings.Contains(got, "as allow.test:8080") {
		t.Errorf("port: %q, %v", got, err)
	}
	// A137: chunks that lie abort the request; the server sees no whole one.
	for _, chunk := range []string{
		"0x5\r\nhello\r\n0\r\n\r\n", "5;a\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n",
		"00000000000000005\r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\nX: y\r\n\r\n", "\r\nhello\r\n",
	} {
		if got, _ := l.say(evil+":80", "POST /body HTTP/1.1\r\nHost: allow.test\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "X-Bailey-Reason: bad-request") {
			t.Errorf("A137 chunk %q: %q", chunk, got)
		}
	}
}

// The target goes out byte by byte as it came in, or not at all.
func TestHTTP_TargetAsWritten(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	ask := func(method, target string) string {
		got, _ := l.say(evil+":80", method+" "+target+" HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n")
		return got
	}
	for target, want := range map[string]string{
		"/a%2Fb/{x}":                "/a%2Fb/{x}",
		"/a%2fb":                    "/a%2fb",
		"/%61|b^c`d<e>\"f":          "/%61|b^c`d<e>\"f",
		"/../a/./b//c/":             "/../a/./b//c/",
		"/a;b=1,2:3@4!$&'()*+~-._=": "/a;b=1,2:3@4!$&'()*+~-._=",
		"//evil.test/x":             "//evil.test/x",
		"//evil.test/a%2Fb":         "//evil.test/a%2Fb",
		"/x?":                       "/x?",
		"/x??a=%zz;b":               "/x??a=%zz;b",
		"/?u=http://evil.test/":     "/?u=http://evil.test/",
		"http://allow.test":         "/",
		"http://allow.test?a=%2F":   "/?a=%2F",
		"http://allow.test/a%2Fb?c": "/a%2Fb?c",
		"http://allow.test//x/":     "//x/",
	} {
		before := len(l.requests())
		got := ask("GET", target)
		if now := l.requests(); len(now) != before+1 || now[before] != allowed+":80 GET allow.test "+want {
			t.Errorf("%s: arrived %q; %.100q", target, now[before:], got)
		}
	}
	// The host's to answer, and refused for others as any request is.
	if got := ask("OPTIONS", "*"); !strings.HasPrefix(got, "HTTP/1.1 200") || l.requests()[len(l.requests())-1] != allowed+":80 OPTIONS allow.test *" {
		t.Errorf("OPTIONS *: %.100q, %q", got, l.requests())
	}
	if got, _ := l.say(evil+":80", "OPTIONS * HTTP/1.1\r\nHost: evil.test\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "not-allowed") {
		t.Errorf("OPTIONS * of another host: %q", got)
	}
	for _, target := range []string{"/%zz", "/a%", "/%2", "//a/{x}", "http://allow.test/%zz"} {
		if got := ask("GET", target); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "X-Bailey-Reason: bad-request") {
			t.Errorf("%s: %q", target, got)
		}
	}
}

// A client that ends its half after the request gets its answer.
func TestHTTP_HalfClosed(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	for what, text := range map[string]string{
		"1.0":       "GET /a HTTP/1.0\r\nHost: allow.test\r\n\r\n",
		"1.1":       "GET /a HTTP/1.1\r\nHost: allow.test\r\n\r\n",
		"body":      "POST /body HTTP/1.1\r\nHost: allow.test\r\nContent-Length: 5\r\n\r\nhello",
		"chunks":    "POST /body HTTP/1.1\r\nHost: allow.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"pipelined": "GET /a HTTP/1.1\r\nHost: allow.test\r\n\r\nGET /b HTTP/1.1\r\nHost: allow.test\r\n\r\n",
	} {
		c := l.dial("tcp4", evil+":80")
		_, _ = io.WriteString(c, text)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		b, err := io.ReadAll(c)
		if want := strings.Count(text, "HTTP/1."); err != nil || strings.Count(string(b), " 200 OK\r\n") != want {
			t.Errorf("%s: %q, %v; want %d answers", what, b, err, want)
		}
	}
	// A request that ends in its body is not whole, and none is made of it.
	c := l.dial("tcp4", evil+":80")
	_, _ = io.WriteString(c, "POST /body HTTP/1.1\r\nHost: allow.test\r\nContent-Length: 9\r\n\r\nhello")
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	if b, _ := io.ReadAll(c); strings.Contains(string(b), " 200 OK") {
		t.Errorf("half a body: %q", b)
	}
}

// A149, A150: WebSocket is passed on, other switches are not.
func TestHTTP_WebSocket(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	shake := func(path, upgrade, key string) (net.Conn, *bufio.Reader) {
		c := l.dial("tcp4", evil+":80")
		_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: allow.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", path, upgrade, key)
		return c, bufio.NewReader(c)
	}
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	c, r := shake("/ws", "WebSocket", key)
	for { // the head of the 101
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			break
		}
		if strings.HasPrefix(line, "HTTP/1.1 ") && !strings.HasPrefix(line, "HTTP/1.1 101") {
			t.Fatalf("%q", line)
		}
	}
	_, _ = io.WriteString(c, "\x81\x05hello GET / HTTP/1.1\r\n\r\n")
	b := make([]byte, 12)
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "\x81\x05hello GET /"[:12] {
		t.Errorf("echo %q, %v", b, err)
	}
	_ = c.Close()
	l.event("websocket", func(ev bailey.Event) bool { return ev.Protocol == "http" && ev.Verdict == "allow" && ev.BytesIn > 100 })
	c, r = shake("/no101", "websocket", key)
	res, body := response(t, r, "GET")
	if res.StatusCode != 200 || body != "not today" || !res.Close {
		t.Errorf("A150 no switch: %v %q", res, body)
	}
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	if _, err := r.ReadByte(); err == nil {
		t.Error("bytes after an upgrade that did not happen were answered")
	}
	// Nor if it did not happen since a field of the handshake was taken off, as
	// Connection asks for (RFC 9110 §7.6.1).
	for _, field := range []string{"Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Key, Sec-WebSocket-Version"} {
		c := l.dial("tcp4", evil+":80")
		r := bufio.NewReader(c)
		_, _ = fmt.Fprintf(c, "GET /x HTTP/1.1\r\nHost: allow.test\r\nConnection: Upgrade, %s\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", field, key)
		if res, body := response(t, r, "GET"); res.StatusCode != 200 || !res.Close {
			t.Errorf("A149 without %s: %v %q", field, res, body)
		}
		_, _ = io.WriteString(c, "POST /unframed HTTP/1.1\nHost: allow.test\nContent-Length: 3\nTransfer-Encoding: chunked\n\n0\n\n")
		if _, err := r.ReadByte(); err == nil {
			t.Errorf("without %s: bytes after an upgrade that did not happen were answered", field)
		}
	}
	_, r = shake("/fakews", "websocket", key)
	if res, body := response(t, r, "GET"); res.StatusCode != 502 {
		t.Errorf("A149 wrong accept: %v %q", res, body)
	}
	for _, c := range [][2]string{{"h2c", key}, {"websocket, foo", key}, {"TLS/1.0", key}, {"websocket", "short"}} {
		_, r := shake("/headers", c[0], c[1])
		if res, body := response(t, r, "GET"); res.StatusCode != 200 || strings.Contains(body, `"Upgrade"`) {
			t.Errorf("%v: %d %q", c, res.StatusCode, body)
		}
	}
	for _, got := range l.requests() {
		if strings.Contains(got, "evil") || strings.Contains(got, "unframed") {
			t.Errorf("reached: %s", got)
		}
	}
}

// Nothing is held back: the first line of an endless answer arrives, and its
// end reaches the server when the client goes.
func TestHTTP_Streams(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	c := l.dial("tcp4", evil+":80")
	_, _ = io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: allow.test\r\n\r\n")
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "first\n" {
			break
		}
	}
	_ = c.Close()
	l.event("ended", func(ev bailey.Event) bool { return ev.Protocol == "http" && ev.Verdict == "allow" })
}

// The end of the sandbox resets what is open, and its event is written.
func TestEndResetsConnections(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", allowed+":7"))
	c := l.dial("tcp4", allowed+":7")
	_, _ = io.WriteString(c, "x\n")
	if _, err := io.ReadFull(c, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	h := l.dial("tcp4", evil+":80")
	_, _ = io.WriteString(h, "GET /stream HTTP/1.1\r\nHost: allow.test\r\n\r\n")
	if _, err := h.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	_ = l.peer.Close()
	if _, err := io.ReadAll(c); err == nil {
		t.Error("the connection ended in order")
	}
	_, _ = io.Copy(io.Discard, h)
	l.event("tcp", func(ev bailey.Event) bool { return ev.Port == 7 && ev.BytesIn == 2 && ev.BytesOut == 2 })
	l.event("http", func(ev bailey.Event) bool { return ev.Protocol == "http" && ev.Verdict == "allow" })
	if d := time.Since(started); d > time.Second {
		t.Errorf("it took %s", d)
	}
}

// Bulk goes through whole, both ways, over TLS and plain.
func TestBulk(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", allowed+":7"))
	c := tls.Client(l.dial("tcp4", evil+":443"), &tls.Config{ServerName: "allow.test", RootCAs: l.ca.Pool()})
	_, _ = io.WriteString(c, "GET /big HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n")
	n, err := io.Copy(io.Discard, c)
	if err != nil || n < 64<<20 {
		t.Errorf("A174 tls: %d bytes, %v", n, err)
	}
	p := l.dial("tcp4", evil+":80")
	_, _ = io.WriteString(p, "GET /big HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n")
	if n, err := io.Copy(io.Discard, p); err != nil || n < 64<<20 {
		t.Errorf("http: %d bytes, %v", n, err)
	}
	e := l.dial("tcp4", allowed+":7")
	go func() {
		_, _ = io.CopyN(e, zeros{}, 32<<20)
		if tcp, ok := e.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	if n, err := io.Copy(io.Discard, e); err != nil || n != 32<<20 {
		t.Errorf("echo: %d bytes, %v", n, err)
	}
}
