package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/testkit/ca"
)

// host is a server whose connections a test plays itself, and a line to it.
type host struct {
	t        testing.TB
	line     *line
	conns    chan net.Conn // as they come, inside TLS where there is TLS
	ln       net.Listener
	opened   atomic.Int64
	released atomic.Int64
}

func newHost(t testing.TB, secure bool) *host {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, conns: make(chan net.Conn, 100), ln: ln}
	var server *tls.Config
	h.line = &line{copies: &buffers{}, reach: h.reach, odd: reusing{&http.Transport{DialContext: h.dial}}}
	if secure {
		authority, err := ca.New(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		server = authority.ServerConfig("http/1.1")
		h.line.secure = &tls.Config{ServerName: "host.test", RootCAs: authority.Pool(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				close(h.conns)
				return
			}
			if server != nil {
				c = tls.Server(c, server)
			}
			h.conns <- c
		}
	})
	t.Cleanup(func() {
		h.line.CloseIdleConnections()
		_ = ln.Close()
		serving.Wait()
		for c := range h.conns {
			_ = c.Close()
		}
	})
	return h
}

func (h *host) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	h.opened.Add(1)
	return (&net.Dialer{}).DialContext(ctx, "tcp4", h.ln.Addr().String())
}

func (h *host) reach(ctx context.Context) (net.Conn, func(), error) {
	c, err := h.dial(ctx, "", "")
	return c, func() { h.released.Add(1) }, err
}

// peer is the host's end of a connection.
type peer struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (h *host) accept() *peer {
	h.t.Helper()
	c, ok := <-h.conns
	if !ok {
		h.t.Fatal("no connection comes")
	}
	h.t.Cleanup(func() { _ = c.Close() })
	return &peer{h.t, c, bufio.NewReader(c)}
}

// request reads a request, body and all.
func (p *peer) request() (r *http.Request, body string) {
	r, err := http.ReadRequest(p.r)
	if err != nil {
		p.t.Errorf("the host reads: %v", err)
		return nil, ""
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Errorf("the host reads a body: %v", err)
	}
	return r, string(b)
}

func (p *peer) say(text string) { _, _ = io.WriteString(p, text) }

// plays has the host do something while the test asks; the test waits for it.
func (h *host) plays(f func()) (wait func()) {
	var playing sync.WaitGroup
	playing.Go(f)
	return playing.Wait
}

// ask makes a request and reads the answer.
func (h *host) ask(r *http.Request) (*http.Response, string, error) {
	h.t.Helper()
	res, err := h.line.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(res.Body)
	return res, string(b), errors.Join(err, res.Body.Close())
}

func (h *host) expect(r *http.Request, status int, body string) {
	h.t.Helper()
	if res, got, err := h.ask(r); err != nil || res.StatusCode != status || got != body {
		h.t.Fatalf("%v %q, %v; want %d %q", res, got, err, status, body)
	}
}

func ask(t testing.TB, method string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://host.test/x?y", body)
	if err != nil {
		t.Fatal(err)
	}
	r.GetBody = nil
	return r
}

const helloAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// Requests with and without bodies, one after the other, on one connection.
func TestLine_OneConnection(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		h := newHost(t, secure)
		wait := h.plays(func() {
			p := h.accept()
			for _, want := range []string{"GET ", "POST body", "PUT in chunks", "HEAD ", "DELETE ", "GET "} {
				r, body := p.request()
				if r == nil || r.Method+" "+body != want || r.Host != "host.test" || r.RequestURI != "/x?y" {
					t.Errorf("%+v %q; want %q", r, body, want)
				}
				switch want[:3] {
				case "PUT":
					p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Trailer: t\r\n\r\n")
				case "HEA":
					p.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
				case "DEL":
					p.say("HTTP/1.1 204 No Content\r\n\r\n")
				default:
					p.say(helloAnswer)
				}
			}
		})
		h.expect(ask(t, "GET", nil), 200, "hello")
		h.expect(ask(t, "POST", strings.NewReader("body")), 200, "hello")
		h.expect(ask(t, "PUT", io.MultiReader(strings.NewReader("in "), strings.NewReader("chunks"))), 200, "hello")
		h.expect(ask(t, "HEAD", nil), 200, "")
		h.expect(ask(t, "DELETE", nil), 204, "")
		h.expect(ask(t, "GET", nil), 200, "hello")
		wait()
		if n := h.opened.Load(); n != 1 {
			t.Errorf("TLS %v: %d connections", secure, n)
		}
		h.line.CloseIdleConnections()
		if n := h.released.Load(); n != 1 {
			t.Errorf("TLS %v: released %d times", secure, n)
		}
	}
}

// What speaks against using a connection again: another one is opened, and
// nothing of the first is taken for an answer.
func TestLine_NotUsedAgain(t *testing.T) {
	t.Parallel()
	const stray = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nSTRAY"
	for what, answer := range map[string]string{
		"more than the answer":      helloAnswer + stray,
		"a byte more":               helloAnswer + "\n",
		"much more":                 helloAnswer + stray + strings.Repeat("x", 20000),
		"4096 bytes and more":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: " + strings.Repeat("x", 4096-48) + "\r\n\r\nhello" + stray,
		"it ends":                   helloAnswer + "!end",
		"it says so":                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.0":                  "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"a body with 204":           "HTTP/1.1 204 OK\r\nContent-Length: 5\r\n\r\nhello",
		"a body with 304":           "HTTP/1.1 304 OK\r\nContent-Length: 5\r\n\r\n" + stray,
		"chunks and more":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + stray,
		"switches unasked":          "HTTP/1.1 101 Switching Protocols\r\n\r\n" + stray,
		"a length of nothing":       "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + stray,
		"an answer and another 100": helloAnswer + "HTTP/1.1 100 Continue\r\n\r\n",
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %v", what, secure), func(t *testing.T) {
				t.Parallel()
				h := newHost(t, secure)
				wait := h.plays(func() {
					p := h.accept()
					_, _ = p.request()
					text, ends := strings.CutSuffix(answer, "!end")
					p.say(text)
					if ends {
						_ = p.Close()
					}
				})
				res, err := h.line.RoundTrip(ask(t, "GET", nil))
				if err != nil {
					t.Fatal(err)
				}
				wait() // all of it is on its way, and over loopback there
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				wait = h.plays(func() {
					p := h.accept()
					_, _ = p.request()
					p.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain")
				})
				h.expect(ask(t, "POST", nil), 200, "again")
				wait()
			})
		}
	}
}

// A body that is not read to its end takes its connection along.
func TestLine_BodyLeftUnread(t *testing.T) {
	t.Parallel()
	h := newHost(t, false)
	for range 2 {
		wait := h.plays(func() {
			p := h.accept()
			_, _ = p.request()
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
			if _, err := p.r.ReadByte(); err == nil {
				t.Error("the connection was used again")
			}
		})
		res, err := h.line.RoundTrip(ask(t, "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		wait()
	}
}

// A host that closes a kept connection as the next request arrives: what
// changes nothing is asked again, once; what may, is not.
func TestLine_AskedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, key string
		body        io.Reader
		again       bool
	}{
		{"GET", "", nil, true},
		{"HEAD", "", nil, true},
		{"OPTIONS", "", nil, true},
		{"POST", "", nil, false},
		{"DELETE", "", nil, false},
		{"POST", "Idempotency-Key", nil, true},
		{"POST", "X-Idempotency-Key", nil, true},
		{"GET", "", strings.NewReader("body"), false},
		{"POST", "Idempotency-Key", strings.NewReader("body"), false},
	} {
		h := newHost(t, false)
		wait := h.plays(func() {
			p := h.accept()
			_, _ = p.request()
			p.say(helloAnswer)
			_, _ = p.request()
			_ = p.Close()
			if c.again {
				p = h.accept()
				_, _ = p.request()
				p.say("HTTP/1.1 204 No Content\r\n\r\n")
			}
		})
		h.expect(ask(t, "GET", nil), 200, "hello")
		r := ask(t, c.method, c.body)
		if c.key != "" {
			r.Header[c.key] = []string{"k"}
		}
		if _, _, err := h.ask(r); (err == nil) != c.again {
			t.Errorf("%s %s: %v", c.method, c.key, err)
		}
		wait()
		if n := h.opened.Load(); (n == 2) != c.again {
			t.Errorf("%s %s: %d connections", c.method, c.key, n)
		}
	}
	// On a connection of its own nothing is asked twice.
	h := newHost(t, false)
	wait := h.plays(func() { _ = h.accept().Close() })
	if _, _, err := h.ask(ask(t, "GET", nil)); err == nil {
		t.Error("an answer came of nowhere")
	}
	wait()
	if n := h.opened.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A host may answer before it has the whole body, and the answer is there
// before that.
func TestLine_EarlyAnswer(t *testing.T) {
	t.Parallel()
	h := newHost(t, true)
	from, to := io.Pipe()
	wait := h.plays(func() {
		p := h.accept()
		r, err := http.ReadRequest(p.r)
		if err != nil {
			t.Error(err)
			return
		}
		var first [5]byte
		if _, err := io.ReadFull(r.Body, first[:]); err != nil || string(first[:]) != "first" {
			t.Errorf("%q, %v", first, err)
		}
		p.say(helloAnswer)
	})
	go func() { _, _ = io.WriteString(to, "first") }() // nothing is held back of it
	r := ask(t, "POST", from)
	r.ContentLength = 100
	h.expect(r, 200, "hello")
	wait()
	// Its connection is no good for another request while the body is under way.
	wait = h.plays(func() {
		p := h.accept()
		_, _ = p.request()
		p.say(helloAnswer)
	})
	h.expect(ask(t, "GET", nil), 200, "hello")
	wait()
	_ = to.CloseWithError(io.ErrUnexpectedEOF)
}

// A body that fails, as one with a placeholder does, ends the connection: what
// the host has of it is no whole request.
func TestLine_BodyFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("no further")
	for _, length := range []int64{5, 9, -1} {
		h := newHost(t, false)
		wait := h.plays(func() {
			p := h.accept()
			r, err := http.ReadRequest(p.r)
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := io.ReadAll(r.Body); err == nil && length != 5 {
				t.Errorf("length %d: the host has a whole body: %q", length, b)
			}
		})
		from, to := io.Pipe()
		go func() {
			_, _ = io.WriteString(to, "hello")
			_ = to.CloseWithError(bad)
		}()
		r := ask(t, "POST", from)
		r.ContentLength = length
		if _, _, err := h.ask(r); length != 5 && (err == nil || err.Error() != bad.Error()) {
			t.Errorf("length %d: %v", length, err)
		}
		wait()
	}
}

// Who asked is gone, or may no longer ask: everything ends at once, wherever
// it stands.
func TestLine_Cancelled(t *testing.T) {
	t.Parallel()
	because := errors.New("taken back")
	for _, secure := range []bool{false, true} {
		for _, at := range []string{"head", "body", "upload"} {
			h := newHost(t, secure)
			ctx, cancel := context.WithCancelCause(t.Context())
			from, to := io.Pipe()
			r := ask(t, "POST", nil).WithContext(ctx)
			if at == "upload" {
				r.Body, r.ContentLength = from, -1
			}
			wait := h.plays(func() {
				p := h.accept()
				if _, err := http.ReadRequest(p.r); err != nil {
					t.Error(err)
				}
				if at == "body" {
					p.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
				} else {
					cancel(because)
				}
				if _, err := p.r.ReadByte(); err == nil {
					t.Error("the host reads on")
				}
			})
			res, err := h.line.RoundTrip(r)
			if at == "body" {
				if err != nil {
					t.Fatal(err)
				}
				cancel(because)
				_, err = io.ReadAll(res.Body)
			}
			if !errors.Is(err, because) {
				t.Errorf("TLS %v, %s: %v", secure, at, err)
			}
			wait()
			_ = to.Close()
			cancel(nil)
		}
	}
}

// Nor does who waits for a connection wait on.
func TestLine_CancelledAtDialling(t *testing.T) {
	t.Parallel()
	h := newHost(t, false)
	because := errors.New("taken back")
	ctx, cancel := context.WithCancelCause(t.Context())
	h.line.reach = func(ctx context.Context) (net.Conn, func(), error) {
		cancel(because)
		<-ctx.Done()
		return nil, nil, context.Cause(ctx)
	}
	if _, err := h.line.RoundTrip(ask(t, "POST", nil).WithContext(ctx)); !errors.Is(err, because) {
		t.Error(err)
	}
}

// A cancellation after the answer is no matter for what comes then.
func TestLine_CancelledLater(t *testing.T) {
	t.Parallel()
	h := newHost(t, false)
	wait := h.plays(func() {
		p := h.accept()
		for range 3 {
			_, _ = p.request()
			p.say(helloAnswer)
		}
	})
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		h.expect(ask(t, "GET", nil).WithContext(ctx), 200, "hello")
		cancel()
	}
	wait()
}

// Informational answers are passed on, as many as come, and each may be as
// long as an answer's head; that has its bound.
func TestLine_Heads(t *testing.T) {
	t.Parallel()
	field := "X: " + strings.Repeat("x", maxAnswerHead/2) + "\r\n"
	const early = "HTTP/1.1 103 Early Hints\r\n"
	for _, c := range []struct {
		what, answer string
		hints        int
		ok           bool
	}{
		{"many hints", strings.Repeat(early+"\r\n", 20) + helloAnswer, 20, true},
		{"long hints", strings.Repeat(early+field+"\r\n", 3) + helloAnswer, 3, true},
		{"a long hint", early + field + field + "\r\n" + helloAnswer, 0, false},
		{"a long head", strings.Replace(helloAnswer, "Content", field+"Content", 1), 0, true},
		{"a longer one", strings.Replace(helloAnswer, "Content", field+field+"Content", 1), 0, false},
		{"endless", "HTTP/1.1 200 OK\r\n" + field + field + field, 0, false},
		{"no line end", strings.Repeat("x", 2*maxAnswerHead), 0, false},
	} {
		h := newHost(t, false)
		wait := h.plays(func() {
			p := h.accept()
			_, _ = p.request()
			p.say(c.answer)
		})
		hints := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil },
		})
		res, body, err := h.ask(ask(t, "GET", nil).WithContext(ctx))
		if (err == nil) != c.ok || hints != c.hints || c.ok && (res.StatusCode != 200 || body != "hello") {
			t.Errorf("%s: %d hints, %q, %.100v", c.what, hints, body, err)
		}
		wait()
	}
}

// Nothing that would be read as another field goes out.
func TestLine_Fields(t *testing.T) {
	t.Parallel()
	h := newHost(t, false)
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header["X\r\nY"] = []string{"z"} },
		func(r *http.Request) { r.Header["X Y"] = []string{"z"} },
		func(r *http.Request) { r.Header[""] = []string{"z"} },
		func(r *http.Request) { r.Header["X"] = []string{"y\r\nZ: z"} },
		func(r *http.Request) { r.Header["X"] = []string{"y\x00"} },
		func(r *http.Request) { r.Method = "GET / HTTP/1.1\r\nX:" },
		func(r *http.Request) { r.Method = "" },
		func(r *http.Request) { r.URL.Opaque = "/x HTTP/1.1\r\nX: y" },
	} {
		r := ask(t, "GET", nil)
		change(r)
		if _, _, err := h.ask(r); err == nil {
			t.Errorf("passed on: %+v", r)
		}
		for len(h.conns) > 0 {
			if b, _ := io.ReadAll(h.accept()); len(b) > 0 {
				t.Errorf("the host got %q", b)
			}
		}
	}
}

// A host that does not prove its name gets nothing.
func TestLine_Certificate(t *testing.T) {
	t.Parallel()
	h := newHost(t, true)
	other, err := ca.New(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.line.secure.RootCAs = other.Pool()
	wait := h.plays(func() {
		if b, err := io.ReadAll(h.accept()); err == nil || len(b) > 0 {
			t.Errorf("the host got %q, %v", b, err)
		}
	})
	_, _, err = h.ask(ask(t, "GET", nil))
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("%v", err)
	}
	wait()
	if n := h.released.Load(); n != 1 {
		t.Errorf("released %d times", n)
	}
}

// What is out of the ordinary goes by Transport.
func TestLine_Odd(t *testing.T) {
	t.Parallel()
	h := newHost(t, false)
	wait := h.plays(func() {
		p := h.accept()
		_, _ = p.request()
		p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if b, err := p.r.ReadString('\n'); b != "ping\n" {
			t.Errorf("%q, %v", b, err)
		}
	})
	r := ask(t, "GET", nil)
	r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
	res, err := h.line.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	both, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("%T", res.Body)
	}
	_, _ = io.WriteString(both, "ping\n")
	wait()
	_ = both.Close()
	wait = h.plays(func() {
		p := h.accept()
		r, err := http.ReadRequest(p.r)
		if err != nil || r.Header.Get("Expect") != "100-continue" {
			t.Errorf("%+v, %v", r, err)
			return
		}
		p.say("HTTP/1.1 100 Continue\r\n\r\n")
		_, _ = io.Copy(io.Discard, r.Body)
		p.say(helloAnswer)
	})
	r = ask(t, "POST", strings.NewReader("body"))
	r.Header["Expect"] = []string{"100-continue"}
	h.expect(r, 200, "hello")
	wait()
}

// verdict is what becomes of an answer.
type verdict struct {
	Failed  bool
	Status  int
	Header  http.Header
	Length  int64
	Coding  []string
	Close   bool
	Body    string
	BodyErr bool
	Trailer http.Header
}

func judgeAnswer(t http.RoundTripper, r *http.Request) verdict {
	res, err := t.RoundTrip(r)
	if err != nil {
		return verdict{Failed: true}
	}
	v := verdict{Status: res.StatusCode, Header: res.Header, Length: res.ContentLength, Coding: res.TransferEncoding, Close: res.Close}
	if res.StatusCode != http.StatusSwitchingProtocols {
		b, err := io.ReadAll(res.Body)
		v.Body, v.BodyErr, v.Trailer = string(b), err != nil, res.Trailer
	}
	_ = res.Body.Close()
	return v
}

// Whatever a host answers, a line makes of it what http.Transport does.
func FuzzLine_AnswersAsTransport(f *testing.F) {
	for _, s := range []string{
		helloAnswer, "", "\r\n", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nto the end",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
		"HTTP/1.1 103 Early\r\nX: y\r\n\r\n" + helloAnswer, "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\nx",
		"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 304 No\r\n\r\n", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nx",
		"HTTP/1.1 099 X\r\n\r\n", "HTTP/1.1 1 X\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", "HTTP/2.0 200 OK\r\n\r\n", "SSH-2.0-x\r\n",
		"HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "HTTP/1.1 200 OK\r\n X: y\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	log.SetOutput(io.Discard) // of what Transport says about answers that nobody asked for
	h := newHost(f, false)
	var mu sync.Mutex
	var answer []byte
	go func() {
		for c := range h.conns {
			go func() {
				defer func() { _ = c.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				_, _ = c.Write(answer)
			}()
		}
	}()
	f.Fuzz(func(t *testing.T, b []byte, head bool) {
		mu.Lock()
		answer = b
		mu.Unlock()
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		transport := &http.Transport{DialContext: h.dial, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHead}
		want := judgeAnswer(transport, ask(t, method, nil))
		transport.CloseIdleConnections()
		l := &line{copies: h.line.copies, reach: h.reach, odd: h.line.odd}
		got := judgeAnswer(l, ask(t, method, nil))
		if l.way != nil {
			_ = l.way.conn.Close()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q, %s: by Transport (-) and by line (+):\n%s", b, method, diff)
		}
	})
}
