package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/skill"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// skillCommand is the group of commands about skills.
type skillCommand struct {
	Lint skillLintCommand `cmd:"" help:"Look through a folder of skills for secrets, hidden text, poisoned instructions, and what runs by itself."`
}

type skillLintCommand struct {
	Ignore []string `placeholder:"ID" help:"Pass over what this rule finds. Repeatable."`
	JSON   bool     `name:"json" help:"Print JSON."`

	Dir text `arg:"" optional:"" placeholder:"DIR" help:"The folder. Default: ~/.agents."`
}

// Help is what `bailey skill lint --help` says beyond the flags.
func (skillLintCommand) Help() string {
	var b strings.Builder
	b.WriteString(`Prints each place as FILE:LINE: rule and what it means. It runs nothing, not even git, whose objects it reads itself: a secret that was taken out of a file is in the history still, where an agent reads it. No link is followed. Nothing in the folder can have a rule passed over. With --json: an object with findings (rule, file, line, column, object, what, shows) and seen.

Rules:
`)
	for _, r := range skill.Rules() {
		fmt.Fprintf(&b, "%s: %s.\n", r.ID, r.What)
	}
	b.WriteString(`
Examples:
  bailey skill lint
  bailey skill lint ./skills --json
  bailey skill lint --ignore SK204 ~/.agents

Exit codes: 0 when nothing was found; 1 when something was; 125 when nothing was and not all could be looked at.`)
	return b.String()
}

// skillReport is the published form.
type skillReport struct {
	Findings []skill.Finding `json:"findings"`
	Seen     skill.Seen      `json:"seen"`
}

// Run looks through the folder.
func (c *skillLintCommand) Run(a *app) error {
	for _, id := range c.Ignore {
		if !slices.ContainsFunc(skill.Rules(), func(r skill.Rule) bool { return r.ID == id }) {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("--ignore: there is no rule %q", id), "bailey skill lint --help lists them")
		}
	}
	dir := asBytes(string(c.Dir))
	if dir == "" {
		if a.host.Home == "" {
			return bailey.NewError(bailey.Invalid, "there is no home folder to look for .agents in", "name a folder: bailey skill lint DIR")
		}
		dir = filepath.Join(a.host.Home, ".agents")
	}
	root, err := beneath.Follow(nil, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return bailey.NewError(bailey.NotFound, "there is no folder "+dir, "name the folder that the skills are in: bailey skill lint DIR")
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return bailey.NewError(bailey.Invalid, dir+" is not a folder", "name the folder that it is in: bailey skill lint "+filepath.Dir(dir))
	}
	if err != nil {
		return bailey.WrapError(bailey.Invalid, "look through the folder", err, "name a folder that you may read")
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	found, seen, err := skill.Lint(a.ctx, root)
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "look through the folder", err, "")
	}
	found = slices.DeleteFunc(found, func(f skill.Finding) bool { return slices.Contains(c.Ignore, f.Rule) })
	if c.JSON {
		err = printJSON(a.stdout, skillReport{append([]skill.Finding{}, found...), seen})
	} else {
		err = printSkill(a.stdout, found)
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(a.stderr, skillSum(len(found), seen))
	switch {
	case len(found) > 0:
		return exitError(1)
	case seen.Incomplete:
		return bailey.NewError(bailey.Exhausted, "there is too much to look at all of it", "name a folder below: bailey skill lint DIR")
	case seen.Unreadable > 0:
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("not all could be looked at: %d not readable", seen.Unreadable), "look as somebody who may read all of it")
	}
	return nil
}

func printSkill(w io.Writer, found []skill.Finding) error {
	for _, f := range found {
		where := f.File
		switch {
		case f.Line > 0 && f.Column > 0:
			where = fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
		case f.Line > 0:
			where = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if f.Object != "" {
			where += " (object " + f.Object[:min(12, len(f.Object))] + ")"
		}
		line := fmt.Sprintf("%s: %s %s", where, f.Rule, f.What)
		if f.Shows != "" {
			line += ": " + f.Shows
		}
		if _, err := fmt.Fprintln(w, terminal.Sanitize(line)); err != nil {
			return err
		}
	}
	return nil
}

// skillSum says for a person what was looked at.
func skillSum(n int, s skill.Seen) string {
	sum := fmt.Sprintf("%d found; looked at %s", n, spell.Count(s.Files, "file"))
	if s.Objects > 0 {
		sum += fmt.Sprintf(" and %s of git's", spell.Count(s.Objects, "object"))
	}
	if s.Programs > 0 {
		sum += fmt.Sprintf("; an agent may run %s of them", spell.Count(s.Programs, "program"))
	}
	if s.LeftOut > 0 {
		sum += fmt.Sprintf("; left out: %d over 1 MiB or no text", s.LeftOut)
	}
	if s.Unreadable > 0 {
		sum += fmt.Sprintf("; not readable: %d", s.Unreadable)
	}
	return sum
}
