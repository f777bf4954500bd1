package bailey

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// SandboxID names one sandbox for ever: "sbx_" and 16 hex digits.
type SandboxID string

// NewSandboxID returns a fresh random id.
func NewSandboxID() SandboxID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand documentation, Go 1.24)
	return SandboxID("sbx_" + hex.EncodeToString(b[:]))
}

// Valid reports whether the id has the one form that NewSandboxID makes.
func (id SandboxID) Valid() bool {
	digits, ok := strings.CutPrefix(string(id), "sbx_")
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// ValidSandboxName reports whether s can name a sandbox: 1 to 32 lower-case
// letters, digits and inner hyphens.
func ValidSandboxName(s string) bool {
	if s == "" || len(s) > 32 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
