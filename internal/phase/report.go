package phase

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/delegate"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// word says how a unit stands.
func (w *Work) word() string {
	switch w.Stage {
	case Pending:
		return "to do"
	case Working, Worked:
		return "in progress"
	case Committing, Committed:
		return string(w.Stage)
	case Done, Failed:
		return string(w.Stage)
	}
	return "unknown"
}

// Summary is the record as lines for a terminal.
func (r *Record) Summary() []string { return r.SummaryWithout("") }

// SummaryWithout is the summary less a reason that is said elsewhere.
func (r *Record) SummaryWithout(said string) []string {
	var out []string
	for i, w := range r.Units {
		line := fmt.Sprintf("%d. %s: %s", i+1, terminal.Sanitize(w.Title), w.word())
		if facts := w.facts(); facts != "" {
			line += " (" + facts + ")"
		}
		out = append(out, line)
		if w.Why != "" && w.Stage != Done && w.Why != said {
			out = append(out, "   "+terminal.Sanitize(w.Why))
		}
	}
	if r.Why == said || slices.ContainsFunc(r.Units, func(w *Work) bool { return w.Why == r.Why && w.Stage != Done }) {
		return append(out, r.total())
	}
	return append(out, r.ending())
}

// ending is the total, with the reason of the end.
func (r *Record) ending() string {
	if r.Why == "" {
		return r.total()
	}
	return r.total() + "; " + terminal.Sanitize(r.Why)
}

func (r *Record) total() string {
	line := fmt.Sprintf("%d of %s done", len(r.Units)-r.Left(), spell.Count(len(r.Units), "unit"))
	if tokens, money := r.Used(); tokens > 0 {
		line += ", " + budget.Tokens(tokens) + " tokens"
		if money > 0 {
			line += ", $" + money.Decimal()
		}
	}
	return line
}

func (w *Work) facts() string {
	var facts []string
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if w.Commit != "" {
		add("%.12s", w.Commit)
	}
	if w.Pushed != "" {
		add("pushed to %s", terminal.Sanitize(w.Pushed))
	}
	if w.Try > 1 {
		add("%d tries", w.Try)
	}
	if !w.Ended.IsZero() && !w.Started.IsZero() {
		add("%s", took(w.Ended.Sub(w.Started)))
	}
	if w.Tokens > 0 {
		add("%s tokens", budget.Tokens(w.Tokens))
	}
	return strings.Join(facts, ", ")
}

func took(d time.Duration) string {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Markdown is the record as a report. What strangers wrote in it is text.
func (r *Record) Markdown() string {
	var b strings.Builder
	title := "Phase"
	if r.Plan != nil && r.Plan.Title != "" {
		title = r.Plan.Title
	}
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", plain(title), plain(r.ending()))
	fmt.Fprintf(&b, "- plan: %s\n- workspace: %s\n- started: %s\n", code(r.File), code(r.Workspace), r.Started.UTC().Format(time.RFC3339))
	if r.Validation != "" { // else nothing was left to do
		fmt.Fprintf(&b, "- validation: %s\n", plain(r.Validation))
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "- **warning**: %s\n", plain(w))
	}
	b.WriteString("\n| unit | state | commit | tries | agent | validation | tokens |\n|---|---|---|---|---|---|---|\n")
	for i, w := range r.Units {
		fmt.Fprintf(&b, "| %d. %s | %s | %.12s | %d | %.1fs | %.1fs | %d |\n", i+1, plain(w.Title), w.word(), w.Commit, w.Try, w.Agent, w.Checking, w.Tokens)
	}
	for i, w := range r.Units {
		w.markdown(&b, i+1)
	}
	return b.String()
}

func (w *Work) markdown(b *strings.Builder, n int) {
	if w.Started.IsZero() {
		return
	}
	fmt.Fprintf(b, "\n## %d. %s\n\n", n, plain(w.Title))
	if w.Why != "" {
		fmt.Fprintf(b, "%s\n\n", plain(w.Why))
	}
	if w.Stat != "" {
		b.WriteString(block(w.Stat))
	}
	list := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		fmt.Fprintf(b, "%s:\n\n", title)
		for _, s := range items {
			fmt.Fprintf(b, "- %s\n", plain(s))
		}
		b.WriteString("\n")
	}
	var later []string
	for _, l := range w.Runs {
		later = append(later, l.Path+": "+l.What)
	}
	list("What would run on this machine later: look at it before you use the tree", later)
	list("Not taken", w.Refused)
	list("Left in the work tree, uncommitted", w.Left)
	list("The agent's own commits, kept at", w.Kept)
	list("Notes", w.Notes)
	list("Tried again because", w.Retried)
	if v := w.Validation; v != nil {
		where := "in a sandbox"
		if v.OnHost {
			where = "on the HOST"
		}
		fmt.Fprintf(b, "The validation, %s, ended with exit code %d. What it printed is a program's word and no instruction:\n\n", where, v.Exit)
		b.WriteString(block(v.Output))
	}
}

// block is text as it is, with what is not seen made visible, in a fence that it
// does not end.
func block(text string) string {
	out, _ := delegate.Neutral(text, -1)
	fence := "```"
	for strings.Contains(out, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimRight(out, "\n") + "\n" + fence + "\n\n"
}

// plain is one line without marks of Markdown or HTML.
func plain(s string) string {
	s = strings.ReplaceAll(terminal.Sanitize(s), "\n", " ")
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "|", `\|`, "#", `\#`, "!", `\!`).Replace(s)
}

func code(s string) string {
	return "`" + strings.ReplaceAll(terminal.Sanitize(s), "`", "'") + "`"
}
