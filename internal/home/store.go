package home

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/spell"
)

const (
	storeName    = "homes"
	filesName    = "files"
	metaName     = "home.json"
	writtenName  = "written"
	removed      = ".removed-" // begins the name of what is being removed
	draft        = ".draft-"   // or imported
	maxMeta      = 64 << 10
	maxHomes     = 10_000
	maxRemoved   = 20_000_000 // entries of one home
	longestName  = 64
	writtenLimit = 16 << 20
)

// Store is where a user's homes are.
type Store struct {
	data string // bailey's data folder
	dir  string
}

// In returns the store in bailey's data folder.
func In(dataDir string) Store { return Store{dataDir, filepath.Join(dataDir, storeName)} }

// Meta is what is known of a home without looking into it.
type Meta struct {
	Workspace string    `json:"workspace,omitempty"` // the home is its, or was made there
	Agent     string    `json:"agent,omitempty"`     // and this agent's; empty: shared by name
	Created   time.Time `json:"created,omitzero"`
	Used      time.Time `json:"used,omitzero"` // the start of the last run
}

// DefaultName is the name of the home of an agent in a workspace.
func DefaultName(workspace, agent string) string {
	base := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, filepath.Base(workspace)), "-")
	if len(base) > 32 {
		base = strings.TrimRight(base[:32], "-")
	}
	if base == "" {
		base = "work"
	}
	sum := sha256.Sum256([]byte(workspace + "\x00" + agent))
	return base + "-" + agent + "-" + hex.EncodeToString(sum[:4])
}

// ValidName reports whether a text may be the name of a home.
func ValidName(s string) bool {
	if s == "" || len(s) > longestName || s[0] == '-' || s[0] == '.' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// CheckName refuses what is no name.
func CheckName(name string) error {
	if ValidName(name) {
		return nil
	}
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not the name of a home", name),
		fmt.Sprintf("use 1 to %d lower-case letters, digits, dots, hyphens and underscores, a letter or digit first", longestName))
}

// Names lists the homes, sorted.
func (s Store) Names() []string {
	list, _ := os.ReadDir(s.dir) // none is none
	var out []string
	for _, e := range list[:min(len(list), maxHomes)] {
		if e.IsDir() && ValidName(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// Exists reports whether there is a home of that name.
func (s Store) Exists(name string) bool { return slices.Contains(s.Names(), name) }

// Files is where on the host the files of a home are.
func (s Store) Files(name string) string { return filepath.Join(s.dir, name, filesName) }

// folder opens the store, and makes it where make says so.
func (s Store) folder(make bool) (*os.File, error) {
	if make {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, bailey.WrapError(bailey.Unavailable, "make the folder of homes "+s.dir, err, "check who may write there")
		}
	}
	dir, err := beneath.Follow(nil, s.dir) // a person may have the data folder behind a link
	if err != nil {
		return nil, fmt.Errorf("open homes: %w", err)
	}
	info, err := beneath.Lstat(dir, "")
	if err == nil && (info.UID != os.Geteuid() || info.Mode.Perm()&0o077 != 0) {
		err = bailey.NewError(bailey.Forbidden, fmt.Sprintf("the folder of homes %s is not yours alone", s.dir), fmt.Sprintf("chown it to yourself, and: chmod 700 %s", s.dir))
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// notFound says that there is no such home.
func (s Store) notFound(name string) error {
	hint := "bailey home ls lists them"
	if near := spell.Nearest(name, s.Names()); near != "" {
		hint = "is it " + near + "? " + hint
	}
	return bailey.NewError(bailey.NotFound, "there is no home "+name, hint)
}

// Open opens a home for a run or a look, and makes it where meta is not nil and
// there is none. The caller closes it.
func (s Store) Open(name string, meta *Meta) (*Home, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	store, err := s.folder(meta != nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.notFound(name)
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	for range 10 {
		h, err := s.open(store, name)
		switch {
		case err == nil && h != nil:
			return h, nil
		case err == nil: // it was removed meanwhile
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case meta == nil:
			return nil, s.notFound(name)
		default:
			if err := create(store, name, *meta); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, fmt.Errorf("make home %s: %w", name, err)
			}
		}
	}
	return nil, bailey.NewError(bailey.Conflict, "home "+name+" is made and removed over and over", "try again")
}

// create makes a home under another name first: one that is there is whole.
func create(store *os.File, name string, meta Meta) error {
	tmp := draft + name + "-" + string(bailey.NewSandboxID())
	if err := beneath.MkdirPrivate(store, tmp); err != nil {
		return fmt.Errorf("make home: %w", err)
	}
	err := furnish(store, tmp, meta)
	if err == nil {
		err = beneath.Rename(store, tmp, name)
	}
	if err != nil {
		_ = beneath.Remove(store, tmp, 100)
	}
	return err //nolint:wrapcheck // the caller says which home
}

func furnish(store *os.File, tmp string, meta Meta) error {
	dir, err := beneath.Sub(store, tmp)
	if err != nil {
		return fmt.Errorf("open home: %w", err)
	}
	defer dir.Close()
	for _, sub := range []string{filesName, writtenName} {
		if err := beneath.MkdirPrivate(dir, sub); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make home: %w", err)
		}
	}
	return putMeta(dir, meta)
}

func putMeta(dir *os.File, meta Meta) error {
	data, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", metaName, err)
	}
	if err := beneath.Put(dir, metaName, append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", metaName, err)
	}
	return nil
}

// open opens a home that is there and holds it: nobody removes it meanwhile.
// Nil: it was removed between the two.
func (s Store) open(store *os.File, name string) (*Home, error) {
	dir, err := beneath.Sub(store, name)
	if err != nil {
		return nil, fmt.Errorf("open home %s: %w", name, err)
	}
	h := &Home{Name: name, dir: dir}
	if h.lock, err = beneath.OpenDir(dir, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("open home %s: %w", name, err), h.Close())
	}
	h.Shared = unix.Flock(int(h.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
	if err := unix.Flock(int(h.lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return nil, errors.Join(bailey.NewError(bailey.Conflict, "home "+name+" is being removed", "try again"), h.Close())
	}
	is, err := beneath.Lstat(dir, "")
	now, err2 := beneath.Lstat(store, name)
	if err != nil || err2 != nil || is.Ino != now.Ino || is.Dev != now.Dev {
		return nil, h.Close()
	}
	err = passable(dir, filesName)
	if err == nil {
		h.Files, err = beneath.Sub(dir, filesName)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open home %s: %w", name, err), h.Close())
	}
	data, _, err := beneath.ReadFile(dir, metaName, maxMeta)
	if err == nil {
		err = json.Unmarshal(data, &h.Meta)
	}
	if err != nil {
		return nil, errors.Join(bailey.WrapError(bailey.Invalid, "read "+metaName+" of home "+name, err, "bailey home rm "+name+" removes the home"), h.Close())
	}
	return h, nil
}

// Remove takes homes away. One that a run uses is a Conflict.
func (s Store) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	store, err := s.folder(false)
	if errors.Is(err, fs.ErrNotExist) {
		return s.notFound(name)
	}
	if err != nil {
		return err
	}
	defer store.Close()
	dir, err := beneath.OpenDir(store, name)
	if errors.Is(err, fs.ErrNotExist) {
		return s.notFound(name)
	}
	if err != nil {
		return fmt.Errorf("open home %s: %w", name, err)
	}
	defer dir.Close()
	if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return bailey.NewError(bailey.Conflict, "home "+name+" is in use", "bailey ps shows what runs; bailey stop NAME ends it")
	}
	tmp := removed + name + "-" + string(bailey.NewSandboxID())
	if err := beneath.Rename(store, name, tmp); err != nil {
		return fmt.Errorf("remove home %s: %w", name, err)
	}
	if err := beneath.Remove(store, tmp, maxRemoved); err != nil {
		return bailey.WrapError(bailey.Unavailable, "remove all of home "+name, err, "what is left lies in "+filepath.Join(s.dir, tmp))
	}
	return nil
}
