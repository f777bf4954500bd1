package beneath

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Move renames what is at from to to, both below dir, and follows no link on
// the way. It never replaces: an existing to is fs.ErrExist.
func Move(dir *os.File, from, to string) error {
	of, err := Sub(dir, filepath.Dir(from))
	if err != nil {
		return err
	}
	defer func() { _ = of.Close() }() // O_PATH: nothing to lose
	into, err := Sub(dir, filepath.Dir(to))
	if err != nil {
		return err
	}
	defer func() { _ = into.Close() }() // O_PATH: nothing to lose
	err = unix.Renameat2(int(of.Fd()), filepath.Base(from), int(into.Fd()), filepath.Base(to), unix.RENAME_NOREPLACE)
	if err != nil {
		return fmt.Errorf("move %s: %w", from, err)
	}
	return nil
}

// Create makes a file of these contents, its owner's alone, with a name in
// dir. It never replaces: an existing name, also of a link, is fs.ErrExist.
func Create(dir *os.File, name string, data []byte) error {
	return CreateAs(dir, name, 0o600, data)
}

// CreateAs is Create with other permission bits, of which the umask takes some.
func CreateAs(dir *os.File, name string, perm fs.FileMode, data []byte) error {
	how := unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC, Mode: uint64(perm.Perm()), Resolve: noLinks}
	fd, err := openat2(int(dir.Fd()), name, &how)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Mkdir makes the folder at rel below dir, in a folder that is there.
func Mkdir(dir *os.File, rel string) error {
	parent, err := Sub(dir, filepath.Dir(rel))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }() // O_PATH: nothing to lose
	const mode = 0o777                    // less what the umask takes
	if err := unix.Mkdirat(int(parent.Fd()), filepath.Base(rel), mode); err != nil {
		return fmt.Errorf("make folder %s: %w", rel, err)
	}
	return nil
}

// Replace writes these contents to the file from, a name in dir that Create
// made, and gives it the name to, in place of what has it. The file has the
// mode of the one that it replaces.
func Replace(dir *os.File, from, to string, data []byte) error {
	how := unix.OpenHow{Flags: unix.O_WRONLY | unix.O_TRUNC | unix.O_CLOEXEC, Mode: 0, Resolve: noLinks}
	fd, err := openat2(int(dir.Fd()), from, &how)
	if err != nil {
		return fmt.Errorf("open %s: %w", from, err)
	}
	f := os.NewFile(uintptr(fd), from)
	if was, err := Lstat(dir, to); err == nil && was.Mode.IsRegular() {
		_ = f.Chmod(was.Mode.Perm()) // it stays private otherwise
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = unix.Renameat(int(dir.Fd()), from, int(dir.Fd()), to)
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", to, err)
	}
	return nil
}
