package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type modelsExampleCommand struct {
	Write bool `help:"Write it to where models.yaml is read, in place of printing it, if nothing is there yet."`
}

// Help is what `bailey models example --help` says beyond the flags.
func (modelsExampleCommand) Help() string {
	return `With --write it is yours alone (mode 0600), and so is the folder of bailey's settings if that has to be made; a file that is there is never changed.

Examples:
  bailey models example
  bailey models example --write`
}

// Run prints the example, or writes it.
func (c *modelsExampleCommand) Run(a *app) error {
	if !c.Write {
		_, err := fmt.Fprint(a.stdout, models.Example)
		return err
	}
	path := a.modelsFile()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return bailey.WrapError(bailey.Unavailable, "make the folder of "+path, err, "make the folder above it writable")
	}
	err := writeNew(path, models.Example)
	switch {
	case errors.Is(err, fs.ErrExist):
		return bailey.NewError(bailey.Conflict, path+" is there already, and was not changed", "bailey models check says whether it is right")
	case err != nil:
		return bailey.WrapError(bailey.Unavailable, "write "+path, err, "make its folder writable")
	}
	_, err = fmt.Fprintf(a.stdout, "%s: written; put your own into it, and look with bailey models check\n", terminal.Sanitize(path))
	return err
}
