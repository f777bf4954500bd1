package carry

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Limits of references.
const (
	maxRefBytes    = 4 << 10
	maxPackedBytes = 256 << 20
	maxSymbolic    = 5
)

// errNoRef means that there is no reference of a name.
var errNoRef = errors.New("no such reference")

// head returns the commit of HEAD.
func (r *repository) head() (string, error) {
	text, _, err := beneath.ReadFile(r.gitDirFile, "HEAD", maxRefBytes)
	if err != nil {
		return "", refuse(r.root, "its HEAD cannot be read, or is a link")
	}
	line := strings.TrimRight(string(text), "\n ")
	name, symbolic := strings.CutPrefix(line, "ref:")
	if !symbolic {
		if !isID(line, r.hash) {
			return "", refuse(r.root, "its HEAD is broken")
		}
		return line, nil
	}
	name = strings.TrimSpace(name)
	id, err := r.ref(name)
	if errors.Is(err, errNoRef) {
		return "", bailey.NewError(bailey.NotFound, "the repository "+r.root+" has no commit yet on "+printable(name), "commit something, or name a ref")
	}
	return id, err
}

// ref returns the object id of a full reference name.
func (r *repository) ref(name string) (string, error) {
	for range maxSymbolic {
		if !strings.HasPrefix(name, "refs/") || branchName(strings.TrimPrefix(name, "refs/")) != nil {
			return "", errNoRef
		}
		text, _, err := beneath.ReadFile(r.commonDir, name, maxRefBytes)
		if err != nil {
			return r.packed(name)
		}
		line := strings.TrimRight(string(text), "\n ")
		to, symbolic := strings.CutPrefix(line, "ref:")
		if !symbolic {
			if !isID(line, r.hash) {
				return "", refuse(r.root, "its reference "+printable(name)+" is broken")
			}
			return line, nil
		}
		name = strings.TrimSpace(to)
	}
	return "", refuse(r.root, "its reference "+printable(name)+" leads to too many others")
}

func (r *repository) packed(name string) (string, error) {
	data, err := r.packedRefs()
	if err != nil {
		return "", err
	}
	if p := gitdata.FindPackedRef(data, name); p.ID != "" {
		if !isID(p.ID, r.hash) {
			return "", refuse(r.root, "its file packed-refs is broken")
		}
		return p.ID, nil
	}
	return "", errNoRef
}

func (r *repository) packedRefs() ([]byte, error) {
	data, _, err := beneath.ReadFile(r.commonDir, "packed-refs", maxPackedBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refuse(r.root, "its file packed-refs cannot be read, or is a link")
	}
	return data, nil
}

// resolve returns the commit that a person's words for one name. Two
// references that it could be are an error: the id that is carried on is the
// one that was meant, or none.
func (r *repository) resolve(ctx context.Context, g git, words string) (string, error) {
	base, suffix := words, ""
	if i := strings.IndexAny(words, "~^"); i >= 0 {
		base, suffix = words[:i], words[i:]
	}
	if strings.Trim(suffix, "~^0123456789") != "" {
		return "", r.noCommit(words)
	}
	id, err := r.name(base)
	if err != nil {
		return "", err
	}
	if id == "" {
		if len(base) < 7 || strings.Trim(base, "0123456789abcdef") != "" {
			return "", r.noCommit(words)
		}
		id = base // the beginning of an id
	}
	commit, err := g.line(ctx, "rev-parse", "--quiet", "--verify", id+suffix+"^{commit}")
	if err != nil || !isID(commit, r.hash) {
		if ctx.Err() != nil {
			return "", err
		}
		return "", r.noCommit(words)
	}
	return commit, nil
}

func (r *repository) noCommit(words string) error {
	return bailey.NewError(bailey.NotFound, "there is no commit "+printable(words)+" in the repository "+r.root, "ref (--ref) is a branch, a tag or the id of a commit: `git branch` and `git log` list them")
}

// name returns the object id of what a person calls a reference, or "" if
// there is none.
func (r *repository) name(base string) (string, error) {
	switch {
	case base == "" || base == "HEAD" || base == "@":
		return r.head()
	case isID(base, r.hash):
		return base, nil
	}
	if err := branchName(base); err != nil {
		return "", err
	}
	places := []string{"refs/tags/" + base, "refs/heads/" + base, "refs/remotes/" + base, "refs/remotes/" + base + "/HEAD"}
	if strings.HasPrefix(base, "refs/") {
		places = []string{base}
	}
	var id, where string
	for _, name := range places {
		got, err := r.ref(name)
		switch {
		case errors.Is(err, errNoRef):
		case err != nil:
			return "", err
		case id == "":
			id, where = got, name
		case got != id:
			return "", bailey.NewError(bailey.Invalid, printable(base)+" could be "+where+" or "+name, "name one of them whole")
		}
	}
	return id, nil
}

// onBranch returns the path of a work tree that has a branch checked out, or
// is in the middle of something with it; "" if none has.
func (r *repository) onBranch(name string) (string, error) {
	const most = 1000
	parts, err := gitdata.Worktrees(r.common, most)
	if err != nil {
		return "", refuse(r.root, "its other work trees cannot be listed")
	}
	for _, part := range append(parts, gitdata.Part{GitDir: r.common, Worktree: r.root}, gitdata.Part{GitDir: r.gitDir, Worktree: r.root}) {
		dir, err := beneath.Dir(part.GitDir)
		if err != nil {
			return "", refuse(r.root, "the folder of a work tree cannot be opened")
		}
		for _, file := range []string{"HEAD", "rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"} {
			text, _, err := beneath.ReadFile(dir, file, maxRefBytes)
			word := strings.TrimSpace(strings.TrimPrefix(string(text), "ref:"))
			if err == nil && (word == name || "refs/heads/"+word == name) {
				_ = dir.Close() // O_PATH: nothing to lose
				if part.Worktree == "" {
					return filepath.Base(part.GitDir), nil
				}
				return part.Worktree, nil
			}
		}
		_ = dir.Close() // O_PATH: nothing to lose
	}
	return "", nil
}
