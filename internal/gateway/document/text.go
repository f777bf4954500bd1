package document

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Both functions do for the text of agents, which is files and the output of
// programs, what jsontext does for every text, and leave it all else.

// unescaped is what is escaped most often in a text, by the letter that stands
// for it after the backslash (RFC 8259 §7).
func unescaped(c byte) (byte, bool) {
	switch c {
	case '"', '\\', '/':
		return c, true
	case 'n':
		return '\n', true
	case 't':
		return '\t', true
	case 'r':
		return '\r', true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	}
	return 0, false
}

// appendUnquoted appends the text of a literal, which is one that jsontext has
// found to be valid.
func appendUnquoted(b []byte, literal jsontext.Value) ([]byte, error) {
	start := len(b)
	for rest := literal[1 : len(literal)-1]; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 || i+1 >= len(rest) {
			return append(b, rest...), nil
		}
		b = append(b, rest[:i]...)
		if c, ok := unescaped(rest[i+1]); ok {
			b = append(b, c)
			rest = rest[i+2:]
			continue
		}
		const length = len(`\u001b`)
		if len(rest) < i+length {
			return jsontext.AppendUnquote(b[:start], literal)
		}
		n, err := strconv.ParseUint(string(rest[i+2:i+length]), 16, 16)
		if err != nil || utf16.IsSurrogate(rune(n)) {
			return jsontext.AppendUnquote(b[:start], literal)
		}
		b = utf8.AppendRune(b, rune(n))
		rest = rest[i+length:]
	}
}

// appendString never fails on what Parse has accepted; elsewhere it replaces
// invalid UTF-8, so that what is written is JSON whatever it was given.
func appendString(b []byte, s string) []byte {
	start, from := len(b), 0
	b = append(b, '"')
	for i := 0; ; {
		i = usual(s, i)
		if i >= len(s) {
			return append(append(b, s[from:]...), '"')
		}
		if s[i] >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b, _ = jsontext.AppendQuote(b[:start], s)
				return b
			}
			i += n
			continue
		}
		b = appendEscaped(append(b, s[from:i]...), s[i])
		i++
		from = i
	}
}

func appendEscaped(b []byte, c byte) []byte {
	const letters, hex = "\"\\\b\f\n\r\t", "0123456789abcdef"
	if i := strings.IndexByte(letters, c); i >= 0 {
		return append(b, '\\', `"\bfnrt`[i])
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
