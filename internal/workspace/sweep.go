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

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Limits of the search in git folders.
const (
	maxSwept      = 50_000
	maxSweptDepth = 12
	// maxSweptRefs is for the logs, and for the refs, of each: git on the host
	// writes there at any commit, so what else lies in the git folder takes
	// nothing from it. It is more than a sandbox may make files, as it is.
	maxSweptRefs = 2_000_000
	maxNoteBytes = 1 << 20
	maxDataBytes = 64 << 10
)

// fixedNames are where git on the host writes, or reads what it acts on, by
// names that a sandbox knows beforehand, in the order of how soon
// (gitrepository-layout(5); builtin/*.c, path.c). None of them is ever a link.
func fixedNames() []string {
	return []string{
		"HEAD", "index", "COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR", "MERGE_AUTOSTASH",
		"SQUASH_MSG", "TAG_EDITMSG", "NOTES_EDITMSG", "EDIT_DESCRIPTION", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD",
		"BISECT_HEAD", "BISECT_LOG", "BISECT_NAMES", "BISECT_START", "BISECT_TERMS", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK", "BISECT_RUN", "BISECT_FIRST_PARENT",
		"addp-hunk-edit.diff", "ADD_EDIT.patch", "description", "gc.log", "gc.pid", "packed-refs", "shallow",
		"logs", "logs/HEAD", "logs/refs", "logs/refs/heads", "logs/refs/remotes", "logs/refs/tags", "logs/refs/stash",
		"refs", "refs/heads", "refs/remotes", "refs/tags", "refs/stash", "objects", "objects/info", "objects/pack",
		"rebase-merge", "rebase-apply", "sequencer", "rr-cache", "modules", "worktrees", "remotes", "branches", "reftable",
	}
}

// sweeper takes from one git folder what git would write through, look
// elsewhere by, or run.
type sweeper struct {
	dir   *os.File
	path  string
	since time.Time
	left  int
	found []Finding
	links []string // that were removed, for the note

	was    string   // path at the start
	others []string // all guarded git folders, as they were named at the start
	part   bool     // it is no git folder, but one of a git folder's
	short  bool     // left did not suffice
}

// run looks at the fixed names first, which no number of other files can hide,
// then at logs and refs, then at the rest. It leaves out the fan-out folders
// of objects, where git makes files under new names only, what the sandbox has
// private copies of, and what is a guarded git folder itself.
func (s *sweeper) run() {
	if s.part {
		if base := filepath.Base(s.was); base == "logs" || base == "refs" {
			s.apart("")
		} else {
			s.tree("", 0)
		}
		s.finish()
		return
	}
	for _, rel := range fixedNames() {
		s.fixed(rel)
	}
	s.strategies()
	s.apart("logs")
	s.apart("refs")
	entries := s.folder("")
	s.repository("", entries)
	for _, e := range entries {
		if e.Type.IsDir() && !slices.Contains([]string{"hooks", "info", "logs", "refs"}, e.Name) {
			s.tree(e.Name, 0)
		}
	}
	s.finish()
}

// apart looks through a folder that is not bounded together with others.
func (s *sweeper) apart(rel string) {
	left := s.left
	s.left = maxSweptRefs
	s.tree(rel, 0)
	s.left = left
}

func (s *sweeper) fixed(rel string) {
	info, err := beneath.Lstat(s.dir, rel)
	switch {
	case err != nil: // not there, or behind a link that is a fixed name itself
	case info.Mode.Type() == fs.ModeSymlink:
		s.link(rel)
	case info.Mode.IsRegular() && strings.HasSuffix(rel, "HEAD") && !strings.Contains(rel, "/"):
		s.ref(rel)
	}
}

func (s *sweeper) finish() {
	if s.short {
		s.found = append(s.found, open(s.path, "holds too much: not all of it was checked; do not use git here before you have looked for links"))
	}
	if len(s.links) == 0 || s.part && filepath.Base(s.was) == "refs" { // where it would be a ref
		return
	}
	s.note(strings.Join(s.links, "\n") + "\n")
}

// note keeps what the removed links held: the user may have made them. A
// sandbox that took the names before has had its links named, as all are.
func (s *sweeper) note(text string) {
	for i := range 10 {
		name := "links" + asideSuffix
		if i > 0 {
			name += "-" + strconv.Itoa(i)
		}
		if err := beneath.Create(s.dir, name, []byte(text)); !errors.Is(err, fs.ErrExist) {
			return
		}
	}
}

func (s *sweeper) tree(rel string, depth int) {
	if depth > maxSweptDepth {
		s.found = append(s.found, open(filepath.Join(s.path, rel), "is nested too deep to be checked for links"))
		return
	}
	if slices.Contains(s.others, filepath.Join(s.was, rel)) {
		return
	}
	objects := rel == "objects" || s.part && rel == "" && filepath.Base(s.was) == "objects"
	entries := s.folder(rel)
	if s.repository(rel, entries) {
		return
	}
	for _, e := range entries {
		if e.Type.IsDir() && (!objects || len(e.Name) != len("ff")) {
			s.tree(filepath.Join(rel, e.Name), depth+1)
		}
	}
}

// folder looks at what lies in one folder and returns its entries.
func (s *sweeper) folder(rel string) []beneath.Entry {
	if s.left <= 0 {
		s.short = true
		return nil
	}
	entries, err := beneath.ReadDir(s.dir, rel, s.left)
	s.left -= len(entries) + 1
	if errors.Is(err, beneath.ErrStrange) {
		s.short = true
	}
	for _, e := range entries {
		s.entry(filepath.Join(rel, e.Name), e.Type)
	}
	return entries
}

func (s *sweeper) entry(rel string, kind fs.FileMode) {
	if kind == fs.ModeSymlink {
		s.link(rel)
		return
	}
	if !kind.IsRegular() {
		return
	}
	switch top, _, _ := strings.Cut(rel, "/"); {
	case top == "refs", s.part && filepath.Base(s.was) == "refs":
		s.ref(rel)
	case (top == "remotes" || top == "branches") && !s.part && s.fresh(rel):
		s.aside(rel, "names where git fetches and pushes, and a repository there has hooks")
	}
}

func (s *sweeper) fresh(rel string) bool {
	info, err := beneath.Lstat(s.dir, rel)
	return err == nil && !info.Changed.Before(s.since)
}

// link removes a link that was made during the run. Left under another name it
// could still be the log of a branch of that name.
func (s *sweeper) link(rel string) {
	if !s.fresh(rel) {
		return
	}
	path := filepath.Join(s.path, rel)
	target, err := beneath.Readlink(s.dir, rel)
	if err == nil && insideRefs(target) && filepath.Base(rel) == "HEAD" {
		return // core.preferSymlinkRefs
	}
	if err := beneath.Remove(s.dir, rel, 1); err != nil {
		s.found = append(s.found, open(path, "is a link made during the run and could not be removed"))
		return
	}
	if line := fmt.Sprintf("%q -> %q", rel, target); len(line)*(len(s.links)+1) < maxNoteBytes {
		s.links = append(s.links, line)
	}
	s.found = append(s.found, finding(path, fmt.Sprintf("was a link to %s, made during the run; it is removed", target)))
}

// insideRefs reports whether git may follow a symbolic ref.
func insideRefs(target string) bool {
	return strings.HasPrefix(target, "refs/") && filepath.Clean(target) == target
}

// ref sets aside a symbolic ref that leads out of refs: git on the host would
// write to the file that it names (files-backend.c).
func (s *sweeper) ref(rel string) {
	if !s.fresh(rel) {
		return
	}
	data, _, err := beneath.ReadFile(s.dir, rel, maxDataBytes)
	target, symbolic := strings.CutPrefix(string(data), "ref:")
	switch {
	case errors.Is(err, beneath.ErrStrange) && strings.Contains(rel, "/"):
		s.aside(rel, "is too long for a ref")
	case err == nil && symbolic && !insideRefs(strings.TrimSpace(target)):
		s.aside(rel, fmt.Sprintf("names %s, which is no ref: git would write there", strings.TrimSpace(target)))
	}
}

// strategies sets aside what an unfinished operation says about the merge
// program that git is to run when it goes on (sequencer.c, read_populate_opts).
// A name with a slash is one that lies in the work tree.
func (s *sweeper) strategies() {
	for _, rel := range []string{"sequencer/opts", "rebase-merge/strategy", "rebase-apply/strategy"} {
		if !s.fresh(rel) {
			continue
		}
		data, _, err := beneath.ReadFile(s.dir, rel, maxDataBytes)
		if errors.Is(err, beneath.ErrStrange) {
			s.aside(rel, "is too long to be looked through")
			continue
		}
		strategy := string(data)
		if filepath.Base(rel) == "opts" {
			cfg, _ := gitdata.ParseConfig(data) // what stands before a syntax error still counts
			strategy, _ = cfg.Get("options", "strategy")
		}
		if strings.Contains(strategy, "/") {
			s.aside(rel, "names a program that git would run to go on with what it began")
		}
	}
}

// repository sets aside a git folder, or what names one, that was made in the
// git folder. Those of submodules and work trees have their places, and are
// named by NewGitDirs.
func (s *sweeper) repository(rel string, entries []beneath.Entry) bool {
	top, _, _ := strings.Cut(rel, "/")
	if s.part || top == "modules" || top == "worktrees" {
		return false
	}
	const what = "is a git repository within a git folder"
	for _, e := range entries {
		if path := filepath.Join(rel, e.Name); strings.EqualFold(e.Name, ".git") && s.fresh(path) {
			s.aside(path, what)
		}
	}
	if rel == "" || !looksBare(entries) || !s.fresh(rel) {
		return false
	}
	s.aside(rel, what)
	return true
}

// aside moves something to the top of the git folder, where it is neither a
// ref nor anything else that git reads by itself. In a part of a git folder
// there is no such place: there it is removed.
func (s *sweeper) aside(rel, what string) {
	path := filepath.Join(s.path, rel)
	if s.part {
		if err := beneath.Remove(s.dir, rel, 1); err != nil {
			s.found = append(s.found, open(path, what+"; it was made during the run and could not be removed"))
			return
		}
		s.found = append(s.found, finding(path, what+"; it was made during the run and is removed"))
		return
	}
	to, err := aside(s.dir, rel, "")
	if err != nil {
		s.found = append(s.found, open(path, what+"; it was made during the run and could not be set aside"))
		return
	}
	s.found = append(s.found, finding(path, what+"; it was made during the run and is now "+filepath.Join(s.path, to)))
}
