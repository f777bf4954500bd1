package vault

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
)

// Vault is what a file held when it was read. It does not change; it is safe
// for concurrent use.
type Vault struct {
	place Place
	key   seal.Key // zero: there is no file yet
	store store
	mark  Mark
	found map[string]seal.Key // by id: see opener

	behind    bool   // what is noted of its age: a writer was killed
	unchecked string // why there is no key: see Look
}

// Open reads a vault and checks the whole of it but for the values, which Get
// opens. A place where nothing was ever kept is an empty vault, and nothing is
// made. Anything that is not as it was written is an error that says where.
func Open(p Place) (*Vault, error) { return newOpener(p).openAlone() }

// Reopen reads the file again. The keys that were found before are at hand, and
// are the new Vault's from now on: the old one is not closed. Another key is
// looked for without asking a person.
func (v *Vault) Reopen() (*Vault, error) {
	o := v.opener()
	o.Ask = nil
	return o.openAlone()
}

// opener has the keys of the vault at hand.
func (v *Vault) opener() *opener {
	o := newOpener(v.place)
	for id, k := range v.found {
		o.keys[id] = k
		if _, given, _ := o.descriptor(); given {
			o.last = id
		}
	}
	return o
}

// Close overwrites the keys. Nothing can be opened afterwards.
func (v *Vault) Close() {
	for _, k := range v.found {
		k.Wipe()
	}
}

// List returns what is known of each secret, by name. It is the vault's own:
// nobody changes it.
func (v *Vault) List() []secret.Definition {
	out := make([]secret.Definition, 0, len(v.store.rows))
	for _, r := range v.store.rows {
		out = append(out, r.Definition)
	}
	slices.SortFunc(out, func(a, b secret.Definition) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Find returns what is known of a secret.
func (v *Vault) Find(name string) (secret.Definition, error) {
	i := v.store.find(name)
	if i < 0 {
		return secret.Definition{}, unknown(name)
	}
	return v.store.rows[i].Definition, nil
}

// unknown does not repeat what cannot be a name: it may be a value that was
// typed in the wrong place.
func unknown(name string) error {
	if err := secret.CheckName(name); err != nil {
		return err
	}
	return bailey.NewError(bailey.NotFound, "there is no secret "+name, "bailey secret ls lists them, bailey secret set makes one")
}

// Get returns what is known of a secret, and its value.
func (v *Vault) Get(name string) (secret.Definition, seal.Secret, error) {
	i := v.store.find(name)
	if i < 0 {
		return secret.Definition{}, seal.Secret{}, unknown(name)
	}
	r := v.store.rows[i]
	value, err := v.key.Open(r.Box, boundOf(r.Definition))
	if err != nil {
		return secret.Definition{}, seal.Secret{}, v.place.damaged([]Fault{{v.place.storePath(), r.line, name, err.Error()}})
	}
	return r.Definition, value, nil
}

// Mark is the mark of the file when it was read.
func (v *Vault) Mark() Mark { return v.mark }

// KeyID says which key the vault is sealed with, "" for none yet.
func (v *Vault) KeyID() string { return v.key.ID() }

// Names returns the names that a vault holds, for completion: nothing is
// opened, checked or asked.
func (p Place) Names() []string {
	data, _, err := p.read(p.storePath(), maxStore)
	if err != nil {
		return nil
	}
	s, _ := readStore(data, p.owner())
	var out []string
	for _, r := range s.rows {
		out = append(out, r.Definition.Name)
	}
	slices.Sort(out)
	return out
}

// owner is how a secret of a vault says whose it is.
func (p Place) owner() string { return "uid:" + strconv.Itoa(os.Getuid()) }

// open reads the file with the key that it is sealed with.
func (o *opener) open() (v *Vault, err error) {
	o.steadily(func() bool {
		v, err = o.once()
		return err == nil
	})
	return v, err
}

// steadily looks until all is well. Whoever changes a vault replaces several
// files, one after the other: only where one was replaced while they were
// looked at, they are looked at again.
func (p Place) steadily(look func() (well bool)) {
	const tries = 10
	for range tries {
		before := p.marks()
		if look() || p.marks() == before {
			return
		}
	}
}

// marks are those of all files that a change may replace.
func (p Place) marks() [4]Mark {
	key, _ := p.keyPath() // where it is none, that is said elsewhere
	return [...]Mark{p.Mark(), markAt(p.markPath()), markAt(key), markAt(key + nextSuffix)}
}

func (o *opener) once() (*Vault, error) {
	i, err := o.inspect()
	switch {
	case err != nil:
		return nil, err
	case i.data == nil && i.old != "":
		return nil, bailey.NewError(bailey.Unavailable, o.storePath()+" is gone: "+i.old, "restore it from a backup; bailey secret check --accept begins an empty one")
	case i.data == nil:
		return &Vault{place: o.Place, found: o.keys}, nil
	case len(i.faults) > 0:
		return nil, o.damaged(i.faults)
	case i.old != "":
		return nil, bailey.NewError(bailey.Unavailable, o.storePath()+": "+i.old, acceptHint)
	}
	return &Vault{place: o.Place, key: i.key, store: i.store, mark: i.mark, found: o.keys, behind: i.note.behind(&i.store), unchecked: i.unchecked}, nil
}

// load returns the file, nil where there is none.
func (p Place) load() ([]byte, Mark, error) {
	if err := p.closed(p.folder()); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, Mark{}, nil
		}
		return nil, Mark{}, err
	}
	data, fi, err := p.read(p.storePath(), maxStore)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Mark{}, nil
	}
	if err != nil {
		return nil, Mark{}, err
	}
	if data == nil {
		data = []byte{}
	}
	return data, markOf(fi), nil
}

// openAlone is open for who does not hold the lock: it sees to it that what is
// noted of the vault's age is no older than the vault.
func (o *opener) openAlone() (*Vault, error) {
	v, err := o.open()
	if err == nil && v.behind {
		_ = o.locked(func() error { return o.follow(&v.store) }) // who may not write here reads all the same
	}
	return v, err
}

// follow notes how new a store is, unless somebody noted more meanwhile. The
// caller holds the lock.
func (p Place) follow(s *store) error {
	note, err := p.readNoted()
	if err != nil || !note.behind(s) {
		return err
	}
	return p.writeNoted(noted{Vault: s.Vault, Generation: s.Generation, MAC: s.mac})
}
