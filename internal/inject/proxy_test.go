package inject_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/bailey-dev/bailey/internal/inject"
)

// world is a host for all names, and a proxy before it that lends.
type world struct {
	proxy *httptest.Server
	http  *http.Client
}

// newWorld starts both. The proxy takes Host for the name that a host proved.
func newWorld(t *testing.T, l *inject.Lender, serve http.HandlerFunc) *world {
	t.Helper()
	host := httptest.NewUnstartedServer(serve)
	host.EnableHTTP2 = true
	host.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that a client dialled and did not need
	host.StartTLS()
	t.Cleanup(host.Close)
	at, err := url.Parse(host.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	w.proxy = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		loan, err := l.Lend(r, to(r.Host))
		if no, ok := errors.AsType[*inject.Refusal](err); ok {
			http.Error(rw, no.Reason, http.StatusForbidden)
			return
		}
		(&httputil.ReverseProxy{
			Transport:     host.Client().Transport,
			FlushInterval: -1,
			Rewrite: func(pr *httputil.ProxyRequest) {
				name := pr.In.Host
				pr.SetURL(at)
				pr.Out.Host = name
				pr.Out.URL.RawQuery = pr.In.URL.RawQuery
				loan.Apply(pr.Out)
			},
			ModifyResponse: loan.Answer,
			ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, err error) {
				if no, ok := errors.AsType[*inject.Refusal](err); ok {
					http.Error(rw, no.Reason, http.StatusForbidden)
					return
				}
				rw.WriteHeader(http.StatusBadGateway)
			},
		}).ServeHTTP(rw, r)
	}))
	w.proxy.EnableHTTP2 = true
	w.proxy.Config.ErrorLog = host.Config.ErrorLog
	w.proxy.StartTLS()
	t.Cleanup(w.proxy.Close)
	w.http = w.proxy.Client()
	return w
}

// get asks by HTTP/2, and returns status and body.
func (w *world) get(t *testing.T, at, authorization string, body io.Reader) (int, string) {
	t.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(t.Context(), method, w.proxy.URL, body)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	r.Host = at
	r.Header.Set("Authorization", authorization)
	res, err := w.http.Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(b)
}

// B021: 100 streams of one connection, by turns for two hosts.
func TestProxy_StreamsDoNotMix(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]int{}
	w := newWorld(t, lender(t), func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got[r.Host+" "+r.Header.Get("Authorization")]++
		mu.Unlock()
		fmt.Fprint(rw, r.Host, " ", r.Header)
	})
	var wg sync.WaitGroup
	const each = 50
	for range each {
		for at, p := range map[string]string{"inj.test": ph, "inj2.test": ph2} {
			wg.Go(func() {
				status, b := w.get(t, at, "Bearer "+p, nil)
				if status != http.StatusOK || !strings.HasPrefix(b, at+" ") || strings.Contains(b, value) || strings.Contains(b, value2) || !strings.Contains(b, "Bearer "+ph[:20]) {
					t.Errorf("B021, %s: %d %s", at, status, b)
				}
			})
		}
	}
	wg.Wait()
	if len(got) != 2 || got["inj.test Bearer "+value] != each || got["inj2.test Bearer "+value2] != each {
		t.Error(got)
	}
}

// T17, SEC-03: a placeholder in a body is a 403, over both versions of HTTP, and
// the host does not get it.
func TestProxy_BodyIsRefused(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{true, false} {
		var mu sync.Mutex
		var seen strings.Builder
		w := newWorld(t, lender(t), func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			seen.Write(b)
		})
		if !two {
			w.http.Transport.(*http.Transport).ForceAttemptHTTP2 = false
			w.http.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"http/1.1"}
			w.http.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
		for body, status := range map[string]int{"fine": 200, strings.Repeat("x", 1<<16) + ph: 403} {
			if got, b := w.get(t, "inj.test", "Bearer "+ph, strings.NewReader(body)); got != status || status == 403 && strings.TrimSpace(b) != inject.ReasonMisplaced {
				t.Errorf("HTTP/2 %v: %d %s", two, got, b)
			}
		}
		mu.Lock()
		if strings.Contains(seen.String(), ph[:5]) || !strings.Contains(seen.String(), "fine") {
			t.Errorf("HTTP/2 %v: the host got a placeholder, or nothing", two)
		}
		mu.Unlock()
	}
}

// B061, B062: a real client and a real host.
func TestProxy_WebSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, lender(t), func(rw http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		_ = c.Write(r.Context(), websocket.MessageText, []byte(r.Header.Get("Authorization")))
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if c.Write(r.Context(), kind, append(b, " "+r.Header.Get("Authorization")...)) != nil {
				return
			}
		}
	})
	w.http.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	w.http.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"http/1.1"}
	c, _, err := websocket.Dial(t.Context(), w.proxy.URL, &websocket.DialOptions{
		HTTPClient: w.http, Host: "inj.test", CompressionMode: websocket.CompressionContextTakeover,
		HTTPHeader: http.Header{"Authorization": {"Bearer " + ph}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	if _, b, err := c.Read(t.Context()); err != nil || string(b) != "Bearer "+ph {
		t.Fatalf("%q, %v", b, err)
	}
	for _, s := range []string{"", "hello", strings.Repeat("y", 20_000), ph[:30]} {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(s)); err != nil {
			t.Fatal(err)
		}
		if _, b, err := c.Read(t.Context()); err != nil || string(b) != s+" Bearer "+ph {
			t.Fatalf("%q, %v", b, err)
		}
	}
	_ = c.Write(t.Context(), websocket.MessageBinary, []byte("x"+ph))
	if _, b, err := c.Read(t.Context()); err == nil {
		t.Errorf("B061, B062: it goes on: %q", b)
	}
}

// B066: an answer of HTTP/1.0 without a length.
func TestProxy_AnswersWithoutLength(t *testing.T) {
	t.Parallel()
	w := newWorld(t, lender(t), func(rw http.ResponseWriter, r *http.Request) {
		c, brw, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			fmt.Fprint(rw, r.Header) // HTTP/2
			return
		}
		defer c.Close()
		fmt.Fprintf(brw, "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n%v", r.Header)
		_ = brw.Flush()
	})
	if status, b := w.get(t, "inj.test", "Bearer "+ph, nil); status != 200 || strings.Contains(b, value) || !strings.Contains(b, ph) {
		t.Errorf("B066: %d %s", status, b)
	}
}
