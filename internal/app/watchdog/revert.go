package watchdog

import (
	"context"
	"time"
)

// verifyBudget is that of a run's end.
const verifyBudget = 10 * time.Second

// revert does with the workspace's git folders what the starter would have
// done at the end. Nobody is left to be told what was found: what is set aside
// says so by its name.
func (d *dog) revert() {
	_ = d.held.Revert(d.set.Started)
	ctx, cancel := context.WithTimeout(context.Background(), verifyBudget) //nolint:forbidigo // nobody is left whose end it could be
	defer cancel()
	_ = d.held.VerifyObjects(ctx)
}
