package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Limits of the search for git folders, besides its time.
const (
	maxScanFindings = 100
	maxScanFolder   = 1 << 20 // entries of one folder
	// maxModuleFolders bounds the folders looked at below one folder modules.
	maxModuleFolders = 1000
)

// NewGitDirs looks through the workspace for git folders that a run made, or
// whose commands it changed, other than those that are guarded. The host's git
// takes commands from them as soon as the user works there. Folders near the
// top are looked at first; the search ends after budget by the clock now, and
// truncated says that it did not see everything. It follows no link and stays
// on one file system.
func NewGitDirs(g Guard, since time.Time, budget time.Duration, now func() time.Time) (found []Finding, truncated bool) {
	root, err := beneath.Dir(g.Root)
	if err != nil {
		return nil, true
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	s := scanner{root: root, guard: g, since: since, queue: []string{""}, found: nil, truncated: false, more: 0}
	s.found = newModules(g, s.since)
	end := now().Add(budget)
	for len(s.queue) > 0 {
		if now().After(end) {
			return s.counted(), true
		}
		rel := s.queue[0]
		s.queue = s.queue[1:]
		s.folder(rel)
		if more := len(s.found) - maxScanFindings; more > 0 { // no number of them hides from the count
			s.found, s.more = s.found[:maxScanFindings], s.more+more
		}
	}
	return s.counted(), s.truncated
}

// counted returns what was found, and as a number what is beyond those kept.
func (s *scanner) counted() []Finding {
	if s.more > 0 {
		s.found = append(s.found, open(s.guard.Root, fmt.Sprintf("holds %d more such git folders, which are not listed", s.more)))
	}
	return s.found
}

type scanner struct {
	root      *os.File
	guard     Guard
	since     time.Time
	queue     []string
	found     []Finding
	truncated bool
	more      int // found beyond maxScanFindings
}

// folder looks at one folder and queues those in it.
func (s *scanner) folder(rel string) {
	entries, err := beneath.ReadDirSameDevice(s.root, rel, maxScanFolder)
	if err != nil {
		s.truncated = s.truncated || !beneath.IsOtherMount(err)
		return
	}
	for _, e := range entries {
		path := filepath.Join(rel, e.Name)
		if strings.EqualFold(e.Name, ".git") { // case matters on the host only if its file system says so
			s.dotGit(path, e.Type)
			continue
		}
		if e.Type.IsDir() {
			s.queue = append(s.queue, path)
		}
	}
	if looksBare(entries) && !s.guarded(rel) {
		s.gitDir(rel, "is a bare git repository made")
	}
}

// looksBare reports whether git may take a folder with these entries for a git
// folder without it being named .git (setup.c, is_git_directory): it has HEAD,
// and objects and refs, or a commondir that says where they are. git follows
// links to all three and does not mind what kind of file they are.
func looksBare(entries []beneath.Entry) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e beneath.Entry) bool { return e.Name == name })
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// newModules reports git folders of submodules that were not there at the
// start. They lie in a git folder, so that nothing of the work tree shows
// them, and `git submodule update` takes one that is there for its own.
func newModules(g Guard, since time.Time) (found []Finding) {
	for _, path := range g.GitDirs {
		dir, err := beneath.Dir(path)
		if err != nil {
			continue // Revert has said so
		}
		s := scanner{root: dir, guard: Guard{Root: path, GitDirs: g.GitDirs, Parts: nil, Absent: nil, Watch: nil, Inodes: g.Inodes}, since: since, queue: []string{"modules"}, found: nil, truncated: false, more: 0}
		s.modules()
		found = append(found, s.found...)
		_ = dir.Close() // O_PATH: nothing to lose
	}
	return found
}

func (s *scanner) modules() {
	for looked := 0; len(s.queue) > 0; looked++ {
		if looked >= maxModuleFolders {
			s.add("modules", "holds too much to be looked through for git folders of submodules")
			return
		}
		rel := s.queue[0]
		s.queue = s.queue[1:]
		entries, _ := beneath.ReadDir(s.root, rel, maxScanFolder) // not there is the usual case
		if slices.ContainsFunc(entries, func(e beneath.Entry) bool { return e.Name == "HEAD" }) {
			if !s.guarded(rel) {
				s.gitDir(rel, "is a submodule's git folder made")
			}
			continue // modules of its own are looked at for themselves, or reported with it
		}
		for _, e := range entries {
			if e.Type.IsDir() {
				s.queue = append(s.queue, filepath.Join(rel, e.Name))
			}
		}
	}
}

func (s *scanner) dotGit(rel string, kind fs.FileMode) {
	if s.guarded(rel) {
		return
	}
	if kind.IsDir() {
		s.gitDir(rel, "was made")
		return
	}
	if s.fresh(rel) {
		s.add(rel, "was made or changed during the run: git there takes commands from what it names")
	}
}

// guarded reports whether a path is a git folder with private copies: it is
// named in the guard and is no other one in the place of that.
func (s *scanner) guarded(rel string) bool {
	path := filepath.Join(s.guard.Root, rel)
	if !slices.Contains(s.guard.GitDirs, path) {
		return false
	}
	info, err := beneath.Lstat(s.root, rel)
	return err == nil && info.Mode.IsDir() && info.Born.Before(s.since) && info.Ino == s.guard.Inodes[path]
}

// gitDir reports a git folder that was made during the run or moved to its
// place, or in which something that git takes commands from was changed.
func (s *scanner) gitDir(rel, made string) {
	info, err := beneath.Lstat(s.root, rel)
	if err != nil {
		return
	}
	if !info.Born.IsZero() && !info.Born.Before(s.since) {
		s.add(rel, made+" during the run: git there takes commands from it")
		return
	}
	// HEAD last: a folder that has the rest already is a repository with it.
	for _, name := range []string{"config", "config.worktree", "hooks", "info", "info/attributes", "commondir", "HEAD"} {
		if s.fresh(filepath.Join(rel, name)) {
			s.add(rel, "has its "+name+" changed during the run: git there takes commands from it")
			return
		}
	}
	hooks := filepath.Join(rel, "hooks")
	look := &scanner{root: s.root, guard: s.guard, since: s.since, queue: nil, found: nil, truncated: false, more: 0}
	left := maxHostFiles
	if look.hostFolder(hooks, "has a hook changed during the run", &left); len(look.found) > 0 {
		s.add(rel, "has a hook changed during the run")
		return
	}
	// A move changes the folder and the one that it comes to. So does other
	// work in both: what was only worked with is named too.
	if rel != "" && !info.Changed.Before(s.since) && s.fresh(filepath.Dir(rel)) {
		s.add(rel, "may have been moved here during the run: git there takes commands from it")
	}
}

// fresh reports whether a file was made, changed or renamed during the run.
func (s *scanner) fresh(rel string) bool {
	if rel == "." {
		rel = ""
	}
	info, err := beneath.Lstat(s.root, rel)
	return err == nil && !info.Changed.Before(s.since)
}

func (s *scanner) add(rel, what string) {
	s.found = append(s.found, finding(filepath.Join(s.guard.Root, rel), what))
}
