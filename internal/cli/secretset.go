package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/vault"
)

// valueFlags say where a value comes from. It is never an argument: those can
// be read by every user of the machine.
type valueFlags struct {
	FromEnv  text `placeholder:"VAR" xor:"from" help:"Take the value from this variable of your environment." group:"Value"`
	FromFile text `placeholder:"FILE" xor:"from" help:"Take the value from this file." group:"Value"`
}

const valueHelp = `The value comes from standard input, or is asked for at a terminal without being shown; it is never an argument. It is one line of 8 to 8192 bytes; one newline behind it is left out.`

// read returns a value that can be kept.
func (f *valueFlags) read(a *app, prompt string) (seal.Secret, error) {
	switch {
	case f.FromEnv != "":
		v, ok := a.host.Env(string(f.FromEnv))
		if !ok {
			return seal.Secret{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("--from-env %s: the variable is not set here", terminal.Sanitize(string(f.FromEnv))), "set it and export it, or give the value on standard input")
		}
		return vault.ReadValue([]byte(v))
	case f.FromFile != "":
		file, err := os.Open(asBytes(string(f.FromFile)))
		if err != nil {
			return seal.Secret{}, bailey.WrapError(bailey.Invalid, "--from-file", err, "check the path")
		}
		defer func() { _ = file.Close() }() // read only: nothing to lose
		return readValue(file)
	case pty.IsTerminal(a.host.Stdin):
		typed, err := vault.AskTerminal(prompt)
		if err != nil {
			return typed, err
		}
		return vault.Checked(typed)
	}
	return readValue(a.host.Stdin)
}

func readValue(r io.Reader) (seal.Secret, error) {
	data, err := io.ReadAll(io.LimitReader(r, vault.MaxValue+2)) // a newline, and one that is too many
	if err != nil {
		return seal.Secret{}, bailey.WrapError(bailey.Unavailable, "read the value", err, "")
	}
	return vault.ReadValue(data)
}

// fits refuses a value that could not be lent by its rules.
func fits(d secret.Definition, value seal.Secret) error {
	err := run.CheckLendable(d, value)
	if err == nil {
		return nil
	}
	text := err.Error()
	if e, ok := errorOf(err); ok {
		text = e.Message
	}
	return bailey.NewError(bailey.Invalid, text, "nothing was changed; give a value that can stand there, or name another place: --header, --basic, --query or --cookie")
}

type secretSetCommand struct {
	ruleFlags
	valueFlags

	Name string `arg:"" placeholder:"NAME" help:"What you call it: 1 to 64 lower-case letters and digits, with hyphens, underscores and dots inside."`
}

// Help is what `bailey secret set --help` says beyond the flags.
func (secretSetCommand) Help() string {
	var names []string
	for _, t := range secret.Templates() {
		names = append(names, t.Name)
	}
	return valueHelp + ` Unless another place is named, the value stands in the header Authorization, as Bearer. A sandbox never holds it: it gets a placeholder (bailey run --secret NAME), and the proxy puts the value in its place on HTTPS requests to the hosts, there and nowhere else.

Examples:
  bailey secret set github --template github
  bailey secret set build --host ci.example.com --path /api --method GET --from-env CI_TOKEN
  bailey secret set packages --host packages.example.com --basic deploy --from-file token.txt
  bailey secret set maps --host maps.example.com --query key --var MAPS_KEY

Templates: ` + strings.Join(names, ", ") + `.`
}

// Run keeps a secret.
func (c *secretSetCommand) Run(a *app) error {
	d := secret.Definition{Name: c.Name, Var: secret.Variable(c.Name)}
	if err := secret.CheckName(c.Name); err != nil {
		return err
	}
	if err := c.create(&d); err != nil {
		return err
	}
	v, err := a.openVault() // a name that is taken is said before a value is asked for
	if err != nil {
		return err
	}
	defer v.Close()
	if _, err := v.Find(c.Name); err == nil {
		return vault.Taken(c.Name)
	}
	value, err := c.read(a, "value of "+c.Name+": ")
	if err != nil {
		return err
	}
	if err := fits(d, value); err != nil {
		return err
	}
	if err := v.Update(a.now(), func(e *vault.Edit) error { return e.Add(d, value) }); err != nil {
		return err
	}
	return a.said(d, "kept")
}

// said says what became of a secret.
func (a *app) said(d secret.Definition, what string) error {
	var rules []string
	for _, r := range d.Rules {
		rules = append(rules, fmt.Sprintf("%s (%s%s)", strings.Join(r.HostNames(), ", "), r.Place, r.Narrowing()))
	}
	line := fmt.Sprintf("%s: %s, for %s; bailey run --secret %s sets %s", d.Name, what, strings.Join(rules, ", "), d.Name, d.Var)
	if d.Gateway {
		line = fmt.Sprintf("%s: %s, for the model gateway alone", d.Name, what)
	}
	_, err := fmt.Fprintln(a.stdout, terminal.Sanitize(line))
	return err
}

type secretRotateCommand struct {
	valueFlags

	Name string `arg:"" placeholder:"NAME" help:"Name of the secret."`
}

// Help is what `bailey secret rotate --help` says beyond the flags.
func (secretRotateCommand) Help() string {
	return valueHelp + ` Where it may go stays as it is. Sandboxes that were lent the secret have the new value within a second, by the same placeholder.`
}

// Run gives a secret another value.
func (c *secretRotateCommand) Run(a *app) error {
	if err := a.expectSecrets(c.Name); err != nil {
		return err
	}
	v, err := a.openVault()
	if err != nil {
		return err
	}
	defer v.Close()
	if _, err := v.Find(c.Name); err != nil {
		return err
	}
	value, err := c.read(a, "new value of "+c.Name+": ")
	if err != nil {
		return err
	}
	var now secret.Definition
	err = v.Update(a.now(), func(e *vault.Edit) error {
		d, was, err := e.Get(c.Name)
		if err != nil {
			return err
		}
		if was.Equal(value) {
			return bailey.NewError(bailey.Invalid, "that is the value that it has", "give the new one")
		}
		if err := fits(d, value); err != nil {
			return err
		}
		if err := e.Replace(d, value); err != nil {
			return err
		}
		now, err = e.Find(c.Name)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s: rotated, revision %d\n", now.Name, now.Revision)
	return err
}

type secretEditCommand struct {
	ruleFlags
	valueFlags

	Name string `arg:"" placeholder:"NAME" help:"Name of the secret."`
}

// Help is what `bailey secret edit --help` says beyond the flags.
func (secretEditCommand) Help() string {
	return `What is named takes the place of what was; the rest stays. --path / and --method '*' stand for any. What lets the value go further than before (another host, port, method, path or place) asks for the value again, which has to be the one that is kept: who can only run bailey cannot send it elsewhere. Narrowing asks for nothing.

Examples:
  bailey secret edit ci --method GET --path /api/v1
  bailey secret edit ci --host ci.example.com --host ci2.example.com --from-env CI_TOKEN`
}

// prove asks for the value again.
func (c *secretEditCommand) prove(a *app, value seal.Secret) error {
	given, err := c.read(a, "this lets the value go further; value of "+c.Name+": ")
	if err != nil {
		return bailey.WrapError(bailey.KindOf(err), "edit "+c.Name+" lets the value go further than before, and takes the value again", err, "give it on standard input, by --from-env or --from-file")
	}
	if !given.Equal(value) {
		return bailey.NewError(bailey.Forbidden, "that is not the value that is kept", "nothing was changed; with another value it is bailey secret rotate first")
	}
	return nil
}

// Run changes where a secret may go.
func (c *secretEditCommand) Run(a *app) error {
	if !c.any() {
		return bailey.NewError(bailey.Invalid, "nothing is named that is to change", "such as --host, --path or --var; bailey secret show "+c.Name+" prints what it is now")
	}
	if err := a.expectSecrets(c.Name); err != nil {
		return err
	}
	v, err := a.openVault()
	if err != nil {
		return err
	}
	defer v.Close()
	was, value, err := v.Get(c.Name)
	if err != nil {
		return err
	}
	d := was
	if err := c.change(&d); err != nil {
		return err
	}
	if !d.Within(was) {
		if err := c.prove(a, value); err != nil {
			return err
		}
	}
	if err := fits(d, value); err != nil { // after the value was given: it says something of it
		return err
	}
	err = v.Update(a.now(), func(e *vault.Edit) error {
		now, err := e.Find(c.Name)
		if err != nil {
			return err
		}
		if now.ID != was.ID || now.Revision != was.Revision {
			return bailey.NewError(bailey.Conflict, c.Name+" was changed meanwhile", "look at it, and try again")
		}
		return e.Replace(d, value)
	})
	if err != nil {
		return err
	}
	return a.said(d, "changed")
}
