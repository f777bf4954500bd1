package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// printable is a text on one line, or what stands for it if there is none.
func printable(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return terminal.Sanitize(s)
}

// quoted is an agent's words on one line: they cannot end the quotes.
func quoted(s string) string { return strconv.QuoteToGraphic(s) }

func tokens(n int64) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.1fM tokens", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%.0fk tokens", float64(n)/1e3)
	}
	return spell.Count(int(n), "token")
}

// errorText is an error for a planner: the kind that it can act on, what
// failed, and what to try.
func errorText(err error) string {
	text := strings.Join(terminal.Lines(err), "\n")
	e, ok := errors.AsType[*bailey.Error](err)
	if !ok {
		return "error: " + text
	}
	out := "error (" + e.Kind.String() + "): " + text
	if e.Hint != "" {
		out += "\nhint: " + terminal.Sanitize(e.Hint)
	}
	return out
}

// goesOn is the error of a call that lost its task from sight.
func goesOn(id task.ID, err error) error {
	hint := "the task goes on: ask for it with task_status " + string(id)
	if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
		hint = e.Hint + "; " + hint
	}
	return bailey.WrapError(bailey.KindOf(err), "wait for task "+string(id), err, hint)
}

// page collects lines and fenced parts.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// part is something fenced under a heading.
func (p *page) part(title, fenced string) {
	if fenced == "" {
		return
	}
	p.line("\n%s:", title)
	p.WriteString(strings.TrimRight(fenced, "\n") + "\n")
}

func (p *page) lines(title string, list []string) {
	for _, s := range list {
		p.line("%s: %s", title, terminal.Sanitize(s))
	}
}

func (p *page) planted(list []task.Planted) {
	if len(list) == 0 {
		return
	}
	p.line("look at these before you merge or open the branch: they would act on this machine")
	for _, f := range list {
		p.line("  %s (%s): %s", quoted(f.Path), terminal.Sanitize(f.Kind), terminal.Sanitize(f.Why))
	}
}

func costText(usd *float64) string {
	if usd == nil {
		return "price not known"
	}
	return fmt.Sprintf("%.4f USD", *usd)
}

func (s started) text() string {
	var p page
	p.line("task %s is %s%s", s.ID, s.State, placeText(s.Place))
	p.line("model %s, agent %s; its work will be on branch %s", printable(s.Model, "-"), printable(s.Harness, "-"), s.Branch)
	p.line("task_status %s says how far it is, and with wait: true answers when it is done", s.ID)
	return p.String()
}

func placeText(place int) string {
	if place == 0 {
		return ""
	}
	return fmt.Sprintf(", number %d in the queue of its model", place)
}

func resultText(r *task.Result) string {
	var p page
	p.line("task %s: %s (exit code %d)", r.ID, r.Status, r.ExitCode)
	if r.Branch == "" {
		p.line("nothing was changed; there is no branch")
	} else {
		p.line("branch %s, commit %s, made from %s", printable(r.Branch, ""), printable(r.Commit, "-"), printable(r.Base, "-"))
	}
	p.line("%s, %s in, %s out, %s; waited %s, ran %s", spell.Count(r.Turns, "turn"),
		tokens(r.Usage.InputTokens+r.Usage.CacheReadTokens+r.Usage.CacheWriteTokens), tokens(r.Usage.OutputTokens),
		costText(r.CostUSD), seconds(r.WaitSeconds), seconds(r.RunSeconds))
	p.lines("warning", r.Warnings)
	p.planted(r.Planted)
	for _, part := range r.Truncated {
		p.line("%s is cut here: task_result hands out all of it, piece by piece", terminal.Sanitize(part))
	}
	p.line("\n%s", r.UntrustedNotice)
	p.part("report of the agent", r.Report)
	p.part("files", r.DiffStat)
	p.part("diff", r.Diff)
	if r.Checks != nil {
		p.line("")
		p.WriteString(checkText(r.Checks))
	}
	return p.String()
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func checkText(r *task.CheckResult) string {
	var p page
	verdict := "FAILED"
	if r.Passed {
		verdict = "passed"
	}
	p.line("checks %s on %s at %s: exit code %d, %s, ran %s", verdict, printable(r.Branch, "-"), printable(r.Commit, "-"), r.ExitCode, r.Status, seconds(r.RunSeconds))
	p.lines("warning", r.Warnings)
	if r.Truncated {
		p.line("the output is longer; this is its end")
	}
	p.line("\n%s", r.UntrustedNotice)
	p.part("output", r.Output)
	return p.String()
}

func taskLine(t *task.Task) string {
	state := string(t.State)
	if t.State == task.Done {
		state += ", " + string(t.Status)
	}
	out := fmt.Sprintf("%s: %s%s; %s, model %s, agent %s", t.ID, state, placeText(t.Place), spell.Count(t.Turns, "turn"), printable(t.Model, "-"), printable(t.Harness, "-"))
	if t.Name != "" {
		out += ", " + quoted(t.Name)
	}
	if t.Repo != "" {
		out += ", " + quoted(t.Repo)
	}
	return out + ", " + t.Created.UTC().Format(time.RFC3339)
}

func taskText(t *task.Task) string {
	var p page
	p.line("task %s", taskLine(t))
	if t.Trouble != "" {
		p.line("warning: %s; the agent tries again by itself", printable(t.Trouble, ""))
	}
	if t.Result != nil {
		p.line("")
		p.WriteString(resultText(t.Result))
	}
	return p.String()
}

// newest orders tasks, drops what is long, and cuts the list.
func newest(all []task.Task) taskList {
	list := slices.Clone(all)
	slices.SortStableFunc(list, func(a, b task.Task) int { return b.Created.Compare(a.Created) })
	out := taskList{Tasks: make([]task.Task, 0, min(len(list), mostListed))}
	for _, t := range list[:min(len(list), mostListed)] {
		t.Result, t.Request = nil, nil
		out.Tasks = append(out.Tasks, t)
	}
	out.Omitted = len(list) - len(out.Tasks)
	return out
}

func tasksText(list taskList) string {
	var p page
	if len(list.Tasks) == 0 {
		return "there are no tasks\n"
	}
	for i := range list.Tasks {
		p.line("%s", taskLine(&list.Tasks[i]))
	}
	if list.Omitted > 0 {
		p.line("and %s", spell.Count(list.Omitted, "older task"))
	}
	return p.String()
}

func pieceText(r *task.Piece) string {
	var p page
	p.line("%s of task %s, from byte %d of %d", r.Part, r.ID, r.Offset, r.Total)
	if r.Next == 0 {
		p.line("this is the end of it")
	} else {
		p.line("it goes on at offset %d", r.Next)
	}
	p.line("\n%s", r.UntrustedNotice)
	p.part(string(r.Part), r.Text)
	return p.String()
}

func modelsText(models []task.Model) string {
	if len(models) == 0 {
		return "there are no models: models.yaml names none (bailey models example)\n"
	}
	var p page
	for i := range models {
		m := &models[i]
		mark := ""
		if m.Default {
			mark = " (default)"
		}
		p.line("%s%s: %s", printable(m.ID, "-"), mark, printable(m.Description, m.Dialect))
		p.line("  agents %s; %s; %d at work%s, %d waiting; budget %s", printable(strings.Join(m.Harnesses, ", "), "none that is installed"+installable(m)), priceText(m.Price),
			m.Busy, mostText(m.MaxAgents), m.Queued, cmp.Or(printable(strings.Join(m.Budget, ", "), ""), "none"))
	}
	return p.String()
}

// installable says which agents would do for a model, once installed.
func installable(m *task.Model) string {
	out := make([]string, 0, len(m.Installable))
	for _, x := range m.Installable {
		out = append(out, x.Harness+": "+x.Install)
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + printable(strings.Join(out, ", "), "") + ")"
}

func mostText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" of at most %d", n)
}

func priceText(p *task.Price) string {
	if p == nil {
		return "price not known"
	}
	return fmt.Sprintf("%g USD a million tokens in, %g out", p.Input, p.Output)
}

func cleanedText(c *task.Cleaned) string {
	var p page
	if c.Deleted {
		p.line("branch %s is deleted", printable(c.Branch, "-"))
	} else {
		p.line("there was no branch %s", printable(c.Branch, "-"))
	}
	p.line("%s of the work removed", spell.Count(c.Clones, "copy"))
	p.lines("note", c.Notes)
	return p.String()
}
