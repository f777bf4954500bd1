package leak

import (
	"math"
	"strings"

	"github.com/bailey-dev/bailey/internal/secret"
)

// LooksLike returns what kind of secret a whole value is by how it begins, such
// as "GitHub personal access token". It takes no regular expression and some
// microseconds. A secret without a well-known form is not told.
func LooksLike(value string) (kind string, ok bool) {
	value = strings.TrimSpace(value)
	if k, ok := secret.Recognise(value); ok && isToken(k.Prefix, value[len(k.Prefix):]) {
		return k.Kind, true
	}
	switch {
	case isJWT(value):
		return "JSON web token", true
	case isPrivateKey(value):
		return "private key", true
	}
	return "", false
}

// tokenBytes is what tokens consist of (RFC 6750 2.1), besides letters and
// digits.
const tokenBytes = "-._~+/="

// isToken reports whether what follows a known prefix is random, and no word
// of a program, an example or a stand-in.
func isToken(prefix, rest string) bool {
	shortest, others := 16, tokenBytes
	if prefix == "sk-" { // as words and names begin, too
		shortest, others = 32, ""
	}
	return len(rest) >= shortest && tokenLength(rest, others) == len(rest) && isMixed(rest) && entropy(rest) >= 3
}

// isMixed reports whether a text has digits, or letters of both cases, as
// words have not.
func isMixed(s string) bool {
	return strings.ContainsAny(s, "0123456789") || strings.ToLower(s) != s && strings.ToUpper(s) != s
}

// tokenLength is how many bytes of a token s begins with.
func tokenLength(s, others string) int {
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && strings.IndexByte(others, s[i]) < 0 {
			return i
		}
	}
	return len(s)
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// isJWT tells the compact form of RFC 7519: two objects of JSON in base64url,
// and a signature.
func isJWT(s string) bool {
	const shortest = 60
	parts := strings.Split(s, ".")
	return len(s) >= shortest && len(parts) == 3 && strings.HasPrefix(parts[0], "eyJ") && strings.HasPrefix(parts[1], "eyJ") &&
		tokenLength(s, "-_.") == len(s)
}

// isPrivateKey tells the textual form of RFC 7468.
func isPrivateKey(s string) bool {
	head, body, ok := strings.Cut(s, "PRIVATE KEY")
	return ok && strings.HasPrefix(head, "-----BEGIN ") && len(body) >= 64
}

// entropy is Shannon's, in bits a byte.
func entropy(s string) float64 {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	bits := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
