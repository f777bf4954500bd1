package mcp_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/mcp"
	"github.com/bailey-dev/bailey/internal/task"
)

const token = "blm-ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// door serves on a free port and returns its address.
func door(t *testing.T, f *fakeService, sum []byte) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := newServer(t, f, 10*time.Millisecond)
	go func() { ended <- s.Serve(ctx, l, mcp.Door{TokenSum: sum}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the door ended with %v", err)
		}
	})
	return l.Addr().String()
}

func sumOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"0"}}}`

// attempt is one request; change makes it an attack.
func attempt(t *testing.T, addr string, change func(r *http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	change(r)
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestGuard: who comes in, and who does not.
func TestGuard(t *testing.T) {
	t.Parallel()
	addr := door(t, &fakeService{}, sumOf(token))
	_, port, _ := net.SplitHostPort(addr)
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	header := func(k string, v ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[k] = v }
	}
	path := func(p string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = p } }
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"as it should be":     {func(*http.Request) {}, 200},
		"localhost":           {host("localhost:" + port), 200},
		"IPv6":                {host("[::1]:" + port), 200},
		"own page":            {header("Origin", "http://localhost:3000"), 200},
		"own page by address": {header("Origin", "https://[::1]"), 200},
		"scheme in capitals":  {header("Authorization", "BEARER "+token), 200},

		"rebinding":            {host("rebind.test:" + port), 421},
		"a name with ours":     {host("127.0.0.1.nip.test:" + port), 421},
		"ours and a name":      {host("localhost.evil.test:" + port), 421},
		"mapped":               {host("[::ffff:127.0.0.1]:" + port), 421},
		"any address":          {host("0.0.0.0:" + port), 421},
		"another loopback":     {host("127.0.0.2:" + port), 421},
		"another port":         {host("127.0.0.1:1"), 421},
		"no port":              {host("127.0.0.1"), 421},
		"trailing dot":         {host("localhost.:" + port), 421},
		"user in host":         {host("x@127.0.0.1:" + port), 421},
		"foreign page":         {header("Origin", "https://evil.test"), 403},
		"null":                 {header("Origin", "null"), 403},
		"a page like ours":     {header("Origin", "http://localhost.evil.test"), 403},
		"a page with our user": {header("Origin", "http://localhost@evil.test"), 403},
		"two pages":            {header("Origin", "http://localhost", "http://evil.test"), 403},
		"empty origin":         {header("Origin", ""), 403},
		"a page with a path":   {header("Origin", "http://localhost/x"), 403},
		"an extension":         {header("Origin", "chrome-extension://abc"), 403},
		"cross-site":           {header("Sec-Fetch-Site", "cross-site"), 403},
		"same-site":            {header("Sec-Fetch-Site", "same-site"), 403},
		"no token":             {header("Authorization"), 401},
		"another token":        {header("Authorization", "Bearer "+token[:len(token)-1]+"x"), 401},
		"a prefix":             {header("Authorization", "Bearer "+token[:len(token)-1]), 401},
		"more":                 {header("Authorization", "Bearer "+token+"x"), 401},
		"empty":                {header("Authorization", "Bearer "), 401},
		"no scheme":            {header("Authorization", token), 401},
		"basic":                {header("Authorization", "Basic "+token), 401},
		"two":                  {header("Authorization", "Bearer x", "Bearer "+token), 401},
		"elsewhere":            {path("/"), 404},
		"pprof":                {path("/debug/pprof/heap"), 404},
		"below":                {path("/mcp/"), 404},
		"token in the query":   {func(r *http.Request) { r.URL.RawQuery = "token=" + token }, 404},
		"PUT":                  {func(r *http.Request) { r.Method = http.MethodPut }, 405},
		"OPTIONS":              {func(r *http.Request) { r.Method = http.MethodOptions }, 405},
		"TRACE":                {func(r *http.Request) { r.Method = http.MethodTrace; r.Body = nil; r.ContentLength = 0 }, 405},
		"a form":               {header("Content-Type", "text/plain"), 415},
		"a session of mine":    {header("Mcp-Session-Id", "chosen-by-me"), 404},
		"too large": {func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 5<<20))), 5<<20
		}, 413},
		"endless": {func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 5<<20))), -1
		}, 413},
		"forwarded from here": {func(r *http.Request) { r.Host = "evil.test"; r.Header.Set("X-Forwarded-Host", addr) }, 421},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := attempt(t, addr, tc.change)
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.want {
				t.Errorf("status %d, want %d: %s", resp.StatusCode, tc.want, body)
			}
			for k := range resp.Header {
				if strings.HasPrefix(k, "Access-Control-") {
					t.Errorf("it has %s", k)
				}
			}
			if tc.want != 200 && (strings.Contains(string(body), token) || resp.Header.Get("Mcp-Session-Id") != "") {
				t.Errorf("it says %s %v", body, resp.Header)
			}
		})
	}
}

// TestGuard_IsWhatKeepsThemOut: behind it, the same requests are answered.
func TestGuard_IsWhatKeepsThemOut(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h, err := newServer(t, &fakeService{}, 0).Handler(l.Addr(), mcp.Door{TokenSum: sumOf(token)})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(mcp.Unguarded(h))
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	for name, change := range map[string]func(*http.Request){
		"no token":       func(r *http.Request) { r.Header.Del("Authorization") },
		"a page":         func(r *http.Request) { r.Header.Set("Origin", "https://evil.test") },
		"another port":   func(r *http.Request) { r.Host = "127.0.0.1:1" },
		"a page fetches": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		if resp := attempt(t, l.Addr().String(), change); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
}

// TestDoor_WithoutATokenIsShut: no token is no way in.
func TestDoor_WithoutATokenIsShut(t *testing.T) {
	t.Parallel()
	for name, sum := range map[string][]byte{"none": nil, "empty": {}, "short": sumOf(token)[:31]} {
		closed := door(t, &fakeService{}, sum)
		for _, sent := range []string{"", token} {
			if got := attempt(t, closed, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+sent) }).StatusCode; got != 401 {
				t.Errorf("%s: %d", name, got)
			}
		}
	}
}

// TestDoor_CountsWhoShowedTheToken: whoever connects, or is refused, is nobody's
// client; who showed the token once is one until the connection ends.
func TestDoor_CountsWhoShowedTheToken(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan int, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := newServer(t, &fakeService{}, 0)
	go func() {
		ended <- s.Serve(ctx, l, mcp.Door{TokenSum: sumOf(token), Clients: func(n int) { told <- n }})
	}()
	addr := l.Addr().String()
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Del("Authorization") },
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") },
		func(r *http.Request) { r.Host = "rebind.test" },
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.test") },
	} {
		if got := attempt(t, addr, change).StatusCode; got < 400 {
			t.Errorf("a stranger is answered %d", got)
		}
	}
	client := func() (ask, leave func()) {
		tr := &http.Transport{MaxConnsPerHost: 1}
		c := http.Client{Transport: tr}
		return func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+addr+"/mcp", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}, tr.CloseIdleConnections
	}
	ask, leave := client()
	other, leaveToo := client()
	ask()
	ask()
	other()
	leave()
	for _, want := range []int{1, 2, 1} {
		if got := <-told; got != want {
			t.Errorf("%d clients, want %d", got, want)
		}
	}
	leaveToo()
	if got := <-told; got != 0 {
		t.Errorf("%d clients when all have left", got)
	}
	cancel()
	if err := <-ended; err != nil || len(told) > 0 {
		t.Errorf("%v, and %d more changes", err, len(told))
	}
}

// TestToken_IsItsOwnersAlone: what is at the path is not trusted.
func TestToken_IsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for name, spoil := range map[string]func(path string) error{
		"readable": func(path string) error { return os.Chmod(path, 0o604) },
		"a link":   func(path string) error { return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path)) },
		"a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"a pipe":   func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"empty":    write(""),
		"short":    write("abcd"),
		"long":     write(strings.Repeat("a", 300)),
		"no digit": write(strings.Repeat("x", 64)),
		"lines":    write(strings.Repeat("a", 64) + "\nmore"),
	} {
		path := filepath.Join(t.TempDir(), "config", "mcp-token")
		made, err := mcp.Token(path)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := mcp.Token(path); err != nil || again != made || len(made) != 64 {
			t.Errorf("%q and then %q %v", made, again, err)
		}
		if other, err := mcp.RotateToken(path); err != nil || other == made {
			t.Errorf("a new token: %q %v", other, err)
		}
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		if got, err := mcp.Token(path); bailey.KindOf(err) != bailey.Forbidden {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// TestServe_WantsTheLoopback: no other listener is served.
func TestServe_WantsTheLoopback(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakeService{}, 0)
	var lc net.ListenConfig
	for _, at := range []string{"0.0.0.0:0", "[::]:0"} {
		l, err := lc.Listen(t.Context(), "tcp", at)
		if err != nil {
			continue // no IPv6 here
		}
		if err := s.Serve(t.Context(), l, mcp.Door{TokenSum: sumOf(token)}); bailey.KindOf(err) != bailey.Forbidden {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := s.Handler(&net.UnixAddr{Name: "/x", Net: "unix"}, mcp.Door{}); bailey.KindOf(err) != bailey.Forbidden {
		t.Errorf("a Unix socket: %v", err)
	}
}

// bearer puts the token on requests.
type bearer struct{ token string }

// RoundTrip sends a request with the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// TestHTTP_DelegatesAndCancels: an official client over HTTP, progress and
// cancellation included.
func TestHTTP_DelegatesAndCancels(t *testing.T) {
	t.Parallel()
	f := &fakeService{hold: make(chan struct{}), steps: []task.Progress{{Kind: "queue", Place: 1}}}
	addr := door(t, f, sumOf(token))
	got := &said{more: make(chan struct{}, 1)}
	client := sdk.NewClient(&sdk.Implementation{Name: "planner"}, &sdk.ClientOptions{ProgressNotificationHandler: got.handle})
	s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp", HTTPClient: &http.Client{Transport: bearer{token}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	p := &sdk.CallToolParams{Name: "delegate_task", Arguments: map[string]any{"task": "x", "repo_path": "/r"}}
	p.SetProgressToken("tok")
	ended := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, p)
		ended <- err
	}()
	<-got.more
	cancel()
	if err := <-ended; err == nil {
		t.Error("a call that was cancelled has an answer")
	}
	until(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.cancelled) == 1
	})
	close(f.hold)
	if r := call(t, s, "delegate_task", map[string]any{"task": "x", "repo_path": "/r"}); r.IsError {
		t.Error(words(r))
	}
	stranger := sdk.NewClient(&sdk.Implementation{Name: "planner"}, nil)
	if s, err := stranger.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp"}, nil); err == nil {
		_ = s.Close()
		t.Error("a client without the token came in")
	}
}
