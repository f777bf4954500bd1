package inject

import "encoding/binary"

// framed is a stream of messages, each behind a byte of flags and four of its
// length, as gRPC has them ("gRPC over HTTP2", Length-Prefixed-Message). Whoever
// waits for a message gets all of it: nothing is held back at its end, as whoever
// sent it may say no more before it was answered.
type framed struct {
	f      filter
	strict bool // a message that is compressed is an error
	head   [5]byte
	have   int    // bytes of head
	left   uint32 // bytes of the message to come
	out    []byte
}

func (g *framed) pass(b []byte, final bool) ([]byte, error) {
	g.out = g.out[:0]
	for len(b) > 0 {
		if g.have < len(g.head) {
			n := copy(g.head[g.have:], b)
			g.out = append(g.out, b[:n]...)
			g.have, b = g.have+n, b[n:]
			if g.have < len(g.head) {
				break
			}
			if g.head[0]&1 != 0 && g.strict {
				return nil, errCompressedMessage
			}
			g.left = binary.BigEndian.Uint32(g.head[1:])
		}
		n := min(len(b), int(g.left))
		g.left -= uint32(n)
		out, err := g.f.pass(b[:n], g.left == 0)
		if err != nil {
			return nil, err
		}
		g.out = append(g.out, out...)
		b = b[n:]
		if g.left == 0 {
			g.have = 0
		}
	}
	if final && g.left > 0 { // the message is not whole
		out, err := g.f.pass(nil, true)
		if err != nil {
			return nil, err
		}
		g.out = append(g.out, out...)
	}
	return g.out, nil
}
