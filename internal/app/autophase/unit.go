package autophase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/phase"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// unit takes one from the stage at which it is to its end. The stage is written
// before what it names begins, so that whoever takes it up again after a kill
// does nothing twice that counts.
func (d *Driver) unit(ctx context.Context, i int) (err error) { //nolint:gocognit // one stage after the other
	u, w := &d.record.Plan.Units[i], d.record.Units[i]
	if w.Stage == phase.Pending || w.Stage == phase.Failed || !d.begun(w.ID) {
		if err := d.start(ctx, w); err != nil {
			return err
		}
	}
	if err := d.sameBranch(ctx, w); err != nil {
		return err
	}
	defer d.beginWith(w)()
	defer func() {
		if err != nil && (w.Stage == phase.Working || w.Stage == phase.Worked || w.Stage == phase.Failed) {
			err = errors.Join(err, d.putBack(ctx, w))
		}
	}()
	for w.Stage == phase.Working || w.Stage == phase.Worked {
		if err := d.try(ctx, u, w); err != nil {
			return err
		}
	}
	if w.Stage == phase.Committing {
		if err := d.committing(ctx, i, w); err != nil {
			return err
		}
	}
	return d.finish(ctx, w)
}

// beginWith has the time of the unit counted.
func (d *Driver) beginWith(w *phase.Work) func() {
	if w.Started.IsZero() {
		w.Started = d.Now()
	}
	return func() { w.Ended = d.Now() }
}

// sameBranch makes sure that a unit which an earlier run began is taken up where
// it was: by now another branch may be checked out.
func (d *Driver) sameBranch(ctx context.Context, w *phase.Work) error {
	if d.began || w.Stage != phase.Working && w.Stage != phase.Worked {
		return nil
	}
	got, err := d.collect(ctx)
	if err != nil {
		return err
	}
	branch := strings.TrimPrefix(w.Branch, "refs/heads/")
	if got.On != w.Branch {
		return bailey.NewError(bailey.Conflict, "the unit was begun on "+branch+", and another branch is checked out now", "`git switch "+branch+"`, then the same command again; --restart forgets the phase")
	}
	d.began = true
	w.Broken = w.Stage == phase.Working
	return nil
}

// start looks at the work tree before the first try. A unit that failed goes on
// from what it began with, unless the person has made a commit since.
func (d *Driver) start(ctx context.Context, w *phase.Work) error {
	if w.Stage == phase.Failed && d.begun(w.ID) {
		if got, err := d.collect(ctx); err == nil && got.Tip == w.Tip {
			w.Stage, w.Try, w.Why, w.Broken = phase.Working, 1, "", true
			return d.save()
		}
	}
	got, err := d.begin(ctx, w.ID, d.AllowDirty || d.began)
	if err != nil {
		return err
	}
	d.began = true
	w.Stage, w.Try, w.Why, w.Broken, w.Branch, w.Head = phase.Working, 1, "", false, got.Branch, got.Head
	w.Started = time.Time{}
	w.Notes = got.Remarks
	if len(got.Dirty) > 0 {
		w.Notes = append(w.Notes, "uncommitted before the unit, and not of it: "+strings.Join(got.Dirty, ", "))
	}
	return d.save()
}

// try has the agent work once, and the validation judge.
func (d *Driver) try(ctx context.Context, u *phase.Unit, w *phase.Work) error {
	if err := d.mayGoOn(ctx); err != nil {
		return err
	}
	if w.Stage == phase.Working {
		if err := d.work(ctx, u, w); err != nil || w.Stage == phase.Working {
			return err
		}
	}
	got, err := d.collect(ctx)
	if err != nil {
		return err
	}
	if forged := append(d.forged, got.Forged...); len(forged) > 0 {
		return d.refuseForged(w, forged)
	}
	d.collected(w, got)
	passed, err := d.validate(ctx, u, w)
	switch {
	case err != nil:
		return err
	case len(d.forged) > 0:
		return d.refuseForged(w, d.forged)
	case !passed:
		return d.again(ctx, u, w, fmt.Sprintf("the validation failed (exit %d)", w.Validation.Exit))
	case got.Work == "":
		d.Say("  nothing changed: there is nothing to commit")
		w.Notes = append(w.Notes, "nothing was changed")
		w.Stage = phase.Committed // of nothing
		return d.save()
	}
	w.Stage = phase.Committing
	return d.save()
}

func (d *Driver) collected(w *phase.Work, got carry.PhaseCollected) {
	w.Stat, w.Refused, w.Tip = got.Stat, got.Refused, got.Tip
	for _, p := range got.Planted {
		later := phase.Later{Path: p.Path, What: p.Why}
		if !slices.ContainsFunc(w.Runs, func(l phase.Later) bool { return l.Path == p.Path }) {
			w.Runs = append(w.Runs, later)
		}
	}
	w.Notes = appendNew(w.Notes, got.Warnings...)
}

// work has the agent do the unit.
func (d *Driver) work(ctx context.Context, u *phase.Unit, w *phase.Work) error {
	left, _ := d.budgetLeft()
	s := d.record.Plan.Settings
	o := Order{
		Words: d.Words, Model: s.Model, MaxTurns: first(d.MaxTurns, s.MaxTurns), Budget: left, Timeout: d.timeFor(u),
		Prompt: phase.Prompt(d.record.Plan, u, d.told(u), before(w)),
	}
	began, fresh := d.Now(), w.Try == 1 && !w.Broken
	h, err := d.logged(ctx, o, w, "agent")
	d.heard(w, h)
	w.Agent += d.Now().Sub(began).Seconds()
	if stopped := d.interrupted(ctx); stopped != nil {
		w.Broken = true
		return errors.Join(stopped, d.save())
	}
	if err != nil {
		notBegun(w, fresh && (h == nil || h.header == ""))
		return errors.Join(err, d.save())
	}
	w.Exit, w.Broken = &h.Code, false
	d.Say("  agent: exit %d, %s", h.Code, seconds(d.Now().Sub(began)))
	switch {
	case h.unfit != "": // nor would it be at another try
		notBegun(w, fresh)
		return errors.Join(d.unfit(h.unfit, h.Hint), d.save())
	case h.Code == bailey.ExitBailey && h.Limit != "":
		return bailey.NewError(bailey.Unavailable, "the sandbox of the agent ended: "+h.Limit, "")
	case h.Code == 0:
		w.Stage = phase.Worked
		return d.save()
	}
	w.Validation = nil
	if err := d.mayGoOn(ctx); err != nil { // the deadline or the budget may be why
		w.Broken = true
		return errors.Join(err, d.save())
	}
	why := fmt.Sprintf("the agent ended with exit code %d", h.Code)
	if h.Limit != "" {
		why += " (" + h.Limit + ")"
	}
	if got, err := d.collect(ctx); err == nil {
		w.Tip, w.Stat = got.Tip, got.Stat
	}
	return d.again(ctx, u, w, why)
}

// notBegun has a unit wait for its first try, of which nothing came, or notes
// that a try was broken off.
func notBegun(w *phase.Work, nothing bool) {
	if w.Broken = !nothing; nothing {
		w.Stage, w.Try, w.Exit, w.Started = phase.Pending, 0, nil, time.Time{}
	}
}

// first is the first number that is set.
func first(list ...int) int {
	for _, n := range list {
		if n > 0 {
			return n
		}
	}
	return 0
}

// timeFor is how long one try may take.
func (d *Driver) timeFor(u *phase.Unit) time.Duration {
	t := u.Timeout
	if t == 0 {
		t = d.record.Plan.Settings.Timeout
	}
	if d.Deadline > 0 && (t == 0 || t > d.remaining()) {
		t = max(d.remaining(), time.Second)
	}
	return t
}

// told is the command that the agent is told of.
func (d *Driver) told(u *phase.Unit) string {
	if d.NoValidate {
		return ""
	}
	if line := d.line(u); line != "" {
		return line
	}
	return DefaultValidate
}

// before is what came before this try; nil for nothing.
func before(w *phase.Work) *phase.Before {
	switch {
	case w.Broken:
		return &phase.Before{Try: w.Try, Broken: true}
	case w.Try <= 1:
		return nil
	}
	b := &phase.Before{Try: w.Try, Validation: w.Validation}
	if w.Exit != nil {
		b.Exit = *w.Exit
	}
	return b
}

// logged has an order done, with what its command prints in files.
func (d *Driver) logged(ctx context.Context, o Order, w *phase.Work, what string) (*heard, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer d.watchStop(ctx, cancel)()
	dir := filepath.Join(d.folder, logsName)
	if err := os.MkdirAll(dir, privateDir); err != nil {
		return nil, fmt.Errorf("make folder of logs: %w", err)
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%d-%s.log", w.ID, w.Try, what))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, privateFile)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer func() { _ = f.Close() }() // the command's output: nothing of ours to lose
	w.Logs = logsWith(w.Logs, name)
	h, err := d.sandbox(ctx, o, f, f)
	if h != nil {
		h.output = tailOf(f)
		d.forged = append(d.forged, h.Forged...)
	}
	if cause := d.interrupted(ctx); cause != nil {
		return h, cause
	}
	return h, err
}

// stopPeriod is how often somebody's wish for an end is looked for.
const stopPeriod = 300 * time.Millisecond

// watchStop ends ctx when somebody asks for an end at once. It returns what ends
// the watch.
func (d *Driver) watchStop(ctx context.Context, cancel context.CancelCauseFunc) func() {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(stopPeriod)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				if d.Store.asked(d.key) == "now" {
					cancel(&ended{phase.EndStopped, "stopped, as somebody asked for", 1})
					return
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// mostTail is how much of an output is kept in the record.
const mostTail = 16 << 10

func tailOf(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(0, info.Size()-mostTail)
	b := make([]byte, min(mostTail, info.Size()))
	n, _ := f.ReadAt(b, from)
	text := string(b[:n])
	if from > 0 {
		_, text, _ = strings.Cut(text, "\n")
		text = "…\n" + text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// heard keeps what a sandbox said.
func (d *Driver) heard(w *phase.Work, h *heard) {
	if h == nil {
		return
	}
	if h.header != "" && h.header != d.header {
		for line := range strings.SplitSeq(h.header, "\n") {
			if !strings.Contains(d.header, line) && !strings.HasPrefix(line, "sandbox ") {
				d.Say("  %s", terminal.Sanitize(line))
			}
		}
		d.header = h.header
	}
	for _, e := range h.runs {
		w.Runs = slices.DeleteFunc(w.Runs, func(l phase.Later) bool { return l.Path == e.Path })
		w.Runs = append(w.Runs, phase.Later{Path: e.Path, What: e.Message})
	}
	w.Notes = appendNew(w.Notes, h.notes...)
	w.Notes = appendNew(w.Notes, h.Lacks...)
	w.Add(h.used.Tokens, h.used.Cost)
}

func appendNew(list []string, more ...string) []string {
	const most = 200
	for _, s := range more {
		if s != "" && len(list) < most && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// logsWith has a log stand last that is written now: one of its name may be there
// from a run before.
func logsWith(list []string, name string) []string {
	return appendNew(slices.DeleteFunc(list, func(s string) bool { return s == name }), name)
}

// validate has the unit judged.
func (d *Driver) validate(ctx context.Context, u *phase.Unit, w *phase.Work) (bool, error) {
	if d.NoValidate {
		return true, nil
	}
	began := d.Now()
	v, err := d.check(ctx, d.line(u), w)
	w.Checking += d.Now().Sub(began).Seconds()
	if err != nil {
		return false, errors.Join(err, d.save())
	}
	w.Validation = v
	word := "passed"
	if v.Exit != 0 {
		word = fmt.Sprintf("failed (exit %d)", v.Exit)
	}
	d.Say("  validation: %s, %s", word, seconds(d.Now().Sub(began)))
	return v.Exit == 0, nil
}

// script runs the file that is there, whether it may be executed or not.
const script = `if [ -x ` + DefaultValidate + ` ]; then exec ./` + DefaultValidate + `; else exec sh ` + DefaultValidate + `; fi`

func (d *Driver) check(ctx context.Context, line string, w *phase.Work) (*phase.Validation, error) {
	if line == "" {
		line = script
	}
	if d.OnHost {
		d.Warn("WARNING: the validation runs on the HOST now (--validate-in host)")
		return d.checkOnHost(ctx, line, w)
	}
	o := Order{Words: d.Words, Check: line, Network: d.Network}
	if d.Deadline > 0 {
		o.Timeout = max(d.remaining(), time.Second)
	}
	h, err := d.logged(ctx, o, w, "validation")
	if err != nil {
		return nil, err
	}
	for _, n := range h.notes {
		w.Notes = appendNew(w.Notes, "validation: "+n)
	}
	return &phase.Validation{Exit: h.Code, Output: h.output}, nil
}

// again begins the next try, or ends the unit.
func (d *Driver) again(ctx context.Context, u *phase.Unit, w *phase.Work, why string) error {
	most := first(u.Tries, d.Tries, d.record.Plan.Settings.Tries, defaultTries)
	w.Retried = append(w.Retried, why)
	if w.Try < most {
		w.Try++
		w.Stage = phase.Working
		d.Say("  %s; try %d of %d", why, w.Try, most)
		return d.save()
	}
	w.Stage, w.Why = phase.Failed, fmt.Sprintf("%s, in %d of %d tries", why, w.Try, most)
	d.Say("  %s", w.Why)
	if n := len(w.Logs); n > 0 {
		d.Say("  what was printed is in %s", w.Logs[n-1])
	}
	end := fmt.Sprintf("unit %q failed: %s", w.Title, w.Why)
	if d.isLeft(ctx, w) {
		end += "; its work was left in the tree, uncommitted"
	}
	return errors.Join(&ended{phase.EndFailed, end, 1}, d.save())
}

// isLeft reports whether a unit that failed changed something, and the
// validation, which may write too, has left something changed.
func (d *Driver) isLeft(ctx context.Context, w *phase.Work) bool {
	if w.Stat == "" {
		return false
	}
	got, err := d.collect(ctx)
	return err == nil && got.Work != ""
}

// refuseForged ends a unit that wrote objects of git that are not what their
// names say. It is not tried again: no program of good will makes them, and
// what there is of its work may not be what the validation saw.
func (d *Driver) refuseForged(w *phase.Work, what []string) error {
	d.forged = nil
	w.Stage, w.Why = phase.Failed, "it left objects of git that are forged or could not be verified, so nothing is committed: "+terminal.Sanitize(strings.Join(what, "; "))
	d.Say("  %s", w.Why)
	return errors.Join(&ended{phase.EndFailed, fmt.Sprintf("unit %q failed: %s", w.Title, w.Why), 1}, d.save())
}

// defaultTries is how often a unit is tried where nobody says.
const defaultTries = 3

// committing commits the unit.
func (d *Driver) committing(ctx context.Context, i int, w *phase.Work) error {
	got, err := d.commit(ctx, message(d.record, i))
	if err != nil {
		if bailey.KindOf(err) == bailey.Conflict {
			w.Why = err.Error() // the stage stays: when it is set right, this is what is left to do
		}
		return errors.Join(err, d.save())
	}
	if len(got.Forged) > 0 {
		return d.refuseForged(w, got.Forged)
	}
	w.Commit, w.Stat, w.Kept, w.Left, w.Why = got.Commit, got.Stat, got.Kept, got.Left, ""
	w.Stage = phase.Committed
	d.Say("  committed %.12s on %s", w.Commit, strings.TrimPrefix(w.Branch, "refs/heads/"))
	if len(w.Kept) > 0 {
		d.sayKept(w.Kept)
	}
	return d.save()
}

func (d *Driver) sayKept(refs []string) {
	d.Say("  the agent had committed by itself; its commits are kept at %s", strings.Join(refs, ", "))
}

// message is that of a unit's commit.
func message(r *phase.Record, i int) string {
	u := &r.Plan.Units[i]
	var b strings.Builder
	b.WriteString(u.Title + "\n\n")
	if u.Section != "" {
		b.WriteString(u.Section + ".\n")
	}
	fmt.Fprintf(&b, "Unit %d of %d of %s.\n", i+1, len(r.Plan.Units), filepath.Base(r.File))
	return b.String()
}

// finish pushes, and says what a person should look at.
func (d *Driver) finish(ctx context.Context, w *phase.Work) error {
	if w.Stage == phase.Committed && w.Commit != "" && d.Push != "" {
		where, err := d.push(ctx, w.Commit, w.Branch)
		if err != nil {
			if stopped := d.interrupted(ctx); stopped != nil {
				return stopped
			}
			w.Why = err.Error()
			return errors.Join(&ended{phase.EndFailed, w.Why, 1}, d.save())
		}
		w.Pushed, w.Why = where, ""
		d.Say("  pushed to %s", terminal.Sanitize(where))
	}
	w.Stage, w.Ended = phase.Done, d.Now()
	d.point(w)
	d.tick(w)
	return d.save()
}

// mostPointed is how many files a line each is said of.
const mostPointed = 8

func (d *Driver) point(w *phase.Work) {
	list := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		d.Say("  %s:", title)
		for _, s := range items[:min(len(items), mostPointed)] {
			d.Say("    %s", terminal.Sanitize(s))
		}
		if more := len(items) - mostPointed; more > 0 {
			d.Say("    and %d more (bailey phase status --json)", more)
		}
	}
	var later []string
	for _, l := range w.Runs {
		later = append(later, l.Path+": "+l.What)
	}
	list("would run on this machine later; look before you use the tree", later)
	list("not taken", w.Refused)
	list("left in the tree, uncommitted", w.Left)
}

// tick ticks the unit's box, where no agent can have a hand in the file.
func (d *Driver) tick(w *phase.Work) {
	if within(d.File, d.Workspace) {
		return
	}
	data, err := os.ReadFile(d.File)
	if err != nil {
		return
	}
	out, ok := phase.Tick(d.File, data, w.ID)
	info, err := os.Stat(d.File)
	if !ok || err != nil {
		return
	}
	if err := beneath.PutNamed(d.File, out, info.Mode().Perm(), d.Workspace); err != nil {
		d.Say("  the box in the plan is not ticked: %s", strings.Join(terminal.Lines(err), "; "))
		return
	}
	if phase.Digest(data) == d.record.Digest {
		d.record.Digest = phase.Digest(out)
	}
}

func seconds(t time.Duration) string { return fmt.Sprintf("%.1fs", t.Seconds()) }
