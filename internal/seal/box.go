package seal

import (
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

// Bound is what an envelope is bound to. It opens for no other.
type Bound struct {
	ID       string            // of the row
	Owner    string            // whose it is
	Rules    [sha256.Size]byte // the hash of what the value may be used for
	Revision uint64            // counts up with every change of value or rules
}

// An envelope is a byte for the version, a random nonce, and what
// XChaCha20-Poly1305 makes of the value (draft-irtf-cfrg-xchacha-03). 24 random
// bytes do not repeat, however many envelopes there are and whatever became of
// the machine in between: nothing is counted.
const (
	boxVersion = 1
	headSize   = 1 + chacha20poly1305.NonceSizeX
)

// ErrBox is the error of Open. Which of the reasons it was cannot be told.
var ErrBox = errors.New("it does not open: it was altered, moved, exchanged for an older one, or sealed with another key")

var errUnbound = errors.New("a value is bound to an id and an owner")

// Seal puts a value into an envelope.
func (k Key) Seal(value Secret, to Bound) ([]byte, error) {
	if to.ID == "" || to.Owner == "" {
		return nil, errUnbound
	}
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	box := make([]byte, headSize, headSize+value.Len()+aead.Overhead())
	box[0] = boxVersion
	_, _ = rand.Read(box[1:]) // never fails
	return aead.Seal(box, box[1:headSize], value.bytes(), to.data(boxVersion)), nil
}

// Open takes the value out of an envelope that was sealed with this key and
// bound to the same. Otherwise the error is ErrBox.
func (k Key) Open(box []byte, to Bound) (Secret, error) {
	aead, err := k.aead()
	if err != nil {
		return Secret{}, err
	}
	if len(box) < headSize+aead.Overhead() || box[0] != boxVersion || to.ID == "" || to.Owner == "" {
		return Secret{}, ErrBox
	}
	value, err := aead.Open(nil, box[1:headSize], box[headSize:], to.data(box[0]))
	if err != nil {
		return Secret{}, ErrBox
	}
	return NewSecret(value), nil
}

func (k Key) aead() (cipher.AEAD, error) {
	derived, err := k.derive("box")
	if err != nil {
		return nil, err
	}
	return chacha20poly1305.NewX(derived)
}

// data is the associated data: no two Bounds have the same, since the parts
// whose length differs have it in front of them.
func (b Bound) data(version byte) []byte {
	out := []byte{version}
	for _, part := range []string{b.ID, b.Owner} {
		out = binary.BigEndian.AppendUint64(out, uint64(len(part)))
		out = append(out, part...)
	}
	out = append(out, b.Rules[:]...)
	return binary.BigEndian.AppendUint64(out, b.Revision)
}
