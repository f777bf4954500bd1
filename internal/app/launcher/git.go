package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/carrier"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

// git has each operation on a repository done by a process of its own
// (internal/app/carrier). What it answers is bailey's own word, but for the
// texts in it, which are handed on; of a collection nothing is read here.
type git struct {
	home     *household
	settings launcher.Settings
	allowed  func() launcher.Tasks
}

// start has one operation done, once there is a place for it.
func (g *git) start(ctx context.Context, at place, r carry.Request) (*os.File, error) {
	program, err := g.program()
	if err != nil {
		return nil, err
	}
	if err := g.home.helping.enter(ctx); err != nil {
		return nil, err
	}
	defer g.home.helping.leave()
	return carrier.Starter{Git: program, Folder: at.folder, Disk: at.disk, Run: g.home.run}.Start(ctx, r)
}

// program is the git on the PATH of whoever started the service.
func (g *git) program() (string, error) {
	list := g.settings.Path()
	for _, dir := range filepath.SplitList(list) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, "git")); err == nil {
			return path, nil
		}
	}
	return "", bailey.NewError(bailey.Unavailable, fmt.Sprintf("the running service finds no git: it has the PATH of its start, %q", list),
		"install git; if it is on your PATH by now, bailey serve stop, and the next command starts the service with that")
}

// ask is start for what answers with one value.
func ask[A any](ctx context.Context, g *git, at place, r carry.Request) (A, error) {
	var a A
	answer, err := g.start(ctx, at, r)
	if err != nil {
		return a, err
	}
	return a, carrier.Read(answer, &a)
}

// repository is one that a user names.
func (g *git) repository(path string) carry.Repository {
	t := g.allowed()
	return carry.Repository{Path: path, Roots: t.Roots, From: t.From}
}

func (g *git) examine(ctx context.Context, r launcher.ExamineRequest, at place) (string, error) {
	got, err := ask[carry.Examined](ctx, g, at, carry.Request{Examine: &carry.Examine{
		Repository: g.repository(r.Path), Ref: r.Ref, Shadow: at.shadow,
	}})
	return got.Repo, err
}

func (g *git) snapshot(ctx context.Context, r launcher.SnapshotRequest, at place) (launcher.Snapshot, error) {
	return ask[launcher.Snapshot](ctx, g, at, carry.Request{Snapshot: &carry.Snapshot{
		Repository: g.repository(r.Path), ID: r.ID, Ref: r.Ref, IncludeDirty: r.IncludeDirty, Home: g.settings.Home,
		Shadow: at.shadow, Clone: at.workspace,
	}})
}

func (g *git) checkout(ctx context.Context, r launcher.CheckRequest, at place) (launcher.Snapshot, error) {
	got, err := ask[carry.CheckedOut](ctx, g, at, carry.Request{Checkout: &carry.Checkout{
		Repository: g.repository(r.Path), Branch: r.Branch, Clone: at.workspace,
	}})
	return launcher.Snapshot{Repo: got.Repo, Subdir: got.Subdir, Base: got.Commit, Warnings: got.Warnings}, err
}

func (g *git) collect(ctx context.Context, id task.ID, at place, to *os.File) error {
	answer, err := g.start(ctx, at, carry.Request{Collect: &carry.Collect{ID: id, Shadow: at.shadow, Clone: at.workspace}})
	if err != nil {
		return err
	}
	_, err = io.Copy(to, answer)
	if err := errors.Join(err, answer.Close()); err != nil {
		return fmt.Errorf("keep what was collected: %w", err)
	}
	return nil
}

func (g *git) deliver(ctx context.Context, id task.ID, repo string, at place) (launcher.Delivered, error) {
	return ask[launcher.Delivered](ctx, g, at, carry.Request{Deliver: &carry.Deliver{Repository: g.repository(repo), ID: id, Shadow: at.shadow}})
}

func (g *git) deleteBranch(ctx context.Context, path, branch string) (launcher.Deleted, error) {
	return ask[launcher.Deleted](ctx, g, place{}, carry.Request{DeleteBranch: &carry.DeleteBranch{Repository: g.repository(path), Branch: branch}})
}
