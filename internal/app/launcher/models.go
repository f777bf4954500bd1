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

// catalogTime bounds how long the reading of the user's files may take.
const catalogTime = 30 * time.Second

// Models is Engine's.
func (e *engine) Models(ctx context.Context) ([]task.Model, error) {
	c, err := e.reads(ctx, true)
	return c.Models, err
}

// catalog has a child read what there is, each time anew: the models, or what
// tasks may do.
func (e *engine) catalog(ctx context.Context, models bool) (launcher.Catalog, error) {
	var c launcher.Catalog
	ctx, cancel := context.WithTimeout(ctx, catalogTime)
	defer cancel()
	if err := e.home.helping.enter(ctx); err != nil {
		return c, err
	}
	defer e.home.helping.leave()
	settings, err := document(launcher.CatalogSettings{Config: e.settings.Config, Home: e.settings.Home, Models: models})
	if err != nil {
		return c, err
	}
	defer func() { _ = settings.Close() }() // the child has its own
	said, says, err := os.Pipe()
	if err != nil {
		return c, fmt.Errorf("make a pipe for the catalog: %w", err)
	}
	defer func() { _ = said.Close() }()
	child, err := e.home.start(&exec.Cmd{
		Path: self, Args: []string{role.Catalog}, Env: e.settings.Env, Stdout: says, ExtraFiles: []*os.File{settings},
	})
	if err := errors.Join(err, says.Close()); err != nil {
		return c, err
	}
	stop := context.AfterFunc(ctx, func() { child.end(0) })
	defer stop()
	err = inherit.Document(said, launcher.MaxCatalog, &c)
	child.end(time.Second)
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	if err != nil {
		return c, fmt.Errorf("read the user's files: %w", err)
	}
	if c.Error != nil {
		return c, c.Error.Err()
	}
	return c, nil
}
