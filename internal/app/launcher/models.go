package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/task"
)

// catalogTime bounds how long a list of models may take.
const catalogTime = 30 * time.Second

// Models is Engine's: a child reads what there is, each time anew.
func (e *engine) Models(ctx context.Context) ([]task.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, catalogTime)
	defer cancel()
	if err := e.home.helping.enter(ctx); err != nil {
		return nil, err
	}
	defer e.home.helping.leave()
	settings, err := document(launcher.CatalogSettings{Config: e.settings.Config, Home: e.settings.Home})
	if err != nil {
		return nil, err
	}
	defer func() { _ = settings.Close() }() // the child has its own
	said, says, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the list of models: %w", err)
	}
	defer func() { _ = said.Close() }()
	child, err := e.home.start(&exec.Cmd{
		Path: self, Args: []string{role.Catalog}, Env: e.settings.Env, Stdout: says, ExtraFiles: []*os.File{settings},
	})
	if err := errors.Join(err, says.Close()); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { child.end(0) })
	defer stop()
	var c launcher.Catalog
	err = inherit.Document(said, launcher.MaxCatalog, &c)
	child.end(time.Second)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	if c.Error != nil {
		return nil, c.Error.Err()
	}
	return c.Models, nil
}
