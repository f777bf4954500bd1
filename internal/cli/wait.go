package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/journal"
)

type waitCommand struct {
	Name []string `arg:"" placeholder:"NAME" help:"Names of sandboxes that were started with bailey run --detach."`
}

// Help is what `bailey wait --help` says beyond the flags.
func (waitCommand) Help() string {
	return `Waits until sandboxes in the background have ended, and prints the exit code of each on a line of its own. Of one that has ended already it is printed at once: the last 20 are known for a week (bailey ps --all).

Example:
  bailey run --detach --name tests -- make test
  bailey wait tests`
}

// Run waits for each of the named sandboxes, also behind one that is not there.
func (c *waitCommand) Run(a *app) error {
	var failed error
	for _, name := range c.Name {
		code, err := a.wait(name)
		if err != nil {
			failed = exitError(fail(a.stderr, err))
			continue
		}
		_, _ = fmt.Fprintln(a.stdout, code)
	}
	return failed
}

// wait returns the exit code of the newest run of a name.
func (a *app) wait(name string) (int, error) {
	var id bailey.SandboxID // of the one that is waited for
	for {
		run, err := a.newest(name, id)
		if err != nil {
			return 0, err
		}
		if id = run.ID; !run.Lasts {
			if run.End.At.IsZero() {
				return 0, bailey.NewError(bailey.NotFound, fmt.Sprintf("how sandbox %s ended is not known: its bailey was killed", name), "bailey logs "+name+" has what it wrote")
			}
			return run.End.Code, nil
		}
		select {
		case <-a.ctx.Done():
			return 0, a.ctx.Err()
		case <-time.After(followPoll):
		}
	}
}

// newest is the newest run of a name, or the one with an id if that is not
// empty.
func (a *app) newest(name string, id bailey.SandboxID) (journal.Kept, error) {
	runs, err := journal.Runs(a.host.Dirs.State, a.host.UID)
	if err != nil {
		return journal.Kept{}, err
	}
	i := slices.IndexFunc(runs, func(k journal.Kept) bool { return k.Name == name && (id == "" || k.ID == id) })
	if i >= 0 && (id != "" || runs[i].Lasts) {
		return runs[i], nil
	}
	// What runs now under that name may be newer, and not in the background.
	now, _, err := control.Ask(a.ctx, a.host.Dirs.Runtime, name, control.Status)
	switch {
	case err == nil && (i < 0 || now.ID != runs[i].ID):
	case i >= 0:
		return runs[i], nil // nothing runs under that name: it is of one that has ended
	default:
		return journal.Kept{}, err
	}
	return journal.Kept{}, bailey.NewError(bailey.Invalid, "sandbox "+name+" is not in the background: the exit code is that of its bailey run", "bailey run --detach starts one that can be waited for")
}
