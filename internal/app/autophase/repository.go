package autophase

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey/internal/app/carrier"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/phase"
)

// begunName holds the id of the unit that the folder of git is about.
const begunName = "unit"

func (d *Driver) git() string { return filepath.Join(d.folder, gitName) }

func (d *Driver) repository() carry.Repository {
	return carry.Repository{Path: d.Workspace, Roots: []string{"/"}, From: ""}
}

// carry has one operation on the repository done.
func (d *Driver) carry(ctx context.Context, r carry.Request, to any) error {
	if err := os.MkdirAll(d.git(), privateDir); err != nil {
		return fmt.Errorf("make folder for git: %w", err)
	}
	answer, err := carrier.Starter{Folder: d.git(), Git: d.gitProgram()}.Start(ctx, r)
	if err != nil {
		return err
	}
	return carrier.Read(answer, to)
}

// begin looks at the work tree before a unit.
func (d *Driver) begin(ctx context.Context, id string, dirty bool) (carry.PhaseBegan, error) {
	var got carry.PhaseBegan
	mark := filepath.Join(d.folder, begunName)
	if err := os.RemoveAll(mark); err != nil {
		return got, err
	}
	err := d.carry(ctx, carry.Request{PhaseBegin: &carry.PhaseBegin{Repository: d.repository(), Home: d.Home, Folder: d.git(), AllowDirty: dirty, Except: d.except()}}, &got)
	if err != nil {
		return got, err
	}
	return got, writeFile(mark, []byte(id))
}

// begun reports whether what is kept of the work tree is of a unit.
func (d *Driver) begun(id string) bool {
	b, err := os.ReadFile(filepath.Join(d.folder, begunName))
	return err == nil && string(b) == id
}

// except is the plan, where it lies in the work tree: it is nobody's work.
func (d *Driver) except() []string {
	if rel, err := filepath.Rel(d.Workspace, d.File); err == nil && filepath.IsLocal(rel) {
		return []string{rel}
	}
	return nil
}

// collect reads what was changed since.
func (d *Driver) collect(ctx context.Context) (carry.PhaseCollected, error) {
	var got carry.PhaseCollected
	err := d.carry(ctx, carry.Request{PhaseCollect: &carry.PhaseCollect{Repository: d.repository(), Home: d.Home, Folder: d.git()}}, &got)
	return got, err
}

// putBack has a unit that is not committed leave the branch where it was, with
// its work in the tree.
func (d *Driver) putBack(ctx context.Context, w *phase.Work) error {
	var got carry.PhaseCommitted
	ctx = context.WithoutCancel(ctx) // an interrupted one too
	err := d.carry(ctx, carry.Request{PhaseCommit: &carry.PhaseCommit{Repository: d.repository(), Home: d.Home, Folder: d.git(), Back: true}}, &got)
	if err != nil {
		return fmt.Errorf("put %s back to where it was before the unit: %w", strings.TrimPrefix(w.Branch, "refs/heads/"), err)
	}
	w.Tip = w.Head
	if len(got.Kept) > 0 {
		w.Kept = appendNew(w.Kept, got.Kept...)
		d.sayKept(got.Kept)
	}
	return d.save()
}

// commit commits what was collected.
func (d *Driver) commit(ctx context.Context, message string) (carry.PhaseCommitted, error) {
	var got carry.PhaseCommitted
	err := d.carry(ctx, carry.Request{PhaseCommit: &carry.PhaseCommit{
		Repository: d.repository(), Home: d.Home, Folder: d.git(), Message: message, Name: d.user.name, Email: d.user.email,
	}}, &got)
	return got, err
}
