package egress

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// What passes goes out byte by byte as it was judged, for the one host that was
// judged.
func FuzzOpened_CheckRequest(f *testing.F) {
	for _, seed := range [][4]string{
		{"GET", "/x?a=1;b=%zz", "allow.test", ""},
		{"GET", "https://evil.test/x", "allow.test", ""},
		{"GET", "//evil.test/x", "allow.test:443", "allow.test"},
		{"OPTIONS", "*", "allow.test", "evil.test"},
		{"CONNECT", "a:1", "a", ""},
		{"G\r\n", "/a%2f..#", "a%00b", ""},
		{"GET", "/?", "ALLOW.test.", ""},
		{"PUT", "/a%C3%BC//b", "[::1]", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, method, target, host, field string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return // net/http has no request of it
		}
		r := &http.Request{Method: method, URL: u, RequestURI: target, Host: host, ProtoMajor: 2, Header: http.Header{}, TLS: &tls.ConnectionState{}}
		if field != "" {
			r.Header["Host"] = []string{field}
		}
		if (&opened{host: "allow.test"}).checkRequest(r) != nil {
			return
		}
		out := *u
		setTarget(&out, r)
		if got := out.RequestURI(); got != target {
			t.Errorf("%q goes out as %q", target, got)
		}
		if field != "" && !strings.EqualFold(field, host) || host == "" || method == http.MethodConnect || !isToken(method) {
			t.Errorf("%q %q %q %q passes", method, target, host, field)
		}
	})
}

// segments is a connection that is read in pieces.
type segments struct {
	net.Conn
	left []string
}

func (p *segments) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, net.ErrClosed
	}
	n := copy(b, p.left[0])
	p.left = p.left[1:]
	return n, nil
}

// OpenSSL says what it thinks of a certificate in the clear.
func TestWireConn_LastAlert(t *testing.T) {
	t.Parallel()
	const alert = "\x15\x03\x03\x00\x02\x02\x30"
	for _, c := range []struct {
		pieces []string
		want   byte
	}{
		{[]string{alert}, 48},
		{[]string{"\x14\x03\x03\x00\x01\x01" + alert}, 48},
		{[]string{"hello", alert[:3], alert[3:]}, 48},
		{strings.Split(alert, ""), 48},
		{[]string{alert, "\x16"}, 0},
		{[]string{"\x17\x03\x03\x00\x02\x02\x30"}, 0},
		{[]string{"\x15\x03\x03\x00\x13\x02\x30"}, 0},
		{[]string{"\x30"}, 0},
		{nil, 0},
	} {
		w := &wireConn{Conn: &segments{left: c.pieces}, f: &flow{}}
		buf := make([]byte, 100)
		for range c.pieces {
			if _, err := w.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.lastAlert(); got != c.want || aboutCertificate(got) != (c.want == 48) {
			t.Errorf("%q: %d, want %d", c.pieces, got, c.want)
		}
	}
}

// A body lends its buffer and gives it back.
func TestBuffers_AreUsedAgain(t *testing.T) {
	t.Parallel()
	var b buffers
	if got := b.Get(); len(got) == 0 {
		t.Error("an empty buffer")
	} else {
		b.Put(got)
	}
	if len(b.Get()) == 0 {
		t.Error("an empty buffer, the second time")
	}
}
