package beneath

import (
	"fmt"
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
	how := unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC, Mode: 0o600, Resolve: noLinks}
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
