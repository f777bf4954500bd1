package vault

import (
	"errors"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/secret"
)

// Listing is what a vault's file says of its secrets, without their values.
type Listing struct {
	Secrets []secret.Definition // by name
	// Unchecked says why the file was not held to the key, "" where it was: its
	// form and its age are as they should be, and somebody who can write to it
	// could have changed it.
	Unchecked string
}

// Look reads what is known of secrets without asking a person for the key: a
// file whose key is not at hand is taken as it says. Whatever else is wrong is
// the error that Open returns. Nothing is written.
func Look(p Place) (Listing, error) {
	o := newOpener(p)
	l, err := o.look()
	for _, k := range o.keys {
		k.Wipe()
	}
	return l, err
}

// Relist is Look for who has the vault open: the keys that were found before
// are at hand.
func (v *Vault) Relist() (Listing, error) { return v.opener().look() }

func (o *opener) look() (Listing, error) {
	o.Ask, o.keyless = nil, true
	v, err := o.open()
	if err != nil {
		return Listing{}, err
	}
	return Listing{v.List(), v.unchecked}, nil
}

// Find returns what is said of a secret.
func (l Listing) Find(name string) (secret.Definition, error) {
	for _, d := range l.Secrets {
		if d.Name == name {
			return d, nil
		}
	}
	return secret.Definition{}, unknown(name)
}

// Expect refuses a name that the vault has not before a person is asked for the
// key. Where nobody would be asked it does nothing: whoever opens the vault finds
// out.
func (p Place) Expect(names ...string) error {
	if !p.asks() {
		return nil
	}
	l, err := Look(p)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := l.Find(name); err != nil {
			return err
		}
	}
	return nil
}

// asks reports whether opening the vault would ask a person.
func (p Place) asks() bool {
	if _, given, err := p.descriptor(); err != nil || given {
		return false
	}
	path, err := p.keyPath()
	if err != nil {
		return false
	}
	k, err := p.readKeyFile(path)
	return err == nil && k.Kind == PassphraseKey
}

// lockedError says that there is the key, and that what it opens by is not at
// hand.
type lockedError struct {
	why string
	err error
}

// locked makes one of what is missing, and where that comes from.
func locked(why, missing, hint string) error {
	return lockedError{why, bailey.NewError(bailey.Unavailable, why+missing, hint)}
}

// Error is what it is around.
func (e lockedError) Error() string { return e.err.Error() }

// Unwrap returns what it is around.
func (e lockedError) Unwrap() error { return e.err }

// withoutKey reports whether an opener goes on without a key, and why.
func (o *opener) withoutKey(err error) (why string, ok bool) {
	e, ok := errors.AsType[lockedError](err)
	return e.why, ok && o.keyless
}
