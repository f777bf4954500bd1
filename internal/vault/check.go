package vault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
)

// Fault is something in a vault that is not as it was written.
type Fault struct {
	Path    string
	Line    int
	Name    string // of the secret, where it is known
	Problem string
}

// String is one line for a person.
func (f Fault) String() string {
	name := ""
	if f.Name != "" {
		name = f.Name + ": "
	}
	return fmt.Sprintf("%s:%d: %s%s", f.Path, f.Line, name, f.Problem)
}

// damaged makes an error of faults.
func (p Place) damaged(faults []Fault) error {
	more := ""
	if len(faults) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(faults)-1)
	}
	return bailey.NewError(bailey.Unavailable, faults[0].String()+more, "nothing was changed: bailey secret check lists what is wrong; restore the file from a backup")
}

// inspection is what there is in a place, whole or not.
type inspection struct {
	data   []byte // nil: there is no file
	mark   Mark
	note   *noted
	key    seal.Key
	store  store // the rows that can be read
	faults []Fault
	old    string // what is wrong with its age

	unchecked string // why there is no key
}

// inspect looks at everything but the values. An error is what keeps it from
// looking.
func (o *opener) inspect() (inspection, error) {
	var i inspection
	var err error
	if i.data, i.mark, err = o.load(); err != nil {
		return i, err
	}
	if i.note, err = o.readNoted(); err != nil {
		return i, err
	}
	if i.data == nil {
		if i.note != nil && i.note.Generation > 0 {
			i.old = fmt.Sprintf("there was a vault of generation %d", i.note.Generation)
		}
		return i, nil
	}
	s, faults := readStore(i.data, o.owner())
	if i.key, err = o.key(s.Key); err != nil {
		if why, ok := o.withoutKey(err); ok {
			return o.unopened(i, s, faults, why), nil
		}
		if _, another := errors.AsType[mismatchError](err); !another {
			return i, o.missingKey(s.Key, err)
		}
		other, ok := o.otherKey(s)
		if !ok {
			return i, err
		}
		i.key = other
		faults = append(faults, Fault{Line: 1, Problem: "it names another key than the one that its values are sealed with"})
	}
	if !intact(i.data, i.key) {
		faults = blame(s, faults, i.key)
	}
	return o.inspected(i, s, faults), nil
}

// inspected fills in what was found.
func (p Place) inspected(i inspection, s *store, faults []Fault) inspection {
	for n := range faults {
		faults[n].Path = p.storePath()
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return a.Line - b.Line })
	i.store, i.faults, i.old = *s, faults, i.note.old(s)
	return i
}

// unopened is what can be said of a file without its key.
func (p Place) unopened(i inspection, s *store, faults []Fault, why string) inspection {
	i.unchecked = why
	return p.inspected(i, s, faults)
}

// otherKey finds the key of a file whose first line was damaged: whichever
// there is, if a value opens by it.
func (o *opener) otherKey(s *store) (seal.Key, bool) {
	key, err := o.key("")
	if err != nil {
		return seal.Key{}, false
	}
	return key, slices.ContainsFunc(s.rows, func(r row) bool {
		_, err := key.Open(r.Box, boundOf(r.Definition))
		return err == nil
	})
}

// blame says which parts make a file another than was written.
func blame(s *store, faults []Fault, key seal.Key) []Fault {
	for _, r := range s.rows {
		if _, err := key.Open(r.Box, boundOf(r.Definition)); err != nil {
			faults = append(faults, Fault{Line: r.line, Name: r.Definition.Name, Problem: err.Error()})
		}
	}
	if len(faults) == 0 {
		faults = []Fault{{Line: 1, Problem: "it was altered outside of the values: a name, a date, the order, a row that is missing, or the code at the end"}}
	}
	return faults
}

var errNoKeyFile = errors.New("there is no key file")

func (o *opener) missingKey(id string, err error) error {
	if !errors.Is(err, errNoKeyFile) {
		return err
	}
	path, _ := o.keyPath()
	return bailey.NewError(bailey.Unavailable, fmt.Sprintf("the key of the vault is gone: %s, which was in %s", id, path),
		"restore it from a backup, or say where it is: BAILEY_VAULT_KEY. Without it the values cannot be read by anybody; to begin anew, move "+o.storePath()+" away, then bailey secret check --accept")
}

// Report is what there is in a vault.
type Report struct {
	Secrets int     // those that can be read
	Faults  []Fault // what is wrong, by its place
	Kept    string  // where Accept put the file that was damaged, "" for nowhere
}

// Check looks at all of a vault and opens every value. An error is what keeps
// it from looking.
func Check(p Place) (r Report, err error) {
	o := newOpener(p)
	o.steadily(func() bool {
		r, err = o.check()
		return err == nil && len(r.Faults) == 0
	})
	return r, err
}

func (o *opener) check() (Report, error) {
	i, err := o.inspect()
	if err != nil {
		return Report{}, err
	}
	r := Report{Secrets: len(i.store.rows), Faults: i.faults}
	if len(r.Faults) == 0 {
		for _, row := range i.store.rows {
			if _, err := i.key.Open(row.Box, boundOf(row.Definition)); err != nil {
				r.Faults = append(r.Faults, Fault{o.storePath(), row.line, row.Definition.Name, err.Error()})
			}
		}
	}
	if i.old != "" {
		r.Faults = append(r.Faults, Fault{o.storePath(), 1, "", i.old})
	}
	return r, nil
}

// Accept takes a vault as it is, and checks it: one that was put back from a
// copy is the newest from now on, and of a damaged one those rows stay that
// open. Nothing is lost: the damaged file is kept.
func Accept(p Place) (Report, error) {
	o := newOpener(p)
	if _, err := o.inspect(); err != nil { // whoever has to be asked for the key is asked before the lock
		return Report{}, err
	}
	kept := ""
	err := o.locked(func() error {
		i, err := o.inspect()
		switch {
		case err != nil:
			return err
		case len(i.faults) == 0 && i.old == "":
			return nil
		case i.data == nil:
			return os.Remove(o.markPath())
		case len(i.faults) == 0:
			return o.writeNoted(noted{Vault: i.store.Vault, Generation: i.store.Generation, MAC: i.store.mac})
		}
		if kept, err = o.keepCopy(i.data); err != nil {
			return err
		}
		return o.saveWhole(i)
	})
	if err != nil {
		return Report{Kept: kept}, err
	}
	r, err := o.check()
	r.Kept = kept
	return r, err
}

// saveWhole writes the rows of a damaged file that open.
func (o *opener) saveWhole(i inspection) error {
	s := i.store
	s.rows = slices.DeleteFunc(slices.Clone(s.rows), func(r row) bool {
		_, err := i.key.Open(r.Box, boundOf(r.Definition))
		return err != nil
	})
	if i.note != nil && i.note.Generation > 0 {
		s.Vault, s.Generation = i.note.Vault, max(s.Generation, i.note.Generation)
	}
	return o.save(&s, i.key)
}

// keepCopy keeps a damaged file beside the one that takes its place.
func (p Place) keepCopy(data []byte) (string, error) {
	const most = 1000
	for n := 1; n < most; n++ {
		path := fmt.Sprintf("%s.damaged-%d", p.storePath(), n)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return path, p.write(path, data)
		}
	}
	return "", bailey.NewError(bailey.Exhausted, fmt.Sprintf("%d damaged vaults are kept in %s", most, p.folder()), "remove some")
}
