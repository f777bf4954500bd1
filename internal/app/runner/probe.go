package runner

import (
	"context"
	"io"
	"time"

	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

// probeLimit bounds how long a probe may look.
const probeLimit = 5 * time.Minute

// Probe runs a command in the sandbox that a check would have, with the host's
// own streams, and returns its exit code. It is for `bailey doctor --task`.
func Probe(ctx context.Context, h run.Host, dir string, argv []string) (int, error) {
	s := taskrun.Settings{Kind: taskrun.Check, ID: "doctor", Dir: dir, Limit: probeLimit}
	r := request(&s, h, argv)
	r.Name = "" // there may be several at once
	r.Task = task(&s, h.Stdout, h.Stderr)
	r.Task.Events = io.Discard
	o, err := run.Delegate(ctx, h, r)
	return o.Code, err
}
