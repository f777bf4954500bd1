package vault

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
)

// KeyForm says how a new key is to be kept.
type KeyForm struct {
	Kind KeyKind // "": as the one before
	To   Recipients
	FD   int // DescriptorKey: where the new key comes from
	// NewPassphrase asks for the passphrase of the new key, where one is needed
	// and To has none.
	NewPassphrase func() (seal.Secret, error)
}

// Rekey seals everything with a new key. Whatever kills it, the vault opens:
// the new key lies beside the old one before the vault is sealed with it, and
// takes its place afterwards; until then Open knows of both.
func Rekey(p Place, form KeyForm) (id string, err error) {
	o := newOpener(p)
	v, err := o.open() // whoever has to be asked is asked before the lock
	if err != nil {
		return "", err
	}
	if err := o.fill(&form); err != nil {
		return "", err
	}
	fresh, file, err := o.makeKey(form)
	if err != nil {
		return "", err
	}
	if fresh.ID() == v.KeyID() {
		return "", bailey.NewError(bailey.Invalid, "the new key is the old one", "hand over another")
	}
	return fresh.ID(), o.locked(func() error { return o.rekey(fresh, file) })
}

// fill completes a form by how the key is kept now.
func (o *opener) fill(form *KeyForm) error {
	if form.Kind == "" {
		if err := o.sameWay(form); err != nil {
			return err
		}
	}
	if form.Kind != PassphraseKey || form.To.Passphrase.Len() > 0 {
		return nil
	}
	if form.NewPassphrase == nil {
		return bailey.NewError(bailey.Invalid, "there is nobody to ask for a passphrase", "use a terminal")
	}
	var err error
	form.To.Passphrase, err = form.NewPassphrase()
	return err
}

// sameWay has a new key be kept as the one before.
func (o *opener) sameWay(form *KeyForm) error {
	_, given, err := o.descriptor()
	if err != nil {
		return err
	}
	if given {
		return bailey.NewError(bailey.Invalid, "the new key is not named", "the key is yours to keep: --descriptor N hands over another, --plain puts one into a file")
	}
	form.Kind = PlainKey
	now, err := o.currentFile()
	if err == nil && now != nil {
		form.Kind, form.To.Names = now.Kind, now.Recipients
	}
	return err
}

// currentFile is the file of the key, nil for none.
func (o *opener) currentFile() (*keyFile, error) {
	path, err := o.keyPath()
	if err != nil {
		return nil, err
	}
	k, err := o.readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	return k, err
}

// makeKey makes a key and the file that keeps it, nil for a key that its giver
// keeps.
func (o *opener) makeKey(form KeyForm) (seal.Key, *keyFile, error) {
	if form.Kind == DescriptorKey {
		key, err := ReadDescriptor(form.FD)
		return key, nil, err
	}
	key := seal.NewKey()
	file := plainKeyFile(key)
	file.Kind = form.Kind
	switch form.Kind {
	case PlainKey:
	case RecipientKey, PassphraseKey:
		data, err := form.To.encrypt([]byte(hex.EncodeToString(key.Reveal())))
		if err != nil {
			return seal.Key{}, nil, err
		}
		file.Data, file.Recipients = data, form.To.Names
	case KeyringKey:
		file.Data = ""
		if err := toKeyring(o.keyring(), key); err != nil {
			return seal.Key{}, nil, err
		}
	case DescriptorKey:
	default:
		return seal.Key{}, nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("unknown way of keeping a key: %q", form.Kind), "plain, age, passphrase, keyring or descriptor")
	}
	return key, &file, nil
}

// rekey does the steps. The caller holds the lock.
func (o *opener) rekey(fresh seal.Key, file *keyFile) error {
	v, err := o.open()
	if err != nil {
		return err
	}
	if err := o.settle(v); err != nil {
		return err
	}
	old, err := o.currentFile()
	if err != nil {
		return err
	}
	next, err := resealed(v, fresh)
	if err != nil {
		return err
	}
	if file != nil {
		if err := o.keep(*file, nextSuffix); err != nil {
			return err
		}
	}
	o.keys[fresh.ID()] = fresh
	if err := o.save(next, fresh); err != nil { // from here on it is the new key
		return err
	}
	if err := o.replaceKey(file); err != nil {
		return err
	}
	if ring := o.keyring(); ring != nil && old != nil && old.Kind == KeyringKey && old.ID == v.KeyID() {
		_ = ring.Remove(old.ID) // it opens nothing any more
	}
	return nil
}

// replaceKey puts the new key's file in place of the old one's.
func (o *opener) replaceKey(file *keyFile) error {
	path, err := o.keyPath()
	if err != nil {
		return err
	}
	if file != nil {
		return o.move(path+nextSuffix, path)
	}
	if err := o.step("remove " + path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return bailey.WrapError(bailey.Unavailable, "remove the old key "+path, err, "remove it yourself: it opens nothing any more")
	}
	return nil
}

// resealed returns the vault with every value sealed with another key.
func resealed(v *Vault, fresh seal.Key) (*store, error) {
	s := v.store
	s.rows = slices.Clone(s.rows)
	for i, r := range s.rows {
		bound := boundOf(r.Definition)
		value, err := v.key.Open(r.Box, bound)
		if err != nil {
			return nil, v.place.damaged([]Fault{{v.place.storePath(), r.line, r.Definition.Name, err.Error()}})
		}
		s.rows[i].Box, err = fresh.Seal(value, bound)
		value.Wipe()
		if err != nil {
			return nil, err
		}
	}
	return &s, nil
}
