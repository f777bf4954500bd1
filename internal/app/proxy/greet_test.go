package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"golang.org/x/net/http2"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// HTTP/2 in clear text names its host where nobody looks. A server of it speaks
// first, and a client that waits for that is refused as one that does not
// (A148, EGR-04, EGR-13).
func TestGreeting_NoHTTP2InClearText(t *testing.T) {
	t.Parallel()
	p := allow(t, "allow.test:50051")
	p.Deny = rules(t, "evil.test")
	l := newLab(t, p)
	reached := make(chan string, 10)
	l.serve(l.world, allowed+":50051", func(c net.Conn) {
		//nolint:staticcheck // that of net/http reads before it speaks
		(&http2.Server{}).ServeConn(c, &http2.ServeConnOpts{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			reached <- r.Host
		})})
	})
	l.lookup("udp", "192.0.0.1:53", "allow.test", mdns.TypeA)
	for _, wait := range []time.Duration{0, 700 * time.Millisecond} {
		tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) {
			c, err := l.tryDial("tcp4", allowed+":50051")
			time.Sleep(wait)
			return c, err
		}}
		tr.Protocols.SetUnencryptedHTTP2(true)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://evil.test/admin", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := tr.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
			t.Errorf("after %v: %s", wait, res.Status)
		}
		tr.CloseIdleConnections()
	}
	l.denied(policy.ReasonBadRequest)
	if len(reached) > 0 {
		t.Errorf("a request for %s has reached the host", <-reached)
	}
}

// What a client says first after a greeting is no request, in whatever pieces;
// what follows the server's answer may look like one.
func TestGreeting_OtherProtocols(t *testing.T) {
	t.Parallel()
	const request = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
	l := newLab(t, allow(t, "allow.test:2525", "allow.test:2222"))
	got := make(chan string, 10)
	l.serve(l.world, allowed+":2525", func(c net.Conn) { // a mail
		_, _ = io.WriteString(c, "220 mail.test ESMTP\r\n")
		r := bufio.NewReader(c)
		line, err := r.ReadString('\n')
		if err != nil {
			got <- "nothing"
			return
		}
		_, _ = io.WriteString(c, "250 mail.test\r\n")
		rest, _ := io.ReadAll(r)
		got <- line + string(rest)
	})
	l.serve(l.world, allowed+":2222", func(c net.Conn) { // both speak at once
		_, _ = io.WriteString(c, "SSH-2.0-lab\r\n\x00\x00\x00\x0c\x0a\x14")
		all, _ := io.ReadAll(c)
		_, _ = c.Write(all)
	})
	l.lookup("udp", "192.0.0.1:53", "allow.test", mdns.TypeA)
	greeted := func(port, greeting string) (net.Conn, *bufio.Reader) {
		c := l.dial("tcp4", allowed+":"+port)
		r := bufio.NewReader(c)
		if line, err := r.ReadString('\n'); err != nil || line != greeting {
			t.Fatalf("the greeting is %q, %v", line, err)
		}
		return c, r
	}
	c, r := greeted("2525", "220 mail.test ESMTP\r\n")
	_, _ = io.WriteString(c, "EHLO me\r\n")
	if line, err := r.ReadString('\n'); err != nil || line != "250 mail.test\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = io.WriteString(c, "DATA\r\n"+request)
	end(t, c)
	if mail := <-got; mail != "EHLO me\r\nDATA\r\n"+request {
		t.Errorf("the mail is %q", mail)
	}
	c, r = greeted("2222", "SSH-2.0-lab\r\n")
	text := "SSH-2.0-me\r\n\x00\x00\x00\x0c\x0a\x14" + strings.Repeat("\x00", 100<<10)
	_, _ = io.WriteString(c, text)
	end(t, c)
	if b, err := io.ReadAll(r); err != nil || string(b) != "\x00\x00\x00\x0c\x0a\x14"+text {
		t.Errorf("%d bytes came back, %v", len(b), err)
	}
	for _, parts := range [][]string{
		{request},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		{"\r\n", "PRI * HT", "TP/2.0\r\n\r\nSM\r\n\r\n"},
		{"HELO\r\n" + request},
	} {
		c, r := greeted("2525", "220 mail.test ESMTP\r\n")
		for _, part := range parts {
			_, _ = io.WriteString(c, part)
			time.Sleep(20 * time.Millisecond)
		}
		if b, err := io.ReadAll(r); !isReset(err) {
			t.Errorf("%q: %q, %v", parts, b, err)
		}
		if mail := <-got; strings.Contains(mail, "HTTP/1.1\r") || strings.Contains(mail, "HTTP/2.0\r") {
			t.Errorf("%q: the host has got %q", parts, mail)
		}
	}
	l.event("refused", func(ev bailey.Event) bool { return ev.Reason == policy.ReasonBadRequest && ev.Port == 2525 })
}

// end ends one direction.
func end(t *testing.T, c net.Conn) {
	t.Helper()
	if half, ok := c.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		t.Error("it cannot be closed")
	}
}
