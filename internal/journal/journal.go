package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
)

// Bounds of what is kept of runs that have ended.
const (
	keepRuns = 20
	keepFor  = 7 * 24 * time.Hour
)

// The names in the folder of a run.
const (
	metaName = "run.json"
	endName  = "end.json"
	lockName = "lock" // locked as long as the run lasts
)

// mostMeta bounds what is read of the former two.
const mostMeta = 64 << 10

// Stream says who wrote something.
type Stream byte

// The streams.
const (
	Stdout Stream = 'o'
	Stderr Stream = 'e'
	Said   Stream = 'b' // by bailey itself
)

// Run is what is known of a run from its start.
type Run struct {
	Name      string           `json:"name"`
	ID        bailey.SandboxID `json:"id"`
	Started   time.Time        `json:"started"`
	Workspace string           `json:"workspace"`
	Command   []string         `json:"command"`
	TTY       bool             `json:"tty"`   // the command has a terminal
	Limit     int64            `json:"limit"` // bytes of output that are kept
}

// End is how it ended.
type End struct {
	Code  int       `json:"code"`
	Limit string    `json:"limit,omitempty"` // that ended it
	At    time.Time `json:"at"`
}

// Dir is where the runs are.
func Dir(state string) string { return filepath.Join(state, "logs") }

// folder is the name of a run's own folder: no name has a dot in it.
func folder(name string, id bailey.SandboxID) string { return name + "." + string(id) }

// open opens the folder of all runs, which is the user's own.
func open(state string, uid int) (*os.Root, error) {
	root, err := os.OpenRoot(Dir(state))
	if err != nil {
		return nil, err
	}
	fi, err := root.Stat(".")
	if err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid || fi.Mode().Perm()&0o077 != 0 {
			err = bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s is not a private folder of user %d", Dir(state), uid), "remove it, or set XDG_STATE_HOME to a folder of yours")
		}
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// prune removes the oldest of those that have ended. Runs that last are locked.
func prune(root *os.Root, now time.Time) {
	ended := 0
	for _, r := range list(root) {
		if Lasts(root, r.dir) {
			continue
		}
		if ended++; ended > keepRuns || now.Sub(r.at) > keepFor {
			_ = root.RemoveAll(r.dir)
		}
	}
}

// kept is a run's folder and when something was last written there.
type kept struct {
	dir string
	at  time.Time
}

// list returns the runs, newest first.
func list(root *os.Root) []kept {
	d, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }() // read only: nothing to lose
	names, _ := d.Readdirnames(-1)
	var runs []kept
	for _, name := range names {
		fi, err := root.Lstat(name)
		if err != nil || !fi.IsDir() || !strings.Contains(name, ".") {
			continue
		}
		runs = append(runs, kept{name, fi.ModTime()})
	}
	slices.SortFunc(runs, func(a, b kept) int { return b.at.Compare(a.at) })
	return runs
}

// Lasts reports whether the run in a folder goes on: its holder has the lock.
func Lasts(root *os.Root, dir string) bool {
	f, err := root.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // and with it the lock
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

func readJSON(root *os.Root, name string, into any) error {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	buf := make([]byte, mostMeta)
	n := 0
	for n < len(buf) {
		m, err := f.Read(buf[n:])
		if n += m; err != nil {
			break
		}
	}
	return json.Unmarshal(buf[:n], into)
}

func writeJSON(root *os.Root, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := root.WriteFile(name+".new", b, 0o600); err != nil {
		return err
	}
	return root.Rename(name+".new", name)
}

// Names returns the names of the runs whose output is kept, newest first.
func Names(state string, uid int) []string {
	root, err := open(state, uid)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }() // read only: nothing to lose
	var names []string
	for _, r := range list(root) {
		name, _, _ := strings.Cut(r.dir, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// isAbsent holds of the error for what is not there.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
