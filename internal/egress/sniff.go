package egress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bailey-dev/bailey/internal/policy"
)

// kind is what the first bytes of a connection look like.
type kind uint8

const (
	kindGone    kind = iota // the client went without a word
	kindUnclear             // it stopped in, or never ended, a line that may become HTTP
	kindSilent              // it waits for the server
	kindTLS
	kindHTTP
	kindRaw
)

const (
	tlsHandshake = 0x16 // TLS record type, RFC 8446 §5.1
	maxFirstLine = 8 << 10
)

// sniff reads until it can say what the connection speaks. What was read is
// in f.head.
func (f *flow) sniff() kind {
	wait, late := f.patience(), lateWait
	f.host = ""
	f.standing.Store(nil)
	f.aims.Store(nil)
	f.refuse("", "") // what was tried so far is no decision
	deadline := f.p.cfg.Now().Add(sniffTimeout)
	for {
		if k, sure := classify(f.head); sure {
			return k
		}
		until := deadline
		if len(f.head) == 0 {
			until = f.p.cfg.Now().Add(wait)
		}
		err := f.readMore(until)
		switch {
		case err == nil:
		case len(f.head) == 0 && errors.Is(err, os.ErrDeadlineExceeded):
			if late == 0 {
				return kindSilent
			}
			wait, late = late, 0
		case len(f.head) == 0:
			return kindGone
		default:
			return kindUnclear
		}
	}
}

// patience is how long the first byte may take. Servers of mail or SSH speak
// first, so a short silence decides: where the connection is allowed as it
// stands the server is given the word, and elsewhere nothing is to be hoped
// for, as a client that has a name to say got the address from our DNS. Only
// on the ports of the web, where browsers connect before they know what to
// ask, and where only TLS and HTTP name a host, is there time, and where rules
// want to see inside, so that no other protocol passes.
func (f *flow) patience() time.Duration {
	if f.webPort() || f.search(true) && f.sealed || f.decision.Reason == policy.ReasonSealed {
		return sniffTimeout
	}
	return silenceWait
}

// webPort reports whether only TLS and HTTP can give the connection a name:
// on these ports a name that our DNS gave the address is not enough.
func (f *flow) webPort() bool { return f.dest.Port() == 80 || f.dest.Port() == 443 }

// readMore appends what arrives before a deadline to f.head.
func (f *flow) readMore(until time.Time) error {
	if err := f.down.SetReadDeadline(until); err != nil {
		return err
	}
	return f.readSome()
}

// readSome appends what arrives to f.head; the deadline is the caller's.
func (f *flow) readSome() error {
	var buf [4096]byte
	n, err := f.down.Read(buf[:])
	f.head = append(f.head, buf[:n]...)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// classify says what the bytes are, if they are enough to be sure. Anything
// that a lenient HTTP server could take for a request is HTTP, and is then
// held to its strict form: a request must not slip through as raw bytes, past
// the check of its Host. One with control bytes in its line, or with something
// before it, is found by requestScreen.
func classify(head []byte) (k kind, sure bool) {
	if len(head) == 0 {
		return kindSilent, false
	}
	if head[0] == tlsHandshake {
		return kindTLS, true
	}
	line := bytes.TrimLeft(head, "\r\n")
	end := bytes.IndexByte(line, '\n')
	if end >= 0 {
		line = line[:end]
	}
	switch {
	case !isText(line):
		return kindRaw, true
	case bytes.Contains(bytes.ToUpper(line), []byte("HTTP/")), end >= 0 && isRequestLine(line):
		return kindHTTP, true
	case end >= 0:
		return kindRaw, true
	}
	return kindUnclear, len(head) > maxFirstLine // empty lines before it count
}

// isText reports whether a line could be of HTTP: printable bytes, and those
// above ASCII, which some servers let pass.
func isText(line []byte) bool {
	for _, c := range line {
		if c < ' ' && c != '\t' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return true
}

// refuseUnread ends a connection that never said enough. One that could have
// gone nowhere anyway is recorded as what it was.
func (f *flow) refuseUnread(k kind) {
	switch {
	case !f.search(true):
	case k == kindGone:
		f.refuse(policy.ReasonSilent, "the connection was closed before it said which host it is for")
		f.kept = true
	case k == kindSilent:
		f.refuse(policy.ReasonSilent, fmt.Sprintf("nothing was said on port %d for %s, so no host is known", f.dest.Port(), sniffTimeout))
	default:
		f.refuse(policy.ReasonBadRequest, "the connection did not end its first line, which may become HTTP")
	}
}
