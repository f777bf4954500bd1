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

// maxParts is how many submodules, and how many linked work trees, are
// guarded one by one. With more, their folder is read-only as a whole.
const maxParts = 64

// maxNested is how many other repositories in the tree are guarded. Each makes
// the start a little longer.
const maxNested = 16

// layout fills a Workspace with what its git layout asks for.
type layout struct {
	request Request
	w       *Workspace
	named   map[string]configNamed // git folder → what its configuration names
	global  configNamed            // what the caller's own configuration names
	odds    error                  // why something could not be mounted
}

// mount adds a folder or file at its own path, writable unless the whole
// workspace is read-only.
func (l *layout) mount(path, why string) { l.add(path, !l.request.ReadOnly, why) }

// mountReadOnly adds one that the sandbox never writes to.
func (l *layout) mountReadOnly(path string) { l.add(path, false, "") }

// add mounts what lies at a path now, and nothing that lies there later.
func (l *layout) add(path string, writable bool, why string) {
	is, err := id(path)
	if err != nil {
		l.odds = errors.Join(l.odds, moving(path, err))
	}
	l.w.Mounts = append(l.w.Mounts, bailey.Mount{Source: path, Target: path, Writable: writable, Owned: true, Dcache: 0, Why: why, Is: is})
}

// same makes sure that what is mounted at a path is the folder that is looked
// at.
func (l *layout) same(path string, dir *os.File) error {
	is, err := idOf(dir)
	if err != nil {
		return moving(path, err)
	}
	for _, m := range l.w.Mounts {
		if m.Source == path && m.Is != is {
			return moving(path, fs.ErrNotExist)
		}
	}
	return nil
}

func moving(path string, err error) error {
	return bailey.WrapError(bailey.Invalid, fmt.Sprintf("%s changes while the sandbox starts", path), err,
		"let nobody rename folders there, then start again")
}

func (l *layout) note(format string, args ...any) {
	l.w.Notes = append(l.w.Notes, fmt.Sprintf(format, args...))
}

// git guards the workspace's own repository, then others that lie in it.
func (l *layout) git() error {
	if err := l.own(); err != nil {
		return err
	}
	if l.odds != nil {
		return l.odds
	}
	return l.nested()
}

// fromAbove is the command that starts in a folder of a repository with git;
// empty where its words would need a shell's quotes.
func fromAbove(repo, dir string) string {
	rel, err := filepath.Rel(repo, dir)
	if err != nil || strings.ContainsFunc(repo+rel, func(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"`\\$&;|<>()*?[]{}#~!", r) }) {
		return ""
	}
	return fmt.Sprintf(" (with all of it: cd %s && bailey run --workdir %s …)", repo, rel)
}

// own looks at the workspace's .git and guards what it finds.
func (l *layout) own() error {
	dot := filepath.Join(l.w.Path, ".git")
	repo, err := gitdata.Find(l.w.Path)
	if err != nil {
		return bailey.WrapError(bailey.Invalid, fmt.Sprintf("%s is neither a folder nor a plain file", dot), err,
			"if it is a link, replace it by the folder it names, or by a file that holds \"gitdir: PATH\"")
	}
	if repo.Kind == gitdata.Linked || repo.Kind == gitdata.Submodule {
		if why := l.foreign(repo); why != "" {
			repo = gitdata.Repo{Kind: gitdata.Broken, GitDir: "", CommonDir: "", Above: "", Reason: why}
		}
	}
	switch repo.Kind {
	case gitdata.None:
		if repo.Above != "" {
			l.note("git does not work here: the repository's folder %s lies above the workspace%s", repo.Above, fromAbove(repo.Above, l.w.Path))
		}
		return nil
	case gitdata.Broken:
		l.note("git does not work here: %s", repo.Reason)
		return l.shadowFile(dot)
	case gitdata.Plain:
		if err := l.gitDir(repo.GitDir, l.w.Path); err != nil {
			return err
		}
		return l.embedded()
	case gitdata.Submodule:
		if err := l.shadowFile(dot); err != nil {
			return err
		}
		return l.gitDir(repo.GitDir, l.w.Path)
	case gitdata.Linked:
		if err := l.shadowFile(dot); err != nil {
			return err
		}
		return l.linked(repo)
	}
	return nil
}

// foreign says why a git folder outside the workspace may not be shown: it
// must belong to the workspace's owner and be no system or home folder.
func (l *layout) foreign(repo gitdata.Repo) string {
	for _, path := range []string{repo.GitDir, repo.CommonDir} {
		if err := l.request.refuse(path); err != nil {
			return err.Error()
		}
		dir, err := beneath.Dir(path)
		if err != nil {
			return err.Error()
		}
		info, err := beneath.Lstat(dir, "")
		_ = dir.Close() // O_PATH: nothing to lose
		if err != nil || info.UID != l.w.UID {
			return fmt.Sprintf("%s does not belong to the workspace's owner", path)
		}
	}
	return ""
}

// gitDir guards a git folder that is the workspace's own: .git, or a
// submodule's. The folder is a mount of its own, so that it cannot be renamed
// away and made anew. One that is guarded already is left at that: a second
// mount would show it without its private copies. worktree is the one that it
// is of.
func (l *layout) gitDir(path, worktree string) error {
	if slices.Contains(l.w.Guard.GitDirs, path) {
		return nil
	}
	l.mount(path, l.whyOutside(path))
	if l.request.ReadOnly {
		return nil
	}
	dir, err := beneath.Dir(path)
	if err != nil {
		return fmt.Errorf("open git folder: %w", err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	g := &guarded{layout: l, dir: dir, path: path}
	if err := g.commands(worktree); err != nil {
		return err
	}
	if err := l.worktrees(path); err != nil {
		return err
	}
	return l.modules(path)
}

func (l *layout) whyOutside(path string) string {
	if sandbox.Within(path, l.w.Path) {
		return ""
	}
	return "git folder of this work tree"
}

// worktrees guards the admin folders of linked work trees: read-only those
// whose tree lies elsewhere, writable those whose tree lies in the workspace.
func (l *layout) worktrees(common string) error {
	path := filepath.Join(common, "worktrees")
	parts, err := gitdata.Worktrees(common, maxParts)
	if errors.Is(err, beneath.ErrStrange) || err == nil && !nameable(parts) {
		l.mountReadOnly(path)
		l.note("%s is read-only here: more than %d work trees, or an unusual name", path, maxParts)
		return nil
	}
	if err != nil {
		return l.odd(path, err)
	}
	if len(parts) > 0 {
		l.mount(path, "")
	}
	for _, part := range parts {
		if part.Worktree == "" || !sandbox.Within(part.Worktree, l.w.Path) {
			l.mountReadOnly(part.GitDir)
			continue
		}
		l.orReadOnly(part.GitDir, func() error {
			if err := l.admin(part.GitDir, part.Worktree); err != nil {
				return err
			}
			l.watchNamed(common, part.Worktree)
			return l.pointer(part.Worktree)
		})
	}
	return nil
}

// orReadOnly guards a part of a git folder, or shows it read-only if it cannot
// be guarded: a sandbox of an earlier run may have left it, and is not to stop
// this one.
func (l *layout) orReadOnly(path string, guard func() error) {
	before, odds := *l.w, l.odds
	l.odds = nil
	err := guard()
	if err = errors.Join(err, l.odds); err != nil {
		*l.w = before
		l.mountReadOnly(path)
		l.note("%s is read-only here: %v", path, err)
		l.odds = nil
	}
	l.odds = errors.Join(odds, l.odds)
}

// admin guards the admin folder of a linked work tree that the sandbox works
// in.
func (l *layout) admin(path, worktree string) error {
	l.mount(path, l.whyOutside(path))
	if l.request.ReadOnly {
		return nil
	}
	dir, err := beneath.Dir(path)
	if err != nil {
		return fmt.Errorf("open git folder: %w", err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	g := &guarded{layout: l, dir: dir, path: path}
	if err := g.enlist(); err != nil {
		return err
	}
	for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
		if err := g.file(name); err != nil {
			return err
		}
	}
	l.watchNamed(path, worktree)
	return l.modules(path)
}

// pointer guards the .git file of a work tree inside the workspace.
func (l *layout) pointer(worktree string) error {
	if worktree == l.w.Path || l.inGitDir(worktree) {
		return nil // done already, or named by what an earlier sandbox wrote: no work tree lies there
	}
	l.w.SafeDirs = append(l.w.SafeDirs, worktree)
	return l.shadowFile(filepath.Join(worktree, ".git"))
}

// nameable reports whether each part can be a mount of its own. A sandbox of
// an earlier run may have chosen the names, and is not to stop this one.
func nameable(parts []gitdata.Part) bool {
	return !slices.ContainsFunc(parts, func(p gitdata.Part) bool { return !isText(p.GitDir) || !isText(p.Worktree) })
}

// modules guards the git folders of submodules.
func (l *layout) modules(gitDir string) error {
	path := filepath.Join(gitDir, "modules")
	parts, err := gitdata.Modules(gitDir, maxParts)
	if errors.Is(err, beneath.ErrStrange) || err == nil && !nameable(parts) {
		l.mountReadOnly(path)
		l.note("%s is read-only here: more than %d submodules, or an unusual tree", path, maxParts)
		return nil
	}
	if err != nil {
		return l.odd(path, err)
	}
	if len(parts) > 0 {
		l.mount(path, "")
	}
	for _, part := range parts {
		l.orReadOnly(part.GitDir, func() error { return l.module(part) })
	}
	return nil
}

func (l *layout) module(part gitdata.Part) error {
	l.mount(part.GitDir, "")
	dir, err := beneath.Dir(part.GitDir)
	if err != nil {
		return fmt.Errorf("open git folder: %w", err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	g := &guarded{layout: l, dir: dir, path: part.GitDir}
	if err := g.commands(part.Worktree); err != nil {
		return err
	}
	if nested := filepath.Join(part.GitDir, "modules"); isFolder(dir, "modules") {
		l.mount(nested, "")
	}
	if part.Worktree == "" || !sandbox.Within(part.Worktree, l.w.Path) {
		return nil
	}
	return l.pointer(part.Worktree)
}

// embedded guards submodules of the old form, whose .git is a folder in their
// own work tree. Only those that .gitmodules names are known without a walk;
// NewGitDirs finds changes in others.
func (l *layout) embedded() error {
	if l.request.ReadOnly {
		return nil
	}
	root, err := beneath.Dir(l.w.Path)
	if err != nil {
		return fmt.Errorf("open workspace: %w", err)
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	data, _, err := beneath.ReadFile(root, ".gitmodules", gitdata.MaxConfigBytes)
	if err != nil {
		return nil // the file is the tree's, not git's: without it there are no submodules
	}
	cfg, _ := gitdata.ParseConfig(data) // what stands before a syntax error still counts
	left := maxParts
	for _, e := range cfg {
		rel := filepath.Clean(e.Value)
		worktree, dot := filepath.Join(l.w.Path, rel), filepath.Join(rel, ".git")
		if e.Section != "submodule" || e.Key != "path" || !filepath.IsLocal(rel) || !isText(rel) ||
			l.inGitDir(worktree) || l.known(worktree) || !isFolder(root, dot) {
			continue
		}
		if left--; left < 0 {
			l.note("only the first %d submodules with a .git folder of their own are guarded", maxParts)
			break
		}
		if err := l.gitDir(filepath.Join(l.w.Path, dot), worktree); err != nil {
			return err
		}
		l.w.SafeDirs = append(l.w.SafeDirs, worktree)
	}
	return nil
}

// nested guards repositories in the tree that nothing names, as far as a
// bounded look finds them; NewGitDirs finds what was done to others. One that
// cannot be guarded is none of the user's business here and refuses nothing.
func (l *layout) nested() error {
	if l.request.ReadOnly {
		return nil
	}
	found, err := gitdata.Nested(l.w.Path, maxNested)
	if err != nil {
		return fmt.Errorf("look for repositories: %w", err)
	}
	for _, rel := range found {
		worktree := filepath.Join(l.w.Path, rel)
		if l.known(worktree) {
			continue
		}
		if !isText(worktree) {
			l.note("the repository in %s is not guarded: its path is not plain text", clean(worktree))
			continue
		}
		before := *l.w
		err := l.one(worktree)
		if err = errors.Join(err, l.odds); err != nil {
			*l.w, l.odds = before, nil
			l.note("the repository in %s is not guarded: %v", worktree, err)
			continue
		}
		l.w.SafeDirs = append(l.w.SafeDirs, worktree)
	}
	return nil
}

// one guards one repository in the tree.
func (l *layout) one(worktree string) error {
	dot := filepath.Join(worktree, ".git")
	if repo, err := gitdata.Find(worktree); err == nil && repo.Kind == gitdata.Plain {
		return l.gitDir(dot, worktree)
	}
	return l.shadowFile(dot)
}

// inGitDir reports whether a folder lies in a git folder, where git has no
// work tree of its own: guarding one there would mount over what guards that.
func (l *layout) inGitDir(path string) bool {
	below := strings.Split(strings.TrimPrefix(path, l.w.Path), "/")
	return withinAny(path, l.w.Guard.GitDirs) ||
		slices.ContainsFunc(below, func(name string) bool { return strings.EqualFold(name, ".git") })
}

// known reports whether the .git of a work tree is guarded already.
func (l *layout) known(worktree string) bool {
	dot := filepath.Join(worktree, ".git")
	return slices.Contains(l.w.Guard.GitDirs, dot) || l.copied(dot)
}

// linked lays out a linked work tree: its own admin folder and the common git
// folder, whose objects, refs and logs it shares.
//
// The common folder itself must be writable, because git makes packed-refs.lock
// in it whenever a ref is deleted (branch -m, stash drop). What there belongs to
// the other work tree (HEAD, index, an operation under way) is read-only, and
// what the host's git takes commands from is a private copy.
func (l *layout) linked(repo gitdata.Repo) error {
	if sandbox.Within(l.w.Path, repo.CommonDir) {
		return l.linkedInside(repo)
	}
	l.mount(repo.CommonDir, l.whyOutside(repo.CommonDir))
	if l.request.ReadOnly {
		return nil
	}
	dir, err := beneath.Dir(repo.CommonDir)
	if err != nil {
		return fmt.Errorf("open git folder: %w", err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	g := &guarded{layout: l, dir: dir, path: repo.CommonDir}
	if err := g.commands(l.w.Path); err != nil {
		return err
	}
	for _, name := range others() {
		if _, err := beneath.Lstat(dir, name); err == nil {
			l.mountReadOnly(filepath.Join(repo.CommonDir, name))
		}
	}
	l.mountReadOnly(filepath.Join(repo.CommonDir, "worktrees"))
	if isFolder(dir, "modules") {
		l.mountReadOnly(filepath.Join(repo.CommonDir, "modules"))
	}
	return l.admin(repo.GitDir, l.w.Path)
}

// others are what a common git folder holds of its own work tree. What is not
// there at the start may be made by the user meanwhile, who works in that
// tree, so it is not taken away after the run; an unfinished rebase that would
// run commands is reported by HostRun.
func others() []string {
	return []string{
		"HEAD", "index", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "MERGE_MSG",
		"rebase-merge", "rebase-apply", "sequencer",
	}
}

// linkedInside is for a bare repository whose work trees lie in its own
// folder. Showing that folder would show the sibling trees, so its parts are
// mounted one by one, and what needs a lock beside them does not work.
func (l *layout) linkedInside(repo gitdata.Repo) error {
	dir, err := beneath.Dir(repo.CommonDir)
	if err != nil {
		return fmt.Errorf("open git folder: %w", err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	l.note("deleting and renaming branches, dropping a stash and git gc do not work here: the repository %s holds this work tree", repo.CommonDir)
	for _, name := range []string{"objects", "refs", "logs"} {
		if !isFolder(dir, name) {
			continue
		}
		path := filepath.Join(repo.CommonDir, name)
		l.mount(path, l.whyOutside(repo.CommonDir))
		if !l.request.ReadOnly {
			l.w.Guard.Parts = append(l.w.Guard.Parts, path)
		}
	}
	if !isFolder(dir, "logs") && !l.request.ReadOnly {
		l.note("committing does not work here: git keeps a log of each branch in %[1]s/logs, which is not there (mkdir %[1]s/logs)", repo.CommonDir)
	}
	l.watchLinks(dir, "hooks", filepath.Join(repo.CommonDir, "hooks"))
	l.readOnlyConfig(repo.CommonDir)
	l.watchNamed(repo.CommonDir, l.w.Path)
	for _, name := range []string{"HEAD", "config", "config.worktree", "hooks", "info", "packed-refs", "shallow"} {
		if _, err := beneath.Lstat(dir, name); err == nil {
			l.mountReadOnly(filepath.Join(repo.CommonDir, name))
		}
	}
	return l.admin(repo.GitDir, l.w.Path)
}

// remember notes which folders lie above what HostRun looks at, so that it
// knows others in their place.
func (l *layout) remember(root *os.File) {
	for _, rel := range l.w.Guard.looked() {
		for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
			if info, err := beneath.Lstat(root, dir); err == nil {
				l.w.Guard.Inodes[filepath.Join(l.w.Path, dir)] = info.Ino
			}
		}
	}
}

func (l *layout) absent(path string) { l.w.Guard.Absent = append(l.w.Guard.Absent, path) }

// odd refuses a git folder in which something is not what git makes. A
// sandbox of an earlier run may have made it, so the hint says what to do.
func (l *layout) odd(path string, cause error) error {
	const rest = "; `git worktree add` makes a second work tree without links"
	hint := "git reads plain files and folders there: look at " + path + ", then move it away"
	if dir, err := beneath.Dir(filepath.Dir(path)); err == nil {
		info, err := beneath.Lstat(dir, filepath.Base(path))
		_ = dir.Close() // O_PATH: nothing to lose
		switch {
		case err != nil:
		case info.Mode&fs.ModeSymlink != 0:
			hint = "it is a link: put what it names in its place" + rest
		case info.Mode.IsDir():
			hint = "git has a file there, and this is a folder: look into it, then mv " + path + " " + path + asideSuffix
		case info.Mode.IsRegular() && info.Size <= gitdata.MaxConfigBytes:
			hint = "git has a folder there, and this is a file: look at it, then mv " + path + " " + path + asideSuffix
		}
	}
	return bailey.WrapError(bailey.Invalid, path+" cannot be guarded", cause, hint)
}
