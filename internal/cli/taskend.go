package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/merge"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskapi"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type taskMergeCommand struct {
	Repo text   `placeholder:"DIR" help:"A work tree of the repository. Default: that of the task."`
	Yes  bool   `short:"y" help:"Take files in too that would run something on this machine later."`
	JSON bool   `name:"json" help:"Print JSON."`
	Task string `arg:"" help:"Id of the task."`
}

// Help is what `bailey task merge --help` says beyond the flags.
func (taskMergeCommand) Help() string {
	return `Makes a merge commit (no fast-forward) on the branch that is checked out, of exactly the commit that was delivered. It refuses where the work tree has changes that are not committed, and where there is a conflict, and changes nothing then. The branch of a task with --include-dirty begins with a commit of what was not committed: that comes in too, so put yours away first (git stash -u), and drop it after the merge if you had changed nothing since. No hook, filter, merge driver or other program that git is set up to run is run, whatever the attributes of the agent's tree ask for: files that such a filter makes, as those of Git LFS, stay as the agent wrote them.

Where the work has files that would run something on this machine later (hooks, editor tasks, CI, package scripts, agents' settings), they are listed, and --yes is needed.`
}

// mergedRow is the published form of a merge.
type mergedRow struct {
	Task    string         `json:"task"`
	Into    string         `json:"into"`
	Commit  string         `json:"commit"`
	Already bool           `json:"already"`
	Planted []task.Planted `json:"planted"`
}

// Run merges the work.
func (c *taskMergeCommand) Run(a *app) error {
	return a.withDone(c.Task, func(_ *taskapi.Client, t *task.Task) error { return c.merge(a, t) })
}

func (c *taskMergeCommand) merge(a *app, t *task.Task) error {
	r := t.Result
	if r.Branch == "" {
		return bailey.NewError(bailey.Conflict, fmt.Sprintf("task %s has no branch to merge: %s", t.ID, branchText(r)), "bailey task show "+string(t.ID)+" says more")
	}
	if err := c.planted(a, t); err != nil {
		return err
	}
	repo, err := a.openRepo(string(c.Repo), t)
	if err != nil {
		return err
	}
	got, err := repo.Merge(a.ctx, workOf(t), mergeMessage(t))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, mergedRow{string(t.ID), got.Into, got.Commit, got.Already, append([]task.Planted{}, r.Planted...)})
	}
	if got.Already {
		_, err = fmt.Fprintf(a.stdout, "%s has the work of %s already\n", terminal.Sanitize(got.Into), t.ID)
		return err
	}
	carried := ""
	if got.Carried != "" {
		carried = fmt.Sprintf(", with what was not committed when the task began (%.12s)", got.Carried)
	}
	_, err = fmt.Fprintf(a.stdout, "merged %s into %s as %.12s%s; bailey task rm %s removes the task and its branch\n", terminal.Sanitize(r.Branch), terminal.Sanitize(got.Into), got.Commit, carried, t.ID)
	return err
}

// planted says what comes in with the work that acts later, and wants a word.
func (c *taskMergeCommand) planted(a *app, t *task.Task) error {
	list := t.Result.Planted
	if len(list) == 0 {
		return nil
	}
	if !c.JSON || !c.Yes {
		shown := *a
		shown.stdout = a.stderr
		if err := shown.printPlanted(list); err != nil {
			return err
		}
	}
	if !c.Yes {
		return bailey.NewError(bailey.Conflict, fmt.Sprintf("the work of %s has %s that would act later", t.ID, spell.Count(len(list), "file")), "look at them (bailey task diff "+string(t.ID)+"); --yes takes them in")
	}
	return nil
}

func workOf(t *task.Task) merge.Work {
	w := merge.Work{Branch: t.ID.Branch(), Carried: t.Request != nil && t.Request.IncludeDirty}
	if t.Result != nil {
		w.Commit, w.Base = t.Result.Commit, t.Result.Base
	}
	return w
}

// mergeMessage is ours but for the name, which the person gave.
func mergeMessage(t *task.Task) string {
	m := "Merge " + t.ID.Branch()
	if t.Name != "" {
		m += ": " + terminal.Sanitize(t.Name)
	}
	return m + "\n\nWork of " + t.Harness + " with " + t.Model + " on task " + string(t.ID) + "."
}

// openRepo opens the repository that was named, or else the task's.
func (a *app) openRepo(named string, t *task.Task) (*merge.Repo, error) {
	dir := asBytes(named)
	if dir == "" {
		dir = t.Repo
	}
	return merge.Open(a.ctx, dir, config.Pairs())
}

type taskCancelCommand struct {
	Tasks []string `arg:"" placeholder:"TASK" help:"Ids of the tasks."`
}

// Run cancels each task, also behind one that it cannot.
func (c *taskCancelCommand) Run(a *app) error {
	return a.eachTask(c.Tasks, func(client *taskapi.Client, id task.ID) error {
		t, err := client.Cancel(a.ctx, id)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s: %s\n", t.ID, terminal.Sanitize(stateText(&t)))
		return err
	})
}

// eachTask does something with each task, and says what failed.
func (a *app) eachTask(ids []string, do func(*taskapi.Client, task.ID) error) error {
	return a.withTasks(func(client *taskapi.Client) (failed error) {
		for _, id := range ids {
			if err := do(client, task.ID(id)); err != nil {
				failed = exitError(fail(a.stderr, err))
			}
		}
		return failed
	})
}

type taskRmCommand struct {
	Force bool     `help:"Remove work too that is in no other branch."`
	Tasks []string `arg:"" placeholder:"TASK" help:"Ids of the tasks."`
}

// Help is what `bailey task rm --help` says beyond the flags.
func (taskRmCommand) Help() string {
	return `Removes the record of a task, what is left of its copies, and its branch agent/ID. Refuses a task that is not done, and work that no other branch or tag has: it says how much that is, and --force removes it. With --force it says on stderr which commit the branch had, with which git brings it back.`
}

// Run removes each task.
func (c *taskRmCommand) Run(a *app) error {
	return a.eachTask(c.Tasks, func(client *taskapi.Client, id task.ID) error {
		t, err := client.Get(a.ctx, id)
		if err == nil {
			err = ended(&t)
		}
		if err != nil {
			return err
		}
		if err := a.removeTask(client, &t, c.Force); err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.stdout, t.ID)
		return err
	})
}

// removeTask removes a task and its branch, if nothing is lost or force says
// so.
func (a *app) removeTask(client *taskapi.Client, t *task.Task, force bool) error {
	stake, err := a.stake(t)
	if err != nil && !force {
		return bailey.WrapError(bailey.KindOf(err), fmt.Sprintf("see what would be lost with task %s", t.ID), err, "--force removes it all the same")
	}
	if stake != "" && !force {
		return bailey.NewError(bailey.Conflict, fmt.Sprintf("task %s has work that is nowhere else: %s", t.ID, stake), "bailey task merge "+string(t.ID)+" takes it in; --force removes it")
	}
	if t.Branch != "" && t.Repo != "" {
		c, err := client.Cleanup(a.ctx, t.Repo, t.Branch)
		if err != nil && !force {
			return err
		}
		if c.Commit != "" && force {
			_, _ = fmt.Fprintf(a.stderr, "bailey: git branch %s %s in %s brings the work of task %s back, until git prunes it\n",
				terminal.Sanitize(t.Branch), terminal.Sanitize(c.Commit), terminal.Sanitize(t.Repo), t.ID)
		}
	}
	return client.Forget(a.ctx, t.ID)
}

// stake says what would be lost with a task; "" is nothing.
func (a *app) stake(t *task.Task) (string, error) {
	if t.Result.Kept {
		return "what could not be put into the repository, or was left out of the branch", nil
	}
	if t.Branch == "" {
		return "", nil
	}
	repo, err := a.openRepo("", t)
	if bailey.KindOf(err) == bailey.NotFound {
		return "", nil // the repository is gone, and the branch with it
	}
	if err != nil {
		return "", err
	}
	s, err := repo.Stake(a.ctx, workOf(t))
	if err != nil || s.None() {
		return "", err
	}
	return s.String(), nil
}

type taskCleanCommand struct {
	OlderThan config.Span `default:"7d" placeholder:"7d" help:"Only those that ended so long ago."`
	Force     bool        `help:"Remove work too that is in no other branch."`
}

// Help is what `bailey task clean --help` says beyond the flags.
func (taskCleanCommand) Help() string {
	return `Removes tasks that are done, as bailey task rm does. Those with work that is in no other branch are left, and counted; --force removes them too.`
}

// Run removes old tasks.
func (c *taskCleanCommand) Run(a *app) error {
	return a.withTasks(func(client *taskapi.Client) error {
		list, err := client.List(a.ctx)
		if err != nil {
			return err
		}
		return c.remove(a, client, list)
	})
}

// remove removes those of a list that are old.
func (c *taskCleanCommand) remove(a *app, client *taskapi.Client, list []task.Task) error {
	removed, kept := 0, 0
	var errs []error
	for i := range list {
		if list[i].State != task.Done || a.now().Sub(list[i].Ended) < time.Duration(c.OlderThan) {
			continue
		}
		t, err := client.Get(a.ctx, list[i].ID)
		if err == nil {
			err = a.removeTask(client, &t, c.Force)
		}
		switch {
		case err == nil:
			removed++
		case bailey.KindOf(err) == bailey.Conflict:
			kept++
		default:
			errs = append(errs, err)
		}
	}
	if _, err := fmt.Fprintf(a.stdout, "removed %s\n", spell.Count(removed, "task")); err != nil {
		return err
	}
	if kept > 0 {
		_, _ = fmt.Fprintf(a.stderr, "note: %s with work that is nowhere else stayed; bailey task ls --all lists them, --force removes them\n", spell.Count(kept, "task"))
	}
	return errors.Join(errs...)
}
