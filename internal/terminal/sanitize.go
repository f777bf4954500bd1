package terminal

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
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
			b.WriteString(hex(rune(s[i]), 2))
		case strconv.IsPrint(r):
			b.WriteString(s[i : i+size])
		case r < 0x80:
			b.WriteString(escapeASCII(s[i]))
		case r <= 0xffff:
			b.WriteString(`\u`)
			b.WriteString(hex(r, 4))
		default:
			b.WriteString(`\U`)
			b.WriteString(hex(r, 8))
		}
		i += size
	}
	return b.String()
}

// SanitizeJSON makes a JSON value safe to print: the characters that Sanitize
// escapes and encoding/json does not (C1, U+202E, …) are written as escapes of
// JSON. The value means the same; its bytes may be returned as they are.
func SanitizeJSON(b []byte) []byte {
	unsafe := func(r rune) bool { return r >= del && !strconv.IsPrint(r) }
	if !bytes.ContainsFunc(b, unsafe) {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for _, r := range string(b) {
		switch {
		case !unsafe(r):
			out = utf8.AppendRune(out, r)
		case r <= 0xffff:
			out = append(out, `\u`+hex(r, 4)...)
		default:
			high, low := utf16.EncodeRune(r)
			out = append(out, `\u`+hex(high, 4)+`\u`+hex(low, 4)...)
		}
	}
	return out
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
	return `\x` + hex(rune(c), 2)
}

func hex(r rune, width int) string {
	h := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, width-len(h))) + h
}
