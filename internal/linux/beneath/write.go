package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// MkdirPrivate makes the folder name in dir, its owner's alone. It never takes over
// what is there: an existing name is fs.ErrExist.
func MkdirPrivate(dir *os.File, name string) error {
	if err := unix.Mkdirat(int(dir.Fd()), name, 0o700); err != nil {
		return fmt.Errorf("make folder %s: %w", name, err)
	}
	return nil
}

// OpenRead opens the regular file at rel below dir for reading. Anything that
// is no regular file is ErrStrange. The caller closes it.
func OpenRead(dir *os.File, rel string) (*os.File, error) {
	return regular(open(dir, rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0))
}

// OpenAppend opens the regular file name in dir for writing at its end, and
// makes it, its owner's alone, if there is none. The caller closes it.
func OpenAppend(dir *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC, Mode: 0o600, Resolve: noLinks}
	fd, err := openat2(int(dir.Fd()), name, &how)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return regular(os.NewFile(uintptr(fd), name), nil)
}

func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := stat(f)
	if err == nil && !info.Mode.IsRegular() {
		err = fmt.Errorf("open %s: %w", f.Name(), ErrStrange)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Put gives the file name in dir these contents: whoever reads it sees what
// was there before or all of them, also when the machine fails meanwhile. A
// half-written file may stay beside it, named like it with a dot before and
// ".new" behind, which the next call replaces.
func Put(dir *os.File, name string, data []byte) error {
	next := "." + name + ".new"
	if err := unlink(dir, next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	how := unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC, Mode: 0o600, Resolve: noLinks}
	fd, err := openat2(int(dir.Fd()), next, &how)
	if err != nil {
		return fmt.Errorf("make %s: %w", next, err)
	}
	f := os.NewFile(uintptr(fd), next)
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := unix.Renameat(int(dir.Fd()), next, int(dir.Fd()), name); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return nil
}
