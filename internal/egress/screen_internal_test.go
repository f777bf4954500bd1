package egress

import (
	"slices"
	"strings"
	"testing"
)

// Whatever a lenient server could take for a request does not pass as another
// protocol, in whatever pieces it comes (EGR-04, EGR-14); other protocols do.
func TestRequestScreen(t *testing.T) {
	t.Parallel()
	const host = "\r\nHost: evil.test\r\n\r\n"
	for text, pass := range map[string]bool{
		"GET /\x01 HTTP/1.1" + host:                     false,
		"\x0bGET / HTTP/1.1" + host:                     false,
		"\x00GET / HTTP/1.1" + host:                     false,
		"\x00\r\nGET / HTTP/1.1" + host:                 false,
		"garbage\r\nGET / HTTP/1.1" + host:              false,
		"garbage\nget /x http/1.1\n":                    false,
		"garbage\rGET / HTTP/1.1\r":                     false,
		"a\nb\nc\nFOO bar HTTP/1.0" + host:              false,
		"GET\x0b/\x0cHTTP/1.1" + host:                   false,
		"x GET / HTTP/1.1 junk" + host:                  false,
		"\x80\xffPOST / HTTP/1.1" + host:                false,
		"GET /" + host:                                  false, // HTTP/0.9 with a Host
		"GET http://evil.test/" + host:                  false,
		"PROXY TCP4 1.2.3.4 11.0.0.10 1 8080\r\nGET / ": false,
		"PROXY UNKNOWN\r\n":                             false,
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c":        false,
		"\x16\x03\x01\x00\x05hello":                     false,

		"SSH-2.0-OpenSSH_9.2\r\n\x00\x00\x05\xdc\x06\x14":        true,
		"\x00\x00\x00\x08\x04\xd2\x16\x2f":                       true, // postgres asks for TLS
		"\x00\x00\x00\x29\x00\x03\x00\x00user\x00GET\x00\x00":    true,
		"Q\x00\x00\x00\x20DELETE /* all */ FROM t\r\n":           true,
		"*2\r\n$3\r\nGET\r\n$2\r\n/x\r\n":                        true, // redis
		"get /x\r\nset /y 0 0 1\r\n1\r\n":                        true, // memcached
		"EHLO a.test\r\nMAIL FROM:<a@a.test>\r\nDATA\r\n":        true,
		"0033git-upload-pack /x\x00host=allow.test\x00":          true,
		"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c":                   true,
		"<134>1 web: 1.2.3.4 \"GET / HTTP/1.1\" 200 12\n":        true, // a line of a log
		"HTTP/1.1 200 OK\r\n":                                    true, // an answer is no request
		"PROXYABLE yes\r\n":                                      true,
		"a.test Options /x is what a text may say of HTTP\r\n":   true,
		strings.Repeat("x", maxHead) + "\nGET / HTTP/1.1" + host: true, // no server reads that far
	} {
		sizes := []int{4096} // as much as a Read returns
		if len(text) < 1000 {
			sizes = []int{1, 2, 7, len(text)}
		}
		for _, size := range sizes {
			if got := screenText(text, size); got != pass {
				t.Errorf("%.60q in pieces of %d: passed %v, want %v", text, size, got, pass)
			}
		}
	}
}

// screenText does what requestScreen.fromClient does with the bytes.
func screenText(text string, size int) bool {
	s := &requestScreen{}
	for p := range slices.Chunk([]byte(text), size) {
		if len(s.seen) >= maxHead {
			return true
		}
		if s.judge(p) != nil {
			return false
		}
	}
	return true
}
