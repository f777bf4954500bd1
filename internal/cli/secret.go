package cli

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/vault"
)

// secretCommand is the group of commands about secrets at rest.
type secretCommand struct {
	Set    secretSetCommand    `cmd:"" help:"Keep a secret, and say where its value may go."`
	Ls     secretLsCommand     `cmd:"" aliases:"list" help:"List the secrets, without their values."`
	Show   secretShowCommand   `cmd:"" help:"Print where a secret may go. Nothing prints its value."`
	Edit   secretEditCommand   `cmd:"" help:"Change where a secret may go."`
	Rotate secretRotateCommand `cmd:"" help:"Give a secret another value."`
	Rm     secretRmCommand     `cmd:"" help:"Remove secrets."`
	Lint   secretLintCommand   `cmd:"" help:"Look for secrets in a folder, and in variables that would be passed."`
	Check  secretCheckCommand  `cmd:"" help:"Open every secret, and say what is wrong with the vault."`
	Rekey  secretRekeyCommand  `cmd:"" help:"Seal everything with a new key, or keep the key elsewhere."`
	Export secretExportCommand `cmd:"" help:"Write every secret into an encrypted file."`
	Import secretImportCommand `cmd:"" help:"Take secrets from an encrypted file."`
}

// vault is the place of the user's vault, for a process that may come to hold
// values: nobody else of the user looks into it, and it leaves no core file.
func (a *app) vault() (vault.Place, error) {
	if err := errors.Join(harden.NoCore(), harden.Undumpable()); err != nil {
		return vault.Place{}, bailey.WrapError(bailey.Unavailable, "protect this process from others", err, "")
	}
	return a.host.Vault(), nil
}

// openVault opens the vault for reading.
func (a *app) openVault() (*vault.Vault, error) {
	p, err := a.vault()
	if err != nil {
		return nil, err
	}
	return vault.Open(p)
}

// lookAtVault reads what is known of the secrets, and asks for no passphrase.
func (a *app) lookAtVault() (vault.Listing, error) {
	p, err := a.vault()
	if err != nil {
		return vault.Listing{}, err
	}
	l, err := vault.Look(p)
	if l.Unchecked != "" {
		_, _ = fmt.Fprintf(a.stderr, "note: this is what the vault's file says, unchecked, as %s; bailey secret check opens it\n", terminal.Sanitize(l.Unchecked))
	}
	return l, err
}

// expectSecrets refuses names that the vault has not before a passphrase is
// asked for.
func (a *app) expectSecrets(names ...string) error {
	p, err := a.vault()
	if err != nil {
		return err
	}
	return p.Expect(names...)
}

// changeVault changes the vault.
func (a *app) changeVault(change func(*vault.Edit) error) error {
	p, err := a.vault()
	if err != nil {
		return err
	}
	return vault.Update(p, a.now(), change)
}

// askTwice asks for a new passphrase. without says what needs none, for who has
// no terminal.
func askTwice(what, without string) (seal.Secret, error) {
	const least = 8
	first, err := vault.AskTerminal(what + ": ")
	if err != nil {
		return first, withoutTerminal("a new passphrase is asked for twice", err, without)
	}
	if first.Len() < least {
		return seal.Secret{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("the passphrase is shorter than %d bytes", least), "some unusual words are easy to keep and hard to guess")
	}
	again, err := vault.AskTerminal("once more: ")
	if err != nil {
		return again, err
	}
	if !first.Equal(again) {
		return seal.Secret{}, bailey.NewError(bailey.Invalid, "the two are not the same", "try again")
	}
	return first, nil
}

// withoutTerminal says what does where nobody can be asked; other errors stay.
func withoutTerminal(what string, err error, hint string) error {
	if bailey.KindOf(err) != bailey.Unavailable {
		return err
	}
	return bailey.WrapError(bailey.Unavailable, what, err, hint)
}

type secretLsCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey secret ls --help` says beyond the flags.
func (secretLsCommand) Help() string {
	return `With --json: an array of what bailey secret show prints.`
}

// Run lists the secrets.
func (c *secretLsCommand) Run(a *app) error {
	l, err := a.lookAtVault()
	if err != nil {
		return err
	}
	list := l.Secrets
	if c.JSON {
		return printJSON(a.stdout, list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stdout, "There are no secrets yet. bailey secret set NAME keeps one.")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tVARIABLE\tHOSTS\tPLACE\tREVISION\tCHANGED")
	for _, d := range list {
		hosts, places := summary(d)
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", d.Name, d.Var, terminal.Sanitize(hosts), terminal.Sanitize(places), d.Revision, d.Updated.Local().Format(time.DateOnly))
	}
	return w.Flush()
}

// summary says on one line where a secret may go.
func summary(d secret.Definition) (hosts, places string) {
	if d.Gateway {
		return "-", "the model gateway"
	}
	var names, kinds []string
	for _, r := range d.Rules {
		names = append(names, r.HostNames()...)
		kinds = append(kinds, r.Place.String()+r.Narrowing())
	}
	return strings.Join(unique(names), ", "), strings.Join(unique(kinds), "; ")
}

// unique keeps the first of each.
func unique(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

type secretShowCommand struct {
	JSON bool   `name:"json" help:"Print JSON."`
	Name string `arg:"" placeholder:"NAME" help:"Name of the secret."`
}

// Help is what `bailey secret show --help` says beyond the flags.
func (secretShowCommand) Help() string {
	return `Each rule says the hosts that it is for, the place where the value stands, and the methods and paths that it is narrowed to. With --json: an object with id, name, owner, var, rules (each with hosts, methods, paths and place), created, updated and revision; template, keep and gateway where they say something.`
}

// Run prints what is known of a secret.
func (c *secretShowCommand) Run(a *app) error {
	l, err := a.lookAtVault()
	if err != nil {
		return err
	}
	d, err := l.Find(c.Name)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, d)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(what, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", what, terminal.Sanitize(value))
		}
	}
	row("name", d.Name)
	row("id", string(d.ID))
	row("variable", d.Var)
	row("template", d.Template)
	row("revision", fmt.Sprintf("%d, of %s", d.Revision, d.Updated.Local().Format(time.DateTime)))
	if d.Gateway {
		row("for", "the model gateway alone")
	}
	for _, r := range d.Rules {
		row("rule", r.String())
	}
	return w.Flush()
}

type secretRmCommand struct {
	Names []string `arg:"" name:"name" placeholder:"NAME" help:"Names of the secrets."`
}

// Help is what `bailey secret rm --help` says beyond the flags.
func (secretRmCommand) Help() string {
	return `All of them are removed, or none. Sandboxes that were lent one lose it within a second, with what is open on it. What the other side knows of the value is not changed: revoke it there.`
}

// Run removes secrets.
func (c *secretRmCommand) Run(a *app) error {
	if err := a.expectSecrets(c.Names...); err != nil {
		return err
	}
	err := a.changeVault(func(e *vault.Edit) error {
		for _, name := range unique(c.Names) {
			if err := e.Remove(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range unique(c.Names) {
		_, _ = fmt.Fprintf(a.stdout, "%s: removed\n", name)
	}
	return nil
}

type secretCheckCommand struct {
	Accept bool `help:"Take the vault as it is: one that was put back from a copy is the newest from now on, and of a damaged one those secrets stay that open. The damaged file is kept."`
}

// Help is what `bailey secret check --help` says beyond the flags.
func (secretCheckCommand) Help() string {
	return `Prints each fault as FILE:LINE: secret: what is wrong. While there is one, no sandbox starts that is to be lent a secret.

Exit codes: 0 when the vault is good; 1 when it is not; 125 when it cannot be looked at.`
}

// Run checks the vault.
func (c *secretCheckCommand) Run(a *app) error {
	p, err := a.vault()
	if err != nil {
		return err
	}
	look := vault.Check
	if c.Accept {
		look = vault.Accept
	}
	r, err := look(p)
	if r.Kept != "" {
		_, _ = fmt.Fprintf(a.stderr, "note: the damaged vault is kept: %s\n", terminal.Sanitize(r.Kept))
	}
	if err != nil {
		return err
	}
	for _, f := range r.Faults {
		_, _ = fmt.Fprintln(a.stderr, terminal.Sanitize(f.String()))
	}
	if len(r.Faults) > 0 {
		return errUnfit
	}
	_, err = fmt.Fprintf(a.stdout, "ok: %s\n", spell.Count(r.Secrets, "secret"))
	return err
}
