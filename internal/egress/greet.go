package egress

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"

	"github.com/bailey-dev/bailey/internal/policy"
)

// greetedScreen is for connections in which the server has spoken first. Such a
// server may be one of HTTP/2, which sends its SETTINGS at once and routes by
// an :authority that nobody would look at. So it is refused by what it says;
// and whatever it says, the client begins with no request. Its words are
// screened until the server has answered some that are none: what then follows
// is the protocol's, and a mail may hold a request.
type greetedScreen struct {
	requestScreen
	greeting []byte      // the beginning of what the server says
	heard    atomic.Bool // the client has said what is no beginning of a request
}

func newGreetedScreen() *greetedScreen {
	return &greetedScreen{requestScreen: requestScreen{greeted: true}}
}

// fromClient is requestScreen's, and remembers for the other direction whether
// there is something to answer.
func (s *greetedScreen) fromClient(l *leg) error {
	return s.watchClient(l, func() { s.heard.Store(s.said) })
}

// fromServer passes on what judgeServer lets through, until the server has
// answered. One that says much before is done with too.
func (s *greetedScreen) fromServer(l *leg) error {
	for n := len(s.greeting); n < maxHead; {
		b, err := l.read()
		if err != nil {
			return err
		}
		n += len(b)
		s.settled.Store(s.heard.Load()) // before it is passed on: the client answers it
		if err := s.judgeServer(b); err != nil {
			return err
		}
		if err := l.pass(b); err != nil {
			return err
		}
		if s.settled.Load() && len(s.greeting) >= frameHead {
			return nil
		}
	}
	return nil
}

// frameHead is how long the head of a frame of HTTP/2 is (RFC 9113 §4.1), in
// bytes. With that many a greeting is judged.
const frameHead = 9

// judgeServer looks at the next bytes of the server, before they are passed on.
func (s *greetedScreen) judgeServer(b []byte) error {
	s.greeting = append(s.greeting, b[:min(len(b), frameHead-min(len(s.greeting), frameHead))]...)
	switch {
	case opensHTTP2(s.greeting):
		return &refusedError{policy.ReasonBadRequest, "the server speaks HTTP/2 in clear text, in which nobody looks at the host that a request is for"}
	case opensHTTP1(s.greeting):
		return &refusedError{policy.ReasonBadRequest, "the server answers as HTTP does before anything was asked"}
	}
	return nil
}

// opensHTTP2 reports whether a server's first bytes are the head of a frame of
// the whole connection, as HTTP/2 has them (RFC 9113 §6 and its registry). It
// begins with SETTINGS; another server than that may be lenient with itself. No
// protocol is known that begins so: MySQL has a 0 in the place of the type.
func opensHTTP2(b []byte) bool {
	if len(b) < frameHead || binary.BigEndian.Uint32(b[5:])<<1 != 0 { // a bit is reserved
		return false
	}
	length := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	switch b[3] {
	case 0x4: // SETTINGS
		return length%6 == 0
	case 0x6: // PING
		return length == 8
	case 0x7: // GOAWAY
		return length >= 8
	case 0x8: // WINDOW_UPDATE
		return length == 4
	case 0xa, 0xc: // ALTSVC (RFC 7838 §4), ORIGIN (RFC 8336 §2.1)
		return true
	}
	return false
}

// opensHTTP1 reports whether they are those of a status line.
func opensHTTP1(b []byte) bool { return bytes.HasPrefix(b, []byte("HTTP/1.")) }
