package environment

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Bounds of a tree. What is larger is refused.
const (
	MaxBytes = 10 << 30
	MaxFiles = 1_000_000
	maxDepth = 200 // folders in folders
)

// finding is a reason to take something out of a tree. What is taken out is
// counted, and the first of each kind named.
type finding string

const (
	leadsOut finding = "links that lead out of the environment"
	special  finding = "pipes, sockets and devices"
	oddName  finding = "names that are no text, or hold control characters"
)

// audit walks a tree that install scripts wrote, when nothing of the sandbox is
// left that could still change it. It follows nothing.
//
// What lives there stays as it is, but for this: every file and folder is its
// owner's to write and everybody's to read, since another id than the owner's
// uses it; set-user-ID bits and their like go; links may lead to places in the
// tree, to the system's programs and to the project, and others go, as do
// devices, sockets, pipes, and names that a terminal or a list would take for
// something else.
type audit struct {
	dir   *os.File
	uid   int
	bytes int64
	files int64
	found map[finding][]string // how many, and the first of them
	count map[finding]int
}

// inspect is the whole of it. The tree stays in an undefined state if it fails.
func inspect(tree string, uid int) (*audit, error) {
	dir, err := beneath.Dir(tree)
	if err != nil {
		return nil, fmt.Errorf("look at the environment: %w", err)
	}
	defer func() { _ = dir.Close() }() // a place, no contents
	a := &audit{dir: dir, uid: uid, bytes: 0, files: 0, found: make(map[finding][]string), count: make(map[finding]int)}
	if err := a.folder("", 0); err != nil {
		return nil, err
	}
	return a, nil
}

func refused(format string, args ...any) error {
	return bailey.NewError(bailey.Forbidden, "what was installed is refused: "+fmt.Sprintf(format, args...), "")
}

func (a *audit) folder(rel string, depth int) error {
	if depth > maxDepth {
		return refused("it has folders nested more than %d deep", maxDepth)
	}
	if err := a.own(rel, 0o755); err != nil { // before it is read: its owner may have no right to it
		return err
	}
	list, err := beneath.ReadDirSameDevice(a.dir, rel, MaxFiles)
	if err != nil {
		return refused("a folder cannot be read: %v", err)
	}
	for _, e := range list {
		if a.files++; a.files > MaxFiles {
			return refused("it has more than %d files", MaxFiles)
		}
		if err := a.entry(rel, e, depth); err != nil {
			return err
		}
	}
	return nil
}

func (a *audit) entry(dir string, e beneath.Entry, depth int) error {
	rel := path.Join(dir, e.Name)
	switch {
	case !isText(e.Name):
		return a.drop(rel, oddName)
	case e.Type.IsDir():
		return a.folder(rel, depth+1)
	case e.Type.IsRegular():
		return a.file(rel)
	case e.Type&fs.ModeSymlink != 0:
		target, err := beneath.Readlink(a.dir, rel)
		if err == nil && mayLead(rel, target) {
			return nil
		}
		return a.drop(rel, leadsOut)
	}
	return a.drop(rel, special)
}

func (a *audit) file(rel string) error {
	info, err := beneath.Lstat(a.dir, rel)
	if err != nil {
		return refused("a file cannot be looked at: %v", err)
	}
	if a.bytes += info.Size; a.bytes > MaxBytes {
		return refused("it has more than %d bytes", int64(MaxBytes))
	}
	return a.own(rel, 0o644|info.Mode.Perm()&0o111)
}

// own makes a file or folder one that its owner writes and everybody reads.
func (a *audit) own(rel string, mode fs.FileMode) error {
	if mode&0o111 != 0 {
		mode |= 0o111
	}
	info, err := beneath.Lstat(a.dir, rel)
	if err == nil && info.UID != a.uid {
		return refused("%q belongs to user %d", rel, info.UID)
	}
	if err == nil {
		err = beneath.SetMode(a.dir, rel, mode)
	}
	if err != nil {
		return refused("a mode cannot be set: %v", err)
	}
	return nil
}

func (a *audit) drop(rel string, why finding) error {
	if err := beneath.Remove(a.dir, rel, MaxFiles); err != nil {
		return refused("%q cannot be taken out: %v", rel, err)
	}
	a.count[why]++
	const shown = 3
	if len(a.found[why]) < shown {
		a.found[why] = append(a.found[why], fmt.Sprintf("%.200q", rel))
	}
	return nil
}

// notes says what was taken out, a sentence for each reason.
func (a *audit) notes() []string {
	out := []string{}
	for _, why := range []finding{leadsOut, special, oddName} {
		if n := a.count[why]; n > 0 {
			out = append(out, fmt.Sprintf("%s were taken out: %d, such as %s", why, n, strings.Join(a.found[why], ", ")))
		}
	}
	return out
}

var interpreter = regexp.MustCompile(`^python[0-9.]*$`)

// mayLead reports whether a link at rel of the tree may stay. Where links lead
// to through other links is decided by those, which are looked at too; so dots
// that go up stand at the beginning alone, where they go up from a real folder.
func mayLead(rel, target string) bool {
	if target == "" || !isText(target) {
		return false
	}
	up, rest := 0, target
	for rest == ".." || strings.HasPrefix(rest, "../") {
		up++
		rest = strings.TrimLeft(strings.TrimPrefix(rest, ".."), "/")
	}
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return false
	}
	if !path.IsAbs(target) {
		return up <= strings.Count(rel, "/")
	}
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store", MountPath, RepoPath} {
		if sandbox.Within(path.Clean(target), dir) {
			return true
		}
	}
	// The interpreter of a version manager, which is shown beside it.
	return path.Dir(rel) == "python/bin" && interpreter.MatchString(path.Base(rel)) && interpreter.MatchString(path.Base(target))
}
