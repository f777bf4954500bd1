package secret

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
)

const idPrefix = "sec_"

// NewID returns a fresh random id.
func NewID() ID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand documentation, Go 1.24)
	return ID(idPrefix + hex.EncodeToString(b[:]))
}

// Valid reports whether the id has the one form that NewID makes.
func (id ID) Valid() bool {
	digits, ok := strings.CutPrefix(string(id), idPrefix)
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

const longestName = 64

// CheckName refuses what cannot name a secret: a name is 1 to 64 lower-case
// letters and digits, with hyphens, underscores and dots inside.
func CheckName(s string) error {
	ok := s != "" && len(s) <= longestName && !isInner(s[0]) && !isInner(s[len(s)-1])
	for _, c := range []byte(s) {
		ok = ok && (isInner(c) || c >= 'a' && c <= 'z' || c >= '0' && c <= '9')
	}
	if !ok {
		// It is not repeated: it may be a value that was typed in the wrong place.
		return bailey.NewError(bailey.Invalid, "that cannot name a secret",
			"use 1 to 64 lower-case letters and digits, with hyphens, underscores and dots inside")
	}
	return nil
}

func isInner(c byte) bool { return c == '-' || c == '_' || c == '.' }

// Variable returns the variable that holds a secret's placeholder unless
// another is named: the name in capitals, with an underscore for what is no
// letter or digit, and before a digit at the front.
func Variable(name string) string {
	v := strings.Map(func(c rune) rune {
		if isInner(byte(c)) {
			return '_'
		}
		return c
	}, strings.ToUpper(name))
	if v != "" && v[0] >= '0' && v[0] <= '9' {
		v = "_" + v
	}
	return v
}

// CheckVariable refuses what is no portable name of a variable (POSIX.1-2024,
// Base Definitions 3.206).
func CheckVariable(s string) error {
	ok := s != "" && len(s) <= longestName*2
	for i, c := range []byte(s) {
		letter := c == '_' || (c|0x20 >= 'a' && c|0x20 <= 'z')
		ok = ok && (letter || i > 0 && c >= '0' && c <= '9')
	}
	if !ok {
		return bailey.NewError(bailey.Invalid, strconv.Quote(s)+" is not a variable's name", "use letters, digits and underscores, no digit first")
	}
	return nil
}
