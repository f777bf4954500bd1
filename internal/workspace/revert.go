package workspace

import (
	"crypto/rand"
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

	// By says what would run it (Runners); empty where nothing would.
	By string `json:"by,omitempty"`

	// Open says that nothing was done about it: it is there still, or what is
	// there was not looked at.
	Open bool `json:"open,omitempty"`
}

// asideSuffix is put behind the name of what may not stay. Nothing reads a
// path of that name.
const asideSuffix = ".set-aside"

// Held is a Guard with its git folders held open, so that they are found again
// wherever a sandbox has moved them.
type Held struct {
	guard Guard
	dirs  map[string]*os.File // by their path at the start; nil for one that could not be opened

	stores []*store // of objects, where they were marked
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
	h.stores = nil
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
// name beside it, not removed: the user may have made it meanwhile. So is an
// index that names what git would never have put there, a git folder within a
// git folder, the .git of a submodule that was made during the run, and data
// that would have git run something or write elsewhere. Symbolic links that
// were made in a guarded git folder since the start are removed, and what they
// held is kept in a note. No link is followed; a git folder that is not at its
// place any more is set right where it is now, and reported. What could not be
// done, or not be looked at, is a Finding that is Open. The sandbox must have
// ended.
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
			found = append(found, open(path, "is gone or a link: do not use git here before you have looked at it"))
			continue
		}
		now := place(dir, path)
		if now != path {
			found = append(found, open(path, "was moved; it is now "+now))
		}
		s := sweeper{
			dir: dir, path: now, since: since, left: left, found: nil, links: nil,
			was: path, others: h.guard.GitDirs, part: slices.Contains(h.guard.Parts, path), short: false,
		}
		s.run()
		found, left = append(found, s.found...), s.left
		if !s.part {
			found = append(found, h.index(dir, now, since)...)
		}
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

func finding(path, what string) Finding {
	return Finding{Path: clean(path), What: clean(what), Open: false}
}

// open is a finding that nothing was done about.
func open(path, what string) Finding {
	return Finding{Path: clean(path), What: clean(what), Open: true}
}

func (h *Held) setAside(path string) (Finding, bool) {
	dir := h.dirs[filepath.Dir(path)]
	if dir == nil {
		var err error
		dir, err = beneath.Dir(filepath.Dir(path))
		if errors.Is(err, fs.ErrNotExist) {
			return Finding{}, false
		}
		if err != nil {
			return open(path, "may be there, behind a link: do not use git here before you have looked at it"), true
		}
		defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	}
	return rename(dir, path)
}

// Split tells findings about which something was done from open ones.
func Split(found []Finding) (done, left []Finding) {
	for _, f := range found {
		if f.Open {
			left = append(left, f)
			continue
		}
		done = append(done, f)
	}
	return done, left
}

// rename sets aside what has the name of path in dir, if there is something.
func rename(dir *os.File, path string) (Finding, bool) {
	to, err := aside(dir, filepath.Base(path), "")
	switch {
	case err == nil:
		return finding(path, "was made during the run; it is now "+to), true
	case errors.Is(err, fs.ErrNotExist):
		return Finding{}, false
	}
	return open(path, "was made during the run and could not be set aside: do not use git here before you have removed it"), true
}

// aside moves what is at rel below dir into the folder into, under its name
// and asideSuffix, and returns where it is now, relative to dir. A sandbox may
// have taken those names: then it is one that could not be foreseen.
func aside(dir *os.File, rel, into string) (string, error) {
	const counted = 10
	name := filepath.Join(into, filepath.Base(rel)+asideSuffix)
	for i := range counted + 1 {
		to := name
		switch {
		case i == counted:
			to += "-" + rand.Text()
		case i > 0:
			to += "-" + strconv.Itoa(i)
		}
		if err := beneath.Move(dir, rel, to); !errors.Is(err, fs.ErrExist) {
			return to, err
		}
	}
	return "", fmt.Errorf("set aside %s: %w", rel, fs.ErrExist)
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
