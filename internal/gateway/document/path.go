package document

import (
	"strconv"
	"unicode/utf8"
)

// Step writes one step of a path: ".name", or "[2]" for what is a number. A
// name that is no plain word is quoted and cut short.
func Step(name string) string {
	if isDigits(name) {
		return "[" + name + "]"
	}
	if isWord(name) {
		return "." + name
	}
	return "." + Quote(name)
}

// Quote quotes text of a stranger's for a message: in ASCII, and no longer than
// 64 bytes of it.
func Quote(s string) string {
	const most = 64
	if len(s) <= most {
		return strconv.QuoteToASCII(s)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.QuoteToASCII(s[:cut]) + "…"
}

func isDigits(s string) bool {
	if s == "" || len(s) > 9 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func isWord(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
