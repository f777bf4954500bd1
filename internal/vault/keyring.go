package vault

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zalando/go-keyring"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
)

// Keyring keeps keys as texts, by their ids.
type Keyring interface {
	Read(id string) (string, error) // fs.ErrNotExist: there is none
	Write(id, text string) error
	Remove(id string) error
}

const keyringService = "bailey vault"

// sessionKeyring is the keyring of the user's session: what answers for the
// Secret Service (specifications.freedesktop.org/secret-service) on its bus,
// such as gnome-keyring or KWallet. It may ask the user to unlock it.
type sessionKeyring struct{}

// keyring returns the keyring there is, or nil. Where no bus of a session is in
// sight the library is not asked: it would start one, with nothing on it.
func (p Place) keyring() Keyring {
	if p.Keyring != nil {
		return p.Keyring
	}
	if bus := p.env("DBUS_SESSION_BUS_ADDRESS"); bus != "" && !strings.HasPrefix(bus, "autolaunch:") {
		return sessionKeyring{}
	}
	if dir := p.env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if _, err := os.Stat(filepath.Join(dir, "bus")); err == nil {
			return sessionKeyring{}
		}
	}
	return nil
}

// Read returns the text of an id.
func (sessionKeyring) Read(id string) (string, error) {
	text, err := keyring.Get(keyringService, id)
	if errors.Is(err, keyring.ErrNotFound) {
		return "", fs.ErrNotExist
	}
	return text, err
}

// Write keeps a text.
func (sessionKeyring) Write(id, text string) error { return keyring.Set(keyringService, id, text) }

// Remove forgets a text.
func (sessionKeyring) Remove(id string) error { return keyring.Delete(keyringService, id) }

const keyringHint = "it takes a session with a Secret Service, such as gnome-keyring or KWallet; elsewhere keep the key in a file (bailey secret rekey --plain, --passphrase or --recipient)"

func errNoKeyring(cause error) error {
	return bailey.WrapError(bailey.Unavailable, "no keyring can be reached", cause, keyringHint)
}

func (o *opener) byKeyring(id string) (string, error) {
	ring := o.keyring()
	if ring == nil {
		return "", errNoKeyring(nil)
	}
	text, err := ring.Read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return "", bailey.NewError(bailey.Unavailable, "the keyring has no "+id+" for the vault", "unlock the keyring that it was put into, or restore the vault from an export")
	}
	if err != nil {
		return "", errNoKeyring(err)
	}
	return text, nil
}

func toKeyring(k Keyring, key seal.Key) error {
	if k == nil {
		return errNoKeyring(nil)
	}
	if err := k.Write(key.ID(), plainKeyFile(key).Data); err != nil {
		return errNoKeyring(err)
	}
	return nil
}
