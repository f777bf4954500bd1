package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"filippo.io/age"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
)

// Entry is a secret outside of a vault.
type Entry struct {
	secret.Definition

	Value seal.Secret
}

// exported is the form of what age encrypts. It is read by this bailey and
// later ones, of any user.
type exported struct {
	Version int             `json:"bailey_secrets"`
	Secrets []exportedEntry `json:"secrets"`
}

type exportedEntry struct {
	Definition secret.Definition `json:"definition"`
	Value      []byte            `json:"value"`
}

// Export returns every secret, with its value, encrypted with age and armored.
func (v *Vault) Export(to Recipients) (string, error) {
	list := v.List()
	if len(list) == 0 {
		return "", bailey.NewError(bailey.NotFound, "there is nothing to export", "bailey secret set keeps a secret")
	}
	if _, err := to.parse(); err != nil { // before any value is opened
		return "", err
	}
	out := exported{Version: storeVersion}
	for _, d := range list {
		_, value, err := v.Get(d.Name)
		if err != nil {
			return "", err
		}
		out.Secrets = append(out.Secrets, exportedEntry{d, value.Reveal()})
	}
	plain, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("bug: secrets cannot be written: %w", err)
	}
	defer func() {
		clear(plain)
		for _, e := range out.Secrets {
			clear(e.Value)
		}
	}()
	return to.encrypt(plain)
}

// CheckExport refuses what is no age file at all, or has a damaged head, before
// anybody looks for what it opens by.
func CheckExport(data []byte) error {
	const hint = "name what bailey secret export wrote"
	switch {
	case len(data) == 0:
		return bailey.NewError(bailey.Invalid, "it is empty", hint)
	case !isArmored(data) && !bytes.HasPrefix(data, []byte("age-encryption.org/")):
		return bailey.NewError(bailey.Invalid, "it is no age file", hint)
	}
	if _, ok := errors.AsType[*age.NoIdentityMatchError](headOf(data)); !ok {
		return bailey.NewError(bailey.Invalid, "it is an age file whose head cannot be read", damagedHint)
	}
	return nil
}

const damagedHint = "it is damaged, or not all of it: take another copy"

// headOf reads the head of an age file: a NoIdentityMatchError says that it can
// be read.
func headOf(data []byte) error {
	_, err := decrypt(data, 1, refusesAll{})
	return err
}

// IsForPassphrase reports whether what Export wrote opens by a passphrase. An
// age file says so in its head.
func IsForPassphrase(data []byte) bool {
	e, ok := errors.AsType[*age.NoIdentityMatchError](headOf(data))
	return ok && len(e.StanzaTypes) == 1 && e.StanzaTypes[0] == "scrypt"
}

// refusesAll is an identity of nobody.
type refusesAll struct{}

// Unwrap refuses.
func (refusesAll) Unwrap([]*age.Stanza) ([]byte, error) { return nil, age.ErrIncorrectIdentity }

// Decryption is what opens an export: a file of age identities, or a
// passphrase.
type Decryption struct {
	Identity   string
	Passphrase seal.Secret
}

// Import reads what Export wrote. Every definition and value is looked at as if
// it were new; whose it was does not matter.
func Import(data []byte, by Decryption) ([]Entry, error) {
	plain, err := by.open(data)
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	var in exported
	if err := strictly(plain, &in); err != nil || in.Version != storeVersion {
		return nil, bailey.NewError(bailey.Invalid, "the file decrypts, and is no export of secrets that this bailey can read", "bailey secret export writes one; a newer bailey may have written this one")
	}
	var out []Entry
	seen := map[string]bool{}
	for _, e := range in.Secrets {
		value, err := ReadValue(e.Value)
		if err == nil {
			err = check(e.Definition)
		}
		if err == nil && seen[e.Definition.Name] {
			err = bailey.NewError(bailey.Invalid, "it is there twice", "")
		}
		if err != nil {
			return nil, bailey.WrapError(bailey.Invalid, "import "+nameOf(row{Definition: e.Definition}), err, "nothing was imported")
		}
		seen[e.Definition.Name] = true
		out = append(out, Entry{e.Definition, value})
	}
	return out, nil
}

func (by Decryption) open(data []byte) ([]byte, error) {
	bad := func(what, hint string) error {
		return bailey.NewError(bailey.Forbidden, "the file does not decrypt"+what, hint)
	}
	if err := CheckExport(data); err != nil {
		return nil, err
	}
	if by.Identity == "" {
		plain, err := openByPassphrase(data, maxExport, by.Passphrase)
		if err != nil {
			return nil, bad(" by that passphrase", "try again; or it is damaged")
		}
		return plain, nil
	}
	list, err := identitiesIn(by.Identity)
	if err != nil {
		return nil, err
	}
	plain, err := decrypt(data, maxExport, list...)
	if err != nil {
		if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
			return nil, bad(" by an identity in "+by.Identity, "name the file with one that it was encrypted to: --identity FILE")
		}
		return nil, bad(", although the identity is one that it was encrypted to", damagedHint)
	}
	return plain, nil
}

// maxExport bounds what is decrypted, in bytes.
const maxExport = 4 * maxStore
