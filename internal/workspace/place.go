package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Place is a folder held open: who renames folders, as another sandbox may
// that has the one above it, cannot put another in its place. Its path is the
// kernel's, not what a shell remembers of it.
type Place struct {
	dir  *os.File
	path string
}

// Here is the folder that the process is in.
func Here() (*Place, error) {
	dir, err := beneath.Follow(nil, ".")
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "open the current folder", err, "change to a folder that exists")
	}
	p, err := newPlace(dir)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "find the current folder", err, "change to a folder that exists, and let nobody move it")
	}
	return p, nil
}

// Folder is one that a person named, from p unless the name is absolute.
// Links are followed, once; Led tells whether there was one.
func (p *Place) Folder(name string) (*Place, error) {
	dir, err := beneath.Follow(p.dir, filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	return newPlace(dir)
}

func newPlace(dir *os.File) (*Place, error) {
	path, err := beneath.Where(dir)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &Place{dir: dir, path: path}, nil
}

// placeAt opens the folder at an absolute path, links followed.
func placeAt(dir string) (*Place, error) {
	if !filepath.IsAbs(dir) || !isText(dir) {
		return nil, unusable(dir)
	}
	f, err := beneath.Follow(nil, dir)
	var p *Place
	if err == nil {
		p, err = newPlace(f)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, bailey.NewError(bailey.NotFound, fmt.Sprintf("there is no folder %s", dir), "check the path, or create it")
	}
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, fmt.Sprintf("find the workspace %s", dir), err, "check the path")
	}
	return p, nil
}

// Path returns where the place is: absolute, no link in it.
func (p *Place) Path() string { return p.path }

// Within reports whether the place is o or lies in it.
func (p *Place) Within(o *Place) bool { return sandbox.Within(p.path, o.path) }

// Led reports whether a link led from p to the place that was named: it is
// not where the name alone, with its dots, would be.
func (p *Place) Led(name string, to *Place) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(p.path, name)
	}
	return filepath.Clean(name) != to.path
}

// Close lets go of the folder.
func (p *Place) Close() { _ = p.dir.Close() } // O_PATH: nothing to lose

// id tells what lies at an absolute path without links.
func id(path string) (bailey.FileID, error) {
	at, err := beneath.Path(path)
	if err != nil {
		return bailey.FileID{}, err
	}
	defer func() { _ = at.Close() }() // O_PATH: nothing to lose
	return idOf(at)
}

func idOf(f *os.File) (bailey.FileID, error) {
	info, err := beneath.Lstat(f, "")
	if err != nil {
		return bailey.FileID{}, err
	}
	return bailey.FileID{Dev: info.Dev, Ino: info.Ino}, nil
}
