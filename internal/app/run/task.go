package run

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// Task makes a run the sandbox of a task or a check: nobody watches, no policy
// is read, and the workspace is a copy of which the host reads nothing before
// the end.
type Task struct {
	ID        string          // of the task or check
	Dir       string          // the scratch clone: absolute, no link in it
	Subdir    string          // slash-separated, below it: where the command starts
	Agent     string          // the agent that works, of harness.Executors; empty for a check
	Work      harness.Work    // its work
	HomeBytes int64           // size of the home, which is memory
	Bounded   bool            // Dir is on a file system of the size that the work may have
	Unbounded string          // why it is not, for the outcome
	Stdout    io.Writer       // of the command
	Stderr    io.Writer       // of the command
	Events    io.Writer       // gets events, as JSON lines
	Stop      <-chan struct{} // ends the run in order
}

// TaskDir is where the scratch clone of a task is inside.
const TaskDir = "/workspace"

// Outcome is how such a run ended.
type Outcome struct {
	Code    int
	Limit   string    // what ended it, or empty: one of package watch's limits, stop, proxy, watchdog
	Started time.Time // of the command; zero if it did not start
	HostUID int       // of the sandbox's processes
	Lacks   []string  // what of the promised was not to be had, in sentences
	Forged  []string  // objects of git that a unit left and that are not what their names say, in sentences
}

// Delegate is Run for a request that has a Task.
func Delegate(ctx context.Context, h Host, r Request) (Outcome, error) {
	if h.Helper == nil {
		h.Helper = local.Launch(h.Caller())
	}
	defer h.Helper.Abandon()
	out := &output{w: r.Task.Events, json: true, now: time.Now}
	o := Outcome{Code: bailey.ExitBailey, HostUID: h.UID}
	if h.UID == 0 {
		o.HostUID = launch.UnusedID(h.Helper.ID)
	}
	p, err := makePlan(h, &r)
	if err != nil {
		out.failed(err)
		return o, err
	}
	out.sandbox = p.spec.ID
	u := &running{host: h, req: &r, plan: p, out: out, started: time.Now(), stamped: beneath.Clock(), stop: make(chan ending, 16), ready: make(chan struct{})}
	go u.stopWith(r.Task.Stop)
	o.Code, err = u.run(ctx)
	if err != nil {
		out.failed(err)
		o.Code = bailey.ExitBailey
	}
	o.Started, o.Limit, o.Lacks = u.begun(), u.why(), u.lacks()
	return o, err
}

// stopWith ends the run when somebody asks for it.
func (u *running) stopWith(asked <-chan struct{}) {
	<-asked
	u.Stop()
}

// guarded reports whether there is something of the host's that the sandbox can
// write to, and that it must not be left with.
func (u *running) guarded() bool {
	return u.req.Task == nil && (!u.req.ReadOnly || u.plan.open.writes())
}

func (t *Task) bounded() bool { return t != nil && t.Bounded }

// id is empty for what is no task.
func (t *Task) id() string {
	if t == nil {
		return ""
	}
	return t.ID
}

// streams are what the command's output goes to. The events of a task go
// elsewhere.
func (u *running) streams() (stdout, stderr io.Writer) {
	if u.req.Task != nil {
		return u.req.Task.Stdout, u.req.Task.Stderr
	}
	if u.req.Unit != nil {
		return u.req.Unit.Stdout, u.req.Unit.Stderr
	}
	return u.out.beside(u.host.Stdout, u.host.Stderr)
}

func (u *running) setBegun(at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.commandAt = at
}

func (u *running) begun() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.commandAt
}

// why is what ended the run, if that was not its command.
func (u *running) why() string {
	if u.limit != "" {
		return u.limit
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended != nil {
		return u.ended.reason
	}
	return ""
}

// lacks says what of the promised this machine or the agent could not give.
func (u *running) lacks() []string {
	out := slices.Clone(u.plan.lacks)
	if u.limits != nil {
		for _, s := range u.limits.watched() {
			switch s.Limit {
			case cgroup.Tasks: // RLIMIT_NPROC inside holds it
			case cgroup.CPU:
				out = append(out, "processors are not limited: "+s.Why)
			default:
				out = append(out, fmt.Sprintf("%s is watched, not enforced: %s", s.Limit, s.Why))
			}
		}
	}
	switch {
	case u.req.Task.Bounded && u.req.Task.Unbounded != "":
		out = append(out, u.req.Task.Unbounded)
	case !u.req.Task.Bounded:
		out = append(out, "disk is watched, not enforced: "+cmp.Or(u.req.Task.Unbounded, "the copy is on no file system of its own"))
	}
	if u.host.UID != 0 {
		out = append(out, fmt.Sprintf("the sandbox has the caller's own id %d on the host", u.host.UID))
	}
	return out
}

// openScratch is openWorkspace for a task.
func openScratch(h *Host, t *Task) (*workspace.Workspace, string, error) {
	ws, err := workspace.Scratch(t.Dir, TaskDir)
	if err != nil {
		return nil, "", err
	}
	h.Dir = ws.Path
	start := path.Join(TaskDir, filepath.ToSlash(t.Subdir))
	if !sandbox.Within(start, TaskDir) {
		return nil, "", bailey.NewError(bailey.Invalid, fmt.Sprintf("%s is no folder of the copy", t.Subdir), "")
	}
	return ws, start, nil
}

// unattended turns the preset of a task's agent into that of its work.
func (t *Task) unattended(p harness.Preset) (harness.Preset, []string, error) {
	if t == nil || t.Agent == "" {
		return p, nil, nil
	}
	return p.ForTask(t.Work)
}

// confine narrows what a task's sandbox sees.
func (p *plan) confine(t *Task) {
	if t == nil {
		return
	}
	p.spec.Masks = rootfs.Masks("", p.spec.Mounts)
	p.spec.Exclusive = true
	for i := range p.spec.Tmpfs {
		if p.spec.Tmpfs[i].Target == rootfs.HomeDir && t.HomeBytes > 0 {
			p.spec.Tmpfs[i].Bytes = t.HomeBytes
		}
	}
}
