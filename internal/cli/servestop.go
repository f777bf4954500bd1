package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskapi"
)

// serveStopCommand ends the service.
type serveStopCommand struct {
	CancelQueued bool `help:"Cancel the tasks too whose agent was not started yet. Without it the next start takes them up again."`
}

// Help is what `bailey serve stop --help` says beyond the flags.
func (serveStopCommand) Help() string {
	return `Tasks whose agent works are cancelled, and their work is kept. Those that wait for a place stay queued, and the next start of the service, which the next bailey task or bailey mcp is, takes them up again: how many these are is said. --cancel-queued cancels them.

Returns when the service has ended, with every process of its own. Where none runs, that is so already. One that has the same tasks and was started with another XDG_RUNTIME_DIR is ended too.`
}

// serveStopWithin is the promise: what a service has to do at its end takes no
// longer.
const serveStopWithin = 90 * time.Second

// Run tells the process that has the lock to end.
func (c *serveStopCommand) Run(a *app) error {
	found, err := launcher.Find(a.host.Dirs.Runtime, a.host.Dirs.Data)
	if err != nil || found == nil {
		return err
	}
	if err := c.queued(a, found); err != nil {
		return err
	}
	id, err := proc.Identify(found.PID)
	if err != nil {
		return launcher.AwaitEnd(a.ctx, found.Lock)
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", found.PID))
	if again, herr := launcher.Holder(found.Lock); err != nil || herr != nil || again.PID != found.PID || !bytes.HasPrefix(name, []byte(role.Launcher+"\x00")) {
		return bailey.NewError(bailey.Unavailable, fmt.Sprintf("process %d is not the service", found.PID), "try again")
	}
	if err := id.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end the service: %w", err)
	}
	ctx, cancel := context.WithTimeout(a.ctx, serveStopWithin)
	defer cancel()
	if err := launcher.AwaitEnd(ctx, found.Lock); err != nil {
		return bailey.NewError(bailey.Unavailable, fmt.Sprintf("the service did not end within %v", serveStopWithin), fmt.Sprintf("kill -9 %d ends it with everything that it has started", found.PID))
	}
	return nil
}

// queued cancels what waits for a place, or says what becomes of it. A service
// that cannot be asked is ended all the same, unless more than that was wanted.
func (c *serveStopCommand) queued(a *app, found *launcher.Found) error {
	ctx, cancel := context.WithTimeout(a.ctx, serveStopWithin)
	defer cancel()
	client, err := taskapi.Connect(ctx, found.Socket())
	var list []task.Task
	if err == nil {
		defer client.Close()
		list, err = client.List(ctx)
	}
	if err != nil {
		if c.CancelQueued {
			return bailey.WrapError(bailey.KindOf(err), "ask the service which tasks are queued", err, "bailey serve stop, without --cancel-queued, ends it all the same")
		}
		return nil
	}
	list = slices.DeleteFunc(list, func(t task.Task) bool { return t.State != task.Queued && t.State != task.Preparing })
	n := len(list)
	if n == 0 {
		return nil
	}
	if !c.CancelQueued {
		_, _ = fmt.Fprintf(a.stderr, "bailey: tasks that are queued, and that the next start of the service takes up again: %d; bailey task ls starts it and lists them, bailey serve stop --cancel-queued cancels them\n", n)
		return nil
	}
	for i := range list { // the newest first: what waits behind it does not move up
		if _, err := client.Cancel(ctx, list[i].ID); err != nil {
			return bailey.WrapError(bailey.KindOf(err), fmt.Sprintf("cancel task %s", list[i].ID), err, "the service was not ended")
		}
	}
	_, _ = fmt.Fprintf(a.stderr, "bailey: cancelled %s that had not begun\n", spell.Count(n, "task"))
	return nil
}
