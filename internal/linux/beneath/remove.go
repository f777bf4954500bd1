package beneath

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Remove removes what is at rel below dir: a file, a link, or a folder with
// all that is in it, whatever its depth and modes. It never follows a link
// and never crosses into another mount. At most budget entries are removed;
// then it stops with ErrStrange and the rest stays. A rel that is not there
// is fs.ErrNotExist.
func Remove(dir *os.File, rel string, budget int) error {
	parent, err := Sub(dir, filepath.Dir(rel))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }() // O_PATH: nothing to lose
	r := remover{parent: parent, name: filepath.Base(rel), left: budget, moved: 0}
	return r.run()
}

// remover empties a folder without ever going down more than one level: a
// folder in it that is not empty is moved up beside it first. So a tree of any
// depth needs three descriptors.
type remover struct {
	parent *os.File
	name   string
	left   int
	moved  int
}

func (r *remover) run() error {
	err := unlink(r.parent, r.name)
	if err == nil || !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	for {
		before := r.left
		if err := r.pass(); err != nil {
			return err
		}
		err := unlink(r.parent, r.name)
		if err == nil || r.left == before || !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
}

// pass removes what it can of the top folder's entries and moves the contents
// of folders in it up.
func (r *remover) pass() error {
	top, err := r.open(r.parent, r.name)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }() // read only: nothing to lose
	return r.each(top, func(name string) error { return r.lift(top, name) })
}

// lift empties the folder name in top and removes it: what cannot be removed
// at once is moved into top under a fresh name, for the next pass.
func (r *remover) lift(top *os.File, name string) error {
	sub, err := r.open(top, name)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }() // read only: nothing to lose
	err = r.each(sub, func(name string) error { return r.move(sub, name, top) })
	if err != nil {
		return err
	}
	return unlink(top, name)
}

// each removes the entries of a folder, and calls full for those that are
// folders with something in them.
func (r *remover) each(dir *os.File, full func(name string) error) error {
	for {
		list, readErr := dir.ReadDir(256)
		for _, e := range list {
			if err := r.one(dir, e.Name(), full); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return fmt.Errorf("remove %s: %w", r.name, readErr)
		}
	}
}

func (r *remover) one(dir *os.File, name string, full func(name string) error) error {
	if r.left--; r.left < 0 {
		return fmt.Errorf("remove %s: %w", r.name, ErrStrange)
	}
	err := unlink(dir, name)
	if errors.Is(err, unix.ENOTEMPTY) {
		err = full(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (r *remover) move(from *os.File, name string, to *os.File) error {
	sub, err := r.open(from, name) // makes it writable, which moving a folder needs
	if err != nil {
		return err
	}
	_ = sub.Close() // read only: nothing to lose
	for {
		r.moved++
		err := unix.Renameat2(int(from.Fd()), name, int(to.Fd()), ".removed-"+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			if err != nil {
				return fmt.Errorf("move %s: %w", name, err)
			}
			return nil
		}
	}
}

// open opens a folder for reading and gives its owner every right to it.
func (r *remover) open(dir *os.File, name string) (*os.File, error) {
	const resolve = noLinks | unix.RESOLVE_NO_XDEV
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Mode: 0, Resolve: resolve}
	fd, err := openat2(int(dir.Fd()), name, &how)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", name, err)
	}
	path := os.NewFile(uintptr(fd), name)
	defer func() { _ = path.Close() }()                                      // O_PATH: nothing to lose
	_ = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", path.Fd()), unix.S_IRWXU) // if it cannot be, the open says so
	how.Flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err = openat2(int(path.Fd()), ".", &how)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// unlink removes a file, link or empty folder. A folder that is not empty is
// ENOTEMPTY.
func unlink(dir *os.File, name string) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	switch {
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM):
		err = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
	case errors.Is(err, unix.EACCES): // Landlock answers before it is looked at, and may allow the removal of folders
		if folder := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR); !errors.Is(folder, unix.ENOTDIR) {
			err = folder
		}
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// Rename gives what is at the name from in dir the name to, in the same
// folder. It never replaces: an existing to is fs.ErrExist.
func Rename(dir *os.File, from, to string) error {
	if err := unix.Renameat2(int(dir.Fd()), from, int(dir.Fd()), to, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("rename %s: %w", from, err)
	}
	return nil
}

// Exchange gives what is at two names in dir each the other's, at once.
func Exchange(dir *os.File, one, other string) error {
	if err := unix.Renameat2(int(dir.Fd()), one, int(dir.Fd()), other, unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("exchange %s and %s: %w", one, other, err)
	}
	return nil
}

// SetMode sets the permission bits of the file or folder at rel below dir, and
// takes its set-user-ID, set-group-ID and sticky bits away. A link, or anything
// but a file or folder, is ErrStrange. An empty rel is dir.
func SetMode(dir *os.File, rel string, mode fs.FileMode) error {
	if rel == "" {
		rel = "."
	}
	f, err := open(dir, rel, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // O_PATH: nothing to lose
	info, err := stat(f)
	if err != nil {
		return err
	}
	if !info.Mode.IsRegular() && !info.Mode.IsDir() {
		return fmt.Errorf("set the mode of %s: %w", rel, ErrStrange)
	}
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), uint32(mode.Perm())); err != nil {
		return fmt.Errorf("set the mode of %s: %w", rel, err)
	}
	return nil
}

// Readlink returns what the symbolic link at rel below dir holds.
func Readlink(dir *os.File, rel string) (string, error) {
	parent, err := Sub(dir, filepath.Dir(rel))
	if err != nil {
		return "", err
	}
	defer func() { _ = parent.Close() }() // O_PATH: nothing to lose
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(parent.Fd()), filepath.Base(rel), buf)
	if err != nil {
		return "", fmt.Errorf("read link %s: %w", rel, err)
	}
	return string(buf[:n]), nil
}
