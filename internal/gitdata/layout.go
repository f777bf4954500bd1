package gitdata

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Kind says how a work tree is tied to its git folder.
type Kind uint8

// The kinds of work tree. None is the zero value: nothing is assumed.
const (
	None      Kind = iota // no .git
	Plain                 // .git is the git folder
	Linked                // made by `git worktree add`: shares the git folder of another
	Submodule             // .git names a folder below the superproject's
	Broken                // .git is there and cannot be used; Reason says why
)

// Repo is what a work tree's .git says, as far as it proved true.
type Repo struct {
	Kind      Kind
	GitDir    string // this work tree's own git folder; absolute, without links
	CommonDir string // what it shares with others: GitDir itself unless Linked
	Above     string // for None: the nearest folder above that has a .git
	Reason    string // for Broken: one sentence
}

// Limits of what a layout may be.
const (
	maxPointerBytes = 8 << 10
	maxLayoutDirs   = 512
	maxModuleDepth  = 8
)

// Find reads the .git of the work tree at an absolute path without links.
//
// A .git that is a file is believed only if what it names points back at this
// work tree: an agent can write any path into a .git file, but not into the
// git folder of another project. A broken or unproven one is Kind Broken, not
// an error. An error means that .git could not be looked at, or is a link or
// a special file.
func Find(worktree string) (Repo, error) {
	dir, err := beneath.Dir(worktree)
	if err != nil {
		return Repo{}, fmt.Errorf("open work tree: %w", err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	dot := filepath.Join(worktree, ".git")
	info, err := beneath.Lstat(dir, ".git")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Repo{Kind: None, GitDir: "", CommonDir: "", Above: above(worktree), Reason: ""}, nil
	case err != nil:
		return Repo{}, fmt.Errorf("look at %s: %w", dot, err)
	case info.Mode.IsDir():
		return Repo{Kind: Plain, GitDir: dot, CommonDir: dot, Above: "", Reason: ""}, nil
	case info.Mode.IsRegular():
		return followPointer(worktree, dir), nil
	}
	return Repo{}, fmt.Errorf("look at %s: %w", dot, beneath.ErrStrange)
}

func above(worktree string) string {
	for dir := filepath.Dir(worktree); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == "/" {
			return ""
		}
	}
}

func broken(format string, args ...any) Repo {
	return Repo{Kind: Broken, GitDir: "", CommonDir: "", Above: "", Reason: fmt.Sprintf(format, args...)}
}

// followPointer reads "gitdir: PATH" and proves that PATH belongs to this
// work tree.
func followPointer(worktree string, dir *os.File) Repo {
	text, _, err := beneath.ReadFile(dir, ".git", maxPointerBytes)
	if err != nil {
		return broken(".git cannot be read: %v", err)
	}
	path, ok := strings.CutPrefix(string(text), "gitdir:")
	if !ok {
		return broken(".git is a file that does not begin with \"gitdir:\"")
	}
	gitDir, err := canonical(worktree, strings.TrimSpace(path))
	if err != nil {
		return broken("the git folder that .git names is not there")
	}
	g, err := beneath.Dir(gitDir)
	if err != nil {
		return broken("the git folder %s cannot be opened", gitDir)
	}
	defer func() { _ = g.Close() }() // O_PATH: nothing to lose
	if _, err := beneath.Lstat(g, "commondir"); err == nil {
		return linked(worktree, gitDir, g)
	}
	return submodule(worktree, gitDir, g)
}

// linked proves a linked work tree: the admin folder is one of the common
// folder's, and its file gitdir names this work tree's .git
// (gitrepository-layout(5), "worktrees").
func linked(worktree, gitDir string, g *os.File) Repo {
	common, err := readPath(g, gitDir, "commondir")
	if err != nil || filepath.Dir(gitDir) != filepath.Join(common, "worktrees") {
		return broken("%s is not one of a repository's work tree folders", gitDir)
	}
	c, err := beneath.Dir(common)
	if err != nil {
		return broken("the git folder %s cannot be opened", common)
	}
	defer func() { _ = c.Close() }() // O_PATH: nothing to lose
	if !isGitDir(c) {
		return broken("%s does not look like a git folder", common)
	}
	if back := pointedAt(g, gitDir); back != worktree {
		return broken("%s belongs to another work tree (run `git worktree repair`)", gitDir)
	}
	return Repo{Kind: Linked, GitDir: gitDir, CommonDir: common, Above: "", Reason: ""}
}

// submodule proves a git folder that lies elsewhere by its core.worktree.
func submodule(worktree, gitDir string, g *os.File) Repo {
	if !isGitDir(g) {
		return broken("%s does not look like a git folder", gitDir)
	}
	if moduleWorktree(g, gitDir) != worktree {
		return broken("%s does not point back at this work tree (set core.worktree in it)", gitDir)
	}
	return Repo{Kind: Submodule, GitDir: gitDir, CommonDir: gitDir, Above: "", Reason: ""}
}

// pointedAt returns the work tree that an admin folder's file gitdir names,
// or "" if it names none that exists.
func pointedAt(g *os.File, gitDir string) string {
	text, _, err := beneath.ReadFile(g, "gitdir", maxPointerBytes)
	if err != nil {
		return ""
	}
	dot := strings.TrimSpace(string(text))
	if filepath.Base(dot) != ".git" {
		return ""
	}
	worktree, err := canonical(gitDir, filepath.Dir(dot))
	if err != nil {
		return ""
	}
	return worktree
}

// moduleWorktree returns the work tree that a git folder's core.worktree
// names, or "" if it names none that exists.
func moduleWorktree(g *os.File, gitDir string) string {
	data, _, err := beneath.ReadFile(g, "config", MaxConfigBytes)
	if err != nil {
		return ""
	}
	cfg, _ := ParseConfig(data) // what stands before a syntax error still counts
	v, ok := cfg.Get("core", "worktree")
	if !ok || v == "" {
		return ""
	}
	worktree, err := canonical(gitDir, v)
	if err != nil {
		return ""
	}
	return worktree
}

// isGitDir reports whether git would take the folder for a git folder: it has
// HEAD, objects and refs (setup.c, is_git_directory).
func isGitDir(g *os.File) bool {
	head, err := beneath.Lstat(g, "HEAD")
	if err != nil || head.Mode.IsDir() {
		return false
	}
	for _, name := range []string{"objects", "refs"} {
		if info, err := beneath.Lstat(g, name); err != nil || !info.Mode.IsDir() {
			return false
		}
	}
	return true
}

func readPath(g *os.File, gitDir, name string) (string, error) {
	text, _, err := beneath.ReadFile(g, name, maxPointerBytes)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return canonical(gitDir, strings.TrimSpace(string(text)))
}

// canonical returns path, taken from base if it is relative, without links.
func canonical(base, path string) (string, error) {
	if path == "" || strings.ContainsAny(path, "\x00\n") {
		return "", fs.ErrInvalid
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	return real, nil
}

// Part is a git folder that belongs to another: a submodule's below modules,
// or a linked work tree's admin folder below worktrees.
type Part struct {
	GitDir   string // absolute
	Worktree string // absolute and without links; "" if it names none that exists
}

// noFolder reports whether an error means that there is no folder, nor a link
// that git would follow to one.
func noFolder(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Worktrees lists the admin folders below worktrees in a common folder. More
// than limit of them is an error.
func Worktrees(common string, limit int) ([]Part, error) {
	dir, err := beneath.Dir(common)
	if err != nil {
		return nil, fmt.Errorf("open git folder: %w", err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	entries, err := beneath.ReadDir(dir, "worktrees", limit)
	if err != nil {
		if noFolder(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list work trees of %s: %w", common, err)
	}
	var parts []Part
	for _, e := range entries {
		if !e.Type.IsDir() {
			continue
		}
		sub, err := beneath.Sub(dir, "worktrees/"+e.Name)
		if err != nil {
			return nil, fmt.Errorf("open work tree folder: %w", err)
		}
		path := filepath.Join(common, "worktrees", e.Name)
		parts = append(parts, Part{GitDir: path, Worktree: pointedAt(sub, path)})
		_ = sub.Close() // O_PATH: nothing to lose
	}
	return parts, nil
}

// Modules lists the git folders of submodules below modules in a git folder,
// nested ones too, outer before inner. A submodule's name may hold slashes, so
// every folder on the way is looked at. More than limit, or an odd tree, is an
// error.
func Modules(gitDir string, limit int) ([]Part, error) {
	dir, err := beneath.Dir(gitDir)
	if err != nil {
		return nil, fmt.Errorf("open git folder: %w", err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	m := moduleWalk{root: dir, path: gitDir, limit: limit, looked: 0, found: nil}
	if err := m.folder("modules", 0); err != nil && !noFolder(err) {
		return nil, fmt.Errorf("list submodules of %s: %w", gitDir, err)
	}
	return m.found, nil
}

type moduleWalk struct {
	root   *os.File
	path   string
	limit  int
	looked int
	found  []Part
}

// folder looks below rel, a folder "modules" or a part of a submodule's name.
func (m *moduleWalk) folder(rel string, depth int) error {
	if m.looked++; m.looked > maxLayoutDirs || depth > maxModuleDepth {
		return beneath.ErrStrange
	}
	entries, err := beneath.ReadDir(m.root, rel, maxLayoutDirs)
	if err != nil {
		return fmt.Errorf("list submodules: %w", err)
	}
	for _, e := range entries {
		if !e.Type.IsDir() {
			continue
		}
		if err := m.entry(filepath.Join(rel, e.Name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (m *moduleWalk) entry(rel string, depth int) error {
	sub, err := beneath.Sub(m.root, rel)
	if err != nil {
		return fmt.Errorf("open submodule: %w", err)
	}
	defer func() { _ = sub.Close() }() // O_PATH: nothing to lose
	if !isGitDir(sub) {
		return m.folder(rel, depth+1)
	}
	if len(m.found) >= m.limit {
		return beneath.ErrStrange
	}
	path := filepath.Join(m.path, rel)
	m.found = append(m.found, Part{GitDir: path, Worktree: moduleWorktree(sub, path)})
	err = m.folder(filepath.Join(rel, "modules"), depth+1)
	if noFolder(err) {
		return nil
	}
	return err
}

// IsGitDir reports whether git would take the folder at an absolute path
// without links for a git folder.
func IsGitDir(path string) bool {
	dir, err := beneath.Dir(path)
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	return isGitDir(dir)
}
