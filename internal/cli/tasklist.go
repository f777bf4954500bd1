package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/merge"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskapi"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type taskLsCommand struct {
	All  bool `help:"List those too that ended more than a week ago."`
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey task ls --help` says beyond the flags.
func (taskLsCommand) Help() string {
	return `Lists tasks, the newest first. A number behind "queued" is the place in the queue of the model. "merged" says that the branch is in the commit that is checked out in the task's repository, and "branch gone" that it has been deleted there.

With --json: an array of objects with id, merged, name, group, state (queued, preparing, running, collecting, done), status of one that is done (success, error_max_turns, timeout, budget, cancelled, oom, disk, harness_error), place, repo, model, harness, branch, created, started, ended, turns, usage and cost_usd.`
}

// Run lists the tasks.
func (c *taskLsCommand) Run(a *app) error {
	return a.withTasks(func(client *taskapi.Client) error {
		list, err := client.List(a.ctx)
		if err != nil {
			return err
		}
		return c.print(a, list)
	})
}

func (c *taskLsCommand) print(a *app, list []task.Task) error {
	const recent = 7 * 24 * time.Hour
	hidden := len(list)
	if !c.All {
		list = slices.DeleteFunc(list, func(t task.Task) bool {
			return t.State == task.Done && !t.Ended.IsZero() && a.now().Sub(t.Ended) > recent
		})
	}
	hidden -= len(list)
	fates := a.fates(list)
	if c.JSON {
		rows := make([]taskRow, 0, len(list))
		for _, t := range list {
			rows = append(rows, taskRow{t, fates[t.ID] == merged})
		}
		return printJSON(a.stdout, rows)
	}
	if len(list) == 0 && hidden == 0 {
		_, err := fmt.Fprintln(a.stdout, `There are no tasks. bailey task run "what is to be done" hands one to an agent.`)
		return err
	}
	if err := a.taskTable(list, fates); err != nil || hidden == 0 {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%s that ended more than a week ago: --all lists them, bailey task clean removes them\n", spell.Count(hidden, "task"))
	return err
}

// taskRow is a task as the command line prints it as JSON.
type taskRow struct {
	task.Task
	Merged bool `json:"merged"` // its branch is in the commit that is checked out in its repository
}

// fate is what became of the branch of a task in its repository; "" where that
// is nothing, or not known.
type fate string

const (
	merged fate = "merged"
	gone   fate = "branch gone"
)

// fateTime bounds how long repositories are asked for them, all together: only
// a disk that does not answer comes near it.
const fateTime = 30 * time.Second

// fates asks each repository once, with a git that starts nothing.
func (a *app) fates(list []task.Task) map[task.ID]fate {
	ctx, done := context.WithTimeout(a.ctx, fateTime)
	defer done()
	out, known := map[task.ID]fate{}, map[string]map[string]bool{}
	for i := range list {
		t := &list[i]
		if t.State != task.Done || t.Branch == "" || t.Repo == "" {
			continue
		}
		branches, asked := known[t.Repo]
		if !asked {
			branches = branchesOf(ctx, t.Repo)
			known[t.Repo] = branches
		}
		if branches == nil {
			continue
		}
		in, there := branches[t.Branch]
		switch {
		case !there:
			out[t.ID] = gone
		case in:
			out[t.ID] = merged
		}
	}
	return out
}

// branchesOf is nil for a repository that does not answer, as one that is no
// longer there.
func branchesOf(ctx context.Context, dir string) map[string]bool {
	repo, err := merge.Open(ctx, dir, config.Pairs())
	if err != nil {
		return nil
	}
	list, err := repo.Branches(ctx, task.BranchPrefix)
	if err != nil {
		return nil
	}
	return list
}

func (a *app) taskTable(list []task.Task, fates map[task.ID]fate) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tSTATUS\tMODEL\tAGENT\tTURNS\tTOKENS\tCOST\tTIME\tCREATED\tREPOSITORY\tNAME")
	for i := range list {
		t := &list[i]
		state := stateText(t)
		if f := fates[t.ID]; f != "" {
			state += ", " + string(f)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", terminal.Sanitize(string(t.ID)), terminal.Sanitize(state), terminal.Sanitize(t.Model),
			terminal.Sanitize(t.Harness), t.Turns, tokensText(t.Usage), costText(t.CostUSD), tookText(a.runSeconds(t)),
			t.Created.Local().Format(time.DateTime), terminal.Sanitize(t.Repo), terminal.Sanitize(shorten(t.Name)))
	}
	return w.Flush()
}

type taskCompareCommand struct {
	Tasks []string `arg:"" placeholder:"GROUP|TASK" help:"A group, as bailey task run --n names one, or ids of tasks."`
	JSON  bool     `name:"json" help:"Print JSON."`
}

// Run compares the tasks.
func (c *taskCompareCommand) Run(a *app) error {
	return a.withTasks(func(client *taskapi.Client) error {
		tasks, err := c.chosen(a, client)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, tasks)
		}
		return a.compare(tasks)
	})
}

// chosen gets the tasks that were named, the oldest first.
func (c *taskCompareCommand) chosen(a *app, client *taskapi.Client) ([]task.Task, error) {
	list, err := client.List(a.ctx)
	if err != nil {
		return nil, err
	}
	var tasks []task.Task
	for _, t := range slices.Backward(list) {
		if !slices.Contains(c.Tasks, string(t.ID)) && (t.Group == "" || !slices.Contains(c.Tasks, t.Group)) {
			continue
		}
		t, err := client.Get(a.ctx, t.ID)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	if len(tasks) == 0 {
		return nil, bailey.NewError(bailey.NotFound, "there is no task and no group of that name", "bailey task ls lists them")
	}
	return tasks, nil
}

// Help is what `bailey task compare --help` says beyond the flags.
func (taskCompareCommand) Help() string {
	return `CHECKS is what the checks came to that were asked for with the task, or run last. CHANGES sums up the diff, and says how many of the files are new.`
}

// compare prints tasks side by side.
func (a *app) compare(tasks []task.Task) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tSTATUS\tCHECKS\tCHANGES\tTURNS\tTOKENS\tCOST\tTIME\tBRANCH")
	for i := range tasks {
		t := &tasks[i]
		checks, changes, branch := "-", "-", "-"
		if r := t.Result; r != nil {
			checks, changes = checksText(t), changesText(r.DiffStat)
			if r.Branch != "" {
				branch = r.Branch
			}
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", terminal.Sanitize(string(t.ID)), terminal.Sanitize(stateText(t)), checks, terminal.Sanitize(changes),
			t.Turns, tokensText(t.Usage), costText(t.CostUSD), tookText(a.runSeconds(t)), terminal.Sanitize(branch))
	}
	return w.Flush()
}

func checksText(t *task.Task) string {
	c := t.Result.Checks
	switch {
	case c == nil && t.Request != nil && t.Request.Checks != "":
		return "not run"
	case c == nil:
		return "-"
	case c.Passed:
		return "passed"
	case c.Status != task.Success:
		return string(c.Status)
	}
	return fmt.Sprintf("exit code %d", c.ExitCode)
}

// changesText is the sum of a diffstat inside its marks, and how many files are
// new. git writes the sum behind a line for each file, and behind the sum one
// for each file that is new, gone or has another mode: none of them begins with
// a number.
func changesText(stat string) string {
	sum, fresh, all := "none", 0, true
	for l := range strings.Lines(stat) {
		l = strings.TrimRight(l, "\n")
		text := strings.TrimPrefix(l, " ")
		switch {
		case l == "…":
			all = false
		case strings.HasPrefix(l, " create mode "):
			fresh++
		case text != l && text != "" && text[0] >= '0' && text[0] <= '9' && strings.Contains(text, " changed") && !strings.Contains(text, " | "):
			sum = text
		}
	}
	if fresh > 0 {
		more := ""
		if !all {
			more = " or more"
		}
		sum += fmt.Sprintf(", %d%s new", fresh, more)
	}
	return sum
}
