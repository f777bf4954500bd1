package policy

import "strings"

// AsVariable is how a server sees the name of a field that hands fields on as
// variables (RFC 3875 §4.1.18), but for case: some put a line below in the place
// of whatever is neither letter nor digit.
func AsVariable(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			return c
		}
		return '-'
	}, name)
}

// IsOverride reports whether a field asks a server to take the request for
// another one than was judged.
func IsOverride(name string) bool {
	switch AsVariable(name) {
	case "x-http-method-override", "x-http-method", "x-method-override", "x-original-method", "x-forwarded-method",
		"x-original-url", "x-original-uri", "x-rewrite-url", "x-forwarded-uri", "x-forwarded-path", "x-forwarded-prefix":
		return true
	}
	return false
}
