package gitdata

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// validPath reports whether git would make an index entry of this path
// (read-cache.c, verify_path), with the checks for file systems that take
// other names for .git: the checkout may lie on one.
func validPath(path []byte, mode uint32) bool {
	name := string(path)
	if mode&modeType == modeSparse { // a folder of a sparse index ends in a slash
		name = strings.TrimSuffix(name, "/")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || IsDotGit(part) ||
			mode&modeType == modeLink && strings.EqualFold(part, ".gitmodules") {
			return false
		}
	}
	return true
}

// IsDotGit reports whether a file system may take a name for .git: without
// regard for case, as NTFS does (trailing dots and spaces, a stream behind a
// colon, the short name git~1, a backslash for a slash; path.c,
// is_ntfs_dotgit), or HFS+ (characters that it ignores; utf8.c,
// is_hfs_dotgit).
func IsDotGit(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(part, ":")
		part = strings.TrimRight(part, ". ")
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1") {
			return true
		}
	}
	return strings.EqualFold(strings.Map(seenByHFS, name), ".git")
}

func seenByHFS(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}

// WorktreeOf returns the work tree that a git folder is of, as far as files
// say that have private copies in a sandbox; "" if they do not.
func WorktreeOf(gitDir string) string {
	dir, err := beneath.Dir(gitDir)
	if err != nil {
		return ""
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	if filepath.Base(filepath.Dir(gitDir)) == "worktrees" {
		return pointedAt(dir, gitDir)
	}
	if worktree := moduleWorktree(dir, gitDir); worktree != "" || filepath.Base(gitDir) != ".git" {
		return worktree
	}
	return filepath.Dir(gitDir)
}

// Format is what a git folder's configuration says of how it is to be read.
type Format struct {
	Hash           int  // bytes of an object name
	WorktreeConfig bool // config.worktree is read too
}

// ReadFormat reads it. A linked work tree's admin folder has none of its own.
func ReadFormat(dir *os.File, gitDir string) Format {
	const sha1, sha256 = 20, 32
	f := Format{Hash: sha1, WorktreeConfig: false}
	if common := filepath.Dir(gitDir); filepath.Base(common) == "worktrees" {
		of, err := beneath.Dir(filepath.Dir(common))
		if err != nil {
			return f
		}
		defer func() { _ = of.Close() }() // O_PATH: nothing to lose
		dir = of
	}
	data, _, err := beneath.ReadFile(dir, "config", MaxConfigBytes)
	if err != nil {
		return f // without a configuration git takes its defaults too
	}
	cfg, _ := ParseConfig(data) // what stands before a syntax error still counts
	if v, _ := cfg.Get("extensions", "objectformat"); strings.EqualFold(v, "sha256") {
		f.Hash = sha256
	}
	v, ok := cfg.Get("extensions", "worktreeconfig")
	f.WorktreeConfig = ok && !slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(v))
	return f
}
