package workspace

import (
	"crypto/sha1" //nolint:gosec // the name that git has for a file's content
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Limits of what Tracked reads.
const (
	maxTracked     = 2000
	maxTrackedSize = 4 << 20
)

// Tracked returns those files of the workspace, of the paths that want names,
// that git tracks: same are as git has them, so that its objects show what is
// in them anyway; others are not. Paths are relative to the workspace.
//
// The index is a sandbox's to write, an earlier one's, so a path in it proves
// nothing: what counts is that it has the name of the file's content, which
// only who knows the content can write.
func (w *Workspace) Tracked(want func(path string) bool) (same, others []string) {
	root, err := beneath.Dir(w.Path)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	for _, gitDir := range w.repositories() {
		below, err := filepath.Rel(w.Path, gitDir.worktree)
		if err != nil || below != "." && !filepath.IsLocal(below) {
			continue
		}
		for _, e := range tracked(gitDir.path, func(path string) bool { return want(filepath.Join(below, path)) }) {
			path := filepath.Join(below, e.Path)
			content, _, err := beneath.ReadFile(root, path, maxTrackedSize)
			switch {
			case err == nil && blob(content, len(e.ID)) == e.ID:
				same = append(same, path)
			case !errors.Is(err, fs.ErrNotExist):
				others = append(others, path)
			}
			if len(same)+len(others) >= maxTracked {
				return same, others
			}
		}
	}
	return same, others
}

// repository is a git folder and the work tree whose index it holds.
type repository struct{ path, worktree string }

// repositories are the workspace's own and those in it.
func (w *Workspace) repositories() (list []repository) {
	if repo, err := gitdata.Find(w.Path); err == nil && repo.GitDir != "" {
		list = append(list, repository{repo.GitDir, w.Path})
	}
	for _, dir := range w.Guard.GitDirs {
		if tree := gitdata.WorktreeOf(dir); tree != "" && tree != w.Path && sandbox.Within(tree, w.Path) {
			list = append(list, repository{dir, tree})
		}
	}
	return list
}

// tracked reads entries of a git folder's index, and of the shared one that it
// names. Of one that cannot be read nothing is known.
func tracked(gitDir string, want func(path string) bool) []gitdata.IndexEntry {
	dir, err := beneath.Dir(gitDir)
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	format := gitdata.ReadFormat(dir, gitDir).Hash
	var all []gitdata.IndexEntry
	for name := "index"; name != ""; {
		data, _, err := beneath.ReadFile(dir, name, gitdata.MaxIndexBytes)
		if err != nil {
			break
		}
		found, index, err := gitdata.FindEntries(data, format, func(path []byte) bool { return want(string(path)) })
		if err != nil {
			break
		}
		all = append(all, found...)
		if name = index.Shared; len(all) > maxTracked {
			break
		}
	}
	return slices.DeleteFunc(all, func(e gitdata.IndexEntry) bool { return e.Stage != 0 || e.Mode&0o170000 != 0o100000 })
}

// blob is the name of a content as git has it: of the hash whose names, in
// hexadecimal, are so long.
func blob(content []byte, digits int) string {
	h := sha1.New() //nolint:gosec // as above
	if digits == hex.EncodedLen(sha256.Size) {
		h = sha256.New()
	}
	_, _ = fmt.Fprintf(h, "blob %d\x00", len(content)) // a hash takes everything
	_, _ = h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}
