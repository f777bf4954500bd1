package seal

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
)

// hidden is what every way of printing a Secret gives.
const hidden = "[secret]"

// Secret is a value that cannot be printed, logged or marshalled. Reveal is the
// one way to its bytes, and a test counts who calls it. The zero Secret is
// empty.
//
// In an unexported field of something that is printed, fmt calls no method of
// its own and follows one pointer (for %v of the pointer itself, and whenever a
// verb does not fit): two keep it from the bytes.
type Secret struct{ value **[]byte }

// NewSecret takes b over: nobody else may keep or change it.
func NewSecret(b []byte) Secret {
	p := &b
	return Secret{&p}
}

// Reveal returns the bytes themselves, not a copy.
func (s Secret) Reveal() []byte { return s.bytes() }

func (s Secret) bytes() []byte {
	if s.value == nil {
		return nil
	}
	return **s.value
}

// Len returns the number of bytes.
func (s Secret) Len() int {
	if s.value == nil {
		return 0
	}
	return len(**s.value)
}

// Equal reports whether two secrets hold the same bytes. How long it takes
// says no more than their lengths.
func (s Secret) Equal(o Secret) bool {
	if s.value == nil || o.value == nil {
		return s.Len() == o.Len()
	}
	return subtle.ConstantTimeCompare(**s.value, **o.value) == 1
}

// Wipe overwrites the bytes, for every copy of this Secret. What the runtime
// or the kernel copied before is not reached.
func (s Secret) Wipe() {
	if s.value != nil {
		clear(**s.value)
		**s.value = nil
	}
}

// String keeps the value from being printed.
func (Secret) String() string { return hidden }

// GoString keeps %#v from printing it.
func (Secret) GoString() string { return hidden }

// Format keeps every verb from printing it.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue keeps slog from printing it.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText writes the word in its place.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON writes the word in its place.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// errNotRead is for whoever takes what was printed for the value.
var errNotRead = errors.New("a secret is not read from text")

// UnmarshalJSON refuses: what MarshalJSON wrote is not the value.
func (*Secret) UnmarshalJSON([]byte) error { return errNotRead }

// UnmarshalText refuses as UnmarshalJSON does.
func (*Secret) UnmarshalText([]byte) error { return errNotRead }
