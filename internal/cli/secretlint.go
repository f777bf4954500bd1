package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/leak"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/vault"
)

type secretLintCommand struct {
	Env     []string `placeholder:"NAME[=VALUE]" sep:"none" help:"Look at this variable, as bailey run would pass it. Repeatable."`
	EnvFile []string `placeholder:"FILE" sep:"none" help:"Look at the variables of this file, as bailey run would pass them. Repeatable."`
	JSON    bool     `name:"json" help:"Print JSON."`

	Dir text `arg:"" optional:"" placeholder:"DIR" help:"The folder, or a file. Default: the current folder."`
}

// Help is what `bailey secret lint --help` says beyond the flags.
func (secretLintCommand) Help() string {
	return `Prints each place as FILE:LINE:COLUMN: kind, and what to do. Of a value no more than the first four bytes are printed, and those of long ones alone. It looks at all that a sandbox would see, files that git ignores too, but not into node_modules, git's objects, binary files and files over 1 MiB, and follows no link. A line with gitleaks:allow in it is passed over. The rules are those of gitleaks. Nothing is sent anywhere. With --json: an array of objects with file, line and column, or variable; kind, starts, template and do.

Examples:
  bailey secret lint
  bailey secret lint . --json
  bailey secret lint .env           this file alone
  bailey secret lint --env HOME     this variable too, as bailey run would pass it

Exit codes: 0 when nothing was found; 1 when something was; 125 when nothing was and not all could be looked at.`
}

// lintRow is the published form of a finding.
type lintRow struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"` // 0: the file as a whole
	Column   int    `json:"column,omitempty"`
	Variable string `json:"variable,omitempty"`
	Kind     string `json:"kind"`
	Starts   string `json:"starts,omitempty"`
	Template string `json:"template,omitempty"`
	Do       string `json:"do"`
}

// Run looks for secrets.
func (c *secretLintCommand) Run(a *app) error {
	found, err := c.variables(a)
	if err != nil {
		return err
	}
	inFiles, seen, err := c.files(a)
	if err != nil {
		return err
	}
	for _, f := range inFiles {
		found = append(found, finding{Finding: f})
	}
	kept := a.keptSecrets()
	rows := make([]lintRow, 0, len(found))
	for _, f := range found {
		rows = append(rows, lintRow{f.Path, f.Line, f.Column, f.Variable, f.Kind, f.Starts, f.Template, f.whatToDo(kept)})
	}
	if c.JSON {
		err = printJSON(a.stdout, rows)
	} else {
		err = printRows(a.stdout, rows)
	}
	if err != nil {
		return err
	}
	c.report(a.stderr, rows, seen)
	if len(rows) > 0 { // what else there may be is said above, and is the next look's to find
		return exitError(1)
	}
	return notAll(seen)
}

// notAll is the error of a look that found nothing and did not see everything:
// it is no clean bill.
func notAll(seen leak.Seen) error {
	switch {
	case seen.Incomplete:
		return bailey.NewError(bailey.Exhausted, tooMany, "name a folder below: bailey secret lint DIR")
	case seen.Unreadable > 0:
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("not all could be looked at: %d not readable", seen.Unreadable), "look as somebody who may read all of it, or name a folder or file that you may read")
	}
	return nil
}

const tooMany = "there are too many files to look at all of them"

// finding is what was found, and by what its variable would be passed.
type finding struct {
	leak.Finding
	variable
}

// variable is one that would be passed to a sandbox.
type variable struct {
	name, value string
	file        string // the file that says so; empty: --env does
	mine        bool   // the caller's environment has it, with that very value
}

// variables looks at those that are named.
func (c *secretLintCommand) variables(a *app) ([]finding, error) {
	passed, err := c.passed(a)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, v := range passed {
		mine, set := a.host.Env(v.name)
		v.mine = set && mine == v.value
		of, err := leak.Variable(v.name, v.value)
		if err != nil {
			return nil, err
		}
		for _, f := range of {
			found = append(found, finding{f, v})
		}
	}
	return found, nil
}

// passed returns the variables that are named.
func (c *secretLintCommand) passed(a *app) (list []variable, err error) {
	add := func(file string, pairs []string) {
		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			list = append(list, variable{name: name, value: value, file: file})
		}
	}
	for _, f := range each(c.EnvFile, asBytes) {
		got, err := config.ReadEnvFile(f, f, a.host.Env)
		if err != nil {
			return nil, err
		}
		add(f, got)
	}
	got, err := config.ExpandEnv(each(c.Env, asBytes), a.host.Env)
	add("", got)
	return list, err
}

// files looks through the folder.
func (c *secretLintCommand) files(a *app) (found []leak.Finding, seen leak.Seen, err error) {
	dir := asBytes(string(c.Dir))
	if dir == "" {
		dir = "."
	}
	if fi, err := os.Stat(dir); err == nil && !fi.IsDir() {
		return c.file(dir)
	}
	root, err := beneath.Follow(nil, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, seen, bailey.NewError(bailey.NotFound, "there is no folder or file "+dir, "check the path")
	}
	if err != nil {
		return nil, seen, bailey.WrapError(bailey.Invalid, "look through the folder", err, "name a folder that you may read")
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	p := lintProgress{to: a.stderr, now: a.now, last: a.now(), live: pty.IsTerminal(a.host.Stderr)}
	seen, err = leak.Folder(a.ctx, root, func(f leak.Finding) { found = append(found, f) }, p.step)
	p.end()
	if err != nil {
		return nil, seen, bailey.WrapError(bailey.Unavailable, "look through the folder", err, "")
	}
	return found, seen, nil
}

// file looks at one that a person named, wherever a link by its name leads. One
// that cannot be looked at is an error: nothing else was asked for.
func (c *secretLintCommand) file(path string) (found []leak.Finding, seen leak.Seen, err error) {
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, seen, bailey.WrapError(bailey.Invalid, "look at the file", err, "name a file that you may read")
	}
	root, err := beneath.Follow(nil, filepath.Dir(at))
	if err != nil {
		return nil, seen, bailey.WrapError(bailey.Invalid, "look at the file", err, "name a file that you may read")
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	seen, err = leak.File(root, filepath.Base(at), func(f leak.Finding) {
		f.Path = path
		found = append(found, f)
	})
	switch {
	case err != nil:
		return nil, seen, bailey.WrapError(bailey.Unavailable, "look at the file", err, "")
	case seen.Files == 0 && len(found) == 0:
		return nil, seen, bailey.NewError(bailey.Invalid, fmt.Sprintf("%s cannot be looked at: %s", path, seen.LeftOut()), "name a file of text, or the folder that it is in")
	}
	return found, seen, nil
}

// keptSecrets are those of the vault, for hints: none where it cannot be read.
func (a *app) keptSecrets() []secret.Definition {
	l, _ := vault.Look(a.host.Vault()) // what is wrong with a vault is said where one is used
	return l.Secrets
}

// lintProgress says that something goes on, to whoever has waited for a second.
type lintProgress struct {
	to   io.Writer
	now  func() time.Time
	last time.Time
	live bool // a terminal, on which a line is written over
	said bool
}

func (p *lintProgress) step(s leak.Seen) {
	const every = time.Second
	now := p.now()
	if now.Sub(p.last) < every || !p.live && p.said {
		return
	}
	p.last, p.said = now, true
	if p.live {
		_, _ = fmt.Fprintf(p.to, "\rlooked at %s", spell.Count(s.Files, "file"))
	} else {
		_, _ = fmt.Fprintln(p.to, "note: this takes a while")
	}
}

func (p *lintProgress) end() {
	if p.live && p.said {
		_, _ = fmt.Fprint(p.to, "\r\x1b[K") // erases the line (ECMA-48 EL)
	}
}

func printRows(w io.Writer, rows []lintRow) error {
	for _, r := range rows {
		where := r.File
		switch {
		case r.Variable != "":
			where = "variable " + r.Variable
		case r.Line > 0:
			where = fmt.Sprintf("%s:%d:%d", r.File, r.Line, r.Column)
		}
		line := where + ": " + r.Kind
		if r.Starts != "" {
			line += ", starts with " + r.Starts
		}
		if _, err := fmt.Fprintln(w, terminal.Sanitize(line)); err != nil {
			return err
		}
	}
	return nil
}

// report sums up, for a person.
func (c *secretLintCommand) report(w io.Writer, rows []lintRow, seen leak.Seen) {
	sum := fmt.Sprintf("%d found; looked at %s", len(rows), spell.Count(seen.Files, "file"))
	if out := seen.LeftOut(); out != "" {
		sum += "; left out: " + out
	}
	_, _ = fmt.Fprintln(w, sum)
	if seen.Incomplete && len(rows) > 0 { // else it is the error
		_, _ = fmt.Fprintln(w, "note: "+tooMany)
	}
	if c.JSON {
		return
	}
	told := map[string]bool{}
	for _, r := range rows {
		if !told[r.Do] {
			told[r.Do] = true
			_, _ = fmt.Fprintf(w, "hint: %s\n", terminal.Sanitize(r.Do))
		}
	}
}

// whatToDo is how the secret stays out of the sandbox.
func (f finding) whatToDo(kept []secret.Definition) string {
	switch f.Kind {
	case "private-key", "pkcs12-file", "age-secret-key":
		return "keep it outside of the folder; a key that signs or decrypts is nothing that bailey puts on a request"
	case "aws-access-token":
		return "keep it outside of the folder, and pass it to no sandbox; AWS has its keys sign each request, which bailey does not do"
	}
	if i := slices.IndexFunc(kept, func(d secret.Definition) bool { return isOf(d, f.Finding) }); i >= 0 {
		d := kept[i]
		lent := d.Name
		if f.Variable != "" && f.Variable != d.Var {
			lent += "=" + f.Variable
		}
		return fmt.Sprintf("bailey run --secret %s%s lends what is kept as %s%s", lent, f.instead(), d.Name, f.away())
	}
	name, rule := "NAME", "--host HOST"
	if f.Template != "" {
		name, rule = f.Template, "--template "+f.Template
	}
	set, lent := fmt.Sprintf("bailey secret set %s %s", name, rule), name
	if f.mine {
		set += " --from-env " + f.Variable
	}
	if f.Variable != "" {
		lent += "=" + f.Variable
	}
	return fmt.Sprintf("%s, then bailey run --secret %s%s%s", set, lent, f.instead(), f.away())
}

// instead says what a secret that is lent takes the place of.
func (f finding) instead() string {
	if f.Variable == "" || f.file != "" {
		return ""
	}
	return " in the place of --env " + f.Variable
}

// away says where the value is to go from, beside the command line of a run.
func (f finding) away() string {
	switch {
	case f.Variable == "":
		return "; take the value out of the file, and out of use if others have the file"
	case f.file != "":
		return fmt.Sprintf("; take %s out of %s, and out of use if others have the file", f.Variable, f.file)
	case !f.mine:
		return "; take what was typed here out of the shell's history"
	}
	return ""
}

// isOf reports whether a secret of the vault is most likely the one that was
// found: of the same service, or for the variable that was looked at.
func isOf(d secret.Definition, f leak.Finding) bool {
	if d.Gateway {
		return false
	}
	return f.Template != "" && (d.Template == f.Template || d.Name == f.Template) || f.Variable != "" && d.Var == f.Variable
}
