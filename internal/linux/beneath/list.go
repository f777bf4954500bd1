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

// Node is one name in a folder, and what is there: a link as itself.
type Node struct {
	Name string
	Info
}

// OpenDir opens the folder at rel below dir, so that List can read it. It does
// not cross into another mount. The caller closes it.
func OpenDir(dir *os.File, rel string) (*os.File, error) {
	if rel == "" {
		rel = "."
	}
	return open(dir, rel, unix.O_RDONLY|unix.O_DIRECTORY, unix.RESOLVE_NO_XDEV)
}

// OpenFile opens the regular file at rel below dir for reading, and never waits
// for one that is something else. The caller closes it.
func OpenFile(dir *os.File, rel string) (*os.File, Info, error) {
	f, err := open(dir, rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, unix.RESOLVE_NO_XDEV)
	if err != nil {
		return nil, Info{}, err
	}
	info, err := stat(f)
	if err == nil && !info.Mode.IsRegular() {
		err = fmt.Errorf("read %s: %w", rel, ErrStrange)
	}
	if err != nil {
		_ = f.Close() // read only: nothing to lose
		return nil, Info{}, err
	}
	return f, info, nil
}

// List describes what is in a folder that OpenDir opened, sorted by name; a
// name that went away meanwhile is left out. More than limit of them is
// ErrStrange.
func List(dir *os.File, limit int) ([]Node, error) {
	var nodes []Node
	for {
		names, readErr := dir.Readdirnames(512)
		if len(nodes)+len(names) > limit {
			return nil, fmt.Errorf("read folder %s: more than %d entries: %w", dir.Name(), limit, ErrStrange)
		}
		for _, name := range names {
			info, err := lstatName(dir, name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, Node{Name: name, Info: info})
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return nil, fmt.Errorf("read folder %s: %w", dir.Name(), readErr)
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

// lstatName describes a name of a folder's own listing: it has no slash, so
// nothing is followed.
func lstatName(dir *os.File, name string) (Info, error) {
	var s unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", name, err)
	}
	return Info{
		Mode: fileMode(uint16(s.Mode)), Size: s.Size, UID: int(s.Uid), GID: int(s.Gid), Dev: s.Dev, Ino: s.Ino,
		Changed: time.Unix(s.Ctim.Unix()), Modified: time.Unix(s.Mtim.Unix()), Born: time.Time{},
	}, nil
}
