package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/policy"
)

func TestParseConnect(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]authority{
		"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\nrest": {host: "a.test", port: 443},
		"CONNECT A.test.:22 HTTP/1.1\r\nHost: a.TEST.\r\n\r\n":        {host: "A.test.", port: 22},
		"CONNECT 11.0.0.1:80 HTTP/1.0\r\n\r\n":                        {host: "11.0.0.1", port: 80},
		"CONNECT [2600::1]:80 HTTP/1.1\r\n\r\n":                       {host: "2600::1", port: 80},
	} {
		got, size, err := parseConnect([]byte(text))
		if err != nil || got != want || text[:size] != strings.TrimSuffix(text, "rest") {
			t.Errorf("%q: %+v, %d, %v", text, got, size, err)
		}
		for i := range size { // no prefix is taken for a whole one
			if _, size, err := parseConnect([]byte(text[:i])); !errors.Is(err, errShort) || size != 0 {
				t.Errorf("%q: %d, %v", text[:i], size, err)
			}
		}
	}
}

// FuzzConnect: what is taken for a CONNECT is one to net/http too, for the
// same target, and every byte after its head is left to the tunnel.
func FuzzConnect(f *testing.F) {
	for _, s := range []string{
		"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n\x16\x03\x01",
		"CONNECT [::1%25lo]:80 HTTP/1.0\r\nProxy-Authorization: Basic eDp5\r\n\r\n",
		"CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		to, size, err := parseConnect(data)
		if err != nil {
			_, bad := errors.AsType[*badRequestError](err)
			if size != 0 || bad == errors.Is(err, errShort) {
				t.Fatalf("%q: %d, %v", data, size, err)
			}
			return
		}
		if size > maxHead+4 || to.port == 0 || !bytes.HasSuffix(data[:size], []byte("\r\n\r\n")) {
			t.Fatalf("%q: %+v, %d", data, to, size)
		}
		if _, err := policy.NormalizeName(to.host); err != nil {
			return // refused for its name
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data[:size])))
		if err != nil || r.Method != http.MethodConnect || r.ContentLength > 0 || len(r.TransferEncoding) > 0 {
			t.Fatalf("%q: net/http reads %+v, %v", data[:size], r, err)
		}
		if want := fmt.Sprintf("%s:%d", to.host, to.port); r.RequestURI != want {
			t.Fatalf("%q: a tunnel for %s, and net/http reads one for %s", data[:size], want, r.RequestURI)
		}
	})
}

// FuzzSOCKS: no message is read beyond its end or before it is whole, and what
// is read says what its bytes say.
func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x02\x00\x02"))
	f.Add([]byte("\x01\x04user\x04pass"))
	f.Add([]byte("\x05\x01\x00\x03\x0aallow.test\x01\xbb rest"))
	f.Add([]byte("\x05\x01\x00\x01\x0b\x00\x00\x0a\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x03\x14evil.test\x00.allow.test\x00\x50"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for what, parse := range map[string]func([]byte) (string, int, error){
			"methods": func(b []byte) (string, int, error) {
				methods, size, err := parseSOCKSMethods(b)
				return string(methods), size, err
			},
			"password": func(b []byte) (string, int, error) {
				_, size, err := parseSOCKSPassword(b)
				return "", size, err
			},
			"request": func(b []byte) (string, int, error) {
				r, size, err := parseSOCKSRequest(b)
				if size > 0 && r.kind == socksName && r.host != string(b[5:5+int(b[4])]) {
					t.Errorf("%q: host %q", b, r.host)
				}
				if size > 0 && r.host != "" && (int(b[size-2])<<8|int(b[size-1])) != int(r.port) {
					t.Errorf("%q: port %d", b, r.port)
				}
				return fmt.Sprint(r), size, err
			},
		} {
			v, size, err := parse(data)
			switch {
			case size < 0 || size > len(data) || err != nil && size != 0 || err == nil && size == 0:
				t.Fatalf("%s of %q: %d, %v", what, data, size, err)
			case errors.Is(err, errShort) && len(data) > 513:
				t.Fatalf("%s does not end in %d bytes", what, len(data))
			case err == nil:
				if again, n, err := parse(data[:size]); again != v || n != size || err != nil {
					t.Fatalf("%s of %q: what follows changes it: %q, %q", what, data, v, again)
				}
			}
		}
	})
}
