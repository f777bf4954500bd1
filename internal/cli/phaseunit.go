package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/autophase"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/phase"
)

// readPlan reads a plan that a person names.
func readPlan(path string) (*phase.Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, autophase.PlanError(path, err)
	}
	return phase.Parse(path, data)
}

// Unit plays the role that makes one sandbox of a phase, and returns its exit
// code: 0 when an End was left.
func Unit(ctx context.Context) int {
	host, err := FindHost(os.Stdin, os.Stdout, os.Stderr)
	if err == nil {
		err = errors.Join(inherit.Check(autophase.OrderFD, autophase.EndFD), harden.KeepDescriptors(), harden.NoDump())
	}
	if err != nil {
		return fail(os.Stderr, err)
	}
	host.Helper, host.Watchdog = local.Launch(host.Caller()), run.LaunchWatchdog()
	defer host.Helper.Abandon()
	defer host.Watchdog.Abandon()
	end := os.NewFile(autophase.EndFD, "end")
	e := unit(ctx, host)
	if err := errors.Join(json.NewEncoder(end).Encode(e), end.Close()); err != nil {
		return fail(os.Stderr, err)
	}
	return 0
}

func unit(ctx context.Context, host run.Host) autophase.End {
	o, err := readOrder()
	var r run.Request
	if err == nil {
		a := &app{ctx: ctx, host: host, stdout: io.Discard, stderr: os.Stderr, now: time.Now} //nolint:forbidigo // a process begins here
		r, err = a.readRun(o.Words)
	}
	if err == nil {
		err = asUnit(&r, o)
	}
	if err != nil {
		return unitEnd(run.Outcome{Code: bailey.ExitBailey}, err)
	}
	if o.Look {
		return look(host, r)
	}
	input, err := textInput(o.Prompt)
	if err != nil {
		return unitEnd(run.Outcome{Code: bailey.ExitBailey}, err)
	}
	defer func() { _ = input.Close() }() // an input
	host.Stdin = input
	stop := make(chan struct{})
	defer onSignal(stop)()
	r.Unit.Stop = stop
	return unitEnd(run.Attend(ctx, host, r))
}

// look says whether the sandbox could be made and would find its command.
func look(host run.Host, r run.Request) autophase.End {
	l, err := run.Look(host, r)
	e := unitEnd(run.Outcome{}, err)
	if err == nil {
		e.Unfit, e.Hint = l.Unfit, l.Hint
	}
	return e
}

func readOrder() (o autophase.Order, err error) {
	f := os.NewFile(autophase.OrderFD, "order")
	err = inherit.Document(f, autophase.MaxOrder, &o)
	return o, errors.Join(err, f.Close())
}

func unitEnd(o run.Outcome, err error) autophase.End {
	e := autophase.End{Code: o.Code, Limit: o.Limit, Started: o.Started, Ended: time.Now().UTC(), Lacks: o.Lacks, Forged: o.Forged} //nolint:forbidigo // a process ends here
	if err != nil {
		e.Code, e.Error = bailey.ExitBailey, err.Error()
		if b, ok := errorOf(err); ok {
			e.Hint = b.Hint
		}
	}
	return e
}

// asUnit turns what was asked of `bailey run` into a sandbox of a phase.
func asUnit(r *run.Request, o autophase.Order) error {
	r.Quiet, r.JSON, r.Name, r.Ask = false, false, "", false
	out := &leaves{to: os.Stdout, room: autophase.MostOutput}
	r.Unit = &run.Unit{Stdout: out, Stderr: out, Events: os.NewFile(autophase.EventsFD, "events")}
	if o.Timeout > 0 && (r.Limits.Timeout == 0 || o.Timeout < time.Duration(r.Limits.Timeout)) {
		r.Limits.Timeout = config.Duration(o.Timeout)
	}
	if o.Check != "" {
		asCheck(r, o)
		return nil
	}
	if len(r.Models) == 0 && o.Model != "" {
		r.Models = []string{o.Model}
	}
	if r.Preset && harness.Known(r.Command[0]) {
		turns := o.MaxTurns
		if turns <= 0 {
			turns = defaultMaxTurns
		}
		r.Unit.Work = &harness.Work{MaxTurns: turns}
	}
	return lower(r, o.Budget)
}

// asCheck makes it the sandbox of a validation: the same workspace, tools and
// limits, and nothing that only the agent was given.
func asCheck(r *run.Request, o autophase.Order) {
	r.Command, r.Preset = []string{"sh", "-c", o.Check}, false
	r.Models, r.Budget, r.Record, r.Env, r.EnvFiles, r.Secrets = nil, nil, "", nil, nil, nil
	r.Homes, r.Publish, r.Git = run.Homes{Ephemeral: true}, nil, nil
	if !o.Network {
		r.Net, r.NetWeak, r.DNS, r.Bare = bailey.NetNone.String(), false, "", true
		r.Allow, r.Deny, r.Presets, r.Services = nil, nil, nil, nil
	}
}

// lower lowers the budget of a run to what is left for it.
func lower(r *run.Request, left []string) error {
	if len(left) == 0 {
		return nil
	}
	own, err := budget.ParseLimits(r.Budget)
	if err != nil {
		return err
	}
	most, err := budget.ParseLimits(left)
	if err != nil {
		return err
	}
	most = most.And(own)
	r.Budget = nil
	if most.Tokens > 0 {
		r.Budget = append(r.Budget, budget.Tokens(most.Tokens))
	}
	if most.Money > 0 {
		r.Budget = append(r.Budget, most.Money.Decimal()+"usd")
	}
	return nil
}

// textInput is an input that holds a text.
func textInput(text string) (*os.File, error) {
	if text == "" {
		return os.Open(os.DevNull)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the agent's input: %w", err)
	}
	go func() {
		_, _ = io.WriteString(w, text) // an agent that does not read it says so in its own way
		_ = w.Close()
	}()
	return r, nil
}

// onSignal closes stop when the process is told to end. It returns what takes
// that back.
func onSignal(stop chan<- struct{}) func() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-told
		close(stop)
	}()
	return func() { signal.Stop(told) }
}

// leaves passes on as much as there is room for, and takes the rest: a command
// that prints without end is not held up, and fills nothing.
type leaves struct {
	to io.Writer

	mu   sync.Mutex
	room int64
}

// Write never writes more than there is room for.
func (l *leaves) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(int64(len(p)), l.room)
	l.room -= n
	if n > 0 {
		if done, err := l.to.Write(p[:n]); err != nil {
			return done, err
		}
	}
	return len(p), nil
}
