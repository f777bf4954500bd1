package egress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/policy"
)

// pieces is a connection that delivers bytes in pieces of one size, with a
// time-out between any two, as net/http's interruptions do.
type pieces struct {
	net.Conn
	data  []byte
	size  int
	pause bool
}

func (p *pieces) Read(b []byte) (int, error) {
	p.pause = !p.pause
	switch {
	case p.pause:
		return 0, errPause
	case len(p.data) == 0:
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.data)
	p.data = p.data[n:]
	return n, nil
}

var errPause = errors.New("pause")

// drain reads all that a guard lets through of some bytes.
func drain(data []byte, size int) (out []byte, g *guard, err error) {
	var in, sent atomic.Int64
	g = newGuard(&pieces{data: data, size: size}, nil, &in, &sent)
	close(g.closed) // nobody answers here, so that the end is not held back
	buf := make([]byte, 7)
	for {
		n, err := g.Read(buf)
		out = append(out, buf[:n]...)
		if errors.Is(err, errPause) {
			continue
		}
		if err != nil {
			return out, g, err
		}
	}
}

func TestGuard_Framing(t *testing.T) {
	t.Parallel()
	const get = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
	for what, c := range map[string]struct {
		in   string
		pass string // of in; the rest must not come through
		err  string
		bad  string // reason, if the head is refused
	}{
		"one":            {get, get, "EOF", ""},
		"two":            {get + get, get + get, "EOF", ""},
		"half a head":    {get + "GET / HT", get, "EOF", ""},
		"length":         {"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc" + get, "*", "EOF", ""},
		"zero length":    {"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n" + get, "*", "EOF", ""},
		"short body":     {"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nabc", "*", "EOF", ""},
		"chunks":         {"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0F\r\n123456789012345\r\n0\r\n\r\n" + get, "*", "EOF", ""},
		"bad after good": {get + "GET / HTTP/1.1\r\n\r\n" + get, get + standIn, "EOF", policy.ReasonNoName},
		"bare LF":        {"GET / HTTP/1.1\nHost: a.test\n\n", standIn, "EOF", policy.ReasonBadRequest},
		"trailer": {
			"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "trailers", "",
		},
		"chunk too long": {
			"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc", "where its size says", "",
		},
		"huge chunk": {
			"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n123456789\r\nabc",
			"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n", "chunk size", "",
		},
		"websocket": {"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x00\n\n\r", "*", "EOF", ""},
	} {
		want := c.pass
		if want == "*" {
			want = c.in
		}
		for _, size := range []int{1, 3, 4096} {
			out, g, err := drain([]byte(c.in), size)
			if string(out) != want || err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s in pieces of %d: %q, %v; want %q, %s", what, size, out, err, want, c.err)
			}
			bad := g.badHead.Load()
			if (bad == nil) != (c.bad == "") || bad != nil && bad.reason != c.bad {
				t.Errorf("%s: refused for %+v, want %q", what, bad, c.bad)
			}
			if _, err := g.Read(make([]byte, 1)); c.err != "EOF" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s: the guard reads on: %v", what, err)
			}
		}
	}
}

func TestGuard_HeadIsBounded(t *testing.T) {
	t.Parallel()
	endless := "GET / HTTP/1.1\r\nHost: a.test\r\nX: " + strings.Repeat("y", 10<<20)
	out, g, _ := drain([]byte(endless), 4096)
	if string(out) != standIn || g.badHead.Load() == nil || len(g.raw) > maxHead+4096 {
		t.Errorf("%d bytes passed, %d kept", len(out), len(g.raw))
	}
}

// What the guard lets through, net/http frames in the same way: it reads the
// same number of requests, to their very ends, and every byte is one that came
// in, in order.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\nHost: b\r\n\r\n",
		"POST http://a.test/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nX:\x80\t \r\n\r\n",
	} {
		f.Add([]byte(s), uint8(5))
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		out, g, _ := drain(bytes.Clone(data), int(size)+1)
		if g.badHead.Load() != nil {
			out = bytes.TrimSuffix(out, []byte(standIn))
		}
		if !bytes.HasPrefix(data, out) {
			t.Fatalf("%q came out of %q", out, data)
		}
		if g.state == opaque {
			return
		}
		r := bufio.NewReader(bytes.NewReader(out))
		for {
			if _, err := r.Peek(1); err != nil {
				break
			}
			req, err := http.ReadRequest(r)
			if err != nil {
				t.Fatalf("net/http does not read what came through: %q: %v", out, err)
			}
			if len(req.TransferEncoding) > 0 && req.Header.Get("Content-Length") != "" {
				t.Fatalf("both framings: %q", out)
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				if r.Buffered() > 0 {
					t.Fatalf("net/http stops in the middle of %q: %v", out, err)
				}
				break // the input ended in a body
			}
			if len(req.Trailer) > 0 {
				t.Fatalf("trailers came through: %q", out)
			}
		}
	})
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct {
		kind kind
		sure bool
	}{
		"":                                {kindSilent, false},
		"\x16":                            {kindTLS, true},
		"GET / HTTP/1.1\r\n":              {kindHTTP, true},
		"get / http/1.1\r\n":              {kindHTTP, true}, // and refused there
		"FOO / HTTP/1.1":                  {kindHTTP, true},
		"\r\n\r\nGET / HTTP/1.1\r\n":      {kindHTTP, true},
		"GET /":                           {kindUnclear, false},
		"\r\n":                            {kindUnclear, false},
		"SSH-2.0-OpenSSH\r\n":             {kindRaw, true},
		"SSH-2.0-OpenSSH":                 {kindUnclear, false},
		"EHLO x\r\n":                      {kindRaw, true},
		"\x00\x00\x00\x08":                {kindRaw, true},
		"0033git-upload-pack /x\x00host=": {kindRaw, true},
		"*1\r\n$4\r\nPING\r\n":            {kindRaw, true},
		"PRI * HTTP/2.0\r\n":              {kindHTTP, true},
		"GET /\r\n":                       {kindHTTP, true}, // HTTP/0.9, and refused there
		"get /x\r\n":                      {kindRaw, true},  // memcached
		strings.Repeat("a", 8000):         {kindUnclear, false},
		strings.Repeat("a", 9000):         {kindUnclear, true},
		strings.Repeat("\r\n", 4000):      {kindUnclear, false},
		strings.Repeat("\r\n", 5000):      {kindUnclear, true}, // empty lines without end
		"GET /\tx HTTP/1.1":               {kindHTTP, true},
		"GET /\x80 HTTP/1.1\n":            {kindHTTP, true},
		"\x80\x2e\x01\x00\x02":            {kindRaw, true}, // SSLv2
	} {
		if k, sure := classify([]byte(in)); k != want.kind || sure != want.sure {
			t.Errorf("classify(%.40q) = %d, %v; want %d, %v", in, k, sure, want.kind, want.sure)
		}
	}
}

// The end of a client's data is held back while a request is answered, not
// longer, and not from whoever interrupts the wait or closes.
func TestGuard_HoldsTheEndBack(t *testing.T) {
	t.Parallel()
	const get = "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n"
	for what, c := range map[string]struct {
		end  func(*guard)
		want error
	}{
		"served":      {(*guard).served, io.EOF},
		"interrupted": {func(g *guard) { _ = g.SetReadDeadline(past()) }, os.ErrDeadlineExceeded},
		"closed":      {func(g *guard) { _ = g.Close() }, io.EOF},
	} {
		down, client := tcpPair(t)
		var in, out atomic.Int64
		g := newGuard(down, nil, &in, &out)
		_, _ = io.WriteString(client, get)
		_ = client.CloseWrite()
		if _, err := io.ReadFull(g, make([]byte, len(get))); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := g.Read(make([]byte, 1))
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Errorf("%s: the end came before the answer: %v", what, err)
			continue
		case <-time.After(endPoll * 3 / 2): // also past a look at the client
		}
		c.end(g)
		if err := <-ended; !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

// A client that speaks while it is still waited for whether the server does is
// read on: the end of that wait does not end the next one.
func TestAwaitEither_LeavesNoDeadline(t *testing.T) {
	t.Parallel()
	p := New(Config{Now: time.Now, Rules: policy.NewLive(policy.Policy{})})
	for i := range 1500 { // the order that was wrong shows in one of some hundred
		down, client := tcpPair(t)
		up, _ := tcpPair(t)
		f := &flow{p: p, down: down}
		_, _ = client.Write([]byte("a"))
		if said, first := f.awaitEither(up); len(said) > 0 || !first {
			t.Fatalf("%q, %v", said, first)
		}
		_, _ = client.Write([]byte("b"))
		if err := f.readMore(time.Now().Add(10 * time.Second)); err != nil || string(f.head) != "ab" {
			t.Fatalf("round %d: read %q, %v", i, f.head, err)
		}
		_, _ = client.Write([]byte("c"))
		if n, err := down.Read(make([]byte, 9)); n != 1 || err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

// A server that has spoken before anybody waits for it is heard: its word is
// what ends the wait for the client.
func TestAwaitEither_HearsAnEarlyServer(t *testing.T) {
	t.Parallel()
	p := New(Config{Now: time.Now, Rules: policy.NewLive(policy.Policy{})})
	for i := range 600 { // the order that was wrong shows in one of some hundred
		down, _ := tcpPair(t)
		up, server := tcpPair(t)
		f := &flow{p: p, down: down}
		_, _ = server.Write([]byte("a"))
		heard := make(chan string, 1)
		go func() {
			said, _ := f.awaitEither(up)
			heard <- string(said)
		}()
		select {
		case said := <-heard:
			if said != "a" {
				t.Fatalf("round %d: %q", i, said)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("round %d: the server was not heard", i)
		}
	}
}

// net/http reads ahead, so that a head may be refused while the request before
// it is served: that one is judged for itself.
func TestExchange_ABadHeadIsNotTheRequestBefore(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"a.test": policy.ReasonModeNone, standInHost: policy.ReasonBadRequest} {
		down, _ := tcpPair(t)
		f := &flow{p: New(Config{Now: time.Now, Rules: policy.NewLive(policy.Policy{})}), down: down, dest: netip.MustParseAddrPort("11.0.0.10:80")}
		e := &exchange{f: f, guard: &guard{Conn: down}}
		e.guard.badHead.Store(&badRequestError{policy.ReasonBadRequest, "the next one"})
		w := httptest.NewRecorder()
		e.serve(w, httptest.NewRequest(http.MethodGet, "http://"+host+"/", nil))
		if got := w.Header().Get("X-Bailey-Reason"); got != want {
			t.Errorf("Host %s: %s, want %s: %s", host, got, want, w.Body)
		}
		if named := strings.Contains(w.Body.String(), "GET "+host); named != (host != standInHost) {
			t.Errorf("Host %s: %s", host, w.Body)
		}
	}
}

// The idle limit counts both directions: a download keeps the connection
// alive although the client is silent, and silence of both ends it.
func TestRelay_Idle(t *testing.T) {
	t.Parallel()
	down, client := tcpPair(t)
	up, server := tcpPair(t)
	const idle = 3 * time.Second // long enough for a machine that is busy
	r := &relay{idle: idle, now: time.Now}
	_ = client.SetDeadline(time.Now().Add(time.Minute))
	r.last.Store(time.Now().UnixNano())
	var out, in atomic.Int64
	ended := make(chan bool, 2)
	go func() { ended <- r.copy(up, down, &out) }()
	go func() { ended <- r.copy(down, up, &in) }()
	started := time.Now()
	for range 10 { // one and a half idle times of download
		time.Sleep(idle * 3 / 20) // the server's own slowness is what is tested
		if _, err := server.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-ended:
		t.Error("a connection in use was ended")
	default:
	}
	if orderly := <-ended; orderly || time.Since(started) < idle*2 {
		t.Errorf("orderly %v after %s", orderly, time.Since(started))
	}
	<-ended
	if in.Load() != 10 || out.Load() != 0 {
		t.Errorf("counted %d in, %d out", in.Load(), out.Load())
	}
}

func tcpPair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	b, err = net.DialTCP("tcp4", nil, ln.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	a, err = ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a.test":                  "a.test",
		"a\x00b\x1b[31m\n":        `a\x00b\x1b[31m\n`,
		"b\u00fc\u202e":           `b\u00fc\u202e`,
		strings.Repeat("x", 1000): strings.Repeat("x", 128),
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q", in, got)
		}
	}
	if got := printable(strings.Repeat("\x00", 1000)); len(got) > 128 {
		t.Errorf("%d bytes", len(got))
	}
}
