package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/linux/inotify"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// How long a change may go unseen that makes no event: a write by a mapping or
// by another name of the file. And how long anything may where the kernel has
// no inotify watch left.
const (
	tripPeriod   = 250 * time.Millisecond
	tripPolled   = 20 * time.Millisecond
	tripPatience = 50 * time.Millisecond // for the end to be seen
	maxTrips     = 16
)

// Tripwire watches the guarded git folders while a sandbox runs. Before the
// end of the run the host's git, a prompt or an editor may look there, and a
// few names are enough to have it run the sandbox's program, or write to a
// file of the user's. No program of good will makes them.
//
// It sets aside what it finds at once, and the sandbox is to be ended.
type Tripwire struct {
	held    *Held
	watcher *inotify.Watcher // nil where there is none
	waker   *inotify.Watcher // the same, as long as there ever was one
	folders map[int]watched
	wires   []*wire
	tripped chan Finding
	quit    chan struct{}
	done    chan struct{}
	stop    sync.Once
	found   []Finding
}

// wire is what may not happen in one git folder.
type wire struct {
	path   string
	dir    *os.File
	absent []string          // names below it that may not appear
	links  map[string]uint64 // inodes of links that were there at the start
	index  stamp
	skip   bool // the index could not be read at the start
}

// watched is a folder in a git folder.
type watched struct {
	wire *wire
	rel  string
}

// stamp tells one state of a file from another.
type stamp struct {
	ino     uint64
	size    int64
	changed time.Time
}

// NewTripwire begins to watch. It is to be done before the sandbox runs; Run
// is to be called once, then Stop.
func NewTripwire(g Guard) *Tripwire {
	t := &Tripwire{
		held: Hold(g), watcher: nil, waker: nil, folders: make(map[int]watched), wires: nil,
		tripped: make(chan Finding, 1), quit: make(chan struct{}), done: make(chan struct{}), stop: sync.Once{}, found: nil,
	}
	if w, err := inotify.New(); err == nil {
		t.watcher, t.waker = w, w
	}
	for _, path := range g.GitDirs {
		if dir := t.held.dirs[path]; dir != nil {
			t.wires = append(t.wires, t.newWire(path, dir, g.Absent))
		}
	}
	return t
}

func (t *Tripwire) newWire(path string, dir *os.File, absent []string) *wire {
	w := &wire{path: path, dir: dir, absent: nil, links: make(map[string]uint64), index: stampOf(dir), skip: false}
	for _, a := range absent {
		rel, ok := strings.CutPrefix(a, path+"/")
		if ok && t.innermost(a) == path && dangerous(rel, dir, path) {
			w.absent = append(w.absent, rel)
		}
	}
	for _, name := range fixedNames() {
		if info, err := beneath.Lstat(dir, name); err == nil && info.Mode.Type() == fs.ModeSymlink {
			w.links[name] = info.Ino
		}
	}
	index, err := readIndex(dir, path)
	w.skip = err != nil || len(index.Bad) > 0
	for _, rel := range []string{"", "logs", "logs/refs", "logs/refs/heads"} {
		t.watch(w, rel)
	}
	return w
}

// innermost returns the git folder that a path belongs to: one may lie in
// another.
func (t *Tripwire) innermost(path string) (top string) {
	for _, dir := range t.held.guard.GitDirs {
		if sandbox.Within(path, dir) && len(dir) > len(top) {
			top = dir
		}
	}
	return top
}

// dangerous leaves out what does nothing by itself while the sandbox runs, and
// is made by programs of good will: info holds what to leave out of status,
// and config.worktree is read only where the configuration says so.
func dangerous(rel string, dir *os.File, path string) bool {
	switch rel {
	case "info":
		return false
	case "config.worktree":
		return gitdata.ReadFormat(dir, path).WorktreeConfig
	}
	return true
}

func (t *Tripwire) watch(w *wire, rel string) {
	if t.watcher == nil {
		return
	}
	dir := w.dir
	if rel != "" {
		sub, err := beneath.Sub(w.dir, rel)
		if err != nil {
			return // what is made there later is seen by period
		}
		defer func() { _ = sub.Close() }() // O_PATH: nothing to lose
		dir = sub
	}
	if id, err := t.watcher.Add(dir); err == nil {
		t.folders[id] = watched{wire: w, rel: rel}
		return
	}
	_ = t.watcher.Close() // the kernel's bound: what is left is to look all the time
	t.watcher = nil
}

// Tripped yields the first thing that was found, and is closed when Run ends.
func (t *Tripwire) Tripped() <-chan Finding { return t.tripped }

// Run watches until Stop.
func (t *Tripwire) Run() {
	defer close(t.done)
	defer close(t.tripped)
	period := tripPolled
	if t.watcher != nil {
		const atOnce = 16 // git folders that cost next to nothing
		period = tripPeriod * time.Duration(1+len(t.wires)/atOnce)
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-tick.C:
			t.all()
		default:
			t.wait(tick.C)
		}
	}
}

// wait has events seen to.
func (t *Tripwire) wait(tick <-chan time.Time) {
	if t.watcher == nil {
		select {
		case <-t.quit:
		case <-tick:
			t.all()
		}
		return
	}
	events, err := t.watcher.Wait(tripPatience)
	if err != nil {
		_ = t.watcher.Close() // it is of no use any more
		t.watcher = nil
	}
	var changed []*wire
	for _, e := range events {
		if e.Lost {
			t.all()
			continue
		}
		f, ok := t.folders[e.Folder]
		if !ok {
			continue
		}
		t.event(f, filepath.Join(f.rel, e.Name))
		if !slices.Contains(changed, f.wire) {
			changed = append(changed, f.wire)
		}
	}
	for _, w := range changed {
		t.look(w)
	}
}

// event judges a name that appeared, even if it is gone by now.
func (t *Tripwire) event(f watched, rel string) {
	if slices.Contains(f.wire.absent, rel) {
		t.trip(f.wire, rel, "was made while the sandbox ran, and the host's git takes commands from it")
		return
	}
	if f.rel != "" {
		t.link(f.wire, rel)
	}
	if strings.HasPrefix(rel, "sharedindex.") {
		f.wire.index = stamp{} // what the index says has changed though it has not
	}
}

func (t *Tripwire) all() {
	for _, w := range t.wires {
		t.look(w)
	}
}

// look looks at one git folder as it is now.
func (t *Tripwire) look(w *wire) {
	for _, rel := range w.absent {
		if _, err := beneath.Lstat(w.dir, rel); err == nil {
			t.trip(w, rel, "was made while the sandbox ran, and the host's git takes commands from it")
		}
	}
	for _, rel := range fixedNames() {
		t.link(w, rel)
	}
	now := stampOf(w.dir)
	if w.skip || now == w.index {
		return
	}
	w.index = now
	if now.size > gitdata.MaxIndexBytes {
		t.trip(w, "index", "grew too large to be read while the sandbox ran")
		return
	}
	// One that cannot be read is being written, or git cannot read it either.
	if index, _ := readIndex(w.dir, w.path); len(index.Bad) > 0 {
		t.trip(w, "index", "names what git never puts there, and the host's git would write, remove or run")
	}
}

func (t *Tripwire) link(w *wire, rel string) {
	info, err := beneath.Lstat(w.dir, rel)
	if err != nil || info.Mode.Type() != fs.ModeSymlink || info.Ino == w.links[rel] {
		return
	}
	if target, err := beneath.Readlink(w.dir, rel); err == nil && filepath.Base(rel) == "HEAD" && insideRefs(target) {
		return // core.preferSymlinkRefs
	}
	t.trip(w, rel, "became a link while the sandbox ran, and the host's git writes to what it names")
}

// trip sets aside what was found, and says so the first time. The sandbox may
// still make it anew: that is set aside as well, now or by Revert.
func (t *Tripwire) trip(w *wire, rel, what string) {
	at := place(w.dir, w.path)
	to, err := aside(w.dir, rel, "")
	f := finding(filepath.Join(at, rel), what)
	if err == nil {
		f = finding(filepath.Join(at, rel), what+"; it is now "+filepath.Join(at, to))
	}
	if len(t.found) < maxTrips {
		t.found = append(t.found, f)
	}
	select {
	case t.tripped <- f:
	default: // it has been said
	}
}

func stampOf(dir *os.File) stamp {
	info, err := beneath.Lstat(dir, "index")
	if err != nil {
		return stamp{ino: 0, size: 0, changed: time.Time{}}
	}
	return stamp{ino: info.Ino, size: info.Size, changed: info.Changed}
}

// Stop ends Run, waits for it, lets go of everything, and returns what was
// found. It may be called again, and on nil. Run must have been called.
func (t *Tripwire) Stop() []Finding {
	if t == nil {
		return nil
	}
	t.stop.Do(func() {
		close(t.quit)
		if w := t.waker; w != nil {
			w.Wake()
		}
		<-t.done
		t.held.Release()
		if w := t.watcher; w != nil {
			// The kernel lets the closer wait until nobody can be reading the
			// watches (fsnotify_wait_marks_destroyed), some 10 ms.
			go func() { _ = w.Close() }() // nothing to lose
		}
	})
	return t.found
}
