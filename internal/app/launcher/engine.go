package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/task"
)

// engine does what control asks for.
type engine struct {
	settings launcher.Settings
	store    *store
	home     *household
	helpers  helpers
	log      *slog.Logger
	now      func() time.Time
	changed  func()            // called when a sandbox has ended
	point    func(name string) // called at every step, for tests that kill the process there
	late     time.Duration     // behind a runner's own deadline: lateBy

	disks disks // that are mounted

	// Reads asks what the user's files say now.
	reads func(ctx context.Context, models bool) (launcher.Catalog, error)

	mu     sync.Mutex
	tasks  launcher.Tasks // as config.yaml was when it was last read
	units  map[task.ID]*unit
	agents int // that run, or are about to
	checks int // likewise
}

// helpers are the children that read what strangers wrote, each for one
// operation.
type helpers interface { //nolint:interfacebloat // a method for each operation, and closed
	examine(ctx context.Context, r launcher.ExamineRequest, at place) (repo string, err error)
	snapshot(ctx context.Context, r launcher.SnapshotRequest, at place) (launcher.Snapshot, error)
	checkout(ctx context.Context, r launcher.CheckRequest, at place) (launcher.Snapshot, error)
	// collect writes a launcher.Collected as one line, and the diff behind it.
	collect(ctx context.Context, id task.ID, at place, to *os.File) error
	deliver(ctx context.Context, id task.ID, repo string, at place) (launcher.Delivered, error)
	deleteBranch(ctx context.Context, path, branch string) (launcher.Deleted, error)
}

// place is where a task's work lies. The folder is the helper's to give to the
// owner of the repository, and so is the disk; the other two are in them.
type place struct{ folder, disk, workspace, shadow string }

// unit is one task or check.
type unit struct {
	busy chan struct{} // holds one token: who has it does something with the task

	mu  sync.Mutex
	rec record
	job *job // that runs
}

// placeOf is a task's.
func (e *engine) placeOf(id task.ID) place {
	return place{folder: e.store.pathOf(id, workName), disk: e.store.pathOf(id, diskName), workspace: e.store.pathOf(id, workspaceName), shadow: e.store.pathOf(id, shadowName)}
}

// recover reads the ledgers that are there, and sets right what a launcher that
// was killed has left.
func (e *engine) recover(ctx context.Context) error {
	ids, err := e.store.ids()
	if err != nil {
		return err
	}
	for _, id := range ids {
		rec, err := e.store.load(id)
		if err != nil { // half of a start, or of a removal
			e.log.LogAttrs(ctx, slog.LevelWarn, "a task without a ledger is removed", slog.String("task", string(id)), slog.String("why", err.Error()))
			if errors.Is(err, fs.ErrNotExist) {
				err = e.store.remove(id, "")
			}
			if err != nil {
				e.log.LogAttrs(ctx, slog.LevelError, "a task is left out", slog.String("task", string(id)), slog.String("why", err.Error()))
			}
			continue
		}
		if err := e.restore(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

// restore takes up one task. Its runner died with the launcher; one that did
// not is ended.
func (e *engine) restore(ctx context.Context, rec record) error {
	if rec.Boot != "" && rec.Boot == proc.BootID() && rec.Runner.Alive() {
		_ = rec.Runner.Signal(syscall.SIGKILL)
		if err := untilGone(ctx, rec.Runner); err != nil {
			return err
		}
	}
	out, gone := rec.recovered(e.now())
	if gone {
		return e.store.remove(rec.ID, "")
	}
	if out.Doing != rec.Doing || out.Runner != rec.Runner {
		e.log.LogAttrs(ctx, slog.LevelWarn, "bailey was killed while it worked on a task", slog.String("task", string(rec.ID)), slog.String("doing", string(rec.Doing)))
		if err := e.store.save(&out); err != nil {
			return err
		}
	}
	e.units[rec.ID] = newUnit(out)
	return nil
}

// untilGone waits for the end of a process that was killed.
func untilGone(ctx context.Context, id proc.Identity) error {
	tick := time.NewTicker(orphanPoll)
	defer tick.Stop()
	for id.Alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for process %d: %w", id.PID, ctx.Err())
		}
	}
	return nil
}

func newUnit(rec record) *unit {
	u := &unit{busy: make(chan struct{}, 1), rec: rec}
	u.busy <- struct{}{}
	return u
}

// hold waits until nothing else is done with a task. A fresh one is made where
// there is none, if that is wanted.
func (e *engine) hold(ctx context.Context, id task.ID, fresh bool) (*unit, func(), error) {
	if !id.Valid() {
		return nil, nil, bailey.NewError(bailey.Invalid, "that is not the id of a task", "")
	}
	for {
		u := e.unit(id, fresh)
		if u == nil {
			return nil, nil, unknown(id)
		}
		select {
		case <-u.busy:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		if e.unit(id, false) == u {
			return u, func() { u.busy <- struct{}{} }, nil
		}
		u.busy <- struct{}{} // it was removed meanwhile
	}
}

func unknown(id task.ID) error {
	return bailey.NewError(bailey.NotFound, fmt.Sprintf("nothing is kept of a task %s", id), "bailey task ls lists those that are there")
}

func (e *engine) unit(id task.ID, fresh bool) *unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.units[id]
	if u == nil && fresh {
		u = newUnit(record{ID: id, Status: launcher.Status{ID: id}})
		e.units[id] = u
	}
	return u
}

// drop forgets a task of which nothing is left.
func (e *engine) drop(id task.ID) error {
	if err := e.disks.unmount(id, e.placeOf(id).disk); err != nil {
		return err
	}
	if err := e.store.remove(id, ""); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.units, id)
	e.mu.Unlock()
	return nil
}

// change changes a task's ledger: on the disk first.
func (e *engine) change(u *unit, f func(*record)) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	next := u.rec
	f(&next)
	if err := e.store.save(&next); err != nil {
		return err
	}
	u.rec = next
	return nil
}

func (u *unit) record() record {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rec
}

// step does one thing to a task: the ledger says so from before it begins until
// it has ended, and then what came of it.
func (e *engine) step(u *unit, what doing, do func() (func(*record), error)) error {
	e.point("before " + string(what))
	if err := e.change(u, func(r *record) { r.Doing = what }); err != nil {
		return err
	}
	e.point("in " + string(what))
	then, err := do()
	e.point("done " + string(what))
	saved := e.change(u, func(r *record) {
		r.Doing = idle
		if err == nil {
			then(r)
		}
	})
	e.point("after " + string(what))
	return errors.Join(err, saved)
}

// Examine is Engine's.
func (e *engine) Examine(ctx context.Context, r launcher.ExamineRequest) (launcher.Examined, error) {
	none := launcher.Examined{}
	if err := r.Check(); err != nil {
		return none, err
	}
	if err := e.renew(ctx); err != nil {
		return none, err
	}
	if _, err := e.environment(r.Environment); err != nil {
		return none, err
	}
	u, release, err := e.hold(ctx, r.ID, true)
	if err != nil {
		return none, err
	}
	defer release()
	if rec := u.record(); rec.Asked != nil || rec.Check {
		return none, taken(r.ID)
	}
	got := launcher.Examined{MaxParallel: e.allowed().MaxParallel}
	err = e.step(u, snapshotting, func() (func(*record), error) {
		if err := e.store.makeWork(r.ID); err != nil {
			return nil, err
		}
		got.Repo, err = e.helpers.examine(ctx, r, e.placeOf(r.ID))
		return func(*record) {}, err
	})
	return got, errors.Join(err, e.drop(r.ID))
}

// renew reads anew what config.yaml says of tasks. Where it is wrong, nothing
// new begins; what has begun goes on by what it said before.
func (e *engine) renew(ctx context.Context) error {
	c, err := e.reads(ctx, false)
	if err != nil {
		return err
	}
	if err := c.Tasks.Check(); err != nil {
		return err
	}
	tasks := withReal(c.Tasks)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tasks = tasks
	return nil
}

// allowed is what tasks may do by what was read last.
func (e *engine) allowed() launcher.Tasks {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tasks
}

// withReal adds the paths that roots have without links: a repository lies in
// one by that too.
func withReal(t launcher.Tasks) launcher.Tasks {
	roots := slices.Clone(t.Roots)
	for _, dir := range t.Roots {
		if real, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(roots, real) {
			roots = append(roots, real)
		}
	}
	t.Roots = roots
	return t
}

// Snapshot is Engine's.
func (e *engine) Snapshot(ctx context.Context, r launcher.SnapshotRequest) (launcher.Snapshot, error) {
	if err := r.Check(); err != nil {
		return launcher.Snapshot{}, err
	}
	if err := e.renew(ctx); err != nil {
		return launcher.Snapshot{}, err
	}
	u, release, err := e.hold(ctx, r.ID, true)
	if err != nil {
		return launcher.Snapshot{}, err
	}
	defer release()
	rec := u.record()
	if rec.Asked != nil && *rec.Asked == r && rec.Snapshot != nil {
		return *rec.Snapshot, nil
	}
	if rec.Asked != nil || rec.Check {
		return launcher.Snapshot{}, taken(r.ID)
	}
	var got launcher.Snapshot
	err = e.step(u, snapshotting, func() (func(*record), error) {
		var disk disk
		disk, err = e.fill(ctx, r.ID, func() error {
			got, err = e.helpers.snapshot(ctx, r, e.placeOf(r.ID))
			return err
		})
		return func(rec *record) {
			rec.Asked, rec.Snapshot, rec.Disk, rec.Status.Phase = &r, &got, disk, launcher.Prepared
		}, err
	})
	if err != nil {
		return launcher.Snapshot{}, errors.Join(err, e.drop(r.ID))
	}
	return got, nil
}

func taken(id task.ID) error {
	return bailey.NewError(bailey.Conflict, fmt.Sprintf("the id %s is another task's", id), "take another id")
}

// DeleteBranch is Engine's.
func (e *engine) DeleteBranch(ctx context.Context, path, branch string) (launcher.Deleted, error) {
	if id, ok := strings.CutPrefix(branch, task.BranchPrefix); !ok || !task.ID(id).Valid() {
		return launcher.Deleted{}, bailey.NewError(bailey.Forbidden, "only branches of tasks are deleted", "")
	}
	if err := e.renew(ctx); err != nil {
		return launcher.Deleted{}, err
	}
	return e.helpers.deleteBranch(ctx, path, branch)
}

// HandBack is Engine's.
func (e *engine) HandBack(ctx context.Context, id task.ID) (launcher.Collection, error) {
	u, release, err := e.hold(ctx, id, false)
	if err != nil {
		return launcher.Collection{}, err
	}
	defer release()
	rec := u.record()
	switch {
	case rec.Check:
		return launcher.Collection{}, bailey.NewError(bailey.Conflict, fmt.Sprintf("%s is a check: what it did to its copy is not kept", id), "")
	case rec.Status.Phase == launcher.Gathered || rec.Status.Phase == launcher.Sent:
	case rec.Status.Phase != launcher.Ended:
		return launcher.Collection{}, bailey.NewError(bailey.Conflict, fmt.Sprintf("task %s has not ended", id), "stop it first")
	default:
		if err := e.gather(ctx, u, id); err != nil {
			return launcher.Collection{}, err
		}
	}
	f, err := e.store.read(id, collectedName)
	return launcher.Collection{File: f}, err
}

func (e *engine) gather(ctx context.Context, u *unit, id task.ID) error {
	return e.step(u, collecting, func() (func(*record), error) {
		if err := e.show(ctx, u); err != nil {
			return nil, err
		}
		to, err := e.store.fresh(id, collectedName)
		if err != nil {
			return nil, err
		}
		err = e.helpers.collect(ctx, id, e.placeOf(id), to)
		if err = errors.Join(err, to.Close()); err == nil {
			e.hide(ctx, id) // nothing reads it any more
		}
		return func(r *record) { r.Status.Phase = launcher.Gathered }, err
	})
}

// Deliver is Engine's.
func (e *engine) Deliver(ctx context.Context, id task.ID) (launcher.Delivered, error) {
	u, release, err := e.hold(ctx, id, false)
	if err != nil {
		return launcher.Delivered{}, err
	}
	defer release()
	rec := u.record()
	switch {
	case rec.Delivered != nil:
		return *rec.Delivered, nil
	case rec.Status.Phase != launcher.Gathered || rec.Snapshot == nil:
		return launcher.Delivered{}, bailey.NewError(bailey.Conflict, fmt.Sprintf("the work of task %s has not been handed back", id), "")
	}
	var got launcher.Delivered
	err = e.step(u, delivering, func() (func(*record), error) {
		got, err = e.helpers.deliver(ctx, id, rec.Snapshot.Repo, e.placeOf(id))
		return func(r *record) { r.Delivered, r.Status.Phase = &got, launcher.Sent }, err
	})
	return got, err
}

// Remove is Engine's.
func (e *engine) Remove(ctx context.Context, id task.ID) error {
	u, release, err := e.hold(ctx, id, false)
	if bailey.KindOf(err) == bailey.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	if p := u.record().Status.Phase; p == launcher.Live {
		return bailey.NewError(bailey.Conflict, fmt.Sprintf("%s runs", id), "stop it first")
	}
	e.point("before " + string(removing))
	if err := e.change(u, func(r *record) { r.Doing = removing }); err != nil {
		return err
	}
	e.point("in " + string(removing))
	return e.drop(id)
}

// Known is Engine's.
func (e *engine) Known(context.Context) ([]launcher.Status, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []launcher.Status{}
	for _, u := range e.units {
		if s := u.record().Status; s.Phase != "" {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b launcher.Status) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list, nil
}

// Status is Engine's.
func (e *engine) Status(ctx context.Context, id task.ID, wait bool) (launcher.Status, error) {
	u := e.unit(id, false)
	if !id.Valid() || u == nil {
		return launcher.Status{}, unknown(id)
	}
	u.mu.Lock()
	j := u.job
	u.mu.Unlock()
	if wait && j != nil {
		select {
		case <-j.done:
		case <-ctx.Done():
			return launcher.Status{}, ctx.Err()
		}
	}
	return u.record().Status, nil
}

// Stop is Engine's.
func (e *engine) Stop(ctx context.Context, id task.ID) error {
	u := e.unit(id, false)
	if !id.Valid() || u == nil {
		return unknown(id)
	}
	u.mu.Lock()
	j := u.job
	u.mu.Unlock()
	if j == nil {
		return nil
	}
	j.stop()
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// live are the sandboxes that run.
func (e *engine) live() []*job {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*job
	for _, u := range e.units {
		u.mu.Lock()
		if u.job != nil {
			list = append(list, u.job)
		}
		u.mu.Unlock()
	}
	return list
}

// stopAll ends every sandbox, and returns when all of them are gone.
func (e *engine) stopAll() {
	list := e.live()
	for _, j := range list {
		j.stop()
	}
	for _, j := range list {
		<-j.done
	}
}
