package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/bailey-dev/bailey/internal/wire"
)

// callWire returns both ends of a wire for calls.
func callWire(t *testing.T) (*wire.Calls, *wire.Caller) {
	t.Helper()
	host, sandbox, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	calls, err := wire.NewCalls(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = calls.Close() })
	caller, err := wire.NewCaller(sandbox)
	if err != nil {
		t.Fatal(err)
	}
	return calls, caller
}

// inside serves like sandboxd: a listener whose connections go over the wire.
func inside(t *testing.T, caller *wire.Caller) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go caller.Forward(l)
	return l.Addr().String()
}

// TestCalls_ServeHTTP: many at once, more than there are spares, long bodies.
func TestCalls_ServeHTTP(t *testing.T) {
	t.Parallel()
	calls, caller := callWire(t)
	addr := inside(t, caller)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%d %s", len(b), strings.Repeat("a", len(b)))
	})}
	go func() { _ = srv.Serve(calls) }()
	t.Cleanup(func() { _ = srv.Close() })
	client := &http.Client{Transport: &http.Transport{}}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			size := i * 3000
			resp, err := client.Post("http://"+addr, "text/plain", bytes.NewReader(make([]byte, size)))
			if err != nil {
				t.Errorf("%d: %v", i, err)
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if want := fmt.Sprintf("%d ", size); err != nil || !strings.HasPrefix(string(b), want) || len(b) != len(want)+size {
				t.Errorf("%d: %v, %d bytes", i, err, len(b))
			}
		})
	}
	all.Wait()
}

// TestCalls_SilentOnesHoldNoStream: however many connections say nothing, the
// next one that does is served.
func TestCalls_SilentOnesHoldNoStream(t *testing.T) {
	t.Parallel()
	calls, caller := callWire(t)
	addr := inside(t, caller)
	for range 100 {
		c, err := net.Dial("tcp4", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	call, err := calls.Accept()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(call, b); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	_ = call.Close()
}

// TestCalls_SandboxOpensNone: a stream that the other end opens ends the wire,
// and with it the listener. Its twin is TestCalls_ServeHTTP.
func TestCalls_SandboxOpensNone(t *testing.T) {
	t.Parallel()
	host, sandbox, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close()
	calls, err := wire.NewCalls(host)
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Close()
	if _, err := sandbox.Write([]byte{0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0}); err != nil { // a window update with SYN
		t.Fatal(err)
	}
	if c, err := calls.Accept(); err == nil {
		t.Errorf("accepted %v", c.RemoteAddr())
	}
}

// TestCalls_EndsAreSeen: the end of either side ends the other.
func TestCalls_EndsAreSeen(t *testing.T) {
	t.Parallel()
	calls, caller := callWire(t)
	addr := inside(t, caller)
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	call, err := calls.Accept()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(call, b); err != nil || string(b) != "hello" {
		t.Fatalf("%q, %v", b, err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := call.Read(b); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d, %v", n, err)
	}
	if _, err := call.Write([]byte("answer")); err != nil { // a half is open still
		t.Fatal(err)
	}
	if err := call.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "answer" {
		t.Errorf("%q, %v", b, err)
	}
}
