package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/gateway/document"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/seal"
)

// plain is a dialect of the tests: {"max":N,"stream":BOOL} in; lines and a
// count out.
type plain struct{}

func (plain) Route(method, target string) Endpoint {
	switch method + " " + target {
	case "POST /v1/talk":
		return Generate
	case "POST /v1/count":
		return Count
	case "GET /v1/models":
		return Models
	case "GET /v1/models/x":
		return Model
	case "HEAD /hello":
		return Hello
	}
	return None
}

func (plain) Read(_ Endpoint, target string, _ http.Header, body []byte, pin Pin) (*Call, error) {
	v, err := document.Parse(body, document.Limits{})
	if err != nil {
		return nil, &Refusal{Status: 400, Code: "invalid_json", Detail: err.Error()}
	}
	if v.Get("bad") != nil {
		return nil, &Refusal{Status: 403, Code: "bad_field", Path: "bad", Detail: "it is bad"}
	}
	if v.Get("panic") != nil {
		panic("a bug")
	}
	c := NewCall(nil)
	c.Target, c.Body, c.Input, c.Stream = target, v, 10, v.Get("stream").IsTrue()
	c.Output, _ = v.Get("max").Int()
	v.Set("model", document.NewString(pin.Name))
	return c, nil
}

func (plain) SetOutput(c *Call, n int64)  { c.Body.Set("max", document.NewInt(n)) }
func (plain) Meter(*Call) Meter           { return &plainMeter{} }
func (plain) FailStream(f Failure) []byte { return []byte("event: failed\ndata: " + f.Code + "\n\n") }
func (plain) Models(pin Pin) []byte       { return []byte(`["` + pin.ID + `"]`) }
func (plain) Model(pin Pin) []byte        { return []byte(`"` + pin.ID + `"`) }
func (plain) Fail(f Failure) (int, http.Header, []byte) {
	return f.Status, http.Header{"Content-Type": {"application/json"}}, []byte(strconv.Quote(f.Code + ": " + f.Message))
}

type plainMeter struct{ r Result }

func (m *plainMeter) Event(name string, data []byte) bool {
	switch name {
	case "usage":
		m.r.Usage.Input, m.r.Known = 10, true
		m.r.Usage.Output, _ = strconv.ParseInt(string(data), 10, 64)
		return false
	case "end":
		m.r.Ended = true
	default:
		m.r.Output += int64(len(data))
	}
	return true
}

func (m *plainMeter) Whole(b []byte) []byte {
	m.r = Result{Usage: pricing.Usage{Input: 10, Output: int64(len(b))}, Known: true, Ended: true}
	return b
}
func (m *plainMeter) Result() Result { return m.r }

// purse is a budget of the tests, and what was booked.
type purse struct {
	mu     sync.Mutex
	left   int64
	broken bool
	held   bool
	booked []string
	done   chan struct{} // one for each booking
}

type spentError string

func (e spentError) Error() string { return string(e) }
func (e spentError) Spent() string { return string(e) }

type heldError string

func (e heldError) Error() string { return string(e) }
func (e heldError) Held() string  { return string(e) }

func (p *purse) Reserve(_ context.Context, input, _, output int64) (Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return nil, errors.New("the disk is full")
	}
	if p.held {
		return nil, heldError("others are under way")
	}
	if output == 0 || output > p.left-input {
		output = p.left - input
	}
	if output < 16 {
		return nil, spentError("all is spent")
	}
	p.left -= input + output
	return &coin{p, input, output}, nil
}

type coin struct {
	p             *purse
	input, output int64
}

func (c *coin) Output() int64 { return c.output }
func (c *coin) book(what string, used int64) {
	c.p.mu.Lock()
	c.p.left += c.input + c.output - used
	c.p.booked = append(c.p.booked, fmt.Sprintf("%s %d", what, used))
	c.p.mu.Unlock()
	c.p.done <- struct{}{}
}
func (c *coin) Settle(u pricing.Usage) { c.book("settled", u.Tokens()) }
func (c *coin) Abandon(u pricing.Usage) *pricing.Money {
	if n := u.Tokens(); n > 0 {
		c.book("estimated", n)
	} else {
		c.book("abandoned", c.input+c.output)
	}
	return nil
}
func (c *coin) Release()                          { c.book("released", 0) }
func (c *coin) Cost(pricing.Usage) *pricing.Money { return nil }

const (
	testToken = "the-token-of-this-sandbox"
	testKey   = "sk-provider-0123456789abcdefghij"
)

// lab is a server before a provider of the test's.
type lab struct {
	url      string
	purse    *purse
	asked    atomic.Int64
	up       *Upstream
	server   *Server
	mu       sync.Mutex
	entries  []Entry
	requests []*http.Request
	bodies   []string
}

func newLab(t *testing.T, provider http.HandlerFunc) *lab {
	t.Helper()
	l := &lab{purse: &purse{left: 1000, done: make(chan struct{}, 1000)}}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		l.requests, l.bodies = append(l.requests, r), append(l.bodies, string(b))
		l.mu.Unlock()
		l.asked.Add(1)
		provider(w, r)
	}))
	t.Cleanup(origin.Close)
	l.up = NewUpstream(Provider{
		Name: "local", URL: func(target string) string { return origin.URL + target },
		Sign: func(h http.Header, key []byte) { h.Set("X-Api-Key", string(key)) },
	}, time.Now)
	if err := l.up.SetKey(seal.NewSecret([]byte(testKey))); err != nil {
		t.Fatal(err)
	}
	s := New(Config{
		Protocol: plain{}, Pin: Pin{ID: "small", Name: "real-1", Dialect: "plain"}, Token: sha256.Sum256([]byte(testToken)),
		Upstream: l.up, Budget: l.purse, Now: time.Now,
		Log: func(e Entry) { l.mu.Lock(); l.entries = append(l.entries, e); l.mu.Unlock() },
	})
	l.server = s
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	l.url = "http://" + ln.Addr().String()
	return l
}

// raw sends bytes and returns the head of the answer.
func (l *lab) raw(t *testing.T, request string) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp4", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	res.Body = io.NopCloser(bytes.NewReader(b))
	return res
}

// post makes a call with the right token.
func (l *lab) post(t *testing.T, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, l.url+"/v1/talk", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

func answerOK(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `"yes"`)
}

// booked waits for n bookings and returns them all.
func (l *lab) booked(n int) string {
	for range n {
		<-l.purse.done
	}
	l.purse.mu.Lock()
	defer l.purse.mu.Unlock()
	return strings.Join(l.purse.booked, ", ")
}

// TestServer_Admission: D009, D010, D029, D030, D032–D034, D074. What is refused is not
// seen by the provider; the twin on the same path is.
func TestServer_Admission(t *testing.T) {
	t.Parallel()
	const auth, kind, size = "Authorization: Bearer " + testToken + "\r\n", "Content-Type: application/json\r\n", "Content-Length: 2\r\n"
	for name, c := range map[string]struct {
		line, fields string
		status       int
	}{
		"twin":                   {"POST /v1/talk", auth + kind + size, 200},
		"twin, x-api-key":        {"POST /v1/talk", "x-api-key: " + testToken + "\r\n" + kind + size, 200},
		"twin, google's":         {"POST /v1/talk", "X-Goog-Api-Key: " + testToken + "\r\n" + kind + size, 200},
		"twin, charset":          {"POST /v1/talk", auth + "Content-Type: application/json; charset=UTF-8\r\n" + size, 200},
		"twin, identity":         {"POST /v1/talk", auth + kind + size + "Content-Encoding: identity\r\n", 200},
		"no token":               {"POST /v1/talk", kind + size, 401},
		"wrong token":            {"POST /v1/talk", "Authorization: Bearer " + testToken + "x\r\n" + kind + size, 401},
		"empty token":            {"POST /v1/talk", "Authorization: Bearer \r\n" + kind + size, 401},
		"token as basic":         {"POST /v1/talk", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(testToken+":")) + "\r\n" + kind + size, 401},
		"an attacker's key too":  {"POST /v1/talk", auth + "x-api-key: sk-attacker\r\n" + kind + size, 401},
		"two lines, one wrong":   {"POST /v1/talk", "x-api-key: sk-attacker\r\nX-Api-Key: " + testToken + "\r\n" + kind + size, 401},
		"no token, no such path": {"GET /v1/files", "", 401},
		"another path":           {"POST /v1/files", auth + kind + size, 404},
		"another method":         {"PUT /v1/talk", auth + kind + size, 404},
		"a slash more":           {"POST //v1/talk", auth + kind + size, 404},
		"a slash inside":         {"POST /v1//talk", auth + kind + size, 404},
		"a dot":                  {"POST /v1/./talk", auth + kind + size, 404},
		"two dots":               {"POST /v1/talk/../files", auth + kind + size, 404},
		"two dots to it":         {"POST /v1/files/../talk", auth + kind + size, 404},
		"an escape":              {"POST /v1/%74alk", auth + kind + size, 404},
		"an escaped slash":       {"POST /v1%2ftalk", auth + kind + size, 404},
		"a parameter":            {"POST /v1/talk;x=1", auth + kind + size, 404},
		"a slash at the end":     {"POST /v1/talk/", auth + kind + size, 404},
		"another case":           {"POST /V1/talk", auth + kind + size, 404},
		"absolute":               {"POST http://evil.test/v1/talk", auth + kind + size, 404},
		"a key in the query":     {"POST /v1/talk?key=AIza", auth + kind + size, 404},
		"a model in the query":   {"POST /v1/talk?model=dear", auth + kind + size, 404},
		"an empty query":         {"POST /v1/talk?", auth + kind + size, 404},
		"gzip":                   {"POST /v1/talk", auth + kind + size + "Content-Encoding: gzip\r\n", 415},
		"two encodings":          {"POST /v1/talk", auth + kind + size + "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", 415},
		"a form":                 {"POST /v1/talk", auth + "Content-Type: multipart/form-data; boundary=x\r\n" + size, 415},
		"text":                   {"POST /v1/talk", auth + "Content-Type: text/plain\r\n" + size, 415},
		"utf-7":                  {"POST /v1/talk", auth + "Content-Type: application/json; charset=utf-7\r\n" + size, 415},
		"no type":                {"POST /v1/talk", auth + size, 415},
		"two types":              {"POST /v1/talk", auth + kind + "Content-Type: text/plain\r\n" + size, 415},
		"websocket":              {"GET /v1/talk", auth + "Connection: Upgrade\r\nUpgrade: websocket\r\n", 426},
		"too large":              {"POST /v1/talk", auth + kind + "Content-Length: 99999999\r\n", 413},
		"h2c":                    {"PRI *", "", 401},
		"a proxy's request":      {"CONNECT evil.test:443", auth, 404},
		"the list":               {"GET /v1/models", auth, 200},
		"the list without token": {"GET /v1/models", "", 401},
		"one model":              {"GET /v1/models/x", auth, 200},
		"one without token":      {"GET /v1/models/x", "", 401},
		"a probe":                {"HEAD /hello", "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, answerOK)
			host := "Host: gw\r\n"
			body := ""
			if strings.Contains(c.fields, size) {
				body = "{}"
			}
			res := l.raw(t, c.line+" HTTP/1.1\r\n"+host+c.fields+"\r\n"+body)
			if res.StatusCode != c.status || res.Header.Get("Location") != "" {
				b, _ := io.ReadAll(res.Body)
				t.Errorf("status %d, want %d: %s", res.StatusCode, c.status, b)
			}
			want := int64(0)
			if strings.HasPrefix(name, "twin") {
				want = 1
			}
			if l.asked.Load() != want {
				t.Errorf("the provider was asked %d times", l.asked.Load())
			}
		})
	}
}

// TestServer_SendsItsOwnRequest: nothing of the client's head goes on (D009,
// D036), and the key is where the provider wants it.
func TestServer_SendsItsOwnRequest(t *testing.T) {
	t.Parallel()
	l := newLab(t, answerOK)
	res := l.raw(t, "POST /v1/talk HTTP/1.1\r\nHost: evil.test\r\nAuthorization: Bearer "+testToken+"\r\nContent-Type: application/json\r\n"+
		"Cookie: a=b\r\nOpenAI-Organization: other\r\nX-Portkey-Custom-Host: evil.test\r\nX-Forwarded-For: 1.2.3.4\r\nContent-Length: 10\r\n\r\n"+`{"max":20}`)
	if res.StatusCode != 200 || l.asked.Load() != 1 {
		t.Fatalf("status %d, asked %d times", res.StatusCode, l.asked.Load())
	}
	got := l.requests[0].Header
	for name := range got {
		switch name {
		case "Content-Type", "Content-Length", "Accept-Encoding", "User-Agent", "X-Api-Key":
		default:
			t.Errorf("%s: %s went on", name, got.Get(name))
		}
	}
	if got.Get("X-Api-Key") != testKey || strings.Contains(fmt.Sprint(got), testToken) || got.Get("Accept-Encoding") != "identity" {
		t.Errorf("fields %v", got)
	}
	if want := `{"max":20,"model":"real-1"}`; l.bodies[0] != want {
		t.Errorf("body %s, want %s", l.bodies[0], want)
	}
	if got, want := l.booked(1), "settled 15"; got != want {
		t.Errorf("booked %q, want %q", got, want)
	}
}

// TestServer_Refusals: what the dialect refuses is answered in its shape, and a
// bug in it ends one call.
func TestServer_Refusals(t *testing.T) {
	t.Parallel()
	l := newLab(t, answerOK)
	for body, want := range map[string]string{
		`{"bad":1}`:               "403 bad_field: bad: it is bad",
		`{"a":1,"a":2}`:           "400 invalid_json",
		`{"max":20} {}`:           "400 invalid_json",
		`{"panic":1}`:             "500 bug",
		`{"max":20}`:              `200 yes`,
		`{"stream":true,`:         "400 invalid_json",
		"\xef\xbb\xbf{}":          "400 invalid_json",
		`{"max":20,"s":"\u0000"}`: "400 invalid_json",
	} {
		res, text := l.post(t, body)
		if got := strconv.Itoa(res.StatusCode) + " " + strings.Trim(text, `"`); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
	if l.asked.Load() != 1 {
		t.Errorf("the provider was asked %d times", l.asked.Load())
	}
}

// TestServer_Budget: D050 and D060. What is left lowers a call; of many at once
// those pass that can be paid; a budget that cannot be kept lets nothing pass.
func TestServer_Budget(t *testing.T) {
	t.Parallel()
	l := newLab(t, answerOK)
	l.purse.left = 60
	if res, _ := l.post(t, `{"max":5000}`); res.StatusCode != 200 || !strings.Contains(l.bodies[0], `"max":50`) {
		t.Errorf("status %d, sent %s", res.StatusCode, l.bodies[0])
	}
	l.booked(1) // it is after the answer
	begin, hold := make(chan struct{}), make(chan struct{})
	l2 := newLab(t, func(w http.ResponseWriter, r *http.Request) { close(begin); <-hold; answerOK(w, r) })
	l2.purse.left = 26
	var all sync.WaitGroup
	var passed, spent atomic.Int64
	for range 200 {
		all.Go(func() {
			switch res, _ := l2.post(t, `{"max":16}`); res.StatusCode {
			case 200:
				passed.Add(1)
			case 402:
				spent.Add(1)
			}
			if spent.Load() == 199 {
				select {
				case <-hold:
				default:
					close(hold)
				}
			}
		})
	}
	<-begin
	all.Wait()
	if passed.Load() != 1 || spent.Load() != 199 {
		t.Errorf("%d passed, %d were spent", passed.Load(), spent.Load())
	}
	l.purse.held = true
	if res, text := l.post(t, `{"max":20}`); res.StatusCode != 429 || !strings.Contains(text, "budget_held") || res.Header.Get("Retry-After") == "" {
		t.Errorf("held by others: %d %s", res.StatusCode, text)
	}
	l.purse.held = false
	if res, text := l.post(t, `{"max":20}`); res.StatusCode != 200 {
		t.Errorf("the twin: %d %s", res.StatusCode, text)
	}
	l.purse.broken = true
	if res, text := l.post(t, `{"max":20}`); res.StatusCode != 503 || !strings.Contains(text, "budget_unavailable") {
		t.Errorf("without a record: %d %s", res.StatusCode, text)
	}
}

// TestWordless: an error's text goes on without what it quotes of an answer
// (D076).
func TestWordless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`net/http: HTTP/1.x transport connection broken: malformed HTTP response "private"`: "net/http: HTTP/1.x transport connection broken: malformed HTTP response",
		"transport connection broken: malformed MIME header line: private: words":           "transport connection broken: malformed MIME header line",
		`bad Content-Length "private"`: "bad Content-Length",
		"malformed chunked encoding":   "malformed chunked encoding",
		"unexpected EOF":               "unexpected EOF",
		"read: connection reset":       "read: connection reset",
		"":                             "",
	} {
		if got := wordless(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// sse writes events.
func sse(w http.ResponseWriter, list ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		name, data, _ := strings.Cut(e, "|")
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
	}
	_ = http.NewResponseController(w).Flush()
}

// isBooked holds the first booking to what it is to be. An estimate is of what was
// seen up to what was reserved, by how long it took.
func (l *lab) isBooked(t *testing.T, want string) {
	t.Helper()
	got := l.booked(1)
	var least, n int
	if _, err := fmt.Sscanf(want, "estimated %d", &least); err == nil {
		if _, err := fmt.Sscanf(got, "estimated %d", &n); err == nil && n >= least && n <= 60 {
			return
		}
	}
	if got != want {
		t.Errorf("booked %q, want %q", got, want)
	}
}

// TestServer_Streams: D052 and D053. A stream is booked by what it says at its
// end, by all that was reserved if it ends without, and by an estimate that is
// never 0 where it breaks off or nobody waits for it.
func TestServer_Streams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events   []string
		cut      bool
		text     string
		booked   string
		atLeast  bool
		failCode string
	}{
		"whole":         {[]string{"text|hello", "usage|33", "end|"}, false, "event: text\ndata: hello\n\nevent: end\n\n", "settled 43", false, ""},
		"without usage": {[]string{"text|hello", "end|"}, false, "event: text\ndata: hello\n\nevent: end\n\n", "abandoned 60", false, ""},
		"no output":     {[]string{"text|hello", "usage|0", "end|"}, false, "event: text\ndata: hello\n\nevent: end\n\n", "abandoned 60", false, ""},
		"no answer":     {[]string{"usage|0", "end|"}, false, "event: end\n\n", "settled 10", false, ""},
		"broken off":    {[]string{"text|hello hello hello hello"}, false, "event: text\ndata: hello hello hello hello\n\nevent: failed\ndata: stream_broken\n\n", "estimated 38", false, "stream_broken"},
		"cut":           {[]string{"text|hello hello hello hello"}, true, "event: text\ndata: hello hello hello hello\n\nevent: failed\ndata: stream_broken\n\n", "estimated 38", false, "stream_broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, func(w http.ResponseWriter, _ *http.Request) {
				sse(w, c.events...)
				if c.cut {
					panic(http.ErrAbortHandler)
				}
			})
			_, text := l.post(t, `{"max":50,"stream":true}`)
			if text != c.text {
				t.Errorf("got %q\nwant %q", text, c.text)
			}
			l.isBooked(t, c.booked)
		})
	}
}

// TestServer_HangUp: D052. Who leaves in the middle pays for what the provider says
// at the end.
func TestServer_HangUp(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	l := newLab(t, func(w http.ResponseWriter, _ *http.Request) {
		sse(w, "text|hello")
		<-gone
		sse(w, "usage|40", "end|")
	})
	req, _ := http.NewRequest(http.MethodPost, l.url+"/v1/talk", strings.NewReader(`{"max":50,"stream":true}`))
	req.Header.Set("X-Api-Key", testToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	close(gone)
	if got, want := l.booked(1), "settled 50"; got != want {
		t.Errorf("booked %q, want %q", got, want)
	}
}

// TestServer_HangUpWhole: a provider goes on with an answer that is no stream
// when nobody waits for it any more, so all that was reserved is booked, and not
// what can have been made until then. The twin has been answered.
func TestServer_HangUpWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, booked string }{
		"left":     {`{"max":50}`, "abandoned 60"},
		"answered": {`{"max":50,"now":1}`, "settled 15"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{})
			l := newLab(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(c.body, "now") {
					answerOK(w, r)
				} else {
					defer func() { <-r.Context().Done() }()
				}
				close(asked)
			})
			req, _ := http.NewRequest(http.MethodPost, l.url+"/v1/talk", strings.NewReader(c.body))
			req.Header.Set("X-Api-Key", testToken)
			req.Header.Set("Content-Type", "application/json")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if res, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}()
			<-asked
			if strings.Contains(c.body, "now") {
				<-ended
			}
			_ = l.server.Close(t.Context())
			<-ended
			l.isBooked(t, c.booked)
		})
	}
}

// TestServer_AnswersAreHeld: a provider that sends large events, or large
// answers, in many calls at a time does not fill the machine. Those that there
// is no room for break off; the twins have room, and give it back.
func TestServer_AnswersAreHeld(t *testing.T) {
	t.Parallel()
	const large = 1 << 20
	for name, ask := range map[string]string{"stream": `{"max":50,"stream":true}`, "whole": `{"max":50}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, func(w http.ResponseWriter, _ *http.Request) {
				if name == "stream" {
					sse(w, "text|"+strings.Repeat("a", large), "usage|40", "end|")
					return
				}
				answerText(w, http.StatusOK, strings.Repeat("a", large))
			})
			l.purse.left = 10 * large
			if _, text := l.post(t, ask); len(text) < large {
				t.Errorf("with room there are %d bytes", len(text))
			}
			l.booked(1) // by then it is given back
			if !l.server.room.TryAcquire(maxRoom) {
				t.Fatal("the room is not given back")
			}
			l.server.room.Release(large / 2)
			if _, text := l.post(t, ask); !strings.Contains(text, "stream_broken") || len(text) >= large {
				t.Errorf("without room there are %d bytes: %.60s", len(text), text)
			}
		})
	}
}

// TestServer_RequestsAreHeld: the bound of what requests hold in memory counts
// them until the provider has begun to answer; one that does not could be made
// to fill the machine otherwise (D061).
func TestServer_RequestsAreHeld(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	l := newLab(t, func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		sse(w, "text|hello", "usage|40", "end|")
	})
	free := func() bool {
		ok := l.server.held.TryAcquire(maxHeld)
		if ok {
			l.server.held.Release(maxHeld)
		}
		return ok
	}
	go func() {
		<-asked
		if free() {
			t.Error("a request that waits for its answer does not count")
		}
		close(answer)
	}()
	// Chunked: what was set aside for a length that is not known is given back.
	req, _ := http.NewRequest(http.MethodPost, l.url+"/v1/talk", io.MultiReader(strings.NewReader(`{"max":50,"stream":true}`)))
	req.Header.Set("X-Api-Key", testToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if !free() {
		t.Error("a request whose answer has begun counts still")
	}
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), "hello") {
		t.Errorf("%q, %v", b, err)
	}
}

// TestServer_KeyStaysOut: D070 and D072. The provider's key is in no part of an answer,
// in no coding, and an answer that is compressed is none.
func TestServer_KeyStaysOut(t *testing.T) {
	t.Parallel()
	coded := base64.StdEncoding.EncodeToString([]byte("x" + testKey))
	for name, provider := range map[string]http.HandlerFunc{
		"body":  func(w http.ResponseWriter, r *http.Request) { answerText(w, 200, r.Header.Get("X-Api-Key")) },
		"error": func(w http.ResponseWriter, r *http.Request) { answerText(w, 400, r.Header.Get("X-Api-Key")) },
		"coded": func(w http.ResponseWriter, _ *http.Request) { answerText(w, 200, coded) },
		"field": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Request-Id", r.Header.Get("X-Api-Key"))
			answerOK(w, r)
		},
		"event": func(w http.ResponseWriter, r *http.Request) {
			sse(w, "text|"+r.Header.Get("X-Api-Key"), "usage|1", "end|")
		},
		"split": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, b := range []byte("event: text\ndata: " + r.Header.Get("X-Api-Key") + "\n\nevent: end\ndata:\n\n") {
				_, _ = w.Write([]byte{b})
				_ = http.NewResponseController(w).Flush()
			}
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.test/?"+r.Header.Get("X-Api-Key"), http.StatusTemporaryRedirect)
		},
		"compressed": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "application/json")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, strconv.Quote(r.Header.Get("X-Api-Key")))
			_ = z.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, provider)
			res, text := l.post(t, `{"max":50}`)
			if all := fmt.Sprint(res.Header) + text; strings.Contains(all, testKey) || strings.Contains(all, coded[4:20]) || res.Header.Get("Location") != "" {
				t.Errorf("%d %s", res.StatusCode, all)
			}
			if got := l.requests[0].Header.Get("X-Api-Key"); got != testKey {
				t.Errorf("the provider got the key %q", got)
			}
			if failed := name == "redirect" || name == "compressed"; failed != (res.StatusCode == 502) && name != "error" {
				t.Errorf("status %d", res.StatusCode)
			}
		})
	}
}

func answerText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, strconv.Quote("it said "+text+" to me"))
}

// TestServer_Retries: D056. A call is sent a second time where the provider asks
// for it, once, and never after an answer has begun.
func TestServer_Retries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		fields map[string]string
		asked  int64
		got    int
	}{
		"busy, in a moment":  {429, map[string]string{"Retry-After-Ms": "1"}, 2, 200},
		"overloaded":         {529, map[string]string{"Retry-After": "0"}, 2, 200},
		"busy, nothing said": {429, nil, 1, 429},
		"busy, for long":     {429, map[string]string{"Retry-After": "3600"}, 1, 429},
		"do not":             {503, map[string]string{"Retry-After": "0", "X-Should-Retry": "false"}, 1, 503},
		"failed":             {500, map[string]string{"Retry-After": "0"}, 1, 500},
		"refused":            {400, map[string]string{"Retry-After": "0"}, 1, 400},
		"our key is refused": {401, nil, 1, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			l := newLab(t, func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1) > 1 {
					answerOK(w, r)
					return
				}
				for name, v := range c.fields {
					w.Header().Set(name, v)
				}
				answerText(w, c.status, "no")
			})
			res, _ := l.post(t, `{"max":50}`)
			if res.StatusCode != c.got || l.asked.Load() != c.asked {
				t.Errorf("status %d, asked %d times", res.StatusCode, l.asked.Load())
			}
			if c.got == 429 && len(c.fields) > 0 && res.Header.Get("Retry-After") != c.fields["Retry-After"] {
				t.Errorf("fields %v", res.Header)
			}
			want := "released 0"
			if c.got == 200 {
				want = "settled 15"
			}
			if got := l.booked(1); got != want {
				t.Errorf("booked %q, want %q", got, want)
			}
		})
	}
}

// TestServer_StatusesAfterTheWork: a status that says that nothing was done gives
// the budget back; one of a provider or proxy that may have done it does not.
func TestServer_StatusesAfterTheWork(t *testing.T) {
	t.Parallel()
	const quick, slow = time.Second / 2, time.Minute
	for _, c := range []struct {
		status int
		took   time.Duration
		want   bool
	}{
		{202, quick, true},
		{307, slow, false},
		{400, slow, false},
		{429, slow, false},
		{503, slow, false},
		{529, slow, false},
		{408, quick, false},
		{408, slow, true},
		{499, slow, true},
		{500, quick, false},
		{500, slow, true},
		{502, 2 * time.Second, false},
		{502, slow, true},
		{504, quick, false},
		{504, 2 * time.Second, true},
		{504, slow, true},
		{524, slow, true},
	} {
		if got := Worked(c.status, c.took); got != c.want {
			t.Errorf("%d after %v: %v, want %v", c.status, c.took, got, c.want)
		}
	}
	l := newLab(t, func(w http.ResponseWriter, _ *http.Request) { answerText(w, 202, "{}") })
	if res, _ := l.post(t, `{"max":50}`); res.StatusCode != 502 {
		t.Errorf("status %d", res.StatusCode)
	}
	if got := l.booked(1); !strings.HasPrefix(got, "estimated ") {
		t.Errorf("booked %q", got)
	}
}

// TestServer_Circuit: a provider that fails is left alone for a while, and asked
// again afterwards.
func TestServer_Circuit(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	l := newLab(t, func(w http.ResponseWriter, r *http.Request) {
		if well.Load() {
			answerOK(w, r)
			return
		}
		answerText(w, 500, "no")
	})
	var later atomic.Int64
	l.up.circuit.now = func() time.Time { return time.Unix(later.Load(), 0) }
	for range circuitFailures {
		if res, _ := l.post(t, `{"max":50}`); res.StatusCode != 500 {
			t.Fatalf("status %d", res.StatusCode)
		}
	}
	well.Store(true)
	if res, text := l.post(t, `{"max":50}`); res.StatusCode != 503 || res.Header.Get("Retry-After") != "10" || l.asked.Load() != circuitFailures {
		t.Errorf("status %d, %s, asked %d times", res.StatusCode, text, l.asked.Load())
	}
	if got := l.booked(circuitFailures); strings.Count(got, ",") != circuitFailures-1 {
		t.Errorf("what was not sent stands in the budget's record: %q", got)
	}
	later.Store(int64(circuitPause / time.Second))
	if res, _ := l.post(t, `{"max":50}`); res.StatusCode != 200 {
		t.Errorf("after the pause: status %d", res.StatusCode)
	}
}

// TestServer_CallsThatComeToNothing: D056. What costs nothing stands in the record of
// usage as well, and so it may not be had as fast as it comes. What is answered may.
func TestServer_CallsThatComeToNothing(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	well.Store(true)
	l := newLab(t, func(w http.ResponseWriter, r *http.Request) {
		if well.Load() {
			answerOK(w, r)
			return
		}
		answerText(w, 400, "no")
	})
	l.purse.left, l.purse.done = 1<<30, make(chan struct{}, 4*freeBurst)
	for range freeBurst + 50 {
		if res, text := l.post(t, `{"max":50}`); res.StatusCode != 200 {
			t.Fatalf("twin: status %d %s", res.StatusCode, text)
		}
	}
	well.Store(false)
	for n := 0; ; n++ {
		res, text := l.post(t, `{"max":50}`)
		if res.StatusCode == 429 {
			if n < freeBurst || res.Header.Get("Retry-After") != "1" || !strings.Contains(text, "too_many_failures") {
				t.Errorf("after %d: %s", n, text)
			}
			break
		}
		if n > 2*freeBurst {
			t.Fatal("they go on and on")
		}
	}
}

// TestServer_CallsThatComeToNothingTogether: D056. Those that are under way at the
// same time count each, or many at a time would have many times the rate.
func TestServer_CallsThatComeToNothingTogether(t *testing.T) {
	t.Parallel()
	const more = 50
	var under sync.WaitGroup
	under.Add(freeBurst + more)
	l := newLab(t, func(w http.ResponseWriter, _ *http.Request) {
		under.Done()
		under.Wait()
		answerText(w, 400, "no")
	})
	l.purse.left = 1 << 30
	var done sync.WaitGroup
	for range freeBurst + more {
		done.Go(func() {
			req, _ := http.NewRequest(http.MethodPost, l.url+"/v1/talk", strings.NewReader(`{"max":50}`))
			req.Header.Set("Authorization", "Bearer "+testToken)
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			_ = res.Body.Close()
			if res.StatusCode != 400 {
				t.Errorf("status %d", res.StatusCode)
			}
		})
	}
	done.Wait()
	l.booked(freeBurst + more)
	if left := l.server.free.TokensAt(time.Now().Add(time.Second)); left >= 1 {
		t.Errorf("a second later there is room for %v", left)
	}
}

// TestServer_Unreachable: a provider that is not there is no cost.
func TestServer_Unreachable(t *testing.T) {
	t.Parallel()
	l := newLab(t, answerOK)
	l.up.p.URL = func(string) string { return "http://127.0.0.1:1/" }
	res, text := l.post(t, `{"max":50}`)
	if res.StatusCode != 502 || !strings.Contains(text, "provider_unreachable") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if got := l.booked(1); got != "released 0" {
		t.Errorf("booked %q", got)
	}
}

// TestServer_NewKey: D080. From the change on calls carry the new key, and the
// old one stays out of answers.
func TestServer_NewKey(t *testing.T) {
	t.Parallel()
	const next = "sk-provider-another-9876543210zyxw"
	l := newLab(t, func(w http.ResponseWriter, r *http.Request) {
		answerText(w, 200, testKey+" "+r.Header.Get("X-Api-Key"))
	})
	if err := l.up.SetKey(seal.NewSecret([]byte(next))); err != nil {
		t.Fatal(err)
	}
	_, text := l.post(t, `{"max":50}`)
	if strings.Contains(text, testKey) || strings.Contains(text, next) || l.requests[0].Header.Get("X-Api-Key") != next {
		t.Errorf("sent %q, got %s", l.requests[0].Header.Get("X-Api-Key"), text)
	}
}

// TestServer_ValuesAreBounded: two bytes of JSON may take a hundred of memory,
// in requests that wait for the budget and in what a provider says.
func TestServer_ValuesAreBounded(t *testing.T) {
	t.Parallel()
	many := `{"x":[` + strings.Repeat("{},", 1_500_000) + `{}]}`
	var streams atomic.Bool
	l := newLab(t, func(w http.ResponseWriter, _ *http.Request) {
		if streams.Load() {
			sse(w, "text|"+many, "usage|40", "end|")
			return
		}
		answerText(w, http.StatusOK, many)
	})
	l.purse.left = 1 << 40
	if res, text := l.post(t, `{"max":50}`); res.StatusCode != http.StatusBadGateway || !strings.Contains(text, "answer_too_large") {
		t.Errorf("%d %.100s", res.StatusCode, text)
	}
	streams.Store(true)
	if _, text := l.post(t, `{"max":50,"stream":true}`); !strings.Contains(text, "stream_broken") || len(text) > len(many) {
		t.Errorf("a stream: %d bytes, %.100s", len(text), text)
	}
	if got := treeBytes([]byte(`{"a":[` + strings.Repeat("1,", 400_000) + `1]}`)); got != nodeBytes*mostNodes {
		t.Errorf("the most that a tree may take is %d", got)
	}
	if got := treeBytes([]byte(`{"a":"` + strings.Repeat("text ", 100_000) + `"}`)); got > 1000 {
		t.Errorf("text takes %d", got)
	}
	free := func() bool {
		ok := l.server.trees.TryAcquire(maxTrees)
		if ok {
			l.server.trees.Release(maxTrees)
		}
		return ok
	}
	for end := time.Now().Add(10 * time.Second); !free(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the room of a tree is not given back")
		}
	}
}
