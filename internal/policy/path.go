package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/bailey-dev/bailey"
)

// maxPath bounds a path that rules are asked about, in bytes.
const maxPath = 16 << 10

// NormalizePath brings the path of a request target (RFC 3986 §3.3, without
// query) into the one form that rules are compared in. Only the case of the
// digits behind a percent sign is changed. What a server may read as another
// path is refused, not repaired: segments of dots and spaces, also encoded,
// empty segments inside, parameters (a semicolon), escapes of bytes that a path
// may hold plainly, of backslashes and of control bytes, escapes that are not
// UTF-8 or stand for another spelling of ASCII, and bytes that no path holds.
func NormalizePath(path string) (string, error) {
	switch {
	case path == "" || path[0] != '/':
		return "", errors.New("it does not begin with a slash")
	case len(path) > maxPath:
		return "", fmt.Errorf("it is longer than %d bytes", maxPath)
	case strings.Contains(path, "//"):
		return "", errors.New("it has an empty segment")
	case strings.Contains(path, ";"):
		return "", errors.New("it has a semicolon, and what follows one is part of the path for some servers only")
	}
	out, err := normalizeEscapes(path)
	if err != nil {
		return "", err
	}
	for segment := range strings.SplitSeq(out, "/") {
		if err := checkSegment(segment); err != nil {
			return "", err
		}
	}
	return out, nil
}

// checkSegment judges what the escapes of a segment stand for.
func checkSegment(segment string) error {
	text := unescape(segment)
	if !utf8.ValidString(text) {
		return errors.New("it has escapes that are not UTF-8")
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !isDotOrSpace(r) }) < 0 {
		return errors.New("it has a segment that servers take for another folder")
	}
	for _, r := range text {
		if unicode.IsControl(r) || r >= utf8.RuneSelf && strings.IndexFunc(norm.NFKC.String(string(r)), isASCII) >= 0 {
			return fmt.Errorf("it holds the letter %+q, which servers read differently", r)
		}
	}
	return nil
}

// isDotOrSpace holds what some servers strip or take for a dot.
func isDotOrSpace(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(".\u2024\u2025\u2026\u3002\ufe52\uff0e\uff61", r)
}

func isASCII(r rune) bool { return r < utf8.RuneSelf }

// unescape puts bytes in the place of escapes, which are well formed.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		out = append(out, escaped(s[i+1], s[i+2]))
		i += 2
	}
	return string(out)
}

// escaped is the byte of two hexadecimal digits.
func escaped(high, low byte) byte {
	return byte(unhex(high)<<4 | unhex(low)) //nolint:gosec // two digits
}

func normalizeEscapes(path string) (string, error) {
	out := []byte(path)
	for i := 0; i < len(out); i++ {
		if out[i] != '%' {
			if !isPathByte(out[i]) {
				return "", fmt.Errorf("it holds the byte %q", out[i])
			}
			continue
		}
		if err := checkEscape(out[i:]); err != nil {
			return "", err
		}
		out[i+1], out[i+2] = upperHex(out[i+1]), upperHex(out[i+2])
		i += 2
	}
	return string(out), nil
}

// checkEscape judges what begins with a percent sign.
func checkEscape(b []byte) error {
	if len(b) < 3 || unhex(b[1]) < 0 || unhex(b[2]) < 0 {
		return errors.New("it has a percent sign without two hexadecimal digits")
	}
	if v := escaped(b[1], b[2]); v < ' ' || v == 0x7f || v == '\\' || v == '%' || isPathByte(v) {
		return fmt.Errorf("it holds the escape %q, which servers read differently", b[:3])
	}
	return nil
}

func unhex(c byte) int { return strings.IndexByte("0123456789ABCDEF", upperHex(c)) }

func upperHex(c byte) byte {
	if 'a' <= c && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}

// isUnreserved is RFC 3986 §2.3: what is never to be escaped.
func isUnreserved(c byte) bool { return isAlnum(c) || strings.IndexByte("-._~", c) >= 0 }

// isPathByte is pchar of RFC 3986 §3.3, and the slash.
func isPathByte(c byte) bool { return isUnreserved(c) || strings.IndexByte("!$&'()*+,;=:@/", c) >= 0 }

// CheckPattern refuses a path of a rule that is none. A star is a whole
// segment: inside it stands for exactly one, at the end for everything below.
func CheckPattern(p string) error {
	plain, err := NormalizePath(p)
	if err != nil {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("path %q: %v", p, err), "write a path such as /v1/models, or /v1/* for all below")
	}
	if plain != p {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("path %q: its escapes are not in capitals", p), "write "+plain)
	}
	for segment := range strings.SplitSeq(p, "/") {
		if strings.Contains(segment, "*") && segment != "*" {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("path %q: a star is a whole segment", p), "write /a/*/b for any one segment, /a/* for everything below /a/")
		}
	}
	return nil
}

// matchPath reports whether a pattern names a normalised path.
func matchPath(pattern, path string) bool {
	for {
		if pattern == "/*" {
			return path != "" // which begins with a slash
		}
		if pattern == "" || path == "" {
			return pattern == path
		}
		var want, have string
		want, pattern = cutSegment(pattern)
		have, path = cutSegment(path)
		if want != have && (want != "/*" || have == "/") {
			return false
		}
	}
}

// cutSegment takes the first segment off, with the slash before it.
func cutSegment(p string) (segment, rest string) {
	if i := strings.IndexByte(p[1:], '/'); i >= 0 {
		return p[:i+1], p[i+1:]
	}
	return p, ""
}

// coversPattern reports whether every path that b names is named by a.
func coversPattern(a, b string) bool {
	for {
		if a == "/*" {
			return b != ""
		}
		if a == "" || b == "" || b == "/*" {
			return a == b
		}
		var want, have string
		want, a = cutSegment(a)
		have, b = cutSegment(b)
		if want != have && (want != "/*" || have == "/") {
			return false
		}
	}
}
