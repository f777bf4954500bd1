package launcher

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

// carrier starts a helper for each operation on a repository.
type carrier struct {
	home     *household
	settings launcher.Settings
	log      *slog.Logger
	now      func() time.Time
}

var errNotYet = bailey.NewError(bailey.Unsupported, "there is no helper for git yet", "")

func (c *carrier) snapshot(context.Context, launcher.SnapshotRequest, place) (launcher.Snapshot, error) {
	return launcher.Snapshot{}, errNotYet
}

func (c *carrier) checkout(context.Context, launcher.CheckRequest, place) (launcher.Snapshot, error) {
	return launcher.Snapshot{}, errNotYet
}

func (c *carrier) collect(context.Context, task.ID, place, *os.File) error {
	return errNotYet
}

func (c *carrier) deliver(context.Context, task.ID, string, place) (launcher.Delivered, error) {
	return launcher.Delivered{}, errNotYet
}

func (c *carrier) deleteBranch(context.Context, string, string) (bool, error) {
	return false, errNotYet
}
