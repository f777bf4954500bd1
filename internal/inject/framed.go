package inject

import "encoding/binary"

// framed is a stream of messages, each behind a byte of flags and four of its
// length, as gRPC has them ("gRPC over HTTP2", Length-Prefixed-Message). Whoever
// waits for a message gets all of it: nothing is held back at its end, as whoever
// sent it may say no more before it was answered.
type framed struct {
	watch  filter // of a request: what messages go by
	scrub  *tape  // of an answer
	strict bool   // a message that is compressed is an error
	odd    func() // of an answer: called once it was none of messages
	head   [5]byte
	have   int    // bytes of head
	left   uint32 // bytes of the message to come
	out    []byte
}

const (
	compressed = 1
	otherFlags = 0x7c // none of gRPC, gRPC-Web (0x80: trailers) or Connect (2: the last)
)

func (g *framed) pass(b []byte, final bool) ([]byte, error) {
	out, err := g.split(b, final)
	if err != nil && g.odd != nil {
		g.odd()
	}
	return out, err
}

// split passes a stream on message by message.
func (g *framed) split(b []byte, final bool) ([]byte, error) {
	g.out = g.out[:0]
	for len(b) > 0 {
		if g.have < len(g.head) {
			n := copy(g.head[g.have:], b)
			g.have, b = g.have+n, b[n:]
			if err := g.begin(); err != nil {
				return nil, err
			}
			continue
		}
		n := uint32(min(uint64(len(b)), uint64(g.left))) //nolint:gosec // no more than left
		if err := g.message(b[:n], g.left == n); err != nil {
			return nil, err
		}
		b = b[n:]
		if g.left -= n; g.left == 0 {
			g.have = 0
		}
	}
	if final {
		return g.out, g.end()
	}
	return g.out, nil
}

// begin reads a head that is whole.
func (g *framed) begin() error {
	if g.have < len(g.head) {
		return nil
	}
	if g.strict && g.head[0]&(compressed|otherFlags) != 0 {
		return errMessage
	}
	g.out = append(g.out, g.head[:]...)
	if g.left = binary.BigEndian.Uint32(g.head[1:]); g.left > 0 {
		return nil
	}
	g.have = 0
	return g.message(nil, true)
}

// end is for a stream that ends before a message is whole.
func (g *framed) end() error {
	switch {
	case g.have == 0:
		return nil
	case g.have == len(g.head):
		return g.message(nil, true)
	case g.strict:
		return errMessage
	}
	g.out = append(g.out, g.head[:g.have]...)
	return nil
}

// message takes in bytes of a message.
func (g *framed) message(b []byte, end bool) error {
	if g.watch != nil {
		out, err := g.watch.pass(b, end)
		g.out = append(g.out, out...)
		return err
	}
	out, _ := g.scrub.push(b, false)
	g.out = append(g.out, out...)
	if !end {
		return nil
	}
	// No message ends with much of a value by chance. What does may be none: a
	// host that is told what to say can be made to say a length that ends within a
	// value. And none that ends with a guess may be told from others twice: from
	// then on answers of the host are not taken for messages.
	open := g.scrub.open
	out, _ = g.scrub.push(nil, true)
	if g.strict && open > g.scrub.m.uncommon() {
		return errMessage
	}
	g.out = append(g.out, out...)
	return nil
}
