package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/environment"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/linux/memfd"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

// job is a runner that runs.
type job struct {
	child *child
	limit time.Duration
	kind  taskrun.Kind
	done  chan struct{} // closed when the ledger says how it ended

	stopping sync.Once
	mu       sync.Mutex
	reason   string // why the launcher ended it, if it did
}

// A runner keeps its own deadline, and ends within stopGrace when it is told to.
// The launcher's deadline is for one that does neither: it may be stopped, or
// hang. It counts from the start of the process, and is late by lateBy.
const (
	stopGrace  = 8 * time.Second
	lateBy     = 5 * time.Second
	lastOutput = 2 * time.Second // for what a dead runner's pipes still hold
)

// timeout and stopped are limits, as docs/events.md has them.
const (
	timeout = "timeout"
	stopped = "stop"
)

// stop ends it, and returns at once: done says when it is gone.
func (j *job) stop() {
	j.stopping.Do(func() {
		j.because(stopped)
		go j.child.end(stopGrace)
	})
}

func (j *job) because(reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.reason == "" {
		j.reason = reason
	}
}

// StartAgent is Engine's.
func (e *engine) StartAgent(ctx context.Context, r launcher.AgentRequest) (launcher.Streams, error) {
	if err := r.Check(); err != nil {
		return launcher.Streams{}, err
	}
	asked, err := digest(r)
	if err != nil {
		return launcher.Streams{}, err
	}
	u, release, err := e.hold(ctx, r.ID, false)
	if err != nil {
		return launcher.Streams{}, err
	}
	defer release()
	rec := u.record()
	switch {
	case rec.Check, rec.Started != "" && rec.Started != asked:
		return launcher.Streams{}, taken(r.ID)
	case rec.Started == asked:
		return e.streams(&rec)
	case rec.Snapshot == nil:
		return launcher.Streams{}, bailey.NewError(bailey.Conflict, fmt.Sprintf("task %s has no snapshot yet", r.ID), "")
	}
	env, err := e.environment(r.Environment)
	if err == nil {
		err = e.reserve(taskrun.Agent)
	}
	if err != nil {
		return launcher.Streams{}, err
	}
	err = e.run(ctx, u, asked, taskrun.Settings{
		Kind: taskrun.Agent, ID: r.ID, Dir: e.placeOf(r.ID).workspace, Subdir: rec.Snapshot.Subdir, Limit: r.Timeout,
		Environment: env, Harness: r.Harness, Model: r.Model, Prompt: r.Prompt, MaxTurns: r.MaxTurns,
		Budget: r.Budget, Guide: r.Guide, ThinkingTokens: r.ThinkingTokens,
	})
	if err != nil {
		e.unreserve(taskrun.Agent)
		return launcher.Streams{}, err
	}
	rec = u.record()
	return e.streams(&rec)
}

// mostSandboxes is how many agents and checks run at once, whoever asks and
// whatever the settings say. Control has queues of its own for both, below it.
const mostSandboxes = task.MostAgents + task.MostChecks

// reserve takes a place for an agent or a check, of which there are
// mostSandboxes.
func (e *engine) reserve(kind taskrun.Kind) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.agents + e.checks; n >= mostSandboxes {
		return bailey.NewError(bailey.Exhausted, fmt.Sprintf("%d agents and checks run already, and no more than %d may at once", n, mostSandboxes), "wait for one to end, or cancel one: bailey task ls lists them")
	}
	if most := e.tasks.MaxParallel; kind == taskrun.Agent && most > 0 && e.agents >= most {
		return bailey.NewError(bailey.Exhausted, fmt.Sprintf("%d tasks run already", e.agents), "wait for one, or raise tasks.max_parallel")
	}
	*e.placesOf(kind)++
	return nil
}

// unreserve gives a place back.
func (e *engine) unreserve(kind taskrun.Kind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*e.placesOf(kind)--
}

func (e *engine) placesOf(kind taskrun.Kind) *int {
	if kind == taskrun.Agent {
		return &e.agents
	}
	return &e.checks
}

// environment is the folder of an environment that `bailey env build` made. Any
// other folder is refused: the sandbox would see it.
func (e *engine) environment(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return environment.In(e.settings.Data, os.Getuid()).Find(name)
}

// StartCheck is Engine's.
func (e *engine) StartCheck(ctx context.Context, r launcher.CheckRequest) (launcher.Streams, error) {
	if err := r.Check(); err != nil {
		return launcher.Streams{}, err
	}
	asked, err := digest(r)
	if err != nil {
		return launcher.Streams{}, err
	}
	u, release, err := e.hold(ctx, r.ID, true)
	if err != nil {
		return launcher.Streams{}, err
	}
	defer release()
	switch rec := u.record(); {
	case rec.Asked != nil, rec.Started != "" && rec.Started != asked:
		return launcher.Streams{}, taken(r.ID)
	case rec.Started == asked:
		return e.streams(&rec)
	}
	if err := e.reserve(taskrun.Check); err != nil {
		return launcher.Streams{}, errors.Join(err, e.drop(r.ID))
	}
	if err := e.check(ctx, u, r, asked); err != nil {
		e.unreserve(taskrun.Check)
		return launcher.Streams{}, errors.Join(err, e.drop(r.ID))
	}
	rec := u.record()
	return e.streams(&rec)
}

// check copies a commit and runs a command on the copy.
func (e *engine) check(ctx context.Context, u *unit, r launcher.CheckRequest, asked string) error {
	env, err := e.environment(r.Environment)
	if err != nil {
		return err
	}
	var got launcher.Snapshot
	if err := e.renew(ctx); err != nil {
		return err
	}
	err = e.step(u, snapshotting, func() (_ func(*record), err error) {
		var disk disk
		disk, err = e.fill(ctx, r.ID, func() error {
			got, err = e.helpers.checkout(ctx, r, e.placeOf(r.ID))
			return err
		})
		return func(rec *record) {
			rec.Check, rec.Status.Check, rec.Commit, rec.Disk, rec.Status.Phase = true, true, got.Base, disk, launcher.Prepared
		}, err
	})
	if err != nil {
		return err
	}
	return e.run(ctx, u, asked, taskrun.Settings{
		Kind: taskrun.Check, ID: r.ID, Dir: e.placeOf(r.ID).workspace, Subdir: got.Subdir, Limit: r.Timeout,
		Environment: env, Command: r.Command,
	})
}

// streams opens what a sandbox has said and will say.
func (e *engine) streams(rec *record) (s launcher.Streams, err error) {
	names := []struct {
		to   **os.File
		name string
	}{{&s.Output, outputName}, {&s.Events, eventsName}}
	if rec.Check {
		s.Commit = rec.Commit
	} else {
		names = append(names, struct {
			to   **os.File
			name string
		}{&s.Errors, errorsName})
	}
	for _, n := range names {
		if *n.to, err = e.store.read(rec.ID, n.name); err != nil {
			for _, f := range []*os.File{s.Output, s.Events, s.Errors} {
				if f != nil {
					_ = f.Close()
				}
			}
			return launcher.Streams{}, err
		}
	}
	return s, nil
}

// run starts a runner. When it returns the ledger says that it runs.
func (e *engine) run(ctx context.Context, u *unit, asked string, s taskrun.Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	e.point("before " + string(starting))
	err := e.change(u, func(r *record) { r.Doing, r.Started = starting, asked })
	if err != nil {
		return err
	}
	e.point("in " + string(starting))
	var j *job
	var p *pipes
	if err = e.show(ctx, u); err == nil {
		rec := u.record()
		s.Bounded, s.Unbounded = rec.Disk.Bounded, rec.Disk.Why
		j, p, err = e.startRunner(s)
	}
	if err == nil {
		e.point("done " + string(starting))
		err = e.change(u, func(r *record) {
			r.Doing, r.Runner, r.Boot = running, j.child.id, proc.BootID()
			r.Status.Phase, r.Status.Started = launcher.Live, e.now()
		})
	}
	if err != nil {
		if j != nil {
			j.child.end(0)
			p.close()
		}
		return errors.Join(err, e.change(u, func(r *record) { r.Doing, r.Started = idle, "" }))
	}
	u.mu.Lock()
	u.job = j
	u.mu.Unlock()
	go e.follow(u, j, p) //nolint:contextcheck,gosec // a sandbox does not depend on who asked for it
	e.point("in " + string(running))
	return nil
}

// pipes are our ends of what a runner writes to, and the files that it ends in.
type pipes struct {
	streams [3]struct{ from, to *os.File } // output, errors, events
	end     *os.File
	theirs  []*os.File
}

// close closes everything that is open.
func (p *pipes) close() {
	for _, s := range p.streams {
		closeAll(s.from, s.to)
	}
	closeAll(p.end)
	closeAll(p.theirs...)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // twice does no harm
		}
	}
}

// newPipes makes them for a task.
func (e *engine) newPipes(id task.ID) (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for i, name := range []string{outputName, errorsName, eventsName} {
		s := &p.streams[i]
		if s.to, err = e.store.fresh(id, name); err != nil {
			return p, err
		}
		var theirs *os.File
		if s.from, theirs, err = os.Pipe(); err != nil {
			return p, fmt.Errorf("make a runner's pipes: %w", err)
		}
		p.theirs = append(p.theirs, theirs)
	}
	var theirs *os.File
	if p.end, theirs, err = os.Pipe(); err != nil {
		return p, fmt.Errorf("make a runner's pipes: %w", err)
	}
	p.theirs = append(p.theirs, theirs)
	return p, nil
}

// startRunner starts a runner with its settings.
func (e *engine) startRunner(s taskrun.Settings) (*job, *pipes, error) {
	p, err := e.newPipes(s.ID)
	if err != nil {
		return nil, nil, err
	}
	settings, err := document(s)
	if err != nil {
		p.close()
		return nil, nil, err
	}
	defer func() { _ = settings.Close() }() // the runner has its own
	cmd := &exec.Cmd{
		Path: self, Args: []string{taskrun.Argv0}, Env: e.settings.Env,
		Stdout: p.theirs[0], Stderr: p.theirs[1],
		ExtraFiles: []*os.File{settings, p.theirs[2], p.theirs[3]},
	}
	c, err := e.home.start(cmd)
	if err != nil {
		p.close()
		return nil, nil, err
	}
	closeAll(p.theirs...) // or they would never end
	return &job{child: c, limit: s.Limit, kind: s.Kind, done: make(chan struct{})}, p, nil
}

// self is this program, whatever became of its name.
const self = "/proc/self/exe"

// document is a file in memory with a value as JSON, to be read from its
// beginning.
func document(v any) (*os.File, error) {
	text, err := encode(v)
	if err != nil {
		return nil, err
	}
	f, err := memfd.Text("settings", text)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// follow keeps what a runner says and its deadline, until all of it is gone.
func (e *engine) follow(u *unit, j *job, p *pipes) {
	ctx := context.Background() //nolint:forbidigo // a sandbox does not depend on who asked for it
	timer := time.AfterFunc(j.limit+e.late, func() {
		j.because(timeout)
		j.child.signal(syscall.SIGKILL)
	})
	var copies sync.WaitGroup
	for _, s := range p.streams {
		copies.Go(func() {
			if err := keep(s.to, s.from, keptOutput); err != nil && !errors.Is(err, os.ErrClosed) {
				e.log.LogAttrs(ctx, slog.LevelError, "keep output", slog.String("task", string(u.record().ID)), slog.String("error", err.Error()))
			}
		})
	}
	var said taskrun.End
	var unsaid error
	copies.Go(func() { unsaid = inherit.Document(p.end, taskrun.MaxEnd, &said) })
	<-j.child.done
	timer.Stop()
	e.home.settle(ctx) // nothing of the sandbox is left
	late := time.AfterFunc(lastOutput, func() {
		for _, s := range p.streams {
			closeAll(s.from)
		}
		closeAll(p.end)
	})
	copies.Wait()
	late.Stop()
	p.close()
	e.finish(ctx, u, j, end{End: said, err: unsaid})
}

// end is what a runner left, or why it left nothing that can be read.
type end struct {
	taskrun.End

	err error
}

// tell says in a status how it ended, or for which reason it was ended.
func (e end) tell(s *launcher.Status, reason string, full bool) {
	if e.err != nil {
		s.ExitCode, s.Limit = notKnown, cmp.Or(reason, lost)
		s.Error = "the process that held the sandbox was killed"
		return
	}
	s.ExitCode, s.Limit, s.HostID, s.Notes = e.ExitCode, e.Limit, e.HostUID, e.Notes
	if full && s.ExitCode != 0 && s.Limit == "" { // nobody ended it: it could write no more
		s.Limit = diskFull
	}
	s.Error = strings.TrimSpace(e.Error)
	if e.Hint != "" && s.Error != "" {
		s.Error += " (" + e.Hint + ")"
	}
	if !e.Started.IsZero() {
		s.Started = e.Started
	}
}

// finish writes down how a sandbox ended.
func (e *engine) finish(ctx context.Context, u *unit, j *job, said end) {
	e.point("before end")
	j.mu.Lock()
	reason := j.reason
	j.mu.Unlock()
	full, unwritten := e.full(u), ""
	if j.kind == taskrun.Agent {
		unwritten = e.settled(u)
	} else {
		e.hide(ctx, u.record().ID) // nothing reads it any more
	}
	err := e.change(u, func(r *record) {
		r.Doing, r.Runner = idle, proc.Identity{}
		r.Status.Phase, r.Status.Ended = launcher.Ended, e.now()
		said.tell(&r.Status, reason, full)
		if unwritten != "" {
			r.Status.Notes = append(slices.Clone(r.Status.Notes), unwritten)
		}
	})
	if err != nil {
		e.log.LogAttrs(ctx, slog.LevelError, "write a ledger", slog.String("task", string(u.record().ID)), slog.String("error", err.Error()))
		u.mu.Lock() // who waits has to be told all the same; the next start finds that it ran
		u.rec.Status.Phase, u.rec.Status.Error = launcher.Ended, "its end could not be written down"
		u.mu.Unlock()
	}
	u.mu.Lock()
	u.job = nil
	u.mu.Unlock()
	e.unreserve(j.kind)
	close(j.done)
	e.changed()
}
