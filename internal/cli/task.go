package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/summon"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskapi"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// taskCommand is the group of commands about tasks.
type taskCommand struct {
	Run     taskRunCommand     `cmd:"" help:"Hand a task to an agent, which works on a copy of a repository and gives back a branch."`
	Ls      taskLsCommand      `cmd:"" aliases:"list" help:"List tasks."`
	Show    taskShowCommand    `cmd:"" help:"Print what is known of a task, its report and what it changed."`
	Logs    taskLogsCommand    `cmd:"" help:"Print what happened to a task."`
	Diff    taskDiffCommand    `cmd:"" help:"Print the diff of a task."`
	Checks  taskChecksCommand  `cmd:"" help:"Run a command on a task's branch in a sandbox without any way out, or print what one printed."`
	Compare taskCompareCommand `cmd:"" help:"Print tasks of a group side by side."`
	Merge   taskMergeCommand   `cmd:"" help:"Merge a task's branch into the branch that is checked out."`
	Cancel  taskCancelCommand  `cmd:"" help:"End a task. Its work so far is kept."`
	Rm      taskRmCommand      `cmd:"" help:"Remove a task, its record and its branch."`
	Clean   taskCleanCommand   `cmd:"" help:"Remove tasks that ended long ago."`
}

// errNoSuccess is the exit code of a command whose task did not succeed.
const errNoSuccess = exitError(1)

// serviceIdle is how long a service that a command started stays without
// client and task.
const serviceIdle = 30 * time.Second

// tasks connects to the service of tasks, which it starts where there is none.
// The caller closes the client.
func (a *app) tasks() (*taskapi.Client, error) {
	c, started, err := summon.Service(a.ctx, a.service())
	if started {
		a.resumed(c)
	}
	return c, err
}

// withTasks does something with the service of tasks.
func (a *app) withTasks(do func(*taskapi.Client) error) error {
	client, err := a.tasks()
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
}

// withTask does something with one task.
func (a *app) withTask(id string, do func(*taskapi.Client, *task.Task) error) error {
	return a.withTasks(func(client *taskapi.Client) error {
		t, err := client.Get(a.ctx, task.ID(id))
		if err != nil {
			return err
		}
		return do(client, &t)
	})
}

// withDone does something with a task that has ended.
func (a *app) withDone(id string, do func(*taskapi.Client, *task.Task) error) error {
	return a.withTask(id, func(client *taskapi.Client, t *task.Task) error {
		if err := ended(t); err != nil {
			return err
		}
		return do(client, t)
	})
}

// ended is an error for a task that has not.
func ended(t *task.Task) error {
	if t.Result != nil {
		return nil
	}
	id := terminal.Sanitize(string(t.ID))
	return bailey.NewError(bailey.Conflict, "task "+id+" is not done: it is "+stateText(t), "bailey task logs -f "+id+" follows it")
}

// service says which service is this person's.
func (a *app) service() summon.Config {
	d := a.host.Dirs
	return summon.Config{
		Executable: a.host.Executable, Runtime: d.Runtime, Idle: serviceIdle,
		Folders: taskapi.Folders{Config: d.Config, Data: d.Data, State: d.State},
	}
}

// resumed says which tasks a service that was just started takes up again.
func (a *app) resumed(c *taskapi.Client) {
	list, err := c.List(a.ctx)
	if err != nil { // it is the command's to say
		return
	}
	const most = 5
	var ids []string
	for i := range list {
		if list[i].State != task.Done {
			ids = append(ids, terminal.Sanitize(string(list[i].ID)))
		}
	}
	if n := len(ids); n > most {
		ids = append(ids[:most], fmt.Sprintf("and %d more", n-most))
	}
	if len(ids) > 0 {
		_, _ = fmt.Fprintf(a.stderr, "bailey: the service was started, and takes up again what an earlier one left: %s (bailey task cancel ID ends one)\n", strings.Join(ids, ", "))
	}
}

// taskNames lists the tasks of a service that runs, for completion.
func (a *app) taskNames() (out []candidate) {
	c, err := summon.Running(a.ctx, a.service())
	if c == nil || err != nil { // a completion has nobody to tell
		return nil
	}
	defer c.Close()
	list, _ := c.List(a.ctx)
	for i := range list {
		out = append(out, candidate{string(list[i].ID), stateText(&list[i]) + " " + list[i].Name})
	}
	return out
}

// fenced prints text that an agent wrote, in the marks that it came in. They
// are printable already; this process does not rely on it.
func fenced(w io.Writer, text string) error {
	var out strings.Builder
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		for i, part := range strings.Split(l, "\t") {
			if i > 0 {
				out.WriteByte('\t')
			}
			out.WriteString(terminal.Sanitize(part))
		}
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// stateText is a task's state, or its end, for a person.
func stateText(t *task.Task) string {
	switch {
	case t.State == task.Done:
		return string(t.Status)
	case t.Place > 0:
		return fmt.Sprintf("%s (%d)", t.State, t.Place)
	}
	return string(t.State)
}

// tokensText is all tokens of a usage, short.
func tokensText(u task.Usage) string {
	n := u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens
	const exact = 10_000
	if n >= exact {
		n = n / 1000 * 1000
	}
	return budget.Tokens(n)
}

// costText is an amount of money; "-" where there is no price.
func costText(c *float64) string {
	if c == nil {
		return "-"
	}
	return "$" + strconv.FormatFloat(*c, 'f', 4, 64)
}

// tookText is a time in seconds.
func tookText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// runSeconds of a task so far.
func (a *app) runSeconds(t *task.Task) float64 {
	if t.Started.IsZero() {
		return 0
	}
	end := t.Ended
	if end.IsZero() {
		end = a.now()
	}
	return max(0, end.Sub(t.Started).Seconds())
}
