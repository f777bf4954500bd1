package watchdog

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// revertBudget bounds the entries removed for one path, and so the time: some
// ten microseconds each.
const revertBudget = 100_000

// revert removes the paths that were not there before. The agent may have made
// anything of them, so all of it happens below the folder that was opened at
// the start.
func (d *dog) revert() error {
	if d.workspace == nil {
		return nil
	}
	var errs []error
	for _, p := range d.set.RevertPaths {
		if !fs.ValidPath(p) || p == "." {
			errs = append(errs, fmt.Errorf("revert %q: not a path below the workspace", p))
			continue
		}
		err := beneath.Remove(d.workspace, p, revertBudget)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("revert %q: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
