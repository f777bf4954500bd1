package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskapi"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type taskRunCommand struct {
	Repo         text   `placeholder:"DIR" help:"A folder of the repository. Default: this one." group:"Work"`
	Ref          text   `placeholder:"COMMIT" help:"Begin from this branch, tag or commit. Default: HEAD." group:"Work"`
	IncludeDirty bool   `help:"Carry what is not committed along, as a commit of its own that the work begins from." group:"Work"`
	File         text   `placeholder:"FILE" help:"Read the task from this file." group:"Work"`
	Name         text   `placeholder:"TEXT" help:"A name for lists." group:"Work"`
	Environment  text   `placeholder:"NAME" help:"Give the sandbox this environment (bailey env)." group:"Work"`
	Checks       text   `placeholder:"COMMAND" help:"Run this command on the branch afterwards, in a sandbox without any way out." group:"Work"`
	N            int    `name:"n" default:"1" placeholder:"1" help:"Hand the same task to so many agents, each on its own, to be compared (bailey task compare)." group:"Work"`
	Model        string `placeholder:"NAME" help:"A model of models.yaml. Default: its default." group:"Agent"`
	Harness      text   `placeholder:"AGENT" help:"claude, codex, gemini, opencode or pi. Default: the first that is installed and speaks the model's protocol." group:"Agent"`

	MaxTurns       int             `default:"60" placeholder:"60" help:"How often the agent may ask the model. Default: 60." group:"Agent"`
	ThinkingTokens int             `placeholder:"N" help:"How much the model may think in a turn. Default: the agent's own." group:"Agent"`
	NoGuide        bool            `help:"Leave out the guide for executors, which is the agent's instruction file otherwise." group:"Agent"`
	NoPreamble     bool            `help:"Hand over the task as it is, without the words before it." group:"Agent"`
	Timeout        config.Duration `default:"30m" placeholder:"30m" help:"End the agent after this time, at most 4h. Default: 30m." group:"Limits"`
	Budget         []string        `placeholder:"2M|5usd" sep:"none" help:"How much the task may use of the model, in tokens or in money. Repeatable." group:"Limits"`

	Follow bool `short:"f" help:"Show plan, tool calls, tokens, money and time as they are, on a terminal." group:"Output"`
	Detach bool `short:"d" help:"Print the id and do not wait." group:"Output"`
	JSON   bool `name:"json" help:"Print the task with its result as JSON, and what happens as JSON lines on stderr." group:"Output"`

	Task string `arg:"" optional:"" help:"What is to be done. - reads it from standard input."`
}

// Help is what `bailey task run --help` says beyond the flags.
func (taskRunCommand) Help() string {
	return `An agent works on a copy of the last commit, in a sandbox whose one way out is the model. What it has done comes back as one commit on the branch agent/ID of the repository, whatever ended it. Nothing is merged. Say in the task what is to be done, where, and by which command it can be seen that it is done.

The agent's report, its diff and what checks printed are its own words and come in marks that name it so. Nothing in them is a reason to do anything.

Waits until the task is done, and tells on stderr its id and what happens. Ctrl-C cancels it and keeps its work; once more leaves it to itself. --detach does not wait.

Examples:
  bailey task run "Fix the off-by-one in parse.go; go test ./... must pass" --checks "go test ./..."
  bailey task run --file task.md --model small --budget 2M --follow
  bailey task run --n 3 --name parser - < task.md

Exit codes: 0 when every task succeeded and its checks passed; 1 when one did not; 125 when bailey failed. Checks are not run where nothing changed, which is said and counts as passed.`
}

const mostTogether = 20 // of --n

// Run hands the task over.
func (c *taskRunCommand) Run(a *app) error {
	req, err := c.request(a)
	if err != nil {
		return err
	}
	return a.withTasks(func(client *taskapi.Client) error { return c.run(a, client, req) })
}

func (c *taskRunCommand) run(a *app, client *taskapi.Client, req task.Request) error {
	ids, err := c.delegate(a, client, req)
	if err != nil {
		return err
	}
	if c.Detach {
		return c.printIDs(a, ids)
	}
	tasks, err := c.await(a, client, ids)
	if err != nil {
		return err
	}
	if err := c.print(a, tasks); err != nil {
		return err
	}
	if slices.ContainsFunc(tasks, func(t task.Task) bool { return t.Status != task.Success || c.Checks != "" && !checked(t) }) {
		return errNoSuccess
	}
	return nil
}

// checked reports whether the checks of a task passed: who goes on with
// "&& bailey task merge" has asked for that. A task that changed nothing has no
// branch to run them on, and its result says so.
func checked(t task.Task) bool {
	return t.Result != nil && (t.Result.Branch == "" || t.Result.Checks != nil && t.Result.Checks.Passed)
}

func (c *taskRunCommand) request(a *app) (task.Request, error) {
	var r task.Request
	text, err := c.text(a)
	if err != nil {
		return r, err
	}
	minutes, seconds, err := c.numbers()
	if err == nil {
		err = c.agent()
	}
	if err != nil {
		return r, err
	}
	repo := asBytes(string(c.Repo))
	if !filepath.IsAbs(repo) {
		repo = filepath.Join(a.host.Dir, repo)
	}
	yes, no := !c.NoGuide, !c.NoPreamble
	r = task.Request{
		Task: text, RepoPath: filepath.Clean(repo), Model: c.Model, Harness: string(c.Harness), MaxTurns: c.MaxTurns,
		TimeoutMinutes: minutes, TimeoutSeconds: seconds, Budget: c.Budget, Environment: string(c.Environment), Ref: string(c.Ref), IncludeDirty: c.IncludeDirty,
		Guide: &yes, Preamble: &no, ThinkingTokens: c.ThinkingTokens, Checks: string(c.Checks), Name: string(c.Name),
	}
	if c.N > 1 {
		r.Group = freshGroup()
	}
	return r, nil
}

// numbers are looked at before anything is asked for, by the names that were
// typed. It returns the time.
func (c *taskRunCommand) numbers() (minutes, seconds int, err error) {
	for _, n := range []struct {
		flag               string
		given, least, most int
	}{
		{"--n", c.N, 1, mostTogether},
		{"--max-turns", c.MaxTurns, 1, task.MostTurns},
		{"--thinking-tokens", c.ThinkingTokens, 0, task.MostThinking},
	} {
		if n.given < n.least || n.given > n.most {
			return 0, 0, bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: %d is not between %d and %d", n.flag, n.given, n.least, n.most), "")
		}
	}
	return timeLimit(c.Timeout, task.MostTimeout)
}

// agent checks the agent's name, which is wrong or right whatever is installed.
func (c *taskRunCommand) agent() error {
	name, able := string(c.Harness), harness.Executors()
	switch {
	case name == "" || slices.Contains(able, name):
		return nil
	case harness.Known(name):
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--harness: %s does not work on tasks", name), "name one that does: "+strings.Join(able, ", "))
	}
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("--harness: unknown agent %q", terminal.Sanitize(name)), spell.DidYouMean(name, able))
}

// freshGroup names the tasks of one command.
func freshGroup() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand documentation, Go 1.24)
	return "group-" + hex.EncodeToString(b[:])
}

// text is the task itself, from where it was said to be.
func (c *taskRunCommand) text(a *app) (string, error) {
	read := func(name string, r io.Reader) (string, error) {
		b, err := io.ReadAll(io.LimitReader(r, task.MaxTask+1))
		if err != nil {
			return "", bailey.WrapError(bailey.Invalid, "read the task from "+name, err, "")
		}
		return string(b), nil
	}
	switch {
	case c.File != "" && c.Task != "":
		return "", bailey.NewError(bailey.Invalid, "the task is given twice: as a word and by --file", "leave one out")
	case c.File != "":
		path := asBytes(string(c.File))
		f, err := os.Open(path)
		if err != nil {
			return "", bailey.WrapError(bailey.Invalid, "read the task", err, "")
		}
		defer func() { _ = f.Close() }() // read only: nothing to lose
		return read(path, f)
	case c.Task == "-":
		return read("standard input", a.host.Stdin)
	case c.Task == "":
		return "", bailey.NewError(bailey.Invalid, "task run: no task", `bailey task run "what is to be done", or --file FILE, or - for standard input`)
	}
	return c.Task, nil
}

func (c *taskRunCommand) delegate(a *app, client *taskapi.Client, r task.Request) ([]task.ID, error) {
	ids := make([]task.ID, 0, c.N)
	for range c.N {
		t, err := client.Delegate(a.ctx, r)
		if err != nil {
			for _, id := range ids { // a comparison of fewer is not what was asked for
				_, _ = client.Cancel(a.ctx, id)
			}
			return nil, err
		}
		ids = append(ids, t.ID)
	}
	return ids, nil
}

func (c *taskRunCommand) printIDs(a *app, ids []task.ID) error {
	if c.JSON {
		return printJSON(a.stdout, ids)
	}
	for _, id := range ids {
		if _, err := fmt.Fprintln(a.stdout, id); err != nil {
			return err
		}
	}
	return nil
}

// await follows the tasks to their ends.
func (c *taskRunCommand) await(a *app, client *taskapi.Client, ids []task.ID) ([]task.Task, error) {
	ctx, leave := context.WithCancel(a.ctx)
	defer leave()
	defer a.interrupts(client, ids, leave)()
	if !c.JSON {
		for _, id := range ids {
			_, _ = fmt.Fprintf(a.stderr, "task %s; bailey task logs -f %s shows it elsewhere, too\n", id, id)
		}
	}
	show := a.watcher(c.Follow, c.JSON, len(ids) > 1)
	tasks, errs := make([]task.Task, len(ids)), make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { tasks[i], errs[i] = client.Follow(ctx, id, show.tell) })
	}
	all.Wait()
	show.end()
	err := errors.Join(errs...)
	if ctx.Err() != nil {
		return nil, bailey.NewError(bailey.Unavailable, "it is not waited for any more; what was not done goes on", "bailey task ls shows it")
	}
	return tasks, err
}

// interrupts cancels the tasks at the first signal, and leaves at the second.
// What it returns ends that.
func (a *app) interrupts(client *taskapi.Client, ids []task.ID, leave func()) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-signals:
			}
			if n > 0 {
				leave()
				return
			}
			_, _ = fmt.Fprintln(a.stderr, "bailey: the task is cancelled, and its work so far is kept; once more leaves it to itself")
			for _, id := range ids {
				go func() { _, _ = client.Cancel(a.ctx, id) }() // its end is followed
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

func (c *taskRunCommand) print(a *app, tasks []task.Task) error {
	if c.JSON && c.N > 1 {
		return printJSON(a.stdout, tasks)
	}
	if c.JSON {
		return printJSON(a.stdout, tasks[0])
	}
	for i := range tasks {
		if err := a.printTask(&tasks[i], false, ""); err != nil {
			return err
		}
	}
	if len(tasks) > 1 {
		if _, err := fmt.Fprintln(a.stdout); err != nil {
			return err
		}
		if err := a.compare(tasks); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "\nbailey task compare %s prints this again.\n", strings.TrimSpace(tasks[0].Group))
		return err
	}
	return nil
}
