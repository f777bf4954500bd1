package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/bailey-dev/bailey/internal/policy"
)

// Records and handshake messages of TLS (RFC 8446 §4, §5.1).
const (
	tlsChangeCipher = 20
	tlsAlert        = 21
	tlsAppData      = 23
	recordHeader    = 5
	messageHeader   = 4
	clientHelloType = 1
	serverHelloType = 2
	randomAt        = messageHeader + 2 // in a ServerHello: after its version
	randomSize      = 32
)

// retryRandom marks a ServerHello as a HelloRetryRequest: it is the SHA-256 of
// that word (RFC 8446 §4.1.3).
const retryRandom = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// helloScreen holds a TLS connection to the ClientHello that was judged. A
// server may ask for another one (HelloRetryRequest, RFC 8446 §4.1.4), which
// travels in the clear too, and servers are known that go by its name. Until
// the server has said which it is, the client's handshake records wait; its
// early data does not.
type helloScreen struct {
	ctx   context.Context //nolint:containedctx // of the connection, which the screen lives as long as
	first hello
	size  int // bytes of the client's records up to the end of the first hello

	known chan struct{} // closed when the server's first message was read
	once  sync.Once
	retry bool // it asks for another hello; read after known
}

func newHelloScreen(ctx context.Context, first hello, size int) *helloScreen {
	return &helloScreen{ctx: ctx, first: first, size: size, known: make(chan struct{})}
}

// learn notes what the server's first message is.
func (s *helloScreen) learn(retry bool) {
	s.once.Do(func() {
		s.retry = retry
		close(s.known)
	})
}

func (s *helloScreen) fromServer(l *leg) error {
	defer s.learn(true) // a server that ended before: nothing more but a hello that is judged
	var seen []byte
	for len(seen) <= maxHello {
		b, err := l.read()
		if err != nil {
			return err
		}
		seen = append(seen, b...)
		retry, sure := readRetry(seen)
		if sure {
			s.learn(retry)
		}
		if err := l.pass(b); err != nil || sure {
			return err
		}
	}
	return nil
}

// readRetry says whether a server's first handshake message is a
// HelloRetryRequest, if the bytes are enough to be sure. What is not TLS asks
// for none.
func readRetry(b []byte) (retry, sure bool) {
	var message []byte
	for len(b) > 0 {
		if b[0] < tlsChangeCipher || b[0] > tlsHandshake {
			return false, true
		}
		if len(b) < recordHeader {
			return false, false
		}
		end := min(len(b), recordHeader+int(binary.BigEndian.Uint16(b[3:])))
		if b[0] == tlsHandshake {
			message = append(message, b[recordHeader:end]...)
		}
		b = b[end:]
		switch {
		case len(message) > 0 && message[0] != serverHelloType:
			return false, true
		case len(message) >= randomAt+randomSize:
			return string(message[randomAt:randomAt+randomSize]) == retryRandom, true
		}
	}
	return false, false
}

func (s *helloScreen) fromClient(l *leg) error {
	rest := l.early[s.size:]
	if err := l.pass(l.early[:s.size]); err != nil {
		return err
	}
	in := &records{l: l, rest: bytes.Clone(rest)}
	plain := true // no ChangeCipherSpec yet, after which TLS 1.2 is not plain
	for {
		record, err := in.next()
		if err != nil {
			return err
		}
		kind := record[0]
		if kind == tlsHandshake || kind < tlsChangeCipher || kind > tlsAppData {
			<-s.known // fromServer ends with the connection
		}
		switch {
		case s.mayBeHello(record, plain):
			return s.secondHello(in, record)
		case s.passes():
			return l.pass(append(record, in.rest...))
		case kind < tlsChangeCipher || kind > tlsAppData:
			return &refusedError{policy.ReasonBadTLS, "something other than TLS follows the ClientHello"}
		}
		plain = plain && kind != tlsChangeCipher
		if err := l.pass(record); err != nil {
			return err
		}
	}
}

// passes reports whether the server is known to have taken the first hello.
func (s *helloScreen) passes() bool {
	select {
	case <-s.known:
		return !s.retry
	default:
		return false
	}
}

// mayBeHello reports whether a record of the client has to be read as another
// ClientHello: when the server asked for one, and when it looks like one and
// is not encrypted.
func (s *helloScreen) mayBeHello(record []byte, plain bool) bool {
	if record[0] != tlsHandshake {
		return false
	}
	return !s.passes() || plain && len(record) > recordHeader && record[recordHeader] == clientHelloType
}

// secondHello reads the rest of another ClientHello and passes it on if it is
// for the same host.
func (s *helloScreen) secondHello(in *records, record []byte) error {
	all := record
	for {
		size, err := helloSize(all)
		switch {
		case err == nil && size == len(all):
			return s.compare(in, all)
		case !errors.Is(err, errShort):
			return &refusedError{policy.ReasonBadTLS, "the second TLS ClientHello cannot be read"}
		}
		record, err := in.next()
		if err != nil {
			return err
		}
		if record[0] != tlsHandshake || len(all)+len(record) > maxHello {
			return &refusedError{policy.ReasonBadTLS, "the second TLS ClientHello does not end"}
		}
		all = append(all, record...)
	}
}

func (s *helloScreen) compare(in *records, all []byte) error {
	second, err := parseHello(s.ctx, bytes.NewReader(all))
	switch {
	case err != nil:
		return &refusedError{policy.ReasonBadTLS, "the second TLS ClientHello cannot be read: " + printable(err.Error())}
	case second.serverName != s.first.serverName:
		return &refusedError{policy.ReasonNameMismatch, fmt.Sprintf("the TLS connection began for %q, and its second ClientHello names %q", printable(s.first.serverName), printable(second.serverName))}
	case second.ech != s.first.ech:
		return &refusedError{policy.ReasonNameMismatch, "one ClientHello of the TLS connection carries encrypted_client_hello, and the other does not"}
	}
	return in.l.pass(append(all, in.rest...))
}

// records reads the client's records one by one.
type records struct {
	l    *leg
	rest []byte // read, and not returned
}

// next returns the next record, header and all; the caller owns it. It waits
// for the whole of it: 64 KiB at most.
func (r *records) next() ([]byte, error) {
	for {
		if len(r.rest) >= recordHeader {
			if end := recordHeader + int(binary.BigEndian.Uint16(r.rest[3:])); len(r.rest) >= end {
				record := r.rest[:end:end]
				r.rest = r.rest[end:]
				return record, nil
			}
		}
		b, err := r.l.read()
		if err != nil {
			return nil, err
		}
		r.rest = append(r.rest, b...)
	}
}

// errShort says that bytes end before the message in them does.
var errShort = errors.New("the message does not end")

// helloSize returns how many bytes of a client's records its first handshake
// message takes. Nothing may follow the message in its record.
func helloSize(b []byte) (int, error) {
	var message []byte
	for at := 0; len(b)-at >= recordHeader; {
		end := at + recordHeader + int(binary.BigEndian.Uint16(b[at+3:]))
		if end > len(b) {
			return 0, errShort
		}
		if b[at] == tlsHandshake {
			message = append(message, b[at+recordHeader:end]...)
		}
		at = end
		if len(message) < messageHeader {
			continue
		}
		want := messageHeader + (int(message[1])<<16 | int(message[2])<<8 | int(message[3]))
		switch {
		case message[0] != clientHelloType || len(message) > want:
			return 0, errors.New("something other than a ClientHello stands where one has to")
		case len(message) == want:
			return at, nil
		}
	}
	return 0, errShort
}
