package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// readIndex reads the index of a git folder and the shared one that it names.
// None is an empty one.
func readIndex(dir *os.File, gitDir string) (gitdata.Index, error) {
	data, _, err := beneath.ReadFile(dir, "index", gitdata.MaxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return gitdata.Index{Bad: nil, Gitlinks: nil, Shared: ""}, nil
	}
	if err != nil {
		return gitdata.Index{}, fmt.Errorf("read index: %w", err)
	}
	hash := gitdata.ReadFormat(dir, gitDir).Hash
	index, err := gitdata.ParseIndex(data, hash)
	if err != nil || index.Shared == "" {
		return index, err
	}
	data, _, err = beneath.ReadFile(dir, index.Shared, gitdata.MaxIndexBytes)
	if err != nil {
		return index, fmt.Errorf("read shared index: %w", err)
	}
	shared, err := gitdata.ParseIndex(data, hash)
	index.Bad = append(index.Bad, shared.Bad...)
	index.Gitlinks = append(index.Gitlinks, shared.Gitlinks...)
	return index, err
}

// index sets aside an index that would have git write, remove or run what it
// names, or that cannot be read; and the .git of submodules that it has, where
// those were made during the run: `git status` runs git in each.
func (h *Held) index(dir *os.File, gitDir string, since time.Time) []Finding {
	path := filepath.Join(gitDir, "index")
	index, err := readIndex(dir, gitDir)
	found := h.submodules(gitDir, index.Gitlinks, since)
	switch {
	case len(index.Bad) > 0:
		return append(found, setIndexAside(dir, path, fmt.Sprintf("names %q, which git never puts there and would write, remove or run", index.Bad[0])))
	case err == nil:
		return found
	}
	if info, err := beneath.Lstat(dir, "index"); err == nil && info.Changed.Before(since) {
		return append(found, open(path, "cannot be read, and was so before the run"))
	}
	return append(found, setIndexAside(dir, path, fmt.Sprintf("cannot be read (%v)", err)))
}

func setIndexAside(dir *os.File, path, what string) Finding {
	to, err := aside(dir, "index", "")
	if err != nil {
		return open(path, what+", and could not be set aside: do not use git here before you have removed it")
	}
	return finding(path, what+"; it is now "+to+", and `git reset` makes another")
}

// submodules sets aside the .git of each submodule of the index in which git
// would take commands that a sandbox wrote.
func (h *Held) submodules(gitDir string, gitlinks []string, since time.Time) (found []Finding) {
	worktree := gitdata.WorktreeOf(gitDir)
	if len(gitlinks) == 0 || worktree == "" || !sandbox.Within(worktree, h.guard.Root) {
		return nil
	}
	root, err := beneath.Dir(worktree)
	if err != nil {
		return []Finding{open(worktree, "cannot be looked through for submodules: do not use git here")}
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	s := submodules{held: h, root: root, worktree: worktree, since: since}
	for _, link := range gitlinks {
		dot := filepath.Join(link, ".git")
		if !filepath.IsLocal(dot) || !s.made(dot) {
			continue
		}
		const what = "was made or changed during the run, and git above would run git there"
		to, err := aside(root, dot, link)
		if err != nil {
			found = append(found, open(filepath.Join(worktree, dot), what+": do not use git in "+worktree+" before you have removed it"))
			continue
		}
		found = append(found, finding(filepath.Join(worktree, dot), what+"; it is now "+filepath.Join(worktree, to)))
	}
	return found
}

type submodules struct {
	held     *Held
	root     *os.File
	worktree string
	since    time.Time
}

// made reports whether the .git at dot, below the work tree, is one that a
// sandbox may have made, changed or moved there.
func (s *submodules) made(dot string) bool {
	info, err := beneath.Lstat(s.root, dot)
	if err != nil {
		return false // git does not go there either: it follows no link on the way (symlinks.c)
	}
	path := filepath.Join(s.worktree, dot)
	if info.Mode.IsDir() {
		return !s.held.holds(info) && s.touched(dot)
	}
	if !s.touched(dot) {
		return false
	}
	repo, err := gitdata.Find(filepath.Dir(path))
	return err != nil || !s.trusted(repo)
}

// trusted reports whether a .git file names a git folder whose commands are
// not a sandbox's: a guarded one, or one that was there before and lies in
// one. The latter is read-only where it is one of too many.
func (s *submodules) trusted(repo gitdata.Repo) bool {
	dir, err := beneath.Dir(repo.GitDir)
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	info, err := beneath.Lstat(dir, "")
	if err != nil {
		return false
	}
	if s.held.holds(info) {
		return true
	}
	in := slices.ContainsFunc(s.held.guard.GitDirs, func(top string) bool { return sandbox.Within(repo.GitDir, filepath.Join(top, "modules")) })
	return in && !slices.ContainsFunc([]string{"", "config", "hooks", "info", "commondir", "config.worktree"}, func(name string) bool {
		info, err := beneath.Lstat(dir, name)
		return err == nil && !info.Changed.Before(s.since)
	})
}

// holds reports whether a folder is one of the guarded git folders, wherever
// it is now.
func (h *Held) holds(info beneath.Info) bool {
	for _, path := range h.guard.GitDirs {
		if dir := h.dirs[path]; dir != nil {
			held, err := beneath.Lstat(dir, "")
			if err == nil && held.Dev == info.Dev && held.Ino == info.Ino {
				return true
			}
		}
	}
	return false
}

// touched reports whether something was made, changed or moved at rel, or in
// or with a folder above it.
func (s *submodules) touched(rel string) bool {
	for ; rel != "." && rel != ""; rel = strings.TrimPrefix(filepath.Dir(rel), "/") {
		info, err := beneath.Lstat(s.root, rel)
		if err != nil || !info.Changed.Before(s.since) {
			return true
		}
	}
	return false
}
