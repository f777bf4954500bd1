package merge

import (
	"context"
	"fmt"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// Work is a branch of a task.
type Work struct {
	Branch  string // without refs/heads/
	Commit  string // that was delivered; empty: whatever the branch is
	Base    string // that the work began from; may be empty
	Carried bool   // what was not committed then was taken along: Base is a commit of it, if there was any
}

// Merged is what came of a merge.
type Merged struct {
	Into    string // branch, without refs/heads/
	Commit  string // the merge; empty if there was nothing to merge
	Already bool   // the work was in the branch
	Carried string // commit of what was not committed when the task began, which came along; empty if none did
}

func ref(branch string) string { return "refs/heads/" + branch }

// tip is the commit that the branch is; empty if there is none.
func (r *Repo) tip(ctx context.Context, branch string) (string, error) {
	out, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref(branch)+"^{commit}")
	if code(err) == 1 {
		return "", nil
	}
	return strings.TrimSpace(out), err
}

// Merge merges the work into the branch that is checked out, with a commit of
// its own. It refuses on a work tree with changes, and where there is a
// conflict, and has changed nothing then.
func (r *Repo) Merge(ctx context.Context, w Work, message string) (Merged, error) {
	var out Merged
	head, into, err := r.ready(ctx, w)
	if err != nil {
		return out, err
	}
	out.Into, out.Carried = into, r.carried(ctx, w, head)
	commit, err := r.delivered(ctx, w)
	if err != nil {
		return out, err
	}
	if _, err := r.run(ctx, "merge-base", "--is-ancestor", commit, head); err == nil {
		out.Already = true
		return out, nil
	}
	tree, err := r.join(ctx, head, commit)
	if err != nil {
		return out, err
	}
	made, err := r.feed(ctx, message+"\n", "commit-tree", tree, "-p", head, "-p", commit, "-F", "-")
	if err != nil {
		return out, bailey.WrapError(bailey.Unavailable, "make the merge commit", err, "git config user.name and user.email have to be set")
	}
	made = strings.TrimSpace(made)
	if _, err := r.run(ctx, "read-tree", "-m", "-u", head, made); err != nil {
		hint := "nothing was changed; move files away that are not in git and stand in the way"
		if out.Carried != "" {
			hint = "nothing was changed; " + putAway(out.Carried)
		}
		return out, bailey.WrapError(bailey.Conflict, "put the merge into the work tree", err, hint)
	}
	if _, err := r.run(ctx, "update-ref", "-m", "merge "+w.Branch, ref(into), made, head); err != nil {
		_, back := r.run(ctx, "read-tree", "-m", "-u", made, head)
		hint := "nothing was changed"
		if back != nil {
			hint = "git reset --hard " + head + " sets the work tree right"
		}
		return out, bailey.WrapError(bailey.Conflict, "move the branch "+into, err, hint)
	}
	out.Commit = made
	return out, nil
}

// ready looks whether something can be merged, and returns the commit and the
// branch that it is merged into.
func (r *Repo) ready(ctx context.Context, w Work) (head, into string, err error) {
	name, err := r.run(ctx, "symbolic-ref", "--quiet", "HEAD")
	into, ok := strings.CutPrefix(strings.TrimSpace(name), "refs/heads/")
	if err != nil || !ok {
		return "", "", bailey.NewError(bailey.Conflict, "no branch is checked out", "git switch BRANCH")
	}
	if head, err = r.tip(ctx, into); err != nil || head == "" {
		return "", "", bailey.NewError(bailey.Conflict, "the branch "+terminal.Sanitize(into)+" has no commit yet", "")
	}
	for _, state := range []string{"MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		if _, err := r.run(ctx, "rev-parse", "--verify", "--quiet", state); err == nil {
			return "", "", bailey.NewError(bailey.Conflict, "a merge, rebase or the like is under way in the repository", "end it first: git status says how")
		}
	}
	changed, err := r.run(ctx, "status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames",
		"--ignore-submodules=dirty") // to look for changes in one, git would start another git there
	if err != nil {
		return "", "", err
	}
	if changed != "" {
		hint := "commit or stash them first"
		if carried := r.carried(ctx, w, head); carried != "" {
			hint = putAway(carried)
		}
		return "", "", bailey.NewError(bailey.Conflict, "the work tree has changes that are not committed: "+listed(paths(changed)), hint)
	}
	return head, into, nil
}

// carried is the commit of what was not committed when the task began, if the
// branch has one that head has not.
func (r *Repo) carried(ctx context.Context, w Work, head string) string {
	if !w.Carried || w.Base == "" {
		return ""
	}
	if _, err := r.run(ctx, "merge-base", "--is-ancestor", w.Base, head); code(err) != 1 {
		return ""
	}
	return w.Base
}

// putAway says what to do with a work tree whose changes come with the work.
func putAway(carried string) string {
	return fmt.Sprintf("the branch has what was not committed when the task began, as its commit %.12s. If you changed nothing since: git stash -u, merge, git stash drop. Else commit yours first: the same changes on both sides merge", carried)
}

// paths of the answer of git status.
func paths(status string) []string {
	var out []string
	for e := range strings.SplitSeq(strings.TrimSuffix(status, "\x00"), "\x00") {
		const mark = 3 // two letters and a space
		out = append(out, e[min(mark, len(e)):])
	}
	return out
}

// listed is some names for a person.
func listed(names []string) string {
	const most = 5
	shown := make([]string, 0, most+1)
	for i, n := range names {
		if i == most {
			shown = append(shown, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		shown = append(shown, terminal.Sanitize(n))
	}
	return strings.Join(shown, ", ")
}

// delivered is the work's commit, if the branch is what was delivered.
func (r *Repo) delivered(ctx context.Context, w Work) (string, error) {
	tip, err := r.tip(ctx, w.Branch)
	if err != nil {
		return "", err
	}
	if tip == "" {
		return "", bailey.NewError(bailey.NotFound, "the repository has no branch "+terminal.Sanitize(w.Branch), "name the repository with --repo")
	}
	if w.Commit != "" && tip != w.Commit {
		return "", bailey.NewError(bailey.Conflict, fmt.Sprintf("the branch %s is not what was delivered: it is %.12s, and the task's work is %.12s", terminal.Sanitize(w.Branch), tip, w.Commit),
			"look at what was added with git log; git merge takes it")
	}
	return tip, nil
}

// join makes the tree of both, without the work tree.
func (r *Repo) join(ctx context.Context, head, commit string) (string, error) {
	out, err := r.run(ctx, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", head, commit)
	fields := strings.Split(strings.TrimRight(out, "\x00"), "\x00")
	if code(err) == 1 {
		return "", bailey.NewError(bailey.Conflict, "the work does not merge with what the branch has become: "+listed(fields[1:]), "git merge lets you solve it by hand, with what your git is set up to run")
	}
	if err != nil {
		return "", bailey.WrapError(bailey.Unsupported, "merge the work", err, "git 2.38 or newer is needed")
	}
	return fields[0], nil
}

// Stake is what would be lost with a branch.
type Stake struct {
	Exists  bool
	Commits int // that no other branch, tag or remote branch has
	Files   int // that they change
}

// None reports that nothing would be lost.
func (s Stake) None() bool { return s.Commits == 0 }

// String is the stake for a person.
func (s Stake) String() string {
	return spell.Count(s.Commits, "commit") + " with changes in " + spell.Count(s.Files, "file")
}

// Stake says what of the work is in no other branch.
func (r *Repo) Stake(ctx context.Context, w Work) (Stake, error) {
	var s Stake
	tip, err := r.tip(ctx, w.Branch)
	if err != nil || tip == "" {
		return s, err
	}
	s.Exists = true
	out, err := r.run(ctx, "rev-list", "--count", tip, "--not", "--exclude="+w.Branch, "--branches", "--tags", "--remotes", "HEAD")
	if err != nil {
		return s, err
	}
	if _, err := fmt.Sscan(out, &s.Commits); err != nil || s.Commits == 0 {
		return s, err
	}
	base := w.Base
	if base == "" {
		base = tip + "^"
	}
	names, err := r.run(ctx, "diff-tree", "-r", "--no-renames", "--name-only", "-z", "--no-ext-diff", "--no-textconv", base, tip)
	if err != nil {
		return s, err
	}
	s.Files = strings.Count(names, "\x00")
	return s, nil
}

// Branches are the names of all branches below a prefix such as "agent/"; true
// for those whose work is in the commit that is checked out, as a merge.
func (r *Repo) Branches(ctx context.Context, prefix string) (map[string]bool, error) {
	list := func(how ...string) ([]string, error) {
		out, err := r.run(ctx, append([]string{"for-each-ref", "--format=%(HEAD)%(refname)"}, append(how, ref(prefix))...)...)
		return strings.Fields(out), err
	}
	all, err := list()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	merged, err := list("--merged=HEAD")
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for i, names := range [][]string{all, merged} {
		for _, name := range names {
			name, current := strings.CutPrefix(name, "*") // that one is the commit, and merged with nothing
			out[strings.TrimPrefix(name, "refs/heads/")] = i == 1 && !current
		}
	}
	return out, nil
}

// Dir is the root of the work tree.
func (r *Repo) Dir() string { return r.dir }
