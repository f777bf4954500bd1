package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/autophase"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/phase"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// phaseCommand is the group of commands about phases.
type phaseCommand struct {
	Run    phaseRunCommand    `cmd:"" help:"Have agents do the units of a plan, one after another: each is validated in a sandbox, committed on this side, and pushed."`
	Status phaseStatusCommand `cmd:"" help:"Print how far a plan has come."`
	Ls     phaseLsCommand     `cmd:"" aliases:"list" help:"List the plans that were run, and how far they have come."`
	Stop   phaseStopCommand   `cmd:"" help:"End a plan that runs, behind the unit that goes on or at once. It can be taken up again."`
}

// captured is what a command line of `bailey run` asks for, which is done by
// somebody else.
type captured struct{ request *run.Request }

// start runs a request, or hands it to who wants it.
func (a *app) start(r run.Request) (int, error) {
	if a.captured != nil {
		a.captured.request = &r
		return 0, nil
	}
	return run.Run(a.ctx, a.host, r)
}

// errNoCommand means that words of `bailey run` name nothing to run.
var errNoCommand = errors.New("no command")

// readRun reads the words behind `bailey run`.
func (a *app) readRun(words []string) (run.Request, error) {
	args := append([]string{"run"}, words...)
	seen, rest := beyondDashes(args)
	var grammar struct {
		Run runCommand `cmd:""`
	}
	exited := false
	parser, err := newParser(&grammar, io.Discard, io.Discard, func(int) { exited = true })
	if err != nil {
		return run.Request{}, err
	}
	parsed, err := parser.Parse(each(slices.Clone(seen), asText))
	switch {
	case err != nil:
		return run.Request{}, usageError(err, seen, parser.Model)
	case exited:
		return run.Request{}, bailey.NewError(bailey.Invalid, "--help is not for what an agent is run with", "bailey run --help")
	}
	if command, _ := afterDashes(append(slices.Clone(grammar.Run.Command), rest...)); len(command) == 0 {
		return run.Request{}, errNoCommand
	}
	got := captured{}
	b := *a
	b.rest, b.captured = rest, &got
	if err := parsed.Run(&b); err != nil {
		return run.Request{}, err
	}
	if got.request == nil {
		return run.Request{}, errNoCommand
	}
	return *got.request, nil
}

// phases is where this person's are kept.
func (a *app) phases() autophase.Store { return autophase.NewStore(a.host.Dirs.State) }

// here is the workspace of a phase: the current folder, without links.
func (a *app) here() (string, error) {
	dir, err := filepath.EvalSymlinks(a.host.Dir)
	if err != nil || a.host.Dir == "" {
		return "", bailey.WrapError(bailey.Invalid, "find the current folder", err, "change to a folder that exists")
	}
	return dir, nil
}

// planAt is the path of a plan that a person names.
func (a *app) planAt(name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(a.host.Dir, name)
	}
	path, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", autophase.PlanError(name, err)
	}
	return path, nil
}

// findPhase is the phase of a plan in this folder; without one, the last here.
func (a *app) findPhase(plan string) (*phase.Record, error) {
	dir, err := a.here()
	if err != nil {
		return nil, err
	}
	if plan != "" {
		file, err := a.planAt(asBytes(plan))
		if err != nil {
			return nil, err
		}
		r, err := a.phases().Load(phase.Key(file, dir))
		if err == nil && r == nil {
			err = bailey.NewError(bailey.NotFound, "the plan "+file+" was not run in "+dir, "bailey phase ls lists those that were")
		}
		return r, err
	}
	list, err := a.phases().All()
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		if r.Workspace == dir {
			return r, nil
		}
	}
	return nil, bailey.NewError(bailey.NotFound, "no plan was run in "+dir, "bailey phase run PLAN; bailey phase ls lists those of other folders")
}

// standing is a record with what holds now.
type standing struct {
	*phase.Record
	Running bool `json:"running"`
}

func (a *app) standing(r *phase.Record) standing { return standing{r, a.phases().Running(r.Key)} }

func (s standing) word() string {
	switch {
	case s.Running:
		return "running"
	case s.End == "":
		return "killed"
	}
	return s.End
}

type phaseStatusCommand struct {
	JSON bool   `name:"json" help:"Print JSON."`
	Plan string `arg:"" optional:"" help:"The plan. Default: the last that was run in this folder."`
}

// Run prints it.
func (c *phaseStatusCommand) Run(a *app) error {
	r, err := a.findPhase(c.Plan)
	if err != nil {
		return err
	}
	s := a.standing(r)
	if c.JSON {
		return printJSON(a.stdout, s)
	}
	lines := append([]string{fmt.Sprintf("%s in %s: %s", terminal.Sanitize(r.File), terminal.Sanitize(r.Workspace), s.word())}, r.Summary()...)
	_, err = fmt.Fprintln(a.stdout, strings.Join(lines, "\n"))
	return err
}

type phaseLsCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists them.
func (c *phaseLsCommand) Run(a *app) error {
	list, err := a.phases().All()
	if err != nil {
		return err
	}
	all := []standing{}
	for _, r := range list {
		all = append(all, a.standing(r))
	}
	if c.JSON {
		return printJSON(a.stdout, all)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "STATUS\tUNITS\tPLAN\tWORKSPACE")
	for _, s := range all {
		_, _ = fmt.Fprintf(w, "%s\t%d of %d\t%s\t%s\n", s.word(), len(s.Units)-s.Left(), len(s.Units), terminal.Sanitize(s.File), terminal.Sanitize(s.Workspace))
	}
	return w.Flush()
}

type phaseStopCommand struct {
	Now  bool   `help:"End the unit that goes on too. What it did so far stays in the tree."`
	Plan string `arg:"" optional:"" help:"The plan. Default: the last that was run in this folder."`
}

// Run asks for it.
func (c *phaseStopCommand) Run(a *app) error {
	r, err := a.findPhase(c.Plan)
	if err != nil {
		return err
	}
	if !a.phases().Running(r.Key) {
		return bailey.NewError(bailey.NotFound, "the plan "+r.File+" is not running", "bailey phase status says how it ended")
	}
	return a.phases().Stop(r.Key, c.Now)
}
