package egress

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/bailey-dev/bailey/internal/policy"
)

// screen watches the first bytes of a joined connection, in both directions at
// once, and passes them on. When it returns nil the rest is passed on unread;
// an error that is a *refusedError ends the connection and is its reason.
type screen interface {
	fromClient(l *leg) error
	fromServer(l *leg) error
}

// refusedError is why a screen ends a connection.
type refusedError struct{ reason, detail string }

func (r *refusedError) Error() string { return r.detail }

// screenRead is how much a screen looks at in one go, in bytes: as much as a
// record of TLS holds.
const screenRead = 16 << 10

// leg is one direction of a joined connection.
type leg struct {
	r        *relay
	dst, src *net.TCPConn
	count    *atomic.Int64
	early    []byte // read from src before the two were joined
	buf      []byte // of read; not kept once the rest is passed on unread
}

// read returns what comes next, at least one byte or an error. The bytes are
// good until the next call. It goes on while the other direction is in use.
func (l *leg) read() ([]byte, error) {
	if l.buf == nil {
		l.buf = make([]byte, screenRead)
	}
	for {
		_ = l.src.SetReadDeadline(l.r.now().Add(l.r.idle / 2))
		n, err := l.src.Read(l.buf)
		switch {
		case n > 0:
			return l.buf[:n], nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || l.r.isIdle():
			return nil, err
		}
	}
}

// pass hands bytes on.
func (l *leg) pass(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	now := l.r.now()
	l.r.last.Store(now.UnixNano())
	_ = l.dst.SetWriteDeadline(now.Add(l.r.idle))
	n, err := l.dst.Write(b)
	l.count.Add(int64(n))
	return err
}

// passEarly hands on what was read before.
func (l *leg) passEarly() error {
	b := l.early
	l.early = nil
	return l.pass(b)
}

// requestScreen keeps requests of HTTP out of connections that are passed on
// as some other protocol, in which nobody looks at their Host. A server may be
// lenient: skip what stands before a request, on its line or on lines of its
// own. So every line counts, in as many bytes as a server may read for the
// head of a request. The same goes for what would have told the server, before
// the protocol proper, another address or name (the PROXY protocol).
type requestScreen struct {
	seen []byte // from the client
	line int    // where in seen the line begins that has not ended yet
	said bool   // the client has said what is no beginning of a request

	greeted bool        // the server was the first to speak
	settled atomic.Bool // it has answered too, and speaks a protocol of its own
}

func (s *requestScreen) fromServer(*leg) error { return nil }

// fromClient passes on what judge lets through. What is early was judged.
func (s *requestScreen) fromClient(l *leg) error { return s.watchClient(l, func() {}) }

// watchClient is fromClient with something to do when bytes were judged.
func (s *requestScreen) watchClient(l *leg, judged func()) error {
	judged()
	if err := l.passEarly(); err != nil {
		return err
	}
	for len(s.seen) < maxHead {
		b, err := l.read()
		if err != nil {
			return err
		}
		if s.settled.Load() {
			s.seen = nil
			return l.pass(b)
		}
		if err := s.judge(b); err != nil {
			return err
		}
		judged()
		if err := l.pass(b); err != nil {
			return err
		}
	}
	s.seen = nil
	return nil
}

// judge looks at the next bytes of the client, before they are passed on.
func (s *requestScreen) judge(b []byte) error {
	s.seen = append(s.seen, b...)
	if isPreamble(s.seen) {
		return &refusedError{policy.ReasonBadRequest, "the connection begins with a PROXY protocol header, which may tell the host another address or name"}
	}
	if isHello(s.seen, s.greeted) {
		return &refusedError{policy.ReasonBadTLS, "the TLS ClientHello came too late to be read"}
	}
	for {
		end := bytes.IndexAny(s.seen[s.line:], "\r\n")
		if end < 0 {
			s.said = s.said || !isText(s.seen[max(s.line, len(s.seen)-len(b)):])
			return nil
		}
		if isRequestLine(s.seen[s.line : s.line+end]) {
			return &refusedError{policy.ReasonBadRequest, "a line of the connection can be read as an HTTP request, and what stands before it is none"}
		}
		s.said = s.said || end > 0
		s.line += end + 1
	}
}

// isHello reports whether a connection begins as TLS does. After a greeting more
// is looked at: a packet of MySQL may begin with the same byte.
func isHello(b []byte, greeted bool) bool {
	const major, kindAt, clientHello = 3, 5, 1 // RFC 8446 §5.1 and §4
	if !greeted {
		return len(b) > 0 && b[0] == tlsHandshake
	}
	return len(b) > kindAt && b[0] == tlsHandshake && b[1] == major && b[kindAt] == clientHello
}

// isPreamble reports whether a connection begins with a PROXY protocol header
// (haproxy.org, proxy-protocol.txt §2.1 and §2.2).
func isPreamble(b []byte) bool {
	return bytes.HasPrefix(b, []byte("PROXY ")) || bytes.HasPrefix(b, []byte("\r\n\r\n\x00\r\nQUIT\n"))
}

// isRequestLine reports whether a lenient server could take a line, without
// its end, for that of a request: several words of which the last is a
// version, or a method and a path for the first or second word. Words are what
// stands between bytes that are no printable ASCII.
func isRequestLine(line []byte) bool {
	words := bytes.FieldsFunc(line, func(c rune) bool { return c <= ' ' || c >= 0x7f })
	if n := len(words); n > 1 && isVersion(words[n-1]) {
		return true
	}
	for i := range min(2, len(words)-1) { // further on it is text that speaks of a request
		if isMethod(string(words[i])) && isPath(string(words[i+1])) {
			return true
		}
	}
	return false
}

func isVersion(word []byte) bool {
	return len(word) > 5 && bytes.EqualFold(word[:5], []byte("HTTP/")) && '0' <= word[5] && word[5] <= '9'
}

// isMethod knows those that servers answer without a version (HTTP/0.9) or
// with something after it. They are case-sensitive (RFC 9110 §9.1): "get /x" is
// memcached's.
func isMethod(word string) bool {
	switch word {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE":
		return true
	}
	return false
}

// isPath also knows what is a path to HTTP alone: "DELETE /* all */" is SQL.
func isPath(word string) bool {
	return strings.HasPrefix(word, "/") && !strings.HasPrefix(word, "/*") || len(word) > 7 && strings.EqualFold(word[:7], "http://")
}

// refused returns the reason that a screen gave, or nil.
func refused(err error) *refusedError {
	r, _ := errors.AsType[*refusedError](err)
	return r
}
