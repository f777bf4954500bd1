package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Limits of what is copied into private copies.
const (
	maxHooksBytes  = 8 << 20
	maxHookFiles   = 256
	maxShadowDepth = 4
)

// guarded is one git folder that the sandbox may write to.
type guarded struct {
	*layout
	dir  *os.File
	path string

	reader   *configReader // of its configuration; nil before the first file
	includes int           // files of the git folder that its configuration includes
}

// enlist makes the git folder one of the guarded.
func (g *guarded) enlist() error {
	info, err := beneath.Lstat(g.dir, "")
	if err != nil {
		return fmt.Errorf("look at git folder: %w", err)
	}
	g.w.Guard.GitDirs = append(g.w.Guard.GitDirs, g.path)
	g.w.Guard.Inodes[g.path] = info.Ino
	return g.same(g.path, g.dir)
}

// commands guards everything in a git folder from which git takes commands.
// What is there becomes a private copy, what is not must not be left behind.
// worktree is the one that it is of; may be empty.
func (g *guarded) commands(worktree string) error {
	if err := g.enlist(); err != nil {
		return err
	}
	for _, name := range []string{"objects", "refs", "logs"} {
		if info, err := beneath.Lstat(g.dir, name); err == nil && !info.Mode.IsDir() {
			return g.odd(filepath.Join(g.path, name), beneath.ErrStrange)
		}
	}
	for _, name := range []string{"config", "config.worktree"} {
		if err := g.file(name); err != nil {
			return err
		}
	}
	for _, name := range []string{"hooks", "info"} {
		if err := g.folder(name); err != nil {
			return err
		}
	}
	if err := g.file("commondir"); err != nil {
		return err
	}
	g.warnOfCommonDir()
	if err := g.ownHooks(worktree); err != nil {
		return err
	}
	g.watchNamed(g.path, worktree)
	return nil
}

// warnOfCommonDir: git makes that file in the admin folders of linked work
// trees alone, and follows it in any. In a repository's own folder somebody
// left it, perhaps a sandbox that was killed together with its watchdog.
func (g *guarded) warnOfCommonDir() {
	if path := filepath.Join(g.path, "commondir"); g.copied(path) {
		g.note("%s has git take hooks and configuration from elsewhere, on the host too, and git makes no such file there: look at it, and remove it", path)
	}
}

// file makes the private copy of one file of the git folder.
func (g *guarded) file(name string) error {
	path := filepath.Join(g.path, name)
	shadow, err := readFileShadow(g.dir, name, path)
	if errors.Is(err, fs.ErrNotExist) {
		g.absent(path)
		return nil
	}
	if err != nil {
		return g.odd(path, err)
	}
	g.w.Shadows = append(g.w.Shadows, shadow)
	if name == "config" || name == "config.worktree" {
		return g.config(path, shadow.Files[0].Data)
	}
	return nil
}

// private reports whether a place is, or lies in, a private copy, or may not
// be left behind.
func (l *layout) private(place string) bool {
	return withinAny(place, l.w.Guard.Absent) ||
		slices.ContainsFunc(l.w.Shadows, func(s bailey.Shadow) bool { return sandbox.Within(place, s.Path) })
}

// folder makes the private copy of a folder of the git folder.
func (g *guarded) folder(name string) error {
	path := filepath.Join(g.path, name)
	info, err := beneath.Lstat(g.dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		g.absent(path)
		return nil
	}
	if err == nil && !info.Mode.IsDir() {
		err = beneath.ErrStrange
		if name == "hooks" && info.Mode&fs.ModeSymlink != 0 {
			return bailey.WrapError(bailey.Invalid, path+" is a link", err,
				"move the hooks into it, or name their folder by `git config core.hooksPath`")
		}
	}
	if err != nil {
		return g.odd(path, err)
	}
	c := folderCopy{guarded: g, name: name, left: maxHooksBytes, files: nil}
	err = c.read("", 0)
	if errors.Is(err, beneath.ErrStrange) {
		g.mountReadOnly(path)
		g.watchLinks(g.dir, name, path)
		g.note("%s is read-only here: more than %d files or %d MiB, or not all plain files", path, maxHookFiles, maxHooksBytes>>20)
		return nil
	}
	if err != nil {
		return g.odd(path, err)
	}
	g.w.Shadows = append(g.w.Shadows, bailey.Shadow{Path: path, Dir: true, Files: c.files})
	return nil
}

// shadowFile makes the private copy of a file that is in no git folder: a
// work tree's .git. One that is a folder (an old submodule) is left alone.
func (l *layout) shadowFile(path string) error {
	if l.request.ReadOnly || l.copied(path) {
		return nil
	}
	dir, err := beneath.Dir(filepath.Dir(path))
	if err != nil {
		return l.odd(path, err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	info, err := beneath.Lstat(dir, filepath.Base(path))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode.IsDir() {
		return nil
	}
	shadow, err := readFileShadow(dir, filepath.Base(path), path)
	if err != nil {
		return l.odd(path, err)
	}
	l.w.Shadows = append(l.w.Shadows, shadow)
	return nil
}

// copied reports whether there is a private copy of a path: two admin folders
// may name one work tree.
func (l *layout) copied(path string) bool {
	return slices.ContainsFunc(l.w.Shadows, func(s bailey.Shadow) bool { return s.Path == path })
}

func readFileShadow(dir *os.File, name, path string) (bailey.Shadow, error) {
	data, info, err := beneath.ReadFile(dir, name, gitdata.MaxConfigBytes)
	if err != nil {
		return bailey.Shadow{}, fmt.Errorf("copy %s: %w", path, err)
	}
	file := bailey.File{Path: "", Mode: info.Mode.Perm(), Data: data}
	return bailey.Shadow{Path: path, Dir: false, Files: []bailey.File{file}}, nil
}

// watchLinks has what the links in a folder name watched, for a folder that is
// shown as it is.
func (l *layout) watchLinks(dir *os.File, name, path string) {
	entries, _ := beneath.ReadDir(dir, name, maxHookFiles) // not there, or a part of many
	for _, e := range entries {
		if e.Type != fs.ModeSymlink {
			continue
		}
		if real, err := filepath.EvalSymlinks(filepath.Join(path, e.Name)); err == nil {
			l.watch(real)
		}
	}
}

// folderCopy reads a folder for its private copy.
type folderCopy struct {
	*guarded
	name  string
	left  int64
	files []bailey.File
}

func (c *folderCopy) read(rel string, depth int) error {
	if depth > maxShadowDepth {
		return beneath.ErrStrange
	}
	entries, err := beneath.ReadDir(c.dir, filepath.Join(c.name, rel), maxHookFiles)
	if err != nil {
		return fmt.Errorf("copy folder: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(rel, e.Name)
		switch {
		case e.Type.IsDir():
			err = c.read(path, depth+1)
		case e.Type == fs.ModeSymlink:
			err = c.link(path)
		case strings.HasSuffix(e.Name, ".sample"): // git never runs these
		case e.Type.IsRegular():
			err = c.file(c.dir, filepath.Join(c.name, path), path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *folderCopy) file(dir *os.File, from, to string) error {
	data, info, err := beneath.ReadFile(dir, from, c.left)
	if err != nil {
		return fmt.Errorf("copy %s: %w", to, err)
	}
	if c.left -= int64(len(data)); len(c.files) >= maxHookFiles {
		return fmt.Errorf("copy %s: %w", to, beneath.ErrStrange)
	}
	c.files = append(c.files, bailey.File{Path: to, Mode: info.Mode.Perm(), Data: data})
	return nil
}

// link copies what a linked hook names if that lies in the workspace, which is
// a usual way to keep hooks under version control, or in a git folder beside
// it. A file that has no private copy itself can then be changed from inside,
// and the host's git would run it: it is watched.
func (c *folderCopy) link(rel string) error {
	at := filepath.Join(c.path, c.name, rel)
	real, err := filepath.EvalSymlinks(at)
	if err != nil || !sandbox.Within(real, c.w.Path) && !withinAny(real, c.w.Guard.GitDirs) {
		c.note("%s is not there inside: it is a link out of the workspace", at)
		return nil
	}
	dir, err := beneath.Dir(filepath.Dir(real))
	if err != nil {
		return fmt.Errorf("copy %s: %w", at, err)
	}
	defer func() { _ = dir.Close() }()                        // O_PATH: nothing to lose
	if !sandbox.Within(real, filepath.Join(c.path, c.name)) { // which is being copied
		c.watch(real)
	}
	return c.file(dir, filepath.Base(real), rel)
}

// isFolder reports whether name in dir is a folder itself.
func isFolder(dir *os.File, name string) bool {
	info, err := beneath.Lstat(dir, name)
	return err == nil && info.Mode.IsDir()
}
