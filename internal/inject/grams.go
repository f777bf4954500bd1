package inject

import "encoding/binary"

// grams are all four bytes in a row of patterns, each by a bit of a hash. Most
// escapes stand in texts that hold no pattern: whether one could is asked of
// them, since undoing the escapes around it costs much more.
type grams []uint64

const gramBits = 20 // of a hash: 128 KiB

func (g grams) learn(text []byte) {
	for i := 0; i+block <= len(text); i++ {
		h := binary.LittleEndian.Uint32(text[i:]) * hashPrime >> (32 - gramBits)
		g[h/64] |= 1 << (h % 64)
	}
}

// have reports whether four bytes may be in a pattern.
func (g grams) have(b []byte) bool { return g.has(binary.LittleEndian.Uint32(b)) }

func (g grams) has(x uint32) bool {
	h := x * hashPrime >> (32 - gramBits)
	return g[h/64]&(1<<(h%64)) != 0
}

// apart reports whether an escape is in no region yet and need not be in one.
func (s *search) apart(r *region, t token, l lexed, which kinds) bool {
	return l == whole && (!r.open || t.start > r.to) && !s.near(t, which)
}

// near reports whether an escape may be the first of a pattern, or of the two
// characters beside one that hold some of it. Before the first there are bytes
// as they are, and behind it more escapes of these kinds: either the four bytes
// that end at it are in a pattern, or those that begin at it; and beside a
// pattern, those that end before it or begin behind it.
func (s *search) near(t token, which kinds) bool {
	var around [block + 1]byte // four bytes, and a first one of the escape
	size := copy(around[block:], t.text[:min(t.size, 1)])
	if t.start < block {
		return true
	}
	copy(around[:], s.b[t.start-block:t.start])
	if s.m.grams.have(around[:]) || size > 0 && s.m.grams.have(around[1:]) {
		return true
	}
	var ahead [2 * block]byte
	n := copy(ahead[:], t.text[:t.size])
	if !s.ahead(&ahead, n, t.end, which) {
		return true
	}
	return s.m.grams.have(ahead[:]) || s.m.grams.have(ahead[n:])
}

// ahead fills in the four bytes behind the first n, from i on, with escapes
// undone, and reports whether there are so many.
func (s *search) ahead(out *[2 * block]byte, n, i int, which kinds) bool {
	for end := n + block; n < end; {
		if i >= len(s.b) {
			return false
		}
		t, l := token{}, literal
		if which.mark(s.b[i]) {
			t, l = lex(s.b, i, s.final)
		}
		switch {
		case l == cut:
			return false
		case l == whole && t.start == i:
			n += copy(out[n:], t.text[:t.size])
			i = t.end
		default:
			out[n] = s.b[i]
			n, i = n+1, i+1
		}
	}
	return true
}

// skipQuoted is skip for a sign of equality, which stands in many a text before
// what could be digits.
func (s *search) skipQuoted(r *region, i int, c byte) (end int, dull bool) {
	switch {
	case i+2 == len(s.b) || !isHex(c): // the end of a line
		return 0, false
	case !isHex(s.b[i+2]):
		return i + 1, false
	}
	d := s.b[i+2]
	v := (c+c>>6*9)<<4 | d&15 + d>>6*9
	if !s.m.alphabet[v] {
		return i + 3, true
	}
	if r.open && i <= r.to || i < block || i+3+block > len(s.b) {
		return 0, false
	}
	// near, of one escape and eight bytes as they are.
	before, behind := binary.LittleEndian.Uint32(s.b[i-block:]), binary.LittleEndian.Uint32(s.b[i+3:])
	g := s.m.grams
	switch {
	case g.has(before), g.has(before>>8 | uint32(v)<<24), g.has(behind<<8 | uint32(v)), g.has(behind), holdsQuoted(behind):
		return 0, false
	}
	return i + 3, false
}

// holdsQuoted reports whether one of four bytes is a sign of equality (see Warren,
// "Hacker's Delight", §6-1).
func holdsQuoted(x uint32) bool {
	x ^= 0x3d3d3d3d
	return (x-0x01010101)&^x&0x80808080 != 0
}
