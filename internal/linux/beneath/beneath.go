package beneath

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrStrange is the cause of a refusal to read what is not a plain file or
// folder, is too long, or has too many entries.
var ErrStrange = errors.New("not a plain file or folder of a usual size")

// noLinks is how every path is resolved.
const noLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// Info is what statx(2) tells of one file, link or folder itself.
type Info struct {
	Mode     fs.FileMode // type and permission bits
	Size     int64
	UID, GID int
	Dev, Ino uint64
	Changed  time.Time // ctime: contents, name or mode
	Modified time.Time // mtime: contents, and what whoever may write says it is
	Born     time.Time // zero where the file system does not keep it
}

// Dir opens the folder at an absolute path that has no symbolic link in it.
// The caller closes it.
func Dir(path string) (*os.File, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("open folder %s: %w", path, fs.ErrInvalid)
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Mode: 0, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Path opens whatever is at an absolute path that has no symbolic link on the
// way: a folder, a file, or a link itself. It is a place (O_PATH), not
// contents. The caller closes it.
func Path(path string) (*os.File, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("open place %s: %w", path, fs.ErrInvalid)
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Mode: 0, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return nil, fmt.Errorf("open place %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Follow opens the folder that a person named, symbolic links followed: an
// absolute path, or one relative to dir; "." in a nil dir is the folder that
// the process is in, whatever its path is now. The caller closes it.
func Follow(dir *os.File, path string) (*os.File, error) {
	at := unix.AT_FDCWD
	if dir != nil {
		at = int(dir.Fd())
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Mode: 0, Resolve: 0}
	fd, err := openat2(at, path, &how)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Where returns the path at which an open folder lies now: absolute, without
// links, and checked to lead to that folder again. A folder that was removed,
// or that no path leads to, is an error.
func Where(dir *os.File) (string, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return "", fmt.Errorf("find folder %s: %w", dir.Name(), err)
	}
	again, err := Dir(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = again.Close() }() // O_PATH: nothing to lose
	want, err := stat(dir)
	if err != nil {
		return "", err
	}
	if got, err := stat(again); err != nil || got.Dev != want.Dev || got.Ino != want.Ino {
		return "", fmt.Errorf("find folder %s: another lies at its path: %w", path, fs.ErrNotExist)
	}
	return path, nil
}

// Sub opens the folder at rel below dir. The caller closes it.
func Sub(dir *os.File, rel string) (*os.File, error) {
	return open(dir, rel, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// Lstat describes what is at rel below dir, a symbolic link as itself. An
// empty rel is dir.
func Lstat(dir *os.File, rel string) (Info, error) {
	if rel == "" {
		return stat(dir)
	}
	f, err := open(dir, rel, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Info{}, err
	}
	defer func() { _ = f.Close() }() // O_PATH: nothing to lose
	return stat(f)
}

// ReadFile returns the regular file at rel below dir. A file longer than
// limit, or anything that is no regular file, is ErrStrange.
func ReadFile(dir *os.File, rel string, limit int64) ([]byte, Info, error) {
	f, err := open(dir, rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, Info{}, err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	info, err := stat(f)
	if err != nil {
		return nil, Info{}, err
	}
	if !info.Mode.IsRegular() || info.Size > limit {
		return nil, info, fmt.Errorf("read %s: %w", rel, ErrStrange)
	}
	data, err := contents(f, info.Size)
	return data, info, err
}

// Head returns up to limit first bytes of the regular file at an absolute path
// that has no symbolic link in it. Anything that is no regular file is
// ErrStrange; Info.Size says how long the file is.
func Head(path string, limit int64) ([]byte, Info, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, Info{}, fmt.Errorf("open file %s: %w", path, fs.ErrInvalid)
	}
	how := unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC, Mode: 0,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return nil, Info{}, fmt.Errorf("open file %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }() // read only: nothing to lose
	info, err := stat(f)
	if err != nil {
		return nil, Info{}, err
	}
	if !info.Mode.IsRegular() {
		return nil, info, fmt.Errorf("read %s: %w", path, ErrStrange)
	}
	data, err := contents(f, min(info.Size, limit))
	return data, info, err
}

// contents reads n bytes, or up to the end. What is added meanwhile is not
// read.
func contents(f *os.File, n int64) ([]byte, error) {
	buf := make([]byte, n)
	got, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return buf[:got], nil
}

// Entry is one name in a folder and its type, as the folder tells it.
type Entry struct {
	Name string
	Type fs.FileMode
}

// ReadDir returns the entries of the folder at rel below dir, sorted by name.
// More than limit of them is ErrStrange, with the first limit returned.
func ReadDir(dir *os.File, rel string, limit int) ([]Entry, error) {
	return readDir(dir, rel, limit, 0)
}

// ReadDirSameDevice is ReadDir that does not cross into another mount.
func ReadDirSameDevice(dir *os.File, rel string, limit int) ([]Entry, error) {
	return readDir(dir, rel, limit, unix.RESOLVE_NO_XDEV)
}

func readDir(dir *os.File, rel string, limit int, resolve uint64) ([]Entry, error) {
	if rel == "" {
		rel = "."
	}
	f, err := open(dir, rel, unix.O_RDONLY|unix.O_DIRECTORY, resolve)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	list, err := f.ReadDir(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read folder %s: %w", rel, err)
	}
	entries := make([]Entry, 0, len(list))
	for _, e := range list {
		entries = append(entries, Entry{Name: e.Name(), Type: e.Type()})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	if len(entries) > limit {
		return entries[:limit], fmt.Errorf("read folder %s: more than %d entries: %w", rel, limit, ErrStrange)
	}
	return entries, nil
}

// Clock is the time that the kernel stamps files with: that of the last tick
// (CLOCK_REALTIME_COARSE, clock_gettime(2)). What is changed later has no stamp
// before it, and what was changed in an earlier tick has.
func Clock() time.Time {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) // a clock of every Linux since 2.6.32
	return time.Unix(t.Sec, t.Nsec)
}

// Writable reports whether the caller may make files in dir.
func Writable(dir *os.File) bool {
	return unix.Faccessat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}

func open(dir *os.File, rel string, flags, resolve uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: 0, Resolve: noLinks | resolve}
	fd, err := openat2(int(dir.Fd()), rel, &how)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", rel, err)
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// openat2 tries again when a rename elsewhere disturbed the look-up
// (openat2(2), EAGAIN) or a signal came.
func openat2(dirfd int, path string, how *unix.OpenHow) (int, error) {
	const tries = 32
	for i := 0; ; i++ {
		fd, err := unix.Openat2(dirfd, path, how)
		if i < tries && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) {
			continue
		}
		return fd, err //nolint:wrapcheck // the callers name the path
	}
}

func stat(f *os.File) (Info, error) {
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	var s unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, mask, &s); err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	info := Info{
		Mode: fileMode(s.Mode), Size: int64(min(s.Size, 1<<62)), UID: int(s.Uid), GID: int(s.Gid),
		Dev: unix.Mkdev(s.Dev_major, s.Dev_minor), Ino: s.Ino, Changed: moment(s.Ctime), Modified: moment(s.Mtime), Born: time.Time{},
	}
	if s.Mask&unix.STATX_BTIME != 0 {
		info.Born = moment(s.Btime)
	}
	return info, nil
}

func moment(t unix.StatxTimestamp) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

func fileMode(m uint16) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	default:
		mode |= fs.ModeDevice
	}
	return mode
}

// IsOtherMount reports whether an error of ReadDirSameDevice means that the
// folder is another mount.
func IsOtherMount(err error) bool { return errors.Is(err, unix.EXDEV) }
