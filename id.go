package bailey

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
)

// SandboxID names one sandbox for ever: "sbx_" and 16 hex digits.
type SandboxID string

// NewSandboxID returns a fresh random id.
func NewSandboxID() SandboxID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand documentation, Go 1.24)
	return SandboxID("sbx_" + hex.EncodeToString(b[:]))
}

var sandboxID = regexp.MustCompile(`^sbx_[0-9a-f]{16}$`)

// Valid reports whether the id has the one form that NewSandboxID makes.
func (id SandboxID) Valid() bool { return sandboxID.MatchString(string(id)) }

var sandboxName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// ValidSandboxName reports whether s can name a sandbox: 1 to 32 lower-case
// letters, digits and inner hyphens.
func ValidSandboxName(s string) bool { return sandboxName.MatchString(s) }
