package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// storeName is the store's folder in bailey's data folder.
const storeName = "envs"

// draftPrefix begins the names of what is being built, or is being removed.
const draftPrefix = ".draft-"

// maxRemoved bounds what is removed of one environment, in files and folders.
const maxRemoved = 20_000_000

// Store is where a user's environments are. Its methods may be called by
// several processes at once.
type Store struct {
	dir string
	uid int
}

// In returns the store in bailey's data folder, of a user.
func In(dataDir string, uid int) Store {
	return Store{dir: filepath.Join(dataDir, storeName), uid: uid}
}

// Dir is the store's folder. It need not exist.
func (s Store) Dir() string { return s.dir }

// Find says which folder a name, or a path, means: a name in the store, or the
// absolute path of an environment in it. Any other path is refused, so that
// nobody can have a folder of the host mounted that was not built for it.
func (s Store) Find(nameOrPath string) (folder string, err error) {
	name := nameOrPath
	if strings.Contains(nameOrPath, "/") {
		dir, base := filepath.Split(nameOrPath)
		if filepath.Clean(nameOrPath) != nameOrPath || !s.is(filepath.Clean(dir)) {
			return "", bailey.NewError(bailey.Forbidden, fmt.Sprintf("%q is not an environment: only what bailey env build made is one", nameOrPath), "use its name (bailey env ls)")
		}
		name = base
	}
	if !ValidName(name) {
		return "", bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not the name of an environment", nameOrPath), "bailey env ls lists them")
	}
	dir, err := filepath.EvalSymlinks(s.dir)
	if err == nil {
		folder = filepath.Join(dir, name)
		if Exists(folder) {
			return folder, nil
		}
	}
	return "", notFound(nameOrPath, s.Names())
}

// is reports whether a path is the store's, as it is or without links.
func (s Store) is(dir string) bool {
	real, err := filepath.EvalSymlinks(s.dir)
	return dir == s.dir || err == nil && dir == real
}

// Open finds an environment and opens it.
func (s Store) Open(nameOrPath string) (*Environment, error) {
	folder, err := s.Find(nameOrPath)
	if err != nil {
		return nil, err
	}
	return Open(folder, s.uid)
}

// Names lists what is there, sorted, without looking at it.
func (s Store) Names() []string {
	list, _ := os.ReadDir(s.dir) // none is none
	var out []string
	for _, e := range list {
		if e.IsDir() && ValidName(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// Listed is an environment in a list, or why it cannot be used.
type Listed struct {
	Name     string
	Manifest Manifest
	Err      error
}

// List reads all manifests.
func (s Store) List() []Listed {
	var out []Listed
	for _, name := range s.Names() {
		e, err := s.Open(name)
		if err != nil {
			out = append(out, Listed{Name: name, Manifest: Manifest{}, Err: err})
			continue
		}
		out = append(out, Listed{Name: name, Manifest: e.Manifest, Err: nil})
		_ = e.Close() // read only
	}
	return out
}

// Remove takes an environment away. One that a sandbox uses is a Conflict.
func (s Store) Remove(ctx context.Context, name string) error {
	folder, err := s.Find(name)
	if err != nil {
		return err
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	mine, err := lockFolder(folder, syscall.LOCK_EX)
	switch {
	case held(err):
		return bailey.NewError(bailey.Conflict, fmt.Sprintf("the environment %s is in use", filepath.Base(folder)), "stop the sandboxes that use it (bailey ps), then try again")
	case err != nil:
		return err
	}
	defer func() { _ = mine.Close() }()
	// Under a name that nobody looks for it is gone at once, and what a crash
	// leaves of it is swept.
	draft := draftName(time.Now()) //nolint:forbidigo // a name that is new
	dir, err := beneath.Dir(filepath.Dir(folder))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // a place, no contents
	if err := beneath.Rename(dir, filepath.Base(folder), draft); err != nil {
		return err
	}
	return beneath.Remove(dir, draft, maxRemoved)
}

func draftName(now time.Time) string {
	return fmt.Sprintf("%s%d-%d", draftPrefix, os.Getpid(), now.UnixNano())
}

// lockPatience is how long the store's lock is waited for: whoever has it
// renames folders, or removes what a crash left.
const lockPatience = 30 * time.Second

// lock keeps others from adding, replacing and removing. The folder is made if
// it is not there.
func (s Store) lock(ctx context.Context) (*os.File, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "make the folder of environments", err, "")
	}
	const pause = 20 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		f, err := lockFolder(s.dir, syscall.LOCK_EX)
		if err == nil || !held(err) {
			return f, err
		}
		if waited > lockPatience {
			return nil, bailey.NewError(bailey.Unavailable, "another bailey changes the environments and does not come to an end", "try again")
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// Draft is an environment that is being built: a folder that no name leads to.
type Draft struct {
	store  Store
	parent *os.File // the store's folder, without links
	name   string
	mine   *os.File // locked
	Dir    string   // absolute, without links
}

// Begin makes a draft, and removes what builds left behind that were killed.
func (s Store) Begin(ctx context.Context, now time.Time) (*Draft, error) {
	lock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }()
	real, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder of environments: %w", err)
	}
	parent, err := beneath.Dir(real)
	if err != nil {
		return nil, err
	}
	sweep(parent, real)
	d := &Draft{store: s, parent: parent, name: draftName(now), mine: nil, Dir: ""}
	d.Dir = filepath.Join(real, d.name)
	if err := os.Mkdir(d.Dir, 0o700); err != nil {
		return nil, errors.Join(bailey.WrapError(bailey.Unavailable, "make a folder for the environment", err, ""), parent.Close())
	}
	if d.mine, err = lockFolder(d.Dir, syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	return d, nil
}

// sweep removes drafts that nobody holds. What cannot be removed stays for the
// next time: it is in nobody's way.
func sweep(parent *os.File, dir string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), draftPrefix) {
			continue
		}
		if f, err := lockFolder(filepath.Join(dir, e.Name()), syscall.LOCK_EX); err == nil {
			_ = beneath.Remove(parent, e.Name(), maxRemoved)
			_ = f.Close()
		}
	}
}

// Discard removes a draft that is not to be. After Commit it does nothing.
func (d *Draft) Discard() error {
	if d.mine == nil {
		return nil
	}
	err := beneath.Remove(d.parent, d.name, maxRemoved)
	if gone(err) {
		err = nil
	}
	err = errors.Join(err, d.mine.Close(), d.parent.Close())
	d.mine = nil
	return err
}

// Commit gives a draft whose tree is whole its manifest and its name. What had
// the name before is removed, as soon as no sandbox uses it.
func (d *Draft) Commit(ctx context.Context, m Manifest) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	dir, err := beneath.Dir(d.Dir)
	if err != nil {
		return err
	}
	err = beneath.Create(dir, manifestName, data)
	_ = dir.Close() // a place, no contents
	if err != nil {
		return err
	}
	lock, err := d.store.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	replaced := false
	err = beneath.Rename(d.parent, d.name, m.Name)
	if errors.Is(err, os.ErrExist) {
		err, replaced = beneath.Exchange(d.parent, d.name, m.Name), true
	}
	if err != nil {
		return err
	}
	err = d.mine.Close()
	d.mine = nil
	if replaced {
		sweep(d.parent, filepath.Dir(d.Dir))
	}
	return errors.Join(err, d.parent.Close())
}
