package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

// Main plays the role and returns its exit code: 0 when an End was left.
func Main(host run.Host) int {
	if err := inherit.Check(taskrun.SettingsFD, taskrun.EndFD); err != nil {
		return refuse(err)
	}
	if err := errors.Join(harden.KeepDescriptors(), harden.NoDump()); err != nil {
		return refuse(err)
	}
	// Its namespaces were made with the process; it waits for what it is told.
	host.Helper, host.Watchdog = local.Launch(host.Caller()), run.LaunchWatchdog()
	defer host.Helper.Abandon()
	defer host.Watchdog.Abandon()
	settings := inherit.Polled(taskrun.SettingsFD, "settings")
	events := os.NewFile(taskrun.EventsFD, "events")
	end := os.NewFile(taskrun.EndFD, "end")
	var s taskrun.Settings
	err := inherit.Document(settings, taskrun.MaxSettings, &s)
	if err = errors.Join(err, settings.Close()); err == nil {
		err = s.Validate()
	}
	if err != nil {
		return leave(end, ended(run.Outcome{Code: bailey.ExitBailey, HostUID: host.UID}, nil, err))
	}
	r := &runner{host: host, settings: &s, events: events, stop: make(chan struct{})}
	defer r.onSignal()()
	outcome, err := r.run(context.Background()) //nolint:forbidigo // a process begins here
	return leave(end, ended(outcome, r.notes, err))
}

// refuse is for a process that nobody has told where to leave an End.
func refuse(err error) int {
	_, _ = fmt.Fprintln(os.Stderr, "bailey:", err)
	return bailey.ExitBailey
}

func leave(to *os.File, e taskrun.End) int {
	if err := errors.Join(json.NewEncoder(to).Encode(e), to.Close()); err != nil {
		return refuse(err)
	}
	return 0
}

func ended(o run.Outcome, notes []string, err error) taskrun.End {
	e := taskrun.End{
		ExitCode: o.Code, Limit: o.Limit, Started: o.Started, Ended: time.Now().UTC(), HostUID: o.HostUID,
		Notes: slices.Concat(o.Lacks, notes),
	}
	if err != nil {
		e.ExitCode, e.Error = bailey.ExitBailey, cut(err.Error())
		if b, ok := errors.AsType[*bailey.Error](err); ok {
			e.Hint = cut(b.Hint)
		}
	}
	return e
}

// cut keeps a text within what an End may hold.
func cut(s string) string {
	const most = 8 << 10
	return s[:min(len(s), most)]
}

// runner is one sandbox.
type runner struct {
	host     run.Host
	settings *taskrun.Settings
	events   *os.File
	stop     chan struct{} // closed when it is to end
	notes    []string
}

// onSignal ends the sandbox in order when this process is told to end. It
// returns what takes that back.
func (r *runner) onSignal() func() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-told
		close(r.stop)
	}()
	return func() { signal.Stop(told) }
}

func (r *runner) run(ctx context.Context) (run.Outcome, error) {
	none := run.Outcome{Code: bailey.ExitBailey, HostUID: r.host.UID}
	input, err := prompt(r.settings.Prompt)
	if err != nil {
		return none, err
	}
	defer func() { _ = input.Close() }() // an input
	out, errs := bound(r.host.Stdout), bound(r.host.Stderr)
	if r.settings.Kind == taskrun.Check {
		errs = out
	}
	h := r.host
	h.Stdin = input
	q := request(r.settings, h, r.command())
	q.Task = task(r.settings, out, errs)
	q.Task.Events, q.Task.Stop = r.events, r.stop
	outcome, err := run.Delegate(ctx, h, q)
	if out.over() || errs.over() {
		r.notes = append(r.notes, fmt.Sprintf("the output is longer than %s: the rest of it was left out", config.Bytes(taskrun.MaxOutput)))
	}
	return outcome, err
}

// request is what is asked of a run: nothing but the model's wire leads out, no
// policy file is read, and every limit is bailey's own.
func request(s *taskrun.Settings, h run.Host, command []string) run.Request {
	return run.Request{
		Command: command, Preset: s.Kind == taskrun.Agent, Net: bailey.NetNone.String(), Bare: true, Environment: s.Environment,
		Models: models(s.Model), Budget: s.Budget, Name: taskrun.SandboxName(s.ID),
		Limits: limits(s, h.CPUs, h.Memory), JSON: true,
	}
}

// task is what is particular about it.
func task(s *taskrun.Settings, out, errs io.Writer) *run.Task {
	t := &run.Task{
		ID: string(s.ID), Dir: s.Dir, Subdir: filepath.FromSlash(s.Subdir), HomeBytes: homeBytes, Bounded: s.Bounded, Unbounded: s.Unbounded,
		Stdout: out, Stderr: errs,
	}
	if s.Kind == taskrun.Agent {
		t.Agent = s.Harness
		t.Work = harness.Work{MaxTurns: s.MaxTurns, ThinkingTokens: s.ThinkingTokens, Guide: s.Guide}
	}
	return t
}

// command is what runs: an agent by its name, or a line for a shell, which is
// one argument and is read by nobody else.
func (r *runner) command() []string {
	if r.settings.Kind == taskrun.Agent {
		return []string{r.settings.Harness}
	}
	for _, path := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		if _, err := os.Stat(path); err == nil {
			return together("bash", r.settings.Command)
		}
	}
	r.notes = append(r.notes, "this machine has no bash: the command was run by sh")
	return together("sh", r.settings.Command)
}

// together is a shell that runs a line with one stream for its output and its
// errors, so that they come in the order in which they were written.
func together(shell, line string) []string {
	return []string{shell, "-c", "exec " + shell + ` -c "$1" 2>&1`, shell, line}
}

func models(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// prompt is an input that holds a text.
func prompt(text string) (*os.File, error) {
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
