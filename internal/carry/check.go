package carry

import (
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/task"
)

// operation is what all operations have: whose it is, and where it is done.
type operation struct {
	id    task.ID
	paths []string
}

// operations are those that the request is for.
func (r Request) operations() []operation {
	const none = task.ID("0") // for an operation without one
	var list []operation
	if x := r.Examine; x != nil {
		list = append(list, operation{none, []string{x.Path, x.Shadow}})
	}
	if s := r.Snapshot; s != nil {
		list = append(list, operation{s.ID, []string{s.Path, s.Shadow, s.Clone}})
	}
	if c := r.Collect; c != nil {
		list = append(list, operation{c.ID, []string{c.Shadow, c.Clone}})
	}
	if d := r.Deliver; d != nil {
		list = append(list, operation{d.ID, []string{d.Path, d.Shadow}})
	}
	if d := r.DeleteBranch; d != nil {
		list = append(list, operation{none, []string{d.Path}})
	}
	if c := r.Checkout; c != nil {
		list = append(list, operation{none, []string{c.Path, c.Clone}})
	}
	if b := r.PhaseBegin; b != nil {
		list = append(list, operation{none, []string{b.Path, b.Folder}})
	}
	if c := r.PhaseCollect; c != nil {
		list = append(list, operation{none, []string{c.Path, c.Folder}})
	}
	if c := r.PhaseCommit; c != nil {
		list = append(list, operation{none, []string{c.Path, c.Folder}})
	}
	if x := r.Remove; x != nil {
		list = append(list, operation{none, []string{x.Folder}})
	}
	return list
}

// check refuses a request that no operation can be made of, before anything of
// it is looked at.
func (r Request) check() error {
	list := r.operations()
	if len(list) != 1 {
		return bailey.NewError(bailey.Invalid, "a request is for one operation", "")
	}
	if !list[0].id.Valid() {
		return bailey.NewError(bailey.Invalid, "a task's id is letters a to z, digits and hyphens, at most 64", "")
	}
	for _, p := range append(list[0].paths, r.Git) {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsAny(p, "\x00\n") {
			return bailey.NewError(bailey.Invalid, "the path "+printable(p)+" is not absolute and clean", "name an absolute path without . and ..")
		}
	}
	return nil
}

// agentBranch returns the id of a branch that bailey makes, and refuses every
// other name.
func agentBranch(branch string) (task.ID, error) {
	id, ok := strings.CutPrefix(branch, task.BranchPrefix)
	if !ok || !task.ID(id).Valid() {
		return "", bailey.NewError(bailey.Forbidden, "the branch "+printable(branch)+" is not one of a task", "only branches "+task.BranchPrefix+"ID are deleted")
	}
	return task.ID(id), nil
}

// branchName refuses what git would not take for the name of a branch, and what
// a program could take for an option.
func branchName(branch string) error {
	if !gitdata.ValidBranch(branch) {
		return bailey.NewError(bailey.Invalid, printable(branch)+" cannot be the name of a branch", "name a branch as `git branch` lists it")
	}
	return nil
}

func invalidDirty() error {
	return bailey.NewError(bailey.Invalid, "uncommitted work belongs to HEAD, and another commit was named", "leave out the ref, or commit the work")
}
