package autophase

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/phase"
)

// checkOnHost runs a validation with the person's own rights, because they asked
// for it by name.
func (d *Driver) checkOnHost(ctx context.Context, line string, w *phase.Work) (*phase.Validation, error) {
	if d.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.remaining(), &ended{phase.EndDeadline, fmt.Sprintf("the deadline of %v passed", d.Deadline), bailey.ExitDeadline})
		defer cancel()
	}
	dir := filepath.Join(d.folder, logsName)
	name := filepath.Join(dir, fmt.Sprintf("%s-%d-validation.log", w.ID, w.Try))
	if err := os.MkdirAll(dir, privateDir); err != nil {
		return nil, fmt.Errorf("make folder of logs: %w", err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, privateFile)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer func() { _ = f.Close() }() // the command's output: nothing of ours to lose
	w.Logs = logsWith(w.Logs, name)
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = d.Workspace, config.Pairs(), f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killPatience
	err = cmd.Run()
	if stopped := d.interrupted(ctx); stopped != nil {
		return nil, stopped
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return nil, fmt.Errorf("run the validation: %w", err)
	}
	code := cmd.ProcessState.ExitCode()
	if code < 0 {
		code = bailey.ExitSignalBase
	}
	return &phase.Validation{Exit: code, Output: tailOf(f), OnHost: true}, nil
}

// PlanError is about a plan that cannot be read.
func PlanError(file string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return bailey.NewError(bailey.NotFound, "there is no plan "+file, "check the path")
	}
	return bailey.WrapError(bailey.NotFound, "read the plan "+file, err, "check the path")
}
