package cli

import (
	"os"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/config"
)

// backgroundFlags are the flags of run for a sandbox that outlives the terminal.
type backgroundFlags struct {
	Detach     bool         `short:"d" help:"Run in the background and print the name once the command runs: bailey attach goes to it, bailey logs prints what it wrote, bailey stop ends it." group:"Background"`
	Detachable bool         `help:"Run in the background and attach at once: keys leave it running, and so does the end of the terminal." group:"Background"`
	DetachKeys text         `placeholder:"KEYS" help:"What leaves a command that is attached to: letters and ctrl-LETTER with commas between, or none. Default: ctrl-p,ctrl-q." group:"Background"`
	LogSize    config.Bytes `placeholder:"8M" help:"How much of the output of a command in the background is kept; the oldest goes first. Default: 8M." group:"Background"`
}

func (f backgroundFlags) background() run.Background {
	return run.Background{Detach: f.Detach, Detachable: f.Detachable, Keys: string(f.DetachKeys), LogSize: f.LogSize}
}

// start starts the run: here, in a process of its own, or as that.
func (f backgroundFlags) start(a *app, r run.Request) (int, error) {
	switch {
	case f.Detach && f.Detachable:
		return 0, bailey.NewError(bailey.Invalid, "run: --detach and --detachable", "give one: --detach returns at once, --detachable attaches")
	case !r.Background.InBackground() && (f.DetachKeys != "" || f.LogSize != 0):
		return 0, bailey.NewError(bailey.Invalid, "run: --detach-keys and --log-size are for a command in the background", "add --detach or --detachable")
	case a.captured != nil && r.Background.InBackground():
		return 0, bailey.NewError(bailey.Invalid, "--detach and --detachable are of no use to who reads a run for a plan", "leave them out")
	case a.host.Holds:
		return run.Hold(a.ctx, a.host, r)
	case r.Background.InBackground():
		return run.Detach(a.ctx, a.host, r, os.Args[1:])
	}
	return a.start(r)
}
