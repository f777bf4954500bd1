package run

import (
	"context"
	"io"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// Unit makes a run one that nobody sits before: a unit of a phase, or its
// validation. It is a run in every other way.
type Unit struct {
	Work   *harness.Work   // the agent's, which reads what it is to do from its input; nil for a command
	Stdout io.Writer       // of the command
	Stderr io.Writer       // of the command
	Events io.Writer       // gets events, as JSON lines
	Stop   <-chan struct{} // ends the run in order
}

// Attend is Run for a request that has a Unit.
func Attend(ctx context.Context, h Host, r Request) (Outcome, error) {
	if h.Helper == nil {
		h.Helper = local.Launch(h.Caller())
	}
	defer h.Helper.Abandon()
	out := &output{w: r.Unit.Events, json: true, now: time.Now}
	o := Outcome{Code: bailey.ExitBailey, HostUID: h.UID}
	p, err := makePlan(h, &r)
	if err != nil {
		return o, err
	}
	if err := p.openHome(); err != nil {
		return o, err
	}
	defer p.closeHome() //nolint:errcheck // release was called before, but for a panic
	out.sandbox = p.spec.ID
	u := &running{host: h, req: &r, plan: p, out: out, started: time.Now(), stamped: beneath.Clock(), stop: make(chan ending, 16), ready: make(chan struct{})}
	if u.guarded() {
		u.held = workspace.Hold(p.guards())
		defer u.held.Release()
		u.held.MarkObjects()
		u.watchGit()
		defer u.trip.Stop()
	}
	go u.stopWith(r.Unit.Stop)
	o.Code, err = u.run(ctx)
	o.Started, o.Limit, o.Lacks = u.begun(), u.why(), u.plan.lacks
	for _, f := range u.objects.Forged {
		o.Forged = append(o.Forged, f.Path+" "+f.What)
	}
	return o, err
}

// headless turns the preset of an agent that works by itself into that of its
// work.
func (r *Request) headless(p harness.Preset) (harness.Preset, []string, error) {
	if r.Unit == nil || r.Unit.Work == nil || p.Name == "" {
		return r.Task.unattended(p)
	}
	return p.ForTask(*r.Unit.Work)
}
