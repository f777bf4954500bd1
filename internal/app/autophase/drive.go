package autophase

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/phase"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// DefaultValidate is the script that says whether a unit is done.
const DefaultValidate = ".agents/validate.sh"

// Options are what a person asks of a phase, beside the plan.
type Options struct {
	File      string   // of the plan: absolute, without links
	Workspace string   // absolute, without links: the top of a work tree
	Words     []string // of `bailey run`: flags, and the agent or command
	Agent     string   // that the words name, or the plan; empty for another command
	HasModel  bool     // the words name one
	Meant     string   // the agent that a misspelled command may stand for
	Doubts    []string // sentences about words that may not be what was meant

	Validate   string // a line for a shell; empty for DefaultValidate, or the plan's
	NoValidate bool
	OnHost     bool // validations run on the host
	Network    bool // validations have the network of the words
	Push       string
	Tries      int
	MaxTurns   int
	Until      string // a unit: the last, by its number or title
	Deadline   time.Duration
	Budget     budget.Limit
	AllowDirty bool
	Restart    bool // what is known of the phase is forgotten
	Replan     bool
	Report     string // a file
}

// Driver does the units of one plan.
type Driver struct {
	Options
	Store  Store
	Home   string
	Env    config.Lookup
	Say    func(format string, args ...any) // a line of progress
	Warn   func(format string, args ...any) // one that nothing silences
	Now    func() time.Time
	Result io.Writer

	key    string
	folder string
	record *phase.Record
	user   userGit
	header string
	began  bool     // a unit was begun by this run: what lies there besides is not the person's doing
	forged []string // objects that a sandbox of the unit left, and that were set aside
}

// ended is why a phase does not go on: no error of bailey's.
type ended struct {
	word string // of a record's end
	why  string
	code int
}

// Error says why.
func (e *ended) Error() string { return e.why }

// Run does what is left of the plan, and returns the exit code and the record.
// An error means that bailey failed; what was done until then is kept.
func (d *Driver) Run(ctx context.Context) (int, *phase.Record, error) {
	d.key = phase.Key(d.File, d.Workspace)
	d.folder = d.Store.Folder(d.key)
	lock, err := d.Store.lock(d.key)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = lock.Close() }() // nothing was written
	if err := os.RemoveAll(filepath.Join(d.folder, stopName)); err != nil {
		return 0, nil, err
	}
	e := (*ended)(nil)
	switch err := d.prepare(ctx); {
	case errors.As(err, &e): // before there is anything to tell
		return e.code, nil, d.Store.forgetUnbegun(d.key)
	case err != nil:
		return 0, nil, errors.Join(err, d.Store.forgetUnbegun(d.key))
	}
	err = d.units(ctx)
	code := d.close(err)
	if errors.As(err, &e) {
		err = nil
	}
	return code, d.record, err
}

// prepare finds out everything that can be wrong before the first unit.
func (d *Driver) prepare(ctx context.Context) error {
	if err := d.load(); err != nil {
		return err
	}
	if err := d.reportable(); err != nil {
		return err
	}
	if err := d.readUserGit(ctx); err != nil {
		return err
	}
	if err := d.preparePush(); err != nil {
		return err
	}
	if err := d.agreed(); err != nil {
		return err
	}
	if _, err := d.last(); err != nil {
		return err
	}
	if err := d.startable(ctx); err != nil {
		return err
	}
	if d.record.Left() == 0 {
		return d.keep() // how units were validated stays as it was said
	}
	d.record.Validation = d.validation()
	d.record.Warnings = nil
	if d.OnHost {
		d.alarm("validations run on the HOST, with your rights and your files: the agent can edit what they run (--validate-in host)")
	}
	if d.NoValidate {
		d.alarm("no unit is validated (--no-validate)")
	}
	return d.keep()
}

// keep writes the record with the plan that it is of, once nothing can be
// refused any more: the one without the other would be of no use. By then what
// is to be forgotten is.
func (d *Driver) keep() error {
	if d.Restart {
		if err := d.Store.empty(d.key); err != nil {
			return err
		}
	}
	if err := writeJSON(filepath.Join(d.folder, planName), d.record.Plan); err != nil {
		return err
	}
	return d.save()
}

// startable makes sure that there could be a sandbox for the agent, and that it
// would find the agent there. What was asked of it is looked at also where no
// unit is left.
func (d *Driver) startable(ctx context.Context) error {
	left, _ := d.budgetLeft()
	s := d.record.Plan.Settings
	quiet, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("look whether the agent can be started: %w", err)
	}
	defer func() { _ = quiet.Close() }() // nothing is kept of it
	h, err := d.sandbox(ctx, Order{Words: d.Words, Model: s.Model, MaxTurns: first(d.MaxTurns, s.MaxTurns), Budget: left, Look: true}, quiet, quiet)
	if stopped := d.interrupted(ctx); stopped != nil {
		return stopped
	}
	if err != nil {
		return err
	}
	return d.unfit(h.Unfit, h.Hint)
}

// unfit is why an agent cannot be started, as an error; nil where nothing is
// said.
func (d *Driver) unfit(why, hint string) error {
	switch {
	case why == "":
		return nil
	case d.Meant != "":
		hint = "if the agent " + d.Meant + " is meant: bailey phase run PLAN -- " + d.Meant
	case hint == "":
		hint = "name an agent or a command that is here: bailey phase run PLAN -- AGENT"
	}
	return bailey.NewError(bailey.NotFound, "the agent cannot be started: "+why, hint)
}

// alarm says something that weakens the phase, every time, and in the report.
func (d *Driver) alarm(text string) {
	d.Warn("WARNING: %s", text)
	d.record.Warnings = append(d.record.Warnings, text)
}

// load takes up the record, or begins one. The plan of a phase that is not done
// is the one that was read when it began, where agents could have written
// another since.
func (d *Driver) load() error {
	data, err := os.ReadFile(d.File)
	if err != nil {
		return PlanError(d.File, err)
	}
	if !d.Restart {
		if d.record, err = d.Store.Load(d.key); err != nil {
			return err
		}
	}
	if d.record == nil {
		d.record = &phase.Record{Key: d.key, File: d.File, Workspace: d.Workspace, Started: d.Now()}
	}
	r := d.record
	changed := r.Digest != phase.Digest(data)
	if changed && r.Digest != "" && r.Left() > 0 && within(d.File, d.Workspace) && !d.Replan {
		d.alarm("the plan has changed since the phase began, and lies where agents write: its first version goes on (--replan takes the new one)")
		r.End, r.Why = "", ""
		return nil
	}
	if changed || r.Plan == nil {
		plan, err := phase.Parse(d.File, data)
		if err != nil {
			return err
		}
		r.Take(plan)
		r.Digest = phase.Digest(data)
	}
	r.End, r.Why = "", ""
	return nil
}

// agreed makes sure that what the person and the plan ask for goes together.
func (d *Driver) agreed() error { //nolint:gocognit // one condition after the other
	s := d.record.Plan.Settings
	if d.Budget.None() && len(s.Budget) > 0 {
		limit, err := budget.ParseLimits(s.Budget)
		if err != nil {
			return err
		}
		d.Budget = limit
	}
	if d.Deadline == 0 {
		d.Deadline = s.Deadline
	}
	if !d.Budget.None() && !d.HasModel && s.Model == "" {
		return bailey.NewError(bailey.Invalid, "a budget is for a model, and none is named", "bailey phase run … -- --model NAME …; bailey models list names those that there are")
	}
	if d.NoValidate || d.record.Left() == 0 {
		return nil
	}
	for i := range d.record.Plan.Units {
		u := &d.record.Plan.Units[i]
		if d.record.Units[i].Stage != phase.Done && d.line(u) == "" {
			info, err := os.Lstat(filepath.Join(d.Workspace, DefaultValidate))
			if err != nil || !info.Mode().IsRegular() {
				return bailey.NewError(bailey.NotFound, "nothing says whether a unit is done: there is no file "+DefaultValidate, "write it, or --validate COMMAND, or --no-validate")
			}
		}
	}
	return nil
}

// line is the command that validates a unit; empty for the script.
func (d *Driver) line(u *phase.Unit) string {
	for _, s := range []string{u.Validate, d.Validate, d.record.Plan.Settings.Validate} {
		if s != "" {
			return s
		}
	}
	return ""
}

// validation says how units are validated.
func (d *Driver) validation() string {
	what := d.told(&phase.Unit{})
	if d.eachItsOwn() {
		what = "each unit's own"
	}
	switch {
	case d.NoValidate:
		return "none"
	case d.OnHost:
		return what + " on the HOST"
	case d.Network:
		return what + " in a sandbox with the network of the agent"
	}
	return what + " in a sandbox without network"
}

// eachItsOwn reports whether every unit that is left says itself how it is
// validated.
func (d *Driver) eachItsOwn() bool {
	for i, w := range d.record.Units {
		if w.Stage != phase.Done && d.record.Plan.Units[i].Validate == "" {
			return false
		}
	}
	return true
}

// last is the index of the unit behind which to end.
func (d *Driver) last() (int, error) {
	units := d.record.Plan.Units
	if d.Until == "" {
		return len(units) - 1, nil
	}
	for i := range units {
		if d.Until == fmt.Sprint(i+1) || strings.EqualFold(d.Until, units[i].Title) || d.Until == units[i].ID {
			return i, nil
		}
	}
	return 0, bailey.NewError(bailey.NotFound, fmt.Sprintf("--until: the plan has no unit %q", d.Until), "name its number or its title")
}

// units does them in their order.
func (d *Driver) units(ctx context.Context) error {
	last, err := d.last()
	if err != nil {
		return err
	}
	d.introduce()
	if d.record.Left() == 0 {
		return nil
	}
	for i := range d.record.Plan.Units {
		if d.record.Units[i].Stage != phase.Done {
			if err := d.mayGoOn(ctx); err != nil {
				return err
			}
			d.Say("unit %d of %d: %s", i+1, len(d.record.Units), terminal.Sanitize(d.record.Units[i].Title))
			if err := d.unit(ctx, i); err != nil {
				return err
			}
		}
		if i == last && i < len(d.record.Units)-1 {
			return &ended{phase.EndUntil, fmt.Sprintf("ended behind unit %d, as --until says", i+1), 0}
		}
	}
	return nil
}

func (d *Driver) introduce() {
	if d.record.Left() == 0 {
		d.Say("phase %s: nothing is left to do: every unit is done, or ticked in the plan; to have one done again, untick its box and add --restart", filepath.Base(d.File))
		return
	}
	done := len(d.record.Units) - d.record.Left()
	text := fmt.Sprintf("phase %s: %d of %d units to do", filepath.Base(d.File), d.record.Left(), len(d.record.Units))
	if done > 0 {
		text += fmt.Sprintf(", %d done before", done)
	}
	d.Say("%s", text)
	for _, s := range d.Doubts {
		d.Say("%s", terminal.Sanitize(s))
	}
	d.Say("validation: %s", terminal.Sanitize(d.record.Validation))
}

// mayGoOn is asked before each unit and each try.
func (d *Driver) mayGoOn(ctx context.Context) error {
	if err := d.interrupted(ctx); err != nil {
		return err
	}
	if d.Store.asked(d.key) != "" {
		return &ended{phase.EndStopped, "stopped, as somebody asked for", 1}
	}
	if d.Deadline > 0 && d.remaining() <= 0 {
		return &ended{phase.EndDeadline, fmt.Sprintf("the deadline of %v passed", d.Deadline), bailey.ExitDeadline}
	}
	if _, ok := d.budgetLeft(); !ok {
		return &ended{phase.EndBudget, "the budget of all units is spent", 1}
	}
	return nil
}

// interrupted is an error once the person wants an end.
func (d *Driver) interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	e := (*ended)(nil)
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	const sigint = 2
	return &ended{phase.EndInterrupted, "interrupted", bailey.ExitSignalBase + sigint}
}

// remaining is the time until the deadline, which counts from when this run of
// the phase began.
func (d *Driver) remaining() time.Duration {
	return d.Deadline - d.Now().Sub(d.record.Started)
}

// budgetLeft is what the units to come may use, as `bailey run` takes it.
func (d *Driver) budgetLeft() ([]string, bool) {
	if d.Budget.None() {
		return nil, true
	}
	tokens, money := d.record.Used()
	var out []string
	if d.Budget.Tokens > 0 {
		left := d.Budget.Tokens - tokens
		if left < budget.LeastTokens {
			return nil, false
		}
		out = append(out, budget.Tokens(left))
	}
	if d.Budget.Money > 0 {
		left := d.Budget.Money - money
		if left <= 0 {
			return nil, false
		}
		out = append(out, left.Decimal()+"usd")
	}
	return out, true
}

// save writes the record.
func (d *Driver) save() error {
	d.record.Updated = d.Now()
	return writeJSON(filepath.Join(d.folder, recordName), d.record)
}

// reportable says before hours of work that the report has no place, as far as
// that can be told by then.
func (d *Driver) reportable() error {
	if d.Report == "" {
		return nil
	}
	dir, err := beneath.Folder(filepath.Dir(d.Report), d.Workspace)
	if err != nil {
		return bailey.WrapError(bailey.Invalid, "--report "+d.Report, err, "name a file in a folder that is there, with no link of the workspace on the way")
	}
	return dir.Close()
}

// close writes how it ended, and the report.
func (d *Driver) close(err error) int {
	r, code := d.record, 0
	e := (*ended)(nil)
	switch {
	case err == nil:
		r.End, r.Why = phase.EndDone, ""
	case errors.As(err, &e):
		r.End, r.Why, code = e.word, e.why, e.code
	default:
		r.End, r.Why, code = phase.EndError, err.Error(), bailey.ExitBailey
	}
	saved := d.save()
	for _, path := range []string{filepath.Join(d.folder, reportName), d.Report} {
		if path == "" {
			continue
		}
		if err := beneath.PutNamed(path, []byte(r.Markdown()), privateFile, d.Workspace); err != nil { // agents may have put a link there
			d.Warn("the report cannot be written: %s", strings.Join(terminal.Lines(err), "; "))
		}
	}
	if saved != nil {
		d.Warn("%s", strings.Join(terminal.Lines(saved), "; "))
	}
	return code
}
