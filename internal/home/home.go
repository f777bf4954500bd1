package home

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Home is an open home. Nobody removes it before Close.
type Home struct {
	Name   string
	Meta   Meta
	Files  *os.File // what a sandbox sees; hostile
	Shared bool     // another run had it open when this one came
	dir    *os.File
	lock   *os.File
}

// Close lets go of it.
func (h *Home) Close() error {
	if h == nil {
		return nil
	}
	var errs []error
	for _, f := range []**os.File{&h.Files, &h.lock, &h.dir} {
		if *f != nil {
			errs = append(errs, (*f).Close())
			*f = nil
		}
	}
	return errors.Join(errs...)
}

// Mount is the home as a sandbox has it, at a path inside.
func (h *Home) Mount(target string) (bailey.Mount, error) {
	at, err := beneath.Where(h.Files)
	if err != nil {
		return bailey.Mount{}, fmt.Errorf("find home %s: %w", h.Name, err)
	}
	info, err := beneath.Lstat(h.Files, "")
	if err != nil {
		return bailey.Mount{}, fmt.Errorf("look at home %s: %w", h.Name, err)
	}
	return bailey.Mount{Source: at, Target: target, Writable: true, Owned: true, Is: bailey.FileID{Dev: info.Dev, Ino: info.Ino}}, nil
}

// beginPatience is how long a run waits for another one that starts in the
// same home, and beginPause how often it looks.
const (
	beginPatience = 10 * time.Second
	beginPause    = 5 * time.Millisecond
)

// Begin notes that a run starts. Until the function that it returns is called,
// no other run that starts in this home writes there.
func (h *Home) Begin(now time.Time) (done func(), err error) {
	dir, err := beneath.OpenDir(h.dir, writtenName)
	if err != nil {
		return nil, fmt.Errorf("open home %s: %w", h.Name, err)
	}
	for waited := time.Duration(0); unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; waited += beginPause {
		if waited > beginPatience {
			return nil, errors.Join(bailey.NewError(bailey.Conflict, "another run has been starting in home "+h.Name+" for "+beginPatience.String(), "bailey ps shows what runs; --home NAME takes another home"), dir.Close())
		}
		<-time.After(beginPause)
	}
	h.Meta.Used = now.UTC()
	if err := putMeta(h.dir, h.Meta); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() { _ = dir.Close() }, nil // with its lock
}

// Read returns the file at a slash-separated path of the home; nil if there is
// none, or if it is no file of at most so many bytes. A nil home has none.
func (h *Home) Read(rel string, limit int64) []byte {
	if h == nil {
		return nil
	}
	return read(h.Files, rel, limit)
}

// Written returns what bailey has written to a path of the home the last time,
// or nil.
func (h *Home) Written(rel string) []byte {
	return read(h.dir, path.Join(writtenName, flat(rel)), writtenLimit)
}

func read(dir *os.File, rel string, limit int64) []byte {
	data, _, err := beneath.ReadFile(dir, rel, limit)
	if err != nil {
		return nil
	}
	return data
}

// flat is a path as one name.
func flat(rel string) string {
	return strings.ReplaceAll(strings.ReplaceAll(rel, "%", "%25"), "/", "%2F")
}

// File is what is written into a home before a run.
type File struct {
	Path   string // slash-separated, below the home
	Mode   fs.FileMode
	Data   []byte
	Record []byte // kept as what was written there; nil: it is not to be told from what is found
}

// Write puts a file there: whatever has the place of one of its folders, or its
// own, is moved out of the way. What it is beside is as the agent left it.
func (h *Home) Write(f File) error {
	if f.Record != nil {
		written, err := beneath.Sub(h.dir, writtenName)
		if err != nil {
			return fmt.Errorf("open home %s: %w", h.Name, err)
		}
		err = beneath.Put(written, flat(f.Path), f.Record)
		if err := errors.Join(err, written.Close()); err != nil {
			return fmt.Errorf("note what is written into home %s: %w", h.Name, err)
		}
	}
	dir, name := path.Split(f.Path)
	parent, err := h.makeFolder(strings.Trim(dir, "/"))
	if err != nil {
		return fmt.Errorf("write %s into home %s: %w", f.Path, h.Name, err)
	}
	defer parent.Close()
	if err := put(parent, name, f); err != nil {
		return fmt.Errorf("write %s into home %s: %w", f.Path, h.Name, err)
	}
	return nil
}

func put(parent *os.File, name string, f File) error {
	info, err := beneath.Lstat(parent, name)
	if err == nil && info.Mode.IsDir() {
		err = aside(parent, name)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = clear(parent, "."+name+".new") // the name by which Put works
	}
	if err == nil {
		err = beneath.Put(parent, name, f.Data)
	}
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it is about
	}
	if f.Mode.Perm() != 0o600 {
		return beneath.SetMode(parent, name, f.Mode.Perm()) //nolint:wrapcheck // likewise
	}
	return nil
}

// Folder makes a folder of the home, on which something is to be mounted.
func (h *Home) Folder(rel string) error {
	dir, err := h.makeFolder(rel)
	if err != nil {
		return fmt.Errorf("make %s in home %s: %w", rel, h.Name, err)
	}
	return dir.Close()
}

// Point makes a file of the home that something is to be mounted on.
func (h *Home) Point(rel string) error {
	dir, name := path.Split(rel)
	parent, err := h.makeFolder(strings.Trim(dir, "/"))
	if err != nil {
		return fmt.Errorf("make %s in home %s: %w", rel, h.Name, err)
	}
	defer parent.Close()
	info, err := beneath.Lstat(parent, name)
	if err == nil && info.Mode.IsRegular() {
		return nil
	}
	if err == nil {
		err = aside(parent, name)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = beneath.Create(parent, name, nil)
	}
	if err != nil {
		return fmt.Errorf("make %s in home %s: %w", rel, h.Name, err)
	}
	return nil
}

// makeFolder opens a folder of the home and makes what is not there. A link, or
// whatever else is no folder, is moved out of the way.
func (h *Home) makeFolder(rel string) (*os.File, error) {
	at, err := beneath.Sub(h.Files, ".")
	if err != nil || rel == "" {
		return at, err //nolint:wrapcheck // the caller says what it is about
	}
	for name := range strings.SplitSeq(rel, "/") {
		next, err := makeBelow(at, name)
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// makeBelow is makeFolder's for one name.
func makeBelow(at *os.File, name string) (*os.File, error) {
	info, err := beneath.Lstat(at, name)
	if err == nil && !info.Mode.IsDir() {
		err = aside(at, name)
		info = beneath.Info{}
	}
	if err == nil && !info.Mode.IsDir() || errors.Is(err, fs.ErrNotExist) {
		err = beneath.MkdirPrivate(at, name)
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = passable(at, name)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it is about
	}
	return beneath.Sub(at, name) //nolint:wrapcheck // likewise
}

// passable gives the owner of a folder back what an agent took from itself:
// without it only root gets anywhere in there.
func passable(dir *os.File, name string) error {
	info, err := beneath.Lstat(dir, name)
	if err != nil || !info.Mode.IsDir() || info.Mode.Perm()&0o700 == 0o700 {
		return err //nolint:wrapcheck // the caller says what it is about
	}
	return beneath.SetMode(dir, name, info.Mode.Perm()|0o700) //nolint:wrapcheck // likewise
}

// aside gives what is in the way another name beside it: it may be the agent's
// work. The name is one that nobody can have taken.
func aside(dir *os.File, name string) error {
	return beneath.Rename(dir, name, fmt.Sprintf("%.200s.moved-by-bailey-%s", name, rand.Text()[:8])) //nolint:wrapcheck // likewise
}

// clear removes what has a name of bailey's own.
func clear(dir *os.File, name string) error {
	err := beneath.Remove(dir, name, maxRemoved)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err //nolint:wrapcheck // likewise
}

// Aside moves a file of the home out of the way, if there is one.
func (h *Home) Aside(rel string) error {
	parent, name := h.first(rel)
	if parent == nil {
		return nil
	}
	defer parent.Close()
	if err := aside(parent, name); err != nil {
		return fmt.Errorf("move %s of home %s out of the way: %w", rel, h.Name, err)
	}
	return nil
}

// Has reports whether there is something at a path of the home, or on the way
// to it something that is no folder, such as a link.
func (h *Home) Has(rel string) bool {
	if h == nil {
		return false
	}
	parent, _ := h.first(rel)
	if parent == nil {
		return false
	}
	_ = parent.Close() // O_PATH: nothing to lose
	return true
}

// first finds what is at a path, or the first on the way to it that is no
// folder: an agent follows a link there. The folder is nil when there is none.
func (h *Home) first(rel string) (*os.File, string) {
	at := "."
	for {
		name, rest, more := strings.Cut(rel, "/")
		parent, err := beneath.Sub(h.Files, at)
		if err != nil {
			return nil, ""
		}
		info, err := beneath.Lstat(parent, name)
		if err == nil && (!more || !info.Mode.IsDir()) {
			return parent, name
		}
		_ = parent.Close() // O_PATH: nothing to lose
		if err != nil {
			return nil, ""
		}
		at, rel = path.Join(at, name), rest
	}
}
