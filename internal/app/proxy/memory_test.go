package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"

	"github.com/bailey-dev/bailey/internal/app/proxy"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/secret"
)

const placeholder = "ghp_ZqXwVuTsRpOnMlKjIhGfEdCbAyZxWvUtSrQp"

// withSecret has the proxy hold a secret for allow.test:9450.
func withSecret(t *testing.T) option {
	t.Helper()
	to, err := secret.ParseHost("allow.test:9450")
	if err != nil {
		t.Fatal(err)
	}
	return func(l *lab) {
		l.secrets = []gate.Secret{{
			ID: "sec_0123456789abcdef", Name: "token", Placeholder: placeholder, Value: []byte("ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
			Rules: []secret.Rule{{Hosts: []secret.Host{to}, Place: secret.Place{Kind: secret.Header, Name: "Authorization", Format: "Bearer {}"}}},
		}}
	}
}

// most is what the role held at most, in bytes.
func (l *lab) most() int64 {
	l.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.cmd.Process.Pid))
	if err != nil {
		l.t.Fatal(err)
	}
	kib := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(string(b))
	n, err := strconv.ParseInt(kib[1], 10, 64)
	if err != nil {
		l.t.Fatal(err)
	}
	return n << 10
}

// serveTLS answers requests over TLS at allow.test:9450.
func (l *lab) serveTLS(answer func(net.Conn, *http.Request, *bufio.Reader)) {
	config := l.ca.ServerConfig("http/1.1")
	l.serve(l.world, allowed+":9450", func(c net.Conn) {
		s := tls.Server(c, config)
		br := bufio.NewReader(s)
		if r, err := http.ReadRequest(br); err == nil {
			answer(s, r, br)
			_ = s.Close()
		}
	})
}

// A host and a sandbox that work together cannot have the proxy hold much: of
// forty answers that refer 4 MiB back some wait for others to end, and all of
// them pass.
func TestMemory_Decoders(t *testing.T) {
	t.Parallel()
	l := openLab(t, withSecret(t))
	const conns, size = 40, 5 << 20
	begun, on := make(chan struct{}, conns), make(chan struct{})
	l.serveTLS(func(c net.Conn, _ *http.Request, _ *bufio.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nConnection: close\r\n\r\n")
		w := brotli.NewWriterOptions(c, brotli.WriterOptions{Quality: 1, LGWin: 22})
		_, _ = io.CopyN(w, zeros{}, size)
		_ = w.Flush()
		<-on
		_ = w.Close()
	})
	var all sync.WaitGroup
	for range conns {
		c := l.shake("allow.test", 9450)
		all.Go(func() {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: allow.test:9450\r\nConnection: close\r\n\r\n")
			r := bufio.NewReader(c)
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			n, err := io.CopyN(io.Discard, res.Body, size)
			begun <- struct{}{}
			<-on
			rest, err2 := io.Copy(io.Discard, res.Body)
			if n+rest != size || err != nil || err2 != nil {
				t.Errorf("%d bytes, %v, %v", n+rest, err, err2)
			}
			_ = c.Close()
		})
	}
	for range 32 { // as many as have room
		<-begun
	}
	time.Sleep(300 * time.Millisecond)
	if n := len(begun); n > 0 {
		t.Errorf("%d more have been decoded", n)
	}
	close(on)
	all.Wait()
	l.held("decoders", proxy.HardEnd*5/8)
}

// held expects that the role never held more than a bound, in bytes.
func (l *lab) held(what string, bound int64) {
	l.t.Helper()
	l.t.Logf("%s: %d MiB", what, l.most()>>20)
	if most := l.most(); most > bound {
		l.t.Errorf("%s: it held %d MiB", what, most>>20)
	}
}

// The same for WebSockets whose messages do not go on.
func TestMemory_WebSockets(t *testing.T) {
	t.Parallel()
	l := openLab(t, withSecret(t))
	l.serveTLS(func(c net.Conn, r *http.Request, br *bufio.Reader) {
		_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", proxy.WebSocketAccept(r.Header.Get("Sec-WebSocket-Key")))
		_, _ = io.Copy(io.Discard, br)
	})
	before := l.most()
	const conns = 100
	said := "\x01\x94\x00\x00\x00\x00" + placeholder[:20] + strings.Repeat("\x89\x80\x00\x00\x00\x00", 10_000)
	for range conns {
		c := l.shake("allow.test", 9450)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: allow.test:9450\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(res, err)
		}
		if _, err := io.WriteString(c, said); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	l.t.Logf("before: %d MiB", before>>20)
	l.held("messages", proxy.HardEnd/8)
}
