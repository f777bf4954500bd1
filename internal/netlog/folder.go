package netlog

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
)

// Dir is the folder of the records below a user's state folder.
func Dir(state string) string { return filepath.Join(state, "net") }

// prepare makes the folder, 0700 and the caller's own, and opens it.
func prepare(dir string, uid int) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.IsDir() || fi.Mode().Perm()&0o077 != 0 || !ok || int(st.Uid) != uid {
		return nil, bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s is not a private folder of user %d", dir, uid),
			"remove it, or set XDG_STATE_HOME to a folder of yours")
	}
	return os.OpenRoot(dir)
}

// file is one file of the records: a part of a class of a run.
type file struct {
	began time.Time // of the run
	id    bailey.SandboxID
	class string
	part  int
}

const (
	stamp = "20060102T150405.000Z"

	mostFiles = 1000             // of all runs
	mostBytes = int64(256) << 20 // of the runs that have ended
	young     = 10 * time.Second // a file that may not be locked yet
)

// A name sorts by the start of the run. It is read strictly: what else lies in
// the folder is nobody's.
var fileName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\d{8}T\d{6}\.\d{3}Z)-(sbx_[0-9a-f]{16})-(allow|dns|deny)\.(\d{1,9})\.jsonl$`)
})

func (f file) name() string {
	return fmt.Sprintf("%s-%s-%s.%d.jsonl", f.began.UTC().Format(stamp), f.id, f.class, f.part)
}

func parseName(name string) (file, bool) {
	m := fileName().FindStringSubmatch(name)
	if m == nil {
		return file{}, false
	}
	began, err := time.Parse(stamp, m[1])
	part, err2 := strconv.Atoi(m[4])
	return file{began, bailey.SandboxID(m[2]), m[3], part}, err == nil && err2 == nil
}

// list returns the files of a folder, the oldest run first, the parts of each
// class in their order.
func list(root *os.Root) ([]file, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	if err = firstOf(err, d.Close()); err != nil {
		return nil, err
	}
	var out []file
	for _, name := range names {
		if f, ok := parseName(name); ok {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b file) int {
		if a.began.Equal(b.began) && a.id == b.id && a.class == b.class {
			return a.part - b.part
		}
		return strings.Compare(a.name(), b.name())
	})
	return out, nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// prune removes the oldest files until the folder is within its bounds. Those
// that a running bailey writes to are locked, and stay.
func prune(root *os.Root, now time.Time) {
	files, err := list(root)
	if err != nil {
		return
	}
	var total int64
	sizes := make([]fs.FileInfo, len(files))
	for i, f := range files {
		if fi, err := root.Lstat(f.name()); err == nil {
			sizes[i] = fi
			total += fi.Size()
		}
	}
	left := len(files)
	for i, f := range files {
		if total <= mostBytes && left < mostFiles {
			return
		}
		if sizes[i] != nil && now.Sub(sizes[i].ModTime()) > young && remove(root, f.name()) {
			total -= sizes[i].Size()
			left--
		}
	}
}

// remove removes a file that nobody writes to.
func remove(root *os.Root, name string) bool {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return lock(f) == nil && root.Remove(name) == nil
}

// lock marks a file as written to, for as long as it is open (flock(2)).
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
