package cli

import (
	"fmt"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/control"
)

type stopCommand struct {
	Name []string `arg:"" placeholder:"NAME" help:"Names of the sandboxes."`
}

// stopWithin is the promise: a sandbox that was told to stop is gone by then.
const stopWithin = 5 * time.Second

// Help is what `bailey stop --help` says beyond the flags.
func (stopCommand) Help() string {
	return `Tells the command to end (SIGTERM), and ends everything in the sandbox two seconds later. Returns when the sandbox is gone.`
}

// Run stops each of the named sandboxes, also behind one that it cannot stop.
func (c *stopCommand) Run(a *app) error {
	var failed error
	for _, name := range c.Name {
		if err := a.stop(name); err != nil {
			failed = exitError(fail(a.stderr, err))
			continue
		}
		_, _ = fmt.Fprintln(a.stdout, name)
	}
	return failed
}

func (a *app) stop(name string) error {
	info, _, err := control.Ask(a.ctx, a.host.Dirs.Runtime, name, control.Stop)
	if err != nil {
		return run.Over(a.host, name, err)
	}
	return a.untilGone(name, info)
}

// over says of a sandbox that is not there any more how it ended. What else is
// not found there is as it was.
func (a *app) over(name string, err error) error {
	if bailey.KindOf(err) != bailey.NotFound {
		return err
	}
	_, _, gone := control.Ask(a.ctx, a.host.Dirs.Runtime, name, control.Status)
	if bailey.KindOf(gone) != bailey.NotFound {
		return err
	}
	return run.Over(a.host, name, err)
}

func (a *app) untilGone(name string, info control.Info) error {
	deadline := time.After(stopWithin)
	for {
		now, _, err := control.Ask(a.ctx, a.host.Dirs.Runtime, name, control.Status)
		if bailey.KindOf(err) == bailey.NotFound || err == nil && now.ID != info.ID {
			return nil
		}
		select {
		case <-deadline:
			return bailey.NewError(bailey.Unavailable, fmt.Sprintf("sandbox %s did not stop within %v", name, stopWithin),
				fmt.Sprintf("kill -9 %d ends it with everything in it", info.PID))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
