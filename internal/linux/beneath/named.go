package beneath

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Named opens whatever a person named, symbolic links followed: an absolute
// path. It is a place (O_PATH), not contents, so that nothing waits for a pipe
// or wakes a device. It returns where that lies now: absolute, without links,
// and checked to lead there again. The caller closes it.
func Named(name string) (at *os.File, path string, info Info, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Mode: 0, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := openat2(unix.AT_FDCWD, name, &how)
	if err != nil {
		return nil, "", Info{}, fmt.Errorf("open %s: %w", name, err)
	}
	at = os.NewFile(uintptr(fd), name)
	if path, info, err = whereIs(at); err != nil {
		_ = at.Close() // O_PATH: nothing to lose
		return nil, "", Info{}, err
	}
	return at, path, info, nil
}

// whereIs is Where for what may be no folder.
func whereIs(at *os.File) (string, Info, error) {
	info, err := stat(at)
	if err != nil {
		return "", Info{}, err
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", at.Fd()))
	if err != nil {
		return "", Info{}, fmt.Errorf("find %s: %w", at.Name(), err)
	}
	again, err := Path(path)
	if err != nil {
		return "", Info{}, err
	}
	defer func() { _ = again.Close() }() // O_PATH: nothing to lose
	if got, err := stat(again); err != nil || got.Dev != info.Dev || got.Ino != info.Ino {
		return "", Info{}, fmt.Errorf("find %s: another lies at its path: %w", path, os.ErrNotExist)
	}
	return path, info, nil
}

// MayWrite reports whether the caller may change what is open as a place: the
// contents of a file, or the names in a folder.
func MayWrite(at *os.File) bool {
	return unix.Faccessat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", at.Fd()), unix.W_OK, unix.AT_EACCESS) == nil
}
