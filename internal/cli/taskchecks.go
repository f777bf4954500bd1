package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskapi"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type taskChecksCommand struct {
	Environment text            `placeholder:"NAME" help:"Give the sandbox this environment. Default: the task's."`
	Timeout     config.Duration `default:"15m" placeholder:"15m" help:"End the command after this time, at most 1h. Default: 15m."`
	JSON        bool            `name:"json" help:"Print JSON."`
	Task        string          `arg:"" help:"Id of the task."`
	Run_        string          `arg:"" optional:"" name:"command" help:"What to run, such as 'make test'. Default: print what was run last."` //nolint:revive // Run is the method
}

// Help is what `bailey task checks --help` says beyond the flags.
func (taskChecksCommand) Help() string {
	return `The command runs with bash on a fresh copy of the branch, in a sandbox that reaches nothing: no network, no model.

Exit codes: 0 when the command ended with 0; 1 when it did not; 125 when bailey failed.`
}

// Run runs a check, or prints the last one.
func (c *taskChecksCommand) Run(a *app) error {
	return a.withDone(c.Task, func(client *taskapi.Client, t *task.Task) (err error) {
		got := t.Result.Checks
		if c.Run_ != "" {
			if got, err = c.check(a, client, t); err != nil {
				return err
			}
		}
		if got == nil {
			return bailey.NewError(bailey.NotFound, "no checks were run on task "+string(t.ID), "bailey task checks "+string(t.ID)+" 'make test'")
		}
		return c.print(a, got)
	})
}

func (c *taskChecksCommand) print(a *app, got *task.CheckResult) (err error) {
	if c.JSON {
		err = printJSON(a.stdout, got)
	} else {
		err = a.printCheck(got)
	}
	if err == nil && !got.Passed {
		return errNoSuccess
	}
	return err
}

func (c *taskChecksCommand) check(a *app, client task.Service, t *task.Task) (*task.CheckResult, error) {
	if t.Result.Branch == "" {
		return nil, bailey.NewError(bailey.Conflict, "task "+string(t.ID)+" has no branch to check", "")
	}
	minutes, seconds, err := timeLimit(c.Timeout, task.MostCheckLimit)
	if err != nil {
		return nil, err
	}
	env := string(c.Environment)
	if env == "" && t.Request != nil {
		env = t.Request.Environment
	}
	got, err := client.Check(a.ctx, task.CheckRequest{RepoPath: t.Repo, Branch: t.Result.Branch, Command: c.Run_, Environment: env, TimeoutMinutes: minutes, TimeoutSeconds: seconds}, func(task.Progress) {})
	return &got, err
}

// timeLimit is the value of --timeout as requests have it: in minutes where
// that is all of it, and in seconds otherwise.
func timeLimit(asked config.Duration, most time.Duration) (minutes, seconds int, err error) {
	d := time.Duration(asked)
	switch {
	case d < time.Second || d > most || d%time.Second != 0:
		return 0, 0, bailey.NewError(bailey.Invalid, fmt.Sprintf("--timeout: %s is not between 1s and %s, in whole seconds", briefTime(d), briefTime(most)), "write 90s, 15m or 1h")
	case d%time.Minute == 0:
		return int(d / time.Minute), 0, nil
	}
	return 0, int(d / time.Second), nil
}

// briefTime is a time as people write it: 4h, and not 4h0m0s.
func briefTime(d time.Duration) string {
	s := d.String()
	if d%time.Minute == 0 {
		s = strings.TrimSuffix(s, "0s")
	}
	if d%time.Hour == 0 {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (a *app) printCheck(c *task.CheckResult) error {
	verdict := "passed"
	switch {
	case c.Status != task.Success:
		verdict = "did not end by itself: " + string(c.Status)
	case !c.Passed:
		verdict = fmt.Sprintf("failed with exit code %d", c.ExitCode)
	}
	if _, err := fmt.Fprintf(a.stdout, "checks: %s after %s, on %s at %.12s\n", terminal.Sanitize(verdict), tookText(c.RunSeconds), terminal.Sanitize(c.Branch), terminal.Sanitize(c.Commit)); err != nil {
		return err
	}
	for _, w := range c.Warnings {
		if _, err := fmt.Fprintf(a.stdout, "warning: %s\n", terminal.Sanitize(w)); err != nil {
			return err
		}
	}
	if c.Truncated {
		if _, err := fmt.Fprintln(a.stdout, "(the end of what it printed)"); err != nil {
			return err
		}
	}
	return fenced(a.stdout, c.Output)
}
