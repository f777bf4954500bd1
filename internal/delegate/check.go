package delegate

import (
	"context"
	"fmt"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

// mostOutput of a check is handed out with its result: the end of it.
const mostOutput = task.MaxDiff

// checks runs the command that was asked for with the task.
func (s *Service) checks(ctx context.Context, e *entry) step {
	r := e.request()
	if r.Checks == "" || e.checkedAlready() {
		return stepClear
	}
	if e.cancelled() {
		return stepClear // uncheckedWhy says so
	}
	s.tell(e, task.Progress{Kind: "state", State: task.Collecting, Message: "checks run"})
	stop, done := context.WithCancel(ctx)
	defer done()
	go func() {
		select {
		case <-e.cancel:
			done()
		case <-stop.Done():
		}
	}()
	req := task.CheckRequest{RepoPath: r.RepoPath, Branch: e.id.Branch(), Command: r.Checks, Environment: r.Environment}
	var output []byte
	got, err := again(stop, s, func() (c checked, err error) {
		c, output, err = s.command(stop, req, func(p task.Progress) { s.tell(e, p) })
		return c, err
	})
	if ctx.Err() != nil {
		return stepCheck
	}
	if err != nil {
		e.edit(func(r *record) { r.warn("the checks could not be run: " + said(err)) })
		return stepClear
	}
	s.keepCheck(e, got, output)
	return stepClear
}

// uncheckedWhy says why checks that were asked for were not run; "" where they
// were, or where it was said already why they could not be.
func uncheckedWhy(r *record) string {
	switch {
	case r.Request.Checks == "" || r.Check != nil:
		return ""
	case r.Cancel:
		return "the task was cancelled, so the checks were not run"
	case r.Task.Branch != "":
		return ""
	case r.Failure == "":
		return "nothing changed, so the checks were not run"
	}
	return "there is no branch with the work, so the checks were not run"
}

// keepCheck makes a check's result part of a task.
func (s *Service) keepCheck(e *entry, got checked, output []byte) {
	err := s.store.put(e.id, partChecks, output)
	e.edit(func(r *record) {
		r.Check = &got
		if err != nil {
			r.warn("the output of the checks could not be kept: " + line(err.Error(), mostSaidBytes))
		}
	})
}

// Check runs a command on a branch.
func (s *Service) Check(ctx context.Context, r task.CheckRequest, progress func(task.Progress)) (task.CheckResult, error) {
	if err := checkCheck(r); err != nil {
		return task.CheckResult{}, err
	}
	leave := s.busy()
	defer leave()
	got, output, err := s.command(ctx, r, progress)
	if err != nil {
		return task.CheckResult{}, err
	}
	if e := s.ofBranch(r.Branch, got.Commit); e != nil {
		s.keepCheck(e, got, output)
		s.save(e)
	}
	f := NewFence()
	out := checkResult(f, got, output)
	return out, nil
}

func checkCheck(r task.CheckRequest) error {
	if err := checkRepo(r.RepoPath); err != nil {
		return err
	}
	if r.Branch == "" {
		return invalid("branch is missing", "name the branch that the command is to run on, such as agent/ID")
	}
	if err := checkRef(r.Branch); err != nil {
		return err
	}
	if r.Command == "" {
		return invalid("command is missing", "name what is to be run, such as \"make test\"")
	}
	if err := checkTimeout(r.TimeoutMinutes, r.TimeoutSeconds, task.MostCheckLimit, "leave it out for 15 minutes"); err != nil {
		return err
	}
	if err := checkCommand(r.Command); err != nil {
		return err
	}
	return checkEnvironment(r.Environment)
}

// command runs a command on a branch in a sandbox of its own, and returns what
// came of it and the end of what it printed. The end of ctx ends it.
func (s *Service) command(ctx context.Context, r task.CheckRequest, progress func(task.Progress)) (checked, []byte, error) {
	select {
	case s.checking <- struct{}{}:
		defer func() { <-s.checking }()
	case <-ctx.Done():
		return checked{}, nil, ended(ctx)
	}
	limit := timeoutOf(r.TimeoutMinutes, r.TimeoutSeconds, task.DefaultCheckLimit)
	id := newID("check", s.taken)
	work := context.WithoutCancel(ctx)
	defer s.tidy(work, id)
	streams, err := s.cfg.Engine.StartCheck(ctx, launcher.CheckRequest{ID: id, Path: r.RepoPath, Branch: r.Branch, Command: r.Command, Environment: r.Environment, Timeout: limit})
	if err != nil {
		return checked{}, nil, err
	}
	defer closeAll(streams.Output, streams.Errors, streams.Events)
	progress(task.Progress{Time: s.cfg.Now(), Task: id, Kind: "state", State: task.Running, Message: "the command runs on " + line(r.Branch, mostRef)})
	out, m := &lastBytes{most: mostOutput}, newMeter()
	var told int64
	st, err := s.follow(work, id, []*tail{newTail(streams.Output, out), newTail(streams.Events, m)}, ctx.Done(), func() bool {
		if out.all-told > chunk {
			told = out.all
			progress(task.Progress{Time: s.cfg.Now(), Task: id, Kind: "text", Message: fmt.Sprintf("%d KiB of output", out.all>>10)})
		}
		return false
	})
	if err != nil {
		return checked{}, nil, err
	}
	c := checked{
		ID: id, Branch: line(r.Branch, mostRef), Commit: streams.Commit, Command: r.Command, ExitCode: st.ExitCode,
		Status: checkStatus(st, m.heard, ctx.Err() != nil), RunSeconds: seconds(st.Started, st.Ended), Truncated: out.cut(),
		Warnings: slices.Clone(s.cfg.Warnings),
	}
	if st.Error != "" {
		c.Warnings = append(c.Warnings, "the sandbox could not do its work: "+line(st.Error, mostSaidBytes))
	}
	for _, n := range append(st.Notes, m.heard.Warnings...) {
		c.Warnings = append(c.Warnings, line(n, mostSaidBytes))
	}
	return c, []byte(out.text()), nil
}

// tidy takes a check's copy away.
func (s *Service) tidy(ctx context.Context, id task.ID) {
	if err := s.cfg.Engine.Remove(ctx, id); err != nil && !absent(err) {
		s.cfg.Log("remove the copy of " + string(id) + ": " + err.Error())
	}
}

func ended(ctx context.Context) error {
	return bailey.WrapError(bailey.Unavailable, "the check was ended before it began", context.Cause(ctx), "")
}

// checkResult is a check as it is handed out.
func checkResult(f Fence, c checked, output []byte) task.CheckResult {
	from := 0
	for { // what is escaped grows, and the end is what tells
		_, used := Neutral(string(output[from:]), mostOutput)
		if used == len(output)-from {
			break
		}
		from = len(output) - used
	}
	text, _ := f.WrapPiece("output of the command", string(output), from, -1)
	if c.Warnings == nil {
		c.Warnings = []string{}
	}
	return task.CheckResult{
		ID: c.ID, Branch: c.Branch, Commit: c.Commit, Passed: c.Status == task.Success && c.ExitCode == 0, ExitCode: c.ExitCode,
		Status: c.Status, RunSeconds: c.RunSeconds, Output: text,
		Truncated: c.Truncated || from > 0, Warnings: c.Warnings, UntrustedNotice: f.Notice(),
	}
}
