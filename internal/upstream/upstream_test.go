package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/upstream"
)

// TestWay_Has: this machine itself is never reached by way of the proxy, nor is
// what no_proxy names.
func TestWay_Has(t *testing.T) {
	t.Parallel()
	w := upstream.New(&upstream.Proxy{Host: "proxy.test", Port: 3128, NoProxy: []string{"direct.test", "10.0.0.0/8"}})
	for host, want := range map[string]bool{
		"api.test:443": true, "api.test": true, "192.0.2.1:80": true, "[2001:db8::1]:443": true,
		"direct.test:443": false, "below.direct.test": false, "10.1.2.3:80": false,
		"127.0.0.1:1": false, "localhost:1": false, "[::1]:80": false,
	} {
		if got := w.Has(host); got != want {
			t.Errorf("%s: %t", host, got)
		}
	}
	if upstream.New(nil).Has("api.test") {
		t.Error("by way of no proxy")
	}
}

// TestWay_Ask: what the proxy may answer. Nothing of what comes behind its answer
// is taken, and of its words nothing is repeated.
func TestWay_Ask(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"HTTP/1.1 200 Fine\r\nX: y\r\n\r\n":           "",
		"HTTP/1.0 204\r\n\r\n":                        "",
		"HTTP/1.1 407 secret words\r\n\r\n":           "wants a login",
		"HTTP/1.1 403 secret words\r\n\r\n":           "refused api.test:443 with status 403",
		"HTTP/1.1 \x1b[31m secret\r\n\r\n":            "with status ?",
		"SSH-2.0-secret\r\n\r\n":                      "speaks no HTTP",
		"HTTP/1.1 200 " + strings.Repeat("x", 20<<10): "a head of more than",
		"": "EOF",
	} {
		near, far := net.Pipe()
		asked := make(chan string, 1)
		go func() {
			r, err := http.ReadRequest(bufio.NewReader(far))
			if err == nil {
				asked <- r.Method + " " + r.Host + " " + r.Header.Get("Proxy-Authorization")
			}
			_, _ = io.WriteString(far, answer+"rest")
			_ = far.Close()
		}()
		if answer == "" {
			_ = far.Close()
		}
		err := upstream.New(&upstream.Proxy{Host: "proxy.test", Port: 3128, Login: []byte("me:pw")}).Ask(t.Context(), near, "api.test:443")
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want) && !errors.Is(err, io.ErrClosedPipe)):
			t.Errorf("%.40q: %v", answer, err)
		case err != nil && strings.Contains(err.Error(), "secret words"):
			t.Errorf("its words are repeated: %v", err)
		case want == "":
			if rest, _ := io.ReadAll(near); string(rest) != "rest" {
				t.Errorf("%q was left", rest)
			}
		}
		if answer != "" {
			if got := <-asked; got != "CONNECT api.test:443 Basic bWU6cHc=" {
				t.Errorf("asked %s", got)
			}
		}
		_ = near.Close()
	}
	// A proxy that says nothing is not waited for longer than the caller does.
	near, far := net.Pipe()
	defer far.Close()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := upstream.New(&upstream.Proxy{}).Ask(ctx, near, "api.test:443"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent proxy: %v", err)
	}
}
