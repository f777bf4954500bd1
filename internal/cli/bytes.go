package cli

import (
	"strings"
	"unicode/utf8"
)

// Arguments are bytes, and may name files whose names are no text; the parser
// reads them as text and would put U+FFFD where they are none. So each byte
// that belongs to no character goes through it as a character of its own, from
// the end of a plane for private use, and comes out as the byte that it was.
const (
	firstStandIn = 0x10ff00
	lastStandIn  = firstStandIn + 0xff
)

func isStandIn(r rune) bool { return r >= firstStandIn && r <= lastStandIn }

// asText writes an argument so that the parser keeps it.
func asText(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, isStandIn) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || isStandIn(r) {
			for i := range n {
				b.WriteRune(firstStandIn + rune(s[i]))
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// asBytes undoes asText.
func asBytes(s string) string {
	if !strings.ContainsFunc(s, isStandIn) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isStandIn(r) {
			b.WriteByte(byte(r - firstStandIn))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// each applies f to every element, in place.
func each(list []string, f func(string) string) []string {
	for i, s := range list {
		list[i] = f(s)
	}
	return list
}

// beyondDashes cuts off what the parser need not see: all but the first of the
// arguments behind "--". It takes time by the square of their number.
func beyondDashes(args []string) (seen, rest []string) {
	for i, a := range args {
		if a == "--" && i+2 < len(args) {
			return args[: i+2 : i+2], args[i+2:]
		}
	}
	return args, nil
}
