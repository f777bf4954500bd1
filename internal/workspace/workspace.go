package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Request says which folder is asked for, and by whom.
type Request struct {
	Dir      string   // absolute, as the user named it; links are followed
	At       *Place   // that folder, if it is open already: then Dir is but its name
	UID      int      // of the caller
	Home     string   // of the caller; may be empty
	Passwd   string   // the file of the host's users; "" is /etc/passwd
	Own      []string // bailey's configuration, data, state and runtime folders
	ReadOnly bool     // the sandbox only reads it

	// GitConfigs are the caller's own configuration files of git and the
	// system's (gitdata.UserFiles). What they name in the workspace is watched.
	GitConfigs []string
}

// Workspace is a folder that a sandbox may be given, and what goes with it.
type Workspace struct {
	Path     string          // absolute, no link in it; the same inside
	Inside   string          // where it is inside, if not at Path
	UID, GID int             // its owner, for the id map of a root caller
	Mounts   []bailey.Mount  // the folder first, then git folders; each after those it lies in
	Links    []bailey.Link   // the path as the user named it, where that differs
	Shadows  []bailey.Shadow // private copies, to be put over Mounts
	SafeDirs []string        // work trees that git inside must trust, besides Path
	Guard    Guard           // what to check after the run
	Notes    []string        // sentences for the header
}

// Guard is what Revert, HostRun and NewGitDirs need to know of a workspace. It
// has a wire form because the watchdog keeps one too. The zero value guards
// nothing. The instant since when things count as the run's is one of
// beneath.Clock: by the wall clock, which is ahead of the stamps that files get,
// what was made right after it would be older.
type Guard struct {
	Root    string   `json:"root"`     // the workspace
	GitDirs []string `json:"git_dirs"` // git folders that the sandbox may write to
	Parts   []string `json:"parts"`    // folders that it may write to of a git folder that it may not
	Absent  []string `json:"absent"`   // paths that were not there at the start and must not be left behind
	Watch   []string `json:"watch"`    // files and folders of the tree that the host's git runs, or reads commands from

	// Programs are files and folders of the tree that git's configuration has
	// in its command lines.
	Programs []string `json:"programs"`

	// Inodes tells another folder in the place of one that was there at the
	// start: of GitDirs, and of folders above what HostRun looks at.
	Inodes map[string]uint64 `json:"inodes"`
}

// Open checks a folder and lays out what a sandbox sees of it.
//
// Errors are of type bailey.Error: NotFound and Invalid for a folder that is
// not there or may not be a workspace, Forbidden for one that the caller may
// not write to. Each names the folder, the reason and what to do.
func Open(r Request) (*Workspace, error) {
	if r.At == nil {
		at, err := placeAt(r.Dir)
		if err != nil {
			return nil, err
		}
		defer at.Close()
		r.At = at
	}
	path, dir := r.At.path, r.At.dir
	for _, name := range []string{r.Dir, path} {
		if !filepath.IsAbs(name) || !isText(name) {
			return nil, unusable(name)
		}
	}
	if err := r.refuse(path); err != nil {
		return nil, err
	}
	info, err := beneath.Lstat(dir, "")
	if err != nil {
		return nil, bailey.WrapError(bailey.Internal, fmt.Sprintf("look at the workspace %s", path), err, "")
	}
	if !r.ReadOnly && !beneath.Writable(dir) {
		return nil, bailey.NewError(bailey.Forbidden, fmt.Sprintf("you may not write to %s (it belongs to user %d)", path, info.UID),
			"choose a folder of your own, or use --read-only")
	}
	return layOut(r, path, dir)
}

// layOut lays out the folder at a path, which is open as dir and was checked.
func layOut(r Request, path string, dir *os.File) (*Workspace, error) {
	info, err := beneath.Lstat(dir, "")
	if err != nil {
		return nil, bailey.WrapError(bailey.Internal, fmt.Sprintf("look at the folder %s", path), err, "")
	}
	l := &layout{request: r, named: make(map[string]configNamed), global: configNamed{hooks: nil, programs: nil, files: nil}, odds: nil, w: &Workspace{
		Path: path, UID: info.UID, GID: info.GID, Mounts: nil, Links: typedLink(r.Dir, path), Shadows: nil, SafeDirs: nil,
		Guard: Guard{Root: path, GitDirs: nil, Parts: nil, Absent: nil, Watch: nil, Inodes: make(map[string]uint64)}, Notes: nil,
	}}
	l.mount(path, "workspace")
	if err := l.same(path, dir); err != nil {
		return nil, err
	}
	l.globalConfig()
	if err := l.git(); err != nil {
		return nil, err
	}
	l.watchGlobal()
	l.remember(dir)
	return l.w, nil
}

func unusable(dir string) error {
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("workspace %q is not usable", dir),
		"use an absolute path in UTF-8 without control characters")
}

// isText reports whether a path survives JSON, a terminal and a generated
// file unchanged.
func isText(path string) bool {
	return utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// typedLink makes the path that the user typed work inside too. It is one link
// at that very path, so that a linked parent (/home on some systems) does not
// get in the way of the sandbox's own folders. A path in a memory file system
// or a system folder of the sandbox is left out.
func typedLink(typed, path string) []bailey.Link {
	typed = filepath.Clean(typed)
	if typed == path || sandbox.Within(typed, path) {
		return nil
	}
	for _, dir := range []string{"/usr", "/etc", "/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/var/run", "/home/agent", "/bin", "/sbin", "/lib", "/lib64"} {
		if sandbox.Within(typed, dir) {
			return nil
		}
	}
	return []bailey.Link{{Path: typed, Target: path}}
}

// withinAny reports whether path is one of dirs or lies below one.
func withinAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return sandbox.Within(path, dir) })
}
