package run

import (
	"fmt"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/journal"
)

// Over says of a sandbox that does not run, where it ran in the background, how
// it ended. Any other error is as it was.
func Over(h Host, name string, err error) error {
	if bailey.KindOf(err) != bailey.NotFound {
		return err
	}
	runs, failed := journal.Runs(h.Dirs.State, h.UID)
	i := slices.IndexFunc(runs, func(k journal.Kept) bool { return k.Name == name }) // the newest
	if failed != nil || i < 0 || runs[i].Lasts {
		return err
	}
	how := fmt.Sprintf("with exit code %d", runs[i].End.Code)
	if runs[i].End.At.IsZero() {
		how = "how is not known: its bailey was killed"
	}
	return bailey.NewError(bailey.NotFound, fmt.Sprintf("sandbox %q has ended, %s", name, how), "bailey logs "+name+" has what it wrote; bailey ps lists those that run")
}
