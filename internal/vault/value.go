package vault

import (
	"bytes"
	"fmt"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
)

// The lengths of a value in bytes. A shorter one is guessed, and found by
// chance in what a host answers.
const (
	MinValue = 8
	MaxValue = 8192
)

// ReadValue takes what was given for a value, which nobody may keep: one
// newline behind it goes. What could end a header field, or was pasted with more
// than the value, is refused here and never later. No error repeats any of it.
func ReadValue(b []byte) (seal.Secret, error) {
	b = bytes.TrimSuffix(b, []byte("\n"))
	bad := func(problem, hint string) (seal.Secret, error) {
		return seal.Secret{}, bailey.NewError(bailey.Invalid, "the value "+problem, hint)
	}
	const control = "it is taken as it is, on one line; copy it again"
	switch {
	case len(b) == 0:
		return bad("is empty", "give it on standard input, or by --from-env or --from-file")
	case bytes.ContainsAny(b, "\r\n"):
		return bad("holds a line end", "a value is one line, with one newline behind it at most; a private key or a certificate is no secret for requests")
	case bytes.IndexByte(b, 0) >= 0:
		return bad("holds a NUL byte", control)
	case bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad("holds a control character", control)
	case b[0] == ' ' || b[len(b)-1] == ' ':
		return bad("begins or ends with a blank", control)
	case len(b) < MinValue || len(b) > MaxValue:
		return bad(fmt.Sprintf("has %d bytes", len(b)), fmt.Sprintf("a value has %d to %d bytes", MinValue, MaxValue))
	}
	return seal.NewSecret(b), nil
}

// Checked is ReadValue for what is hidden already.
func Checked(given seal.Secret) (seal.Secret, error) { return ReadValue(given.Reveal()) }
