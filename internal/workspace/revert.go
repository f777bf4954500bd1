package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Finding is one thing that a run left in the workspace or did to a private
// copy. Both texts are safe to print: control characters are escaped.
type Finding struct {
	Path string `json:"path"` // of the host
	What string `json:"what"` // half a sentence
}

// asideSuffix is put behind the name of what may not stay. Nothing reads a
// path of that name.
const asideSuffix = ".set-aside"

// Limits of the search for links in a git folder.
const (
	maxSwept      = 50_000
	maxSweptDepth = 12
)

// clockSlack is how much older than the wall clock a file system's time stamp
// may be: it is taken at the last tick (CONFIG_HZ, at least 100).
const clockSlack = 20 * time.Millisecond

// Held is a Guard with its git folders held open, so that they are found again
// wherever a sandbox has moved them.
type Held struct {
	guard Guard
	dirs  map[string]*os.File // by their path at the start; nil for one that could not be opened
}

// Hold opens the git folders of a guard. It is to be done before the sandbox
// runs. Release lets go of them.
func Hold(g Guard) *Held {
	h := &Held{guard: g, dirs: make(map[string]*os.File, len(g.GitDirs)+len(g.Parts))}
	for _, path := range slices.Concat(g.GitDirs, g.Parts) {
		dir, err := beneath.Dir(path)
		if err != nil {
			dir = nil
		}
		h.dirs[path] = dir
	}
	return h
}

// Release closes what is held. It may be called twice, and on nil.
func (h *Held) Release() {
	if h == nil {
		return
	}
	for _, dir := range h.dirs {
		if dir != nil {
			_ = dir.Close() // O_PATH: nothing to lose
		}
	}
	clear(h.dirs)
}

// Revert is Hold and Held.Revert in one, for a sandbox that could not move
// anything.
func Revert(g Guard, since time.Time) []Finding {
	h := Hold(g)
	defer h.Release()
	return h.Revert(since)
}

// Revert undoes what a sandbox may not leave behind, and says what it was.
//
// What was not there at the start (Guard.Absent) is set aside under another
// name beside it, not removed: the user may have made it meanwhile. Symbolic
// links that were made in a guarded git folder since the start are removed. No
// link is followed; a git folder that is not at its place any more is set
// right where it is now, and reported. The sandbox must have ended.
func (h *Held) Revert(since time.Time) []Finding {
	var found []Finding
	for _, path := range h.guard.Absent {
		if f, ok := h.setAside(path); ok {
			found = append(found, f)
		}
	}
	left := maxSwept
	for _, path := range slices.Concat(h.guard.GitDirs, h.guard.Parts) {
		dir := h.dirs[path]
		if dir == nil {
			found = append(found, finding(path, "is gone or a link: look at it before you use git here"))
			continue
		}
		now := place(dir, path)
		if now != path {
			found = append(found, finding(path, "was moved; it is now "+now))
		}
		s := sweeper{
			dir: dir, path: now, since: since.Add(-clockSlack), left: left, found: nil,
			was: path, others: h.guard.GitDirs, part: slices.Contains(h.guard.Parts, path), short: false,
		}
		s.run()
		found, left = append(found, s.found...), s.left
	}
	return found
}

// place says where a held folder is now, as far as the kernel tells.
func place(dir *os.File, was string) string {
	now, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())))
	if err != nil {
		return was
	}
	return now
}

func finding(path, what string) Finding { return Finding{Path: clean(path), What: clean(what)} }

func (h *Held) setAside(path string) (Finding, bool) {
	dir := h.dirs[filepath.Dir(path)]
	if dir == nil {
		var err error
		dir, err = beneath.Dir(filepath.Dir(path))
		if errors.Is(err, fs.ErrNotExist) {
			return Finding{}, false
		}
		if err != nil {
			return finding(path, "may be there, behind a link: look at it before you use git here"), true
		}
		defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	}
	return rename(dir, path)
}

func rename(dir *os.File, path string) (Finding, bool) {
	name := filepath.Base(path)
	for i := range 100 {
		to := name + asideSuffix
		if i > 0 {
			to += "-" + strconv.Itoa(i)
		}
		err := beneath.Rename(dir, name, to)
		switch {
		case err == nil:
			return finding(path, "was made during the run; it is now "+to), true
		case errors.Is(err, fs.ErrNotExist):
			return Finding{}, false
		case !errors.Is(err, fs.ErrExist):
			return finding(path, "was made during the run and could not be set aside"), true
		}
	}
	return finding(path, "was made during the run; remove it, and the older ones beside it"), true
}

// sweeper removes fresh links from one git folder.
type sweeper struct {
	dir   *os.File
	path  string
	since time.Time
	left  int
	found []Finding

	was    string   // path at the start
	others []string // all guarded git folders, as they were named at the start
	part   bool     // it is no git folder, but one of a git folder's
	short  bool     // left did not suffice
}

// run looks at the whole git folder, the places git writes to most first:
// logs, refs and objects. It leaves out the fan-out folders of objects, where
// git makes files under new names only, what the sandbox has private copies
// of, and what is a guarded git folder itself.
func (s *sweeper) run() {
	if s.part {
		s.tree("", 0)
		s.finish()
		return
	}
	var rest []string
	for _, e := range s.folder("") {
		switch {
		case !e.Type.IsDir() || e.Name == "hooks" || e.Name == "info":
		case e.Name == "logs" || e.Name == "refs":
			s.tree(e.Name, 0)
		default:
			rest = append(rest, e.Name)
		}
	}
	for _, name := range rest {
		s.tree(name, 0)
	}
	s.finish()
}

func (s *sweeper) finish() {
	if s.short {
		s.found = append(s.found, finding(s.path, "holds too much: not all of it was checked for links"))
	}
}

func (s *sweeper) tree(rel string, depth int) {
	if depth > maxSweptDepth {
		s.found = append(s.found, finding(filepath.Join(s.path, rel), "is nested too deep to be checked for links"))
		return
	}
	if slices.Contains(s.others, filepath.Join(s.was, rel)) {
		return
	}
	objects := rel == "objects" || s.part && rel == "" && filepath.Base(s.was) == "objects"
	for _, e := range s.folder(rel) {
		if e.Type.IsDir() && (!objects || len(e.Name) != len("ff")) {
			s.tree(filepath.Join(rel, e.Name), depth+1)
		}
	}
}

// folder removes fresh links in one folder and returns its entries.
func (s *sweeper) folder(rel string) []beneath.Entry {
	if s.left <= 0 {
		s.short = true
		return nil
	}
	entries, err := beneath.ReadDir(s.dir, rel, s.left)
	s.left -= len(entries) + 1
	if errors.Is(err, beneath.ErrStrange) {
		s.found = append(s.found, finding(filepath.Join(s.path, rel), "holds too much to be checked for links"))
	}
	for _, e := range entries {
		if e.Type == fs.ModeSymlink {
			s.link(filepath.Join(rel, e.Name))
		}
	}
	return entries
}

func (s *sweeper) link(rel string) {
	info, err := beneath.Lstat(s.dir, rel)
	if err != nil || info.Changed.Before(s.since) {
		return
	}
	path := filepath.Join(s.path, rel)
	target, err := beneath.Readlink(s.dir, rel)
	if err == nil && filepath.IsLocal(target) && strings.HasPrefix(target, "refs/") && filepath.Base(rel) == "HEAD" {
		return // core.preferSymlinkRefs
	}
	if err := beneath.Remove(s.dir, rel, 1); err != nil {
		s.found = append(s.found, finding(path, "is a link made during the run and could not be removed"))
		return
	}
	s.found = append(s.found, finding(path, fmt.Sprintf("was a link to %s, made during the run; it is removed", target)))
}

// maxCleanRunes bounds what is printed of one name.
const maxCleanRunes = 300

// clean makes a text that a sandbox had a hand in safe to print.
func clean(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > maxCleanRunes {
			b.WriteString("…")
			break
		}
		if r == '\\' || r != '\ufffd' && strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
	}
	return b.String()
}
