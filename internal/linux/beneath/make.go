package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OpenNew makes the file at rel below dir, in a folder that is there, and opens
// it for writing. It never replaces: an existing name, also of a link, is
// fs.ErrExist. The umask takes some of perm. The caller closes it.
func OpenNew(dir *os.File, rel string, perm fs.FileMode) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC, Mode: uint64(perm.Perm()), Resolve: noLinks}
	fd, err := openat2(int(dir.Fd()), rel, &how)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", rel, err)
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// Symlink makes the symbolic link at rel below dir. It never replaces. Where
// it leads is the caller's to judge.
func Symlink(dir *os.File, target, rel string) error {
	parent, err := Sub(dir, filepath.Dir(rel))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }() // O_PATH: nothing to lose
	if err := unix.Symlinkat(target, int(parent.Fd()), filepath.Base(rel)); err != nil {
		return fmt.Errorf("make link %s: %w", rel, err)
	}
	return nil
}

// Link gives the regular file at from below dir the name rel as well. It
// follows no link, and never replaces.
func Link(dir *os.File, from, rel string) error {
	of, err := Sub(dir, filepath.Dir(from))
	if err != nil {
		return err
	}
	defer func() { _ = of.Close() }() // O_PATH: nothing to lose
	info, err := Lstat(of, filepath.Base(from))
	if err != nil {
		return err
	}
	if !info.Mode.IsRegular() {
		return fmt.Errorf("link to %s: %w", from, ErrStrange)
	}
	into, err := Sub(dir, filepath.Dir(rel))
	if err != nil {
		return err
	}
	defer func() { _ = into.Close() }() // O_PATH: nothing to lose
	if err := unix.Linkat(int(of.Fd()), filepath.Base(from), int(into.Fd()), filepath.Base(rel), 0); err != nil {
		return fmt.Errorf("link to %s: %w", from, err)
	}
	return nil
}

// Place renames name in from to as in to, on the same file system. With replace
// what has that name, which is no folder, is replaced; otherwise that is
// fs.ErrExist.
func Place(from *os.File, name string, to *os.File, as string, replace bool) error {
	flags := uint(unix.RENAME_NOREPLACE)
	if replace {
		flags = 0
	}
	err := unix.Renameat2(int(from.Fd()), name, int(to.Fd()), as, flags)
	if errors.Is(err, unix.EINVAL) && !replace { // a file system that does not know the flag
		var st unix.Stat_t
		if err = unix.Fstatat(int(to.Fd()), as, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			return fmt.Errorf("place %s: %w", as, fs.ErrExist)
		}
		err = unix.Renameat(int(from.Fd()), name, int(to.Fd()), as)
	}
	if err != nil {
		return fmt.Errorf("place %s: %w", as, err)
	}
	return nil
}
