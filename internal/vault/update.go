package vault

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
)

// Edit is a vault while it is being changed.
type Edit struct {
	Vault

	now time.Time
}

// Update changes a vault under its lock: all that change did is there, or none
// of it. The first change makes the vault, and a key where there is none.
func Update(p Place, now time.Time, change func(*Edit) error) error {
	v, err := Open(p) // whoever has to be asked for the key is asked before the lock
	if err != nil {
		return err
	}
	return v.Update(now, change)
}

// Update is Update for a vault that was opened, whose key is at hand. What it
// changes is what there is now; the Vault itself stays as it is.
func (v *Vault) Update(now time.Time, change func(*Edit) error) error {
	o := v.opener()
	return o.locked(func() error {
		v, err := o.open()
		if err != nil {
			return err
		}
		if err := o.settle(v); err != nil {
			return err
		}
		if v.key, err = o.keyToWrite(v); err != nil {
			return err
		}
		e := &Edit{Vault: *v, now: now.UTC().Round(0)}
		e.store.rows = slices.Clone(v.store.rows)
		if err := change(e); err != nil {
			return err
		}
		return o.save(&e.store, e.key)
	})
}

// Add puts a new secret into the vault. Id, owner, revision and times are the
// vault's to give.
func (e *Edit) Add(d secret.Definition, value seal.Secret) error {
	if e.store.find(d.Name) >= 0 {
		return Taken(d.Name)
	}
	d.ID, d.Revision, d.Created = secret.NewID(), 1, e.now
	return e.put(len(e.store.rows), d, value)
}

// Taken says that a name is one of a secret already.
func Taken(name string) error {
	return bailey.NewError(bailey.Conflict, "there is a secret "+name+" already",
		"bailey secret rotate gives it another value, bailey secret edit another rule; bailey secret rm removes it")
}

// Replace puts a value and a definition in place of those of the same name: it
// is a new revision of the same secret.
func (e *Edit) Replace(d secret.Definition, value seal.Secret) error {
	i := e.store.find(d.Name)
	if i < 0 {
		return unknown(d.Name)
	}
	was := e.store.rows[i].Definition
	d.ID, d.Revision, d.Created = was.ID, was.Revision+1, was.Created
	return e.put(i, d, value)
}

// Remove takes a secret out of the vault.
func (e *Edit) Remove(name string) error {
	i := e.store.find(name)
	if i < 0 {
		return unknown(name)
	}
	e.store.rows = slices.Delete(e.store.rows, i, i+1)
	return nil
}

// put seals a row and looks whether it would be read again.
func (e *Edit) put(i int, d secret.Definition, value seal.Secret) error {
	d.Owner, d.Updated = e.place.owner(), e.now
	if err := check(d); err != nil {
		return err
	}
	box, err := e.key.Seal(value, boundOf(d))
	if err != nil {
		return err
	}
	if i == len(e.store.rows) {
		e.store.rows = append(e.store.rows, row{})
	}
	e.store.rows[i] = row{Definition: d, Box: box}
	return nil
}

// check refuses what could not be kept.
func check(d secret.Definition) error {
	if err := errors.Join(secret.CheckName(d.Name), secret.CheckVariable(d.Var)); err != nil {
		return err
	}
	if d.Gateway != (len(d.Rules) == 0) {
		return bailey.NewError(bailey.Invalid, d.Name+": a secret has a rule that says where it may go, or is for the gateway", "--host, --template or --for gateway")
	}
	for _, r := range d.Rules {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return nil
}

// save writes the next generation. The caller holds the lock.
func (p Place) save(s *store, key seal.Key) error {
	if s.Vault == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		s.Vault = hex.EncodeToString(b[:])
		if err := p.writeNoted(noted{Vault: s.Vault}); err != nil { // from now on it has to be there
			return err
		}
	}
	s.Generation++
	data, err := s.encode(key)
	if err != nil {
		return err
	}
	if err := p.write(p.storePath(), data); err != nil {
		return err
	}
	return p.writeNoted(noted{Vault: s.Vault, Generation: s.Generation, MAC: s.mac})
}

// keyToWrite returns the key of a vault, and makes one for the first write.
func (o *opener) keyToWrite(v *Vault) (seal.Key, error) {
	if v.key.ID() != "" {
		return v.key, nil
	}
	key, err := o.key("")
	if !errors.Is(err, errNoKeyFile) {
		return key, err
	}
	key = seal.NewKey()
	o.keys[key.ID()] = key
	return key, o.keep(plainKeyFile(key), "")
}

// keep writes a key's file, with a suffix behind its name.
func (p Place) keep(k keyFile, suffix string) error {
	path, err := p.keyPath()
	if err != nil {
		return err
	}
	data, err := k.encode()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return bailey.WrapError(bailey.Unavailable, "make "+dir, err, "make the folder above it writable")
	}
	if err := p.guarded(dir); err != nil {
		return err
	}
	return p.write(path+suffix, data)
}

// settle ends a change of keys that was killed after the vault was sealed with
// the new key, and forgets one that was killed before.
func (o *opener) settle(v *Vault) error {
	path, err := o.keyPath()
	if err != nil {
		return err
	}
	next, err := o.readKeyFile(path + nextSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case next.ID == v.store.Key:
		return o.move(path+nextSuffix, path)
	}
	return os.Remove(path + nextSuffix)
}
