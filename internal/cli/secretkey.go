package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/vault"
)

type secretRekeyCommand struct {
	Plain      bool     `xor:"kind" help:"Keep the new key in its file as it is: whoever can read the file can read the vault." group:"Where the key is kept"`
	Passphrase bool     `xor:"kind" help:"Keep it in its file, encrypted with age by a passphrase, which is asked for at every use." group:"Where the key is kept"`
	Recipient  []string `placeholder:"AGE" sep:"none" xor:"kind" help:"Keep it in its file, encrypted with age to this recipient (age1...). BAILEY_VAULT_IDENTITY says where the identity is. Repeatable." group:"Where the key is kept"`
	Keyring    bool     `xor:"kind" help:"Keep it in the keyring of your session." group:"Where the key is kept"`
	Descriptor text     `placeholder:"N" xor:"kind" help:"Read the new key from this descriptor, and keep it nowhere: BAILEY_VAULT_KEY=fd:N hands it over at every use." group:"Where the key is kept"`
}

// Help is what `bailey secret rekey --help` says beyond the flags.
func (secretRekeyCommand) Help() string {
	return `Makes a new key and seals every value with it; without a flag the new key is kept as the old one was. Whenever it is interrupted, the vault opens: by the old key or by the new one. Copies of the vault that you made before open by the old key alone.

Examples:
  bailey secret rekey
  bailey secret rekey --plain`
}

// Run changes the key.
func (c *secretRekeyCommand) Run(a *app) error {
	p, err := a.vault()
	if err != nil {
		return err
	}
	form := vault.KeyForm{
		To: vault.Recipients{Names: c.Recipient},
		NewPassphrase: func() (seal.Secret, error) {
			return askTwice("passphrase for the new key", "start bailey at a terminal; --recipient age1... and --plain take no passphrase")
		},
	}
	switch {
	case c.Plain:
		form.Kind = vault.PlainKey
	case c.Passphrase:
		form.Kind = vault.PassphraseKey
	case len(c.Recipient) > 0:
		form.Kind = vault.RecipientKey
	case c.Keyring:
		form.Kind = vault.KeyringKey
	case c.Descriptor != "":
		form.Kind = vault.DescriptorKey
		if form.FD, err = vault.ParseDescriptor(string(c.Descriptor)); err != nil {
			return err
		}
	}
	id, err := vault.Rekey(p, form)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "the vault is sealed with %s now\n", id)
	return err
}

type secretExportCommand struct {
	Recipient  []string `placeholder:"AGE" sep:"none" xor:"to" help:"Encrypt to this recipient of age (age1...). Repeatable."`
	Passphrase bool     `xor:"to" help:"Encrypt by a passphrase, which is asked for."`

	File string `arg:"" placeholder:"FILE" help:"The file to make; - for standard output."`
}

// Help is what `bailey secret export --help` says beyond the flags.
func (secretExportCommand) Help() string {
	return `The file is one of age (age-encryption.org), armored. It holds every value: keep it as you would keep those. An existing file is not replaced.`
}

// Run writes every secret.
func (c *secretExportCommand) Run(a *app) error {
	to := vault.Recipients{Names: c.Recipient}
	if len(c.Recipient) == 0 && !c.Passphrase {
		return bailey.NewError(bailey.Invalid, "nothing says who can read the file", "--recipient age1..., or --passphrase")
	}
	path := asBytes(c.File)
	if err := c.free(path); err != nil { // before anybody is asked for a passphrase
		return err
	}
	v, err := a.openVault()
	if err != nil {
		return err
	}
	defer v.Close()
	if c.Passphrase {
		if to.Passphrase, err = askTwice("passphrase for the file", "start bailey at a terminal; --recipient age1... takes no passphrase"); err != nil {
			return err
		}
	}
	out, err := v.Export(to)
	if err != nil {
		return err
	}
	if c.File == "-" {
		_, err = io.WriteString(a.stdout, out)
		return err
	}
	if err := writeNew(path, out, a.written()...); err != nil {
		return exportError(path, err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %s\n", spell.Count(len(v.List()), "secret"), terminal.Sanitize(path))
	return err
}

// free refuses a file that is there, and a folder that is not.
func (c *secretExportCommand) free(path string) error {
	if c.File == "-" {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return exportError(path, fs.ErrExist)
	}
	if fi, err := os.Stat(filepath.Dir(path)); err != nil || !fi.IsDir() {
		return exportError(path, fs.ErrNotExist)
	}
	return nil
}

// exportError says why there is no new file, without the name that it has while
// it is written.
func exportError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return bailey.NewError(bailey.Conflict, "export: "+path+" is there already", "name a file that is not there yet")
	case beneath.IsLed(err):
		return bailey.WrapError(bailey.Invalid, "export to "+path, err, "name the folder that is meant by a way without it")
	case errors.Is(err, fs.ErrNotExist):
		return bailey.NewError(bailey.NotFound, "export: there is no folder "+filepath.Dir(path), "name a file in a folder that you may write to")
	}
	cause := err
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		cause = e.Err
	}
	return bailey.WrapError(bailey.Unavailable, "export to "+path, cause, "name a file in a folder that you may write to")
}

// writeNew makes a file of one's own that is there whole or not at all. No link
// in a guarded folder is followed.
func writeNew(path, text string, guarded ...string) error {
	d, err := beneath.NewDraft(path, 0o600, guarded...)
	if err != nil {
		return err
	}
	defer d.Drop()
	if _, err := d.File.WriteString(text); err != nil {
		return err
	}
	return d.Keep(false)
}

type secretImportCommand struct {
	Identity text `placeholder:"FILE" help:"A file of age identities that it opens by. Default: its passphrase is asked for."`
	Replace  bool `help:"Put what the file says in place of secrets of the same name."`

	File string `arg:"" placeholder:"FILE" help:"What bailey secret export wrote; - for standard input."`
}

// Help is what `bailey secret import --help` says beyond the flags.
func (secretImportCommand) Help() string {
	return `Says what it would overwrite, and does nothing then without --replace. All of the file is taken, or nothing.`
}

// Run takes secrets from a file.
func (c *secretImportCommand) Run(a *app) error {
	if _, err := a.vault(); err != nil {
		return err
	}
	data, err := c.read(a)
	if err != nil {
		return err
	}
	by, err := c.key(data)
	if err != nil {
		return err
	}
	entries, err := vault.Import(data, by)
	if err != nil {
		return err
	}
	for _, e := range entries {
		err := checkHosts(e.Definition)
		if err == nil {
			err = fits(e.Definition, e.Value)
		}
		if err != nil {
			return bailey.WrapError(bailey.KindOf(err), "import "+e.Name, err, "nothing was imported")
		}
	}
	return c.keep(a, entries)
}

// key is what the file opens by.
func (c *secretImportCommand) key(data []byte) (by vault.Decryption, err error) {
	if err := vault.CheckExport(data); err != nil {
		return by, bailey.WrapError(bailey.Invalid, "import "+terminal.Sanitize(asBytes(c.File)), err, hintOf(err))
	}
	if c.Identity != "" {
		by.Identity = asBytes(string(c.Identity))
		return by, nil
	}
	if !vault.IsForPassphrase(data) {
		return by, bailey.NewError(bailey.Invalid, "the file does not open by a passphrase", "name the file with the identity that it is encrypted to: --identity FILE")
	}
	if by.Passphrase, err = vault.AskTerminal("passphrase of the file: "); err != nil {
		err = withoutTerminal("the file opens by a passphrase", err, "start bailey at a terminal; a file that was made with bailey secret export --recipient age1... opens by --identity FILE, and takes none")
	}
	return by, err
}

// hintOf is what an error says to try.
func hintOf(err error) string {
	if e, ok := errorOf(err); ok {
		return e.Hint
	}
	return ""
}

// keep puts what was read into the vault.
func (c *secretImportCommand) keep(a *app, entries []vault.Entry) error {
	var out bytes.Buffer
	var taken int
	err := a.changeVault(func(e *vault.Edit) error {
		for _, entry := range entries {
			_, err := e.Find(entry.Name)
			switch {
			case err != nil:
				err = e.Add(entry.Definition, entry.Value)
				_, _ = fmt.Fprintf(&out, "%s: kept\n", entry.Name)
			case c.Replace:
				err = e.Replace(entry.Definition, entry.Value)
				_, _ = fmt.Fprintf(&out, "%s: replaced\n", entry.Name)
			default:
				taken++
				_, _ = fmt.Fprintf(a.stderr, "%s: is there already\n", entry.Name)
			}
			if err != nil && taken == 0 {
				return err
			}
		}
		if taken > 0 {
			return bailey.NewError(bailey.Conflict, spell.Count(taken, "secret")+" would be overwritten", "nothing was imported; --replace takes what the file says")
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(out.Bytes())
	return err
}

func (c *secretImportCommand) read(a *app) ([]byte, error) {
	in := a.host.Stdin
	if c.File != "-" {
		file, err := os.Open(asBytes(c.File))
		if err != nil {
			return nil, bailey.WrapError(bailey.Invalid, "import", err, "check the path")
		}
		defer func() { _ = file.Close() }() // read only: nothing to lose
		in = file
	} else if pty.IsTerminal(in) {
		return nil, bailey.NewError(bailey.Invalid, "standard input is a terminal", "bailey secret import FILE")
	}
	const most = 64 << 20
	data, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "import", err, "name the file that bailey secret export wrote")
	}
	return data, nil
}
