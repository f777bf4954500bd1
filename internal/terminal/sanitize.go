package terminal

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sanitize makes s safe to print within one line: printable characters and
// spaces stay; control characters, bytes that are no UTF-8, and characters
// that are invisible or turn the direction of text (U+202E, U+200B, tags)
// are written as escapes of Go's syntax. It does not shorten s.
func Sanitize(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x`)
			b.WriteString(hex(uint32(s[i]), 2))
		case strconv.IsPrint(r):
			b.WriteString(s[i : i+size])
		case r < 0x80:
			b.WriteString(escapeASCII(s[i]))
		case r <= 0xffff:
			b.WriteString(`\u`)
			b.WriteString(hex(uint32(r), 4))
		default:
			b.WriteString(`\U`)
			b.WriteString(hex(uint32(r), 8))
		}
		i += size
	}
	return b.String()
}

func clean(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= del {
			return false
		}
	}
	return true
}

func escapeASCII(c byte) string {
	switch c {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return `\x` + hex(uint32(c), 2)
}

func hex(v uint32, width int) string {
	h := strconv.FormatUint(uint64(v), 16)
	return strings.Repeat("0", max(0, width-len(h))) + h
}
