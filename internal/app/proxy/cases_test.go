package proxy_test

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// sniEntry is one entry of server_name (RFC 6066 §3): type 0 is a host name.
type sniEntry struct {
	kind byte
	name string
}

// sniExtension is a server_name extension with any entries.
func sniExtension(entries ...sniEntry) []byte {
	var list []byte
	for _, e := range entries {
		list = append(list, e.kind, byte(len(e.name)>>8), byte(len(e.name)))
		list = append(list, e.name...)
	}
	n := len(list)
	return append([]byte{0, 0, byte((n + 2) >> 8), byte(n + 2), byte(n >> 8), byte(n)}, list...)
}

// helloWith is a ClientHello whose server_name is replaced by an extension.
func helloWith(t *testing.T, extension []byte) []byte {
	t.Helper()
	const name = "allow.test"
	h := clientHello(t, name, nil)
	have := sniExtension(sniEntry{0, name})
	i := bytes.Index(h, have)
	if i < 0 {
		t.Fatal("no server name in the ClientHello")
	}
	grow(h, len(extension)-len(have))
	return slices.Concat(h[:i], extension, h[i+len(have):])
}

func TestTLS_TwoNames(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	good, evilName := sniEntry{0, "allow.test"}, sniEntry{0, "evil.test"}
	for _, c := range []struct {
		what  string
		hello []byte
		pass  bool
	}{
		{"A017 twin: one name", helloWith(t, sniExtension(good)), true},
		{"A017 two host names", helloWith(t, sniExtension(good, evilName)), false},
		{"A017 the same twice", helloWith(t, sniExtension(good, good)), false},
		{"A017 two extensions", helloWith(t, slices.Concat(sniExtension(good), sniExtension(evilName))), false},
		{"A017 another type first, evil host", helloWith(t, sniExtension(sniEntry{1, "allow.test"}, evilName)), false},
		{"A017 another type alone", helloWith(t, sniExtension(sniEntry{1, "allow.test"})), false},
	} {
		t.Run(c.what, func(t *testing.T) {
			conn := l.dial("tcp4", allowed+":443")
			_, _ = conn.Write(c.hello)
			b := make([]byte, 1)
			if _, err := io.ReadFull(conn, b); (err == nil && b[0] == 0x16) != c.pass || !c.pass && !isReset(err) {
				t.Errorf("%x, %v; want to pass: %v", b, err, c.pass)
			}
		})
	}
}

// upstream is a server that answers every connection with bytes as they are,
// once the head of a request has come.
func (l *lab) upstream(port, answer string) {
	l.t.Helper()
	l.serve(l.world, allowed+":"+port, func(c net.Conn) {
		var got []byte
		for !bytes.Contains(got, []byte("\r\n\r\n")) {
			b := make([]byte, 4096)
			n, err := c.Read(b)
			if err != nil {
				return
			}
			got = append(got, b[:n]...)
		}
		_, _ = io.WriteString(c, answer)
	})
}

// What a client says of itself, of who it relays for and of what may be done
// with its request decides nothing.
func TestHTTP_ClientsWordsDecideNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	ask := func(host, fields string) string {
		got, _ := l.say(allowed+":80", "GET /x HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n"+fields+"\r\n")
		return got
	}
	for name, fields := range map[string]string{
		"A037 trust markers":  "User-Agent: bailey\r\nX-Session: other\r\nX-Vault: tenant-a\r\nX-Bailey-Reason: allowed-by-rule\r\n",
		"A157 a relay inside": "Proxy-Authorization: Basic YTpi\r\nProxy-Connection: keep-alive\r\nVia: 1.1 allow.test\r\nX-Forwarded-For: 127.0.0.1\r\n",
		"A036 another host":   "X-Forwarded-Host: allow.test\r\nForwarded: host=allow.test\r\nX-Original-URL: http://allow.test/\r\nX-HTTP-Method-Override: GET\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask("evil.test", fields); !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "X-Bailey-Reason: not-allowed") {
				t.Errorf("%q", got)
			}
			if got := ask("allow.test", fields); !strings.HasPrefix(got, "HTTP/1.1 200 ") { // twin
				t.Errorf("twin: %q", got)
			}
		})
	}
	l.untouched(evil)
}

func TestHTTP_Framing(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	say := func(text string) string {
		got, _ := l.say(allowed+":80", text)
		return got
	}
	const host = "Host: allow.test\r\nConnection: close\r\n"
	for _, method := range []string{"GET", "DELETE", "OPTIONS", "PUT"} {
		t.Run("A141 body of "+method, func(t *testing.T) {
			if got := say(method + " /body HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello"); !strings.Contains(got, "5 bytes") {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("A140 Connection names a length", func(t *testing.T) {
		if got := say("POST /body HTTP/1.1\r\nHost: allow.test\r\nConnection: close, Content-Length\r\nContent-Length: 5\r\n\r\nhello"); !strings.Contains(got, "5 bytes") {
			t.Errorf("%q", got)
		}
	})
	t.Run("A140 Connection names a field", func(t *testing.T) {
		// It is the client's own: a hop takes off what it is told is the hop's.
		fields := "Authorization: Bearer x\r\nX-Api-Key: y\r\n\r\n"
		if got := say("GET /headers HTTP/1.1\r\nHost: allow.test\r\nConnection: close, Authorization, X-Api-Key\r\n" + fields); !strings.Contains(got, " 200 OK") || strings.Contains(got, "Bearer") || strings.Contains(got, "Api-Key") {
			t.Errorf("%q", got)
		}
		if got := say("GET /headers HTTP/1.1\r\n" + host + fields); !strings.Contains(got, "Bearer x") { // twin
			t.Errorf("twin: %q", got)
		}
	})
	for name, trailer := range map[string]string{"declared": "Trailer: X-Ph\r\n", "not declared": ""} {
		t.Run("A138 trailer, "+name, func(t *testing.T) {
			text := "POST /body HTTP/1.1\r\n" + host + trailer + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
			if got := say(text + "X-Ph: x\r\nAuthorization: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "X-Bailey-Reason: bad-request") {
				t.Errorf("%q", got)
			}
			if got := say(text + "\r\n"); !strings.Contains(got, "5 bytes") { // twin
				t.Errorf("twin: %q", got)
			}
		})
	}
	t.Run("A146 a query that has several readings", func(t *testing.T) {
		// No rule looks at a query, and it goes out as it came.
		query := "a=1;b=2&%zz&" + strings.Repeat("x=1&", 3000) + "hidden=y"
		before := len(l.requests())
		got := say("GET /q?" + query + " HTTP/1.1\r\n" + host + "\r\n")
		if now := l.requests(); len(now) != before+1 || !strings.HasSuffix(now[before], " /q?"+query) {
			t.Errorf("%q", got)
		}
	})
}

// What a host answers is one answer to one request, however it is written.
func TestHTTP_AnswersOfTheHost(t *testing.T) {
	t.Parallel()
	const second = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	cases := []struct {
		what, port, answer string
		want, never        string
	}{
		{"A142 twin", "9100", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine", "fine", "forged"},
		{"A142 two answers", "9101", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine" + second, "fine", "forged"},
		{"A142 a length and chunks", "9102", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n" + second, "", "forged"},
		{"A142 two lengths", "9103", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nfine" + second, "502 Bad Gateway", "forged"},
		{"A142 a folded field", "9104", "HTTP/1.1 200 OK\r\nX-A: a\r\n b: c\r\nContent-Length: 4\r\n\r\nfine" + second, "", "\r\n b: c"},
		{"A142 no HTTP", "9105", "SSH-2.0-x\r\n\r\n", "502 Bad Gateway", " 200 OK"},
		{"A141 a body that 204 has not", "9106", "HTTP/1.1 204 No Content\r\n\r\n" + second, "204 No Content", "forged"},
		{"A141 a storm of 1xx", "9107", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 20000) + second, "forged", "502"},
		{"A164 redirect to another host", "9108", "HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n", "Location: http://evil.test/\r\n", "hello from"},
		{"A164 redirect to an address", "9109", "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n", "Location: http://169.254.169.254/\r\n", "hello from"},
		{"A164 redirect to a file", "9110", "HTTP/1.1 301 Moved Permanently\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", "Location: file:///etc/passwd\r\n", "root:"},
	}
	var hosts []string
	for _, c := range cases {
		hosts = append(hosts, "allow.test:"+c.port)
	}
	hosts = append(hosts, "allow.test:9200")
	l := newLab(t, allow(t, hosts...))
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			l.upstream(c.port, c.answer)
			// The second request would be answered by what is left of the first.
			head := "GET /x HTTP/1.1\r\nHost: allow.test:" + c.port + "\r\n"
			got, _ := l.say(allowed+":"+c.port, head+"\r\n"+head+"Connection: close\r\n\r\n")
			if !strings.Contains(got, c.want) || strings.Contains(got, c.never) {
				t.Errorf("%.600q; want %q and no %q", got, c.want, c.never)
			}
		})
	}
	t.Run("A141 a body that 204 has not, again and again", func(t *testing.T) { // it was chance
		const head = "GET /x HTTP/1.1\r\nHost: allow.test:9106\r\n"
		late := 0 // a client that says nothing for a moment is taken for one that waits for the host
		for range 200 {
			got, _ := l.say(allowed+":9106", head+"\r\n"+head+"Connection: close\r\n\r\n")
			if got == "" {
				late++
				continue
			}
			if strings.Contains(got, "forged") || strings.Count(got, "204 No Content") != 2 {
				t.Fatalf("%.600q", got)
			}
		}
		if late > 20 {
			t.Errorf("%d of 200 got no answer", late)
		}
	})
	t.Run("A141 a body in the answer to HEAD", func(t *testing.T) {
		l.upstream("9200", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"+second)
		got, _ := l.say(allowed+":9200", "HEAD /x HTTP/1.1\r\nHost: allow.test:9200\r\nConnection: close\r\n\r\n")
		if strings.Contains(got, "forged") {
			t.Errorf("%q", got)
		}
	})
	l.untouched(evil, metadata)
	// Twin of the redirects: what they name answers where a rule allows it.
	open := newLab(t, allow(t, "evil.test"))
	if got, err := open.say(evil+":80", "GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n"); err != nil || !strings.Contains(got, "hello from "+evil) {
		t.Errorf("twin: %q, %v", got, err)
	}
}
