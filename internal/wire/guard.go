package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// yamux's framing (hashicorp/yamux spec.md): version, type, two bytes of
// flags, four of stream id, four of length.
const (
	muxHeader = 12

	muxData   = 0
	muxWindow = 1
	muxGoAway = 3

	muxSYN  = 1 << 0
	muxMost = 1<<4 - 1
)

// errRules ends a wire whose other end does what a sandbox never does.
var errRules = errors.New("the sandbox broke the rules of the wire")

// isDataHeader reports whether p is the header of a data frame whose body is
// written next.
func isDataHeader(p []byte) bool {
	return len(p) == muxHeader && p[0] == 0 && p[1] == muxData && binary.BigEndian.Uint32(p[8:]) > 0
}

// guard watches what comes from the sandbox and ends the wire at the first
// frame that could make yamux grow: a ping (each starts a goroutine), a new
// stream (each takes memory until it is closed), a length or a window update
// over the window. Well-behaved, a sandbox only answers.
type guard struct {
	io.ReadWriteCloser

	head [muxHeader]byte
	have int    // bytes in head
	body uint32 // bytes of the current frame's body that are still to come
	bad  bool
}

// Read reads from the sandbox. Its error for a broken rule is final.
func (g *guard) Read(p []byte) (int, error) {
	if g.bad {
		return 0, errRules
	}
	n, err := g.ReadWriteCloser.Read(p)
	if bad := g.check(p[:n]); bad != nil {
		g.bad = true
		return 0, bad
	}
	return n, err
}

func (g *guard) check(p []byte) error {
	for len(p) > 0 {
		if g.body > 0 {
			n := min(uint32(len(p)), g.body) //nolint:gosec // a read is far below 4 GiB
			g.body -= n
			p = p[n:]
			continue
		}
		n := copy(g.head[g.have:], p)
		g.have += n
		p = p[n:]
		if g.have < muxHeader {
			return nil
		}
		g.have = 0
		if err := g.header(); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) header() error {
	flags := binary.BigEndian.Uint16(g.head[2:])
	length := binary.BigEndian.Uint32(g.head[8:])
	if g.head[0] != 0 || flags > muxMost || flags&muxSYN != 0 {
		return fmt.Errorf("version %d, flags %#x: %w", g.head[0], flags, errRules)
	}
	switch g.head[1] {
	case muxData:
		if length > window {
			return fmt.Errorf("%d bytes at once: %w", length, errRules)
		}
		g.body = length
		return nil
	case muxWindow:
		if length > window {
			return fmt.Errorf("window of %d bytes: %w", length, errRules)
		}
		return nil
	case muxGoAway:
		return nil
	}
	return fmt.Errorf("type %d: %w", g.head[1], errRules)
}
