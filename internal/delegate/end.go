package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/task"
)

// tell tells followers of a task.
func (s *Service) tell(e *entry, p task.Progress) {
	p.Time, p.Task = s.cfg.Now().UTC(), e.id
	e.feeds().tell(p)
}

// stateOf is what a step looks like from outside.
func stateOf(st step) task.State {
	switch st {
	case stepQueue:
		return task.Queued
	case stepCopy:
		return task.Preparing
	case stepAgent:
		return task.Preparing // running, once the agent was started
	case stepGather, stepDeliver, stepCheck, stepClear:
		return task.Collecting
	case stepDone:
	}
	return task.Done
}

// proceed writes down that a task has come to a step.
func (s *Service) proceed(e *entry, next step) {
	told := false
	e.edit(func(r *record) {
		r.Step = next
		state := stateOf(next)
		if next == stepDone {
			r.Task.Status = statusOf(r)
			if why := uncheckedWhy(r); why != "" {
				r.warn(why)
			}
			if r.Task.Ended.IsZero() {
				r.Task.Ended = s.cfg.Now().UTC()
			}
		}
		told = r.Task.State != state && next != stepDone
		r.Task.State = state
	})
	s.save(e)
	if told {
		s.tell(e, task.Progress{Kind: "state", State: stateOf(next)})
	}
}

// save writes a task's record. A disk that is full does not end the task: it
// goes on in memory, and its result says so.
func (s *Service) save(e *entry) {
	if e.broken != nil { // what can be read of it is for a person to look at
		return
	}
	e.saving.Lock()
	defer e.saving.Unlock()
	r := e.copied()
	if err := s.store.save(&r); err != nil {
		s.cfg.Log(fmt.Sprintf("the record of task %s: %v", e.id, err))
		e.edit(func(r *record) {
			r.warn("the record of this task could not be written (" + line(err.Error(), mostSaidBytes) + "): after a restart of the service it may be as it was before")
		})
	}
}

// finish tells that a task is done.
func (s *Service) finish(e *entry) {
	t := e.task()
	s.tell(e, task.Progress{Kind: "done", State: task.Done, Message: string(t.Status), Usage: &t.Usage, CostUSD: t.CostUSD})
	items, _, _, _ := e.feeds().from(0)
	var all bytes.Buffer
	enc := json.NewEncoder(&all)
	for _, p := range items {
		_ = enc.Encode(p) // into memory: it cannot fail
	}
	if err := s.store.put(e.id, partTold, all.Bytes()); err != nil {
		s.cfg.Log(fmt.Sprintf("what happened to task %s: %v", e.id, err))
	}
	close(e.over) // before who follows is told: it may be removed from then on
	e.quiet()
}

// Cancel ends a task. What it has done so far is collected as ever.
func (s *Service) Cancel(ctx context.Context, id task.ID) (task.Task, error) {
	e, err := s.find(id)
	if err != nil {
		return task.Task{}, err
	}
	if e.step() != stepDone {
		e.askEnd()
		s.save(e)
	}
	select {
	case <-e.over:
		return s.whole(e)
	case <-ctx.Done():
		return s.shown(e), ctx.Err()
	}
}

// Forget removes a task that is done. The branch in the repository stays.
func (s *Service) Forget(ctx context.Context, id task.ID) error {
	e, err := s.find(id)
	if err != nil {
		return err
	}
	select {
	case <-e.over:
	default:
		return bailey.NewError(bailey.Conflict, fmt.Sprintf("task %s is not done", id), "bailey task cancel "+string(id)+" ends it")
	}
	if err := s.cfg.Engine.Remove(ctx, id); err != nil && !absent(err) {
		return err
	}
	if err := s.store.remove(id); err != nil {
		return bailey.WrapError(bailey.Unavailable, fmt.Sprintf("remove the record of task %s", id), err, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, id)
	return nil
}

// Cleanup deletes the branch of a task in a repository, and the copies of its
// work. It deletes no other branch.
func (s *Service) Cleanup(ctx context.Context, repoPath, branch string) (task.Cleaned, error) {
	out := task.Cleaned{Branch: branch, Notes: []string{}}
	id := task.ID(strings.TrimPrefix(branch, task.BranchPrefix))
	if !strings.HasPrefix(branch, task.BranchPrefix) || !id.Valid() {
		return task.Cleaned{}, bailey.NewError(bailey.Forbidden, fmt.Sprintf("%q is no branch of a task", line(branch, mostName)), "only branches named "+task.BranchPrefix+"ID are deleted")
	}
	if err := checkRepo(repoPath); err != nil {
		return task.Cleaned{}, err
	}
	e, _ := s.find(id)
	if e != nil && e.step() != stepDone {
		return task.Cleaned{}, bailey.NewError(bailey.Conflict, fmt.Sprintf("task %s is not done", id), "cancel it first")
	}
	gone, err := s.cfg.Engine.DeleteBranch(ctx, repoPath, branch)
	if err != nil {
		return task.Cleaned{}, err
	}
	out.Deleted = gone.Deleted
	switch {
	case !gone.Deleted:
		out.Notes = append(out.Notes, "the repository has no branch "+branch)
	case objectID(gone.Commit):
		out.Commit = gone.Commit
		out.Notes = append(out.Notes, "git branch "+branch+" "+gone.Commit+" brings the branch back, until git prunes what no branch has")
	}
	switch err := s.cfg.Engine.Remove(ctx, id); {
	case err == nil && (e == nil || e.keeps()):
		out.Clones = 1
	case err != nil && !absent(err):
		out.Notes = append(out.Notes, "the copies of the work could not be removed: "+said(err))
	}
	if e != nil {
		e.edit(func(r *record) { r.Keep, r.Task.Branch = false, "" })
		s.save(e)
		out.Notes = append(out.Notes, "the record of the task stays; bailey task rm "+string(id)+" removes it")
	}
	return out, nil
}

// absent reports that what was to be removed is not there.
func absent(err error) bool { return bailey.KindOf(err) == bailey.NotFound }

// ofBranch finds the task that a branch is of, if it is done and the branch is
// as it was delivered.
func (s *Service) ofBranch(branch, commit string) *entry {
	id, ok := strings.CutPrefix(branch, task.BranchPrefix)
	if !ok {
		return nil
	}
	e, err := s.find(task.ID(id))
	if err != nil || e.broken != nil {
		return nil
	}
	r := e.copied()
	if !r.done() || r.Commit == "" || r.Commit != commit {
		return nil
	}
	return e
}
