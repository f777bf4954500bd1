package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/autophase"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/phase"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type phaseRunCommand struct {
	Validate    text `placeholder:"COMMAND" help:"What says whether a unit is done: a line for a shell, run in a sandbox of its own. Default: the plan's, or .agents/validate.sh." group:"Validation"`
	NoValidate  bool `help:"Commit without a validation." group:"Validation"`
	ValidateNet bool `help:"Let validations reach what the agent may reach. Default: no network." group:"Validation"`
	ValidateIn  text `placeholder:"sandbox|host" help:"Where validations run. On the host they have your rights, your files and your network, and the agent can edit what they run. Default: sandbox." group:"Validation"`
	Tries       *int `placeholder:"3" help:"How often a unit is tried, with the validation's output for the next try. Default: 3." group:"Work"`
	MaxTurns    *int `placeholder:"200" help:"How often the agent may ask the model in one try. Default: 200." group:"Work"`
	AllowDirty  bool `help:"Begin in a tree with uncommitted work. It stays as it is, and out of the commits; where a unit changed the same place nothing is committed." group:"Work"`
	Push        text `placeholder:"REMOTE[:BRANCH]" help:"Push each commit there, with your own git and its settings as they were before the first unit." group:"Work"`

	Until    text            `placeholder:"UNIT" help:"End behind this unit: its number or title." group:"End"`
	Deadline config.Duration `placeholder:"2h" help:"End when the whole phase has taken this time, with exit code 124." group:"End"`
	Budget   []string        `placeholder:"2M|5usd" sep:"none" help:"What all units together may use of the model, in tokens or in money. Repeatable." group:"End"`
	Restart  bool            `help:"Forget how far the plan had come." group:"End"`
	Replan   bool            `help:"Take the plan as it is now, though it has changed since the phase began and lies where agents write." group:"End"`

	Report text `placeholder:"FILE" help:"Write the report to this file as well, as Markdown." group:"Output"`
	Quiet  bool `short:"q" help:"Say nothing but warnings and errors." group:"Output"`
	JSON   bool `name:"json" help:"Print the report as JSON." group:"Output"`

	Plan string `arg:"" help:"The plan: a checklist in Markdown, or YAML. Behind -- stands what bailey run takes: flags, and the agent or command."`
}

// Help is what `bailey phase run --help` says beyond the flags.
func (phaseRunCommand) Help() string {
	return `A plan is a list of units, such as "- [ ] Add the parser" with the text below it. For each, an agent works in a sandbox with this folder as its workspace, as by bailey run; then the validation runs in another sandbox; and when that has passed, what the unit changed is committed here, on the branch that is checked out, by you. Nothing that an agent did to git is believed: not its commits, branches, hooks, filters, attributes, settings or remotes.

A unit that fails is tried again, and its agent reads what the validation printed. The same command again goes on where a phase ended, however that was: Ctrl-C, a failure, a deadline, kill -9.

Examples:
  bailey phase run plan.md -- --env ANTHROPIC_API_KEY claude
  bailey phase run plan.md --push origin --budget 5usd --deadline 3h -- --model small claude
  bailey phase run plan.yaml --validate "go test ./..." -- --tool go --model small codex
  bailey phase run plan.md --until 2 -- -- ./my-agent.sh      the prompt is its standard input

Exit codes: 0 when every unit is done, or the one of --until; 1 when one failed, the budget is spent or somebody stopped it; 124 when the deadline passed; 130 for Ctrl-C; 125 when bailey failed.`
}

// phaseWords cuts off what stands behind the first "--", which is for bailey run.
func phaseWords(args []string) (seen, words []string) {
	if len(args) < 2 || args[0] != "phase" || args[1] != "run" {
		return args, nil
	}
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i:i], args[i+1:]
	}
	return args, nil
}

// defaultMaxTurns is how often an agent may ask the model in one try.
const defaultMaxTurns = 200

// Run does the plan.
func (c *phaseRunCommand) Run(a *app) error {
	o, err := c.options(a)
	if err != nil {
		return err
	}
	if err := c.words(a, &o, a.rest); err != nil {
		return err
	}
	d := &autophase.Driver{
		Options: o, Store: a.phases(), Home: a.host.Home, Env: a.host.Env, Now: a.now,
		Warn: func(format string, args ...any) { _, _ = fmt.Fprintf(a.stderr, "bailey: "+format+"\n", args...) },
	}
	d.Say = func(format string, args ...any) {
		if !c.Quiet {
			d.Warn(format, args...)
		}
	}
	ctx, stop := signal.NotifyContext(a.ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return c.drive(ctx, a, d)
}

func (c *phaseRunCommand) drive(ctx context.Context, a *app, d *autophase.Driver) error {
	code, record, err := d.Run(ctx)
	if record == nil {
		if err == nil && code != 0 {
			err = exitError(code)
		}
		return err
	}
	if c.JSON {
		err = errors.Join(err, printJSON(a.stdout, a.standing(record)))
	} else if !c.Quiet {
		said := ""
		if err != nil {
			said = record.Why
		}
		for _, line := range record.SummaryWithout(said) {
			_, _ = fmt.Fprintln(a.stdout, line)
		}
	}
	if err == nil && record.Left() > 0 && code != 0 {
		d.Say("the same command again goes on from there")
	}
	if err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

func (c *phaseRunCommand) options(a *app) (o autophase.Options, err error) {
	o = autophase.Options{
		Validate: asBytes(string(c.Validate)), NoValidate: c.NoValidate, Network: c.ValidateNet, Push: string(c.Push),
		Until: string(c.Until), Deadline: time.Duration(c.Deadline), AllowDirty: c.AllowDirty, Replan: c.Replan, Restart: c.Restart,
	}
	switch c.ValidateIn {
	case "", "sandbox":
	case "host":
		o.OnHost = true
	default:
		return o, bailey.NewError(bailey.Invalid, fmt.Sprintf("--validate-in: %q is no place", string(c.ValidateIn)), "sandbox or host")
	}
	if c.NoValidate && (c.Validate != "" || o.OnHost || c.ValidateNet) {
		return o, bailey.NewError(bailey.Invalid, "--no-validate goes with no other flag of validations", "leave one out")
	}
	for _, n := range []struct {
		flag  string
		given *int
		most  int
		to    *int
	}{{"--tries", c.Tries, phase.MostTries, &o.Tries}, {"--max-turns", c.MaxTurns, mostTurns, &o.MaxTurns}} {
		if n.given == nil {
			continue
		}
		if *n.given < 1 || *n.given > n.most {
			return o, bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: %d is not 1 to %d", n.flag, *n.given, n.most), "leave it out for the default")
		}
		*n.to = *n.given
	}
	if o.Budget, err = budget.ParseLimits(c.Budget); err != nil {
		return o, err
	}
	if o.Workspace, err = a.here(); err != nil {
		return o, err
	}
	if c.Report != "" {
		o.Report = asBytes(string(c.Report))
		if !filepath.IsAbs(o.Report) {
			o.Report = filepath.Join(a.host.Dir, o.Report)
		}
	}
	o.File, err = a.planAt(asBytes(c.Plan))
	return o, err
}

const mostTurns = 1000

// words checks what is for bailey run; the plan may name the agent.
func (c *phaseRunCommand) words(a *app, o *autophase.Options, words []string) error {
	r, err := a.readRun(words)
	if errors.Is(err, errNoCommand) {
		agent, planErr := a.plannedAgent(o)
		if planErr != nil {
			return planErr
		}
		words = append(slices.Clone(words), agent)
		r, err = a.readRun(words)
	}
	if err != nil {
		return behindDashes(err)
	}
	if err := unattended(&r); err != nil {
		return err
	}
	o.Words, o.HasModel = words, len(r.Models) > 0
	if r.Preset {
		o.Meant = run.LikeAgent(r.Command[0])
		o.Doubts, err = strayPhaseFlags(r.Command)
	}
	return err
}

// phaseFlags are the flags of `bailey phase run`.
func phaseFlags() (names []string, err error) {
	var grammar struct {
		Run phaseRunCommand `cmd:""`
	}
	parser, err := newParser(&grammar, io.Discard, io.Discard, func(int) {})
	if err != nil {
		return nil, err
	}
	for _, f := range parser.Model.Children[0].Flags {
		names = append(names, "--"+f.Name)
	}
	return names, nil
}

// behindDashes is about a flag of `bailey phase run` where those of `bailey run`
// stand.
func behindDashes(err error) error {
	e, ok := errorOf(err)
	if !ok {
		return err
	}
	flag, ok := strings.CutPrefix(e.Message, "unknown flag ")
	flag, _, _ = strings.Cut(flag, ",")
	known, parserErr := phaseFlags()
	if parserErr != nil || !ok || !slices.Contains(known, flag) {
		return err
	}
	return bailey.NewError(bailey.Invalid, flag+" is a flag of phase run, and stands behind the --", "flags of phase run stand before the --: bailey phase run PLAN "+flag+" -- …")
}

// strayPhaseFlags says of flags of `bailey phase run` among an agent's arguments
// that they are the agent's there. Some agents have such a flag, so it is no
// error, and --max-turns is not worth a word.
func strayPhaseFlags(command []string) ([]string, error) {
	known, err := phaseFlags()
	var stray []string
	for _, arg := range command[1:] {
		flag, _, _ := strings.Cut(arg, "=")
		if slices.Contains(known, flag) && !slices.Contains([]string{"--max-turns", "--json", "--quiet", "--budget", "--help"}, flag) && !slices.Contains(stray, flag) {
			stray = append(stray, flag)
		}
	}
	if len(stray) == 0 {
		return nil, err
	}
	return []string{fmt.Sprintf("%s goes to %s; flags of phase run stand before the --: bailey phase run PLAN %s -- …", strings.Join(stray, ", "), command[0], stray[0])}, err
}

// plannedAgent is the one that the plan names.
func (a *app) plannedAgent(o *autophase.Options) (string, error) {
	r, err := a.phases().Load(phase.Key(o.File, o.Workspace))
	if err == nil && r != nil && r.Plan.Settings.Agent != "" && !o.Replan && !o.Restart {
		return r.Plan.Settings.Agent, nil
	}
	plan, err := readPlan(o.File)
	if err != nil {
		return "", err
	}
	if plan.Settings.Agent == "" {
		return "", bailey.NewError(bailey.Invalid, "phase run: nobody is named to do the units", "bailey phase run PLAN -- claude; or agent: claude in the plan")
	}
	if !slices.Contains(harness.Executors(), plan.Settings.Agent) {
		return "", bailey.NewError(bailey.Invalid, fmt.Sprintf("the plan's agent %q does not work by itself", terminal.Sanitize(plan.Settings.Agent)), "name one that does: "+strings.Join(harness.Executors(), ", "))
	}
	return plan.Settings.Agent, nil
}

// unattended refuses what a run that nobody sits before cannot have.
func unattended(r *run.Request) error {
	bad := func(what, hint string) error {
		return bailey.NewError(bailey.Invalid, "phase run: "+what, hint)
	}
	switch {
	case r.Workdir != "":
		return bad("--workdir is not for units", "run it in the folder that is to be the workspace")
	case r.ReadOnly:
		return bad("--read-only leaves an agent nothing to do", "leave it out")
	case r.Name != "":
		return bad("--name is not for units: there is a sandbox for each", "leave it out")
	case r.Ask:
		return bad("--ask needs a person", "name the hosts with --allow")
	case r.Background.InBackground():
		return bad("--detach and --detachable are not for units: one follows the other", "leave it out")
	case r.OpenBrowser:
		return bad("--open-browser needs a person", "log in before: bailey run --open-browser AGENT, whose home is kept")
	case r.Learn:
		return bad("--learn is not for units", "bailey run --learn, and --allow here what it proposes")
	case r.JSON || r.Quiet:
		return bad("--json and --quiet stand before the --", "bailey phase run PLAN --json -- …")
	case r.Preset && harness.Known(r.Command[0]) && !slices.Contains(harness.Executors(), r.Command[0]):
		return bad(r.Command[0]+" does not work by itself", "name one that does: "+strings.Join(harness.Executors(), ", "))
	}
	return nil
}
