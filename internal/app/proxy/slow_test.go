package proxy_test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A170: whoever says what it wants a byte at a time is ended in a bounded time,
// and others are served meanwhile.
func TestSlow_IsEnded(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	hello := clientHello(t, "allow.test", nil)
	var slow sync.WaitGroup
	for what, c := range map[string]struct {
		to   string
		text []byte
	}{
		"A170 TLS":            {allowed + ":443", hello},
		"A170 request line":   {allowed + ":80", []byte("GET /" + strings.Repeat("x", 1000))},
		"A170 head":           {allowed + ":80", []byte("GET / HTTP/1.1\r\nHost: allow.test\r\nX-Y: " + strings.Repeat("x", 1000))},
		"A170 HTTP/2 preface": {allowed + ":80", []byte("PRI * HTTP/2.0\r\n\r\n" + strings.Repeat("x", 1000))},
	} {
		slow.Go(func() {
			began := time.Now()
			conn := l.dial("tcp4", c.to)
			go func() {
				for i := range c.text {
					if _, err := conn.Write(c.text[i : i+1]); err != nil {
						return
					}
					if i > 40 { // what says which protocol it is comes at once
						time.Sleep(200 * time.Millisecond) // the client's own slowness is what is tested
					}
				}
			}()
			b, err := io.ReadAll(conn)
			if took := time.Since(began); took > time.Minute || len(b) > 0 && !bytes.HasPrefix(b, []byte("HTTP/1.1 40")) {
				t.Errorf("%s: %q, %v after %s", what, b, err, took)
			}
		})
	}
	for range 10 {
		if got, err := l.get(allowed+":443", &tls.Config{ServerName: "allow.test"}); err != nil || !strings.Contains(got, "hello") {
			t.Errorf("beside: %q, %v", got, err)
		}
	}
	slow.Wait()
	if got := l.requests(); len(got) != 10 {
		t.Errorf("requests that were passed on: %v", got)
	}
}

// A173: what is packed stays packed, whatever would come out of it.
func TestHTTP_NothingIsUnpacked(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.CopyN(z, zeros{}, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, allow(t, "allow.test:8090"))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(packed.Len()))
		_, _ = w.Write(packed.Bytes())
	})}
	go func() { _ = server.Serve(l.listen(l.world, allowed+":8090")) }()
	t.Cleanup(func() { _ = server.Close() })
	l.lookup("udp", "192.0.0.1:53", "allow.test", 1)
	got, err := l.say(allowed+":8090", "GET / HTTP/1.1\r\nHost: allow.test:8090\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n")
	_, body, _ := strings.Cut(got, "\r\n\r\n")
	if err != nil || body != packed.String() {
		t.Errorf("A173: %d bytes came of %d, %v", len(body), packed.Len(), err)
	}
}
