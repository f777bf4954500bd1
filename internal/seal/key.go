package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// Key is a master key. What it seals and signs with are keys derived from it
// (HKDF, RFC 5869), one for each purpose. It cannot be printed, logged or
// marshalled; Reveal is the one way to its bytes. The zero Key does nothing.
type Key struct{ bytes **[KeySize]byte } // see Secret

// NewKey returns a fresh random key.
func NewKey() Key {
	var b [KeySize]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand documentation, Go 1.24)
	return keyOf(&b)
}

func keyOf(b *[KeySize]byte) Key { return Key{&b} }

var errKeySize = fmt.Errorf("a key has %d bytes", KeySize)

// ParseKey copies a key out of its bytes.
func ParseKey(b []byte) (Key, error) {
	if len(b) != KeySize {
		return Key{}, errKeySize
	}
	return keyOf((*[KeySize]byte)(append([]byte(nil), b...))), nil
}

// Reveal returns the bytes themselves, not a copy: nil for the zero Key.
func (k Key) Reveal() []byte {
	if k.bytes == nil {
		return nil
	}
	return (*k.bytes)[:]
}

// Wipe overwrites the bytes, for every copy of this Key.
func (k Key) Wipe() {
	if k.bytes != nil {
		clear((*k.bytes)[:])
	}
}

// ID tells keys apart and says nothing about them: "key_" and 16 hex digits.
// The zero Key has none.
func (k Key) ID() string {
	mac := k.MAC("id", nil)
	if mac == nil {
		return ""
	}
	return "key_" + hex.EncodeToString(mac[:8])
}

// MAC returns the code of data for one purpose, 32 bytes of HMAC-SHA256, or
// nil for the zero Key. Compare by Verify.
func (k Key) MAC(label string, data []byte) []byte {
	derived, err := k.derive("mac " + label)
	if err != nil {
		return nil
	}
	h := hmac.New(sha256.New, derived)
	_, _ = h.Write(data) // hash.Hash: never fails
	return h.Sum(nil)
}

// Verify reports whether a code is that of data, in constant time. The zero Key
// verifies nothing.
func (k Key) Verify(label string, data, mac []byte) bool {
	want := k.MAC(label, data)
	return want != nil && hmac.Equal(want, mac)
}

var errNoKey = errors.New("there is no key")

// derive returns the key of one purpose.
func (k Key) derive(purpose string) ([]byte, error) {
	if k.bytes == nil {
		return nil, errNoKey
	}
	return hkdf.Key(sha256.New, (*k.bytes)[:], nil, "bailey seal 1 "+purpose, KeySize)
}

// hiddenKey is what every way of printing a Key gives.
const hiddenKey = "[key]"

// String keeps the key from being printed.
func (Key) String() string { return hiddenKey }

// GoString keeps %#v from printing it.
func (Key) GoString() string { return hiddenKey }

// Format keeps every verb from printing it.
func (Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenKey)) }

// LogValue keeps slog from printing it.
func (Key) LogValue() slog.Value { return slog.StringValue(hiddenKey) }

// MarshalText writes the word in its place.
func (Key) MarshalText() ([]byte, error) { return []byte(hiddenKey), nil }

// MarshalJSON writes the word in its place.
func (Key) MarshalJSON() ([]byte, error) { return []byte(`"` + hiddenKey + `"`), nil }
