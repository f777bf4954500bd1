package document

import (
	"math/bits"
	"unicode/utf8"
)

// Usual returns where, from i on, the text ends of which each character is one
// byte, also as JSON.
func Usual(s string, i int) int { return usual(s, i) }

// usual returns where, from i on, the text ends that is ASCII and stands in a
// string as it is: at a quote, a backslash, a control character, a byte that is
// not ASCII, or the end.
//
// It looks at eight bytes at a time. The highest bit of a byte of odd says that
// the text ends there; above the lowest of these bits there may be more of them
// than there should be.
func usual[T string | []byte](s T, i int) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; len(s)-i >= 8; i += 8 {
		b := s[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | // one load of memory
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		odd := (x | (x - each*' ') | ((x ^ each*'"') - each) | ((x ^ each*'\\') - each)) & high
		if odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}
