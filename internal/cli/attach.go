package cli

import (
	"github.com/bailey-dev/bailey/internal/app/run"
)

type attachCommand struct {
	DetachKeys text `placeholder:"KEYS" help:"What leaves the command running: letters and ctrl-LETTER with commas between, or none. Default: ctrl-p,ctrl-q."`
	NoStdin    bool `help:"Only look: type nothing, and leave the size of the terminal to others."`

	Name string `arg:"" optional:"" placeholder:"NAME" help:"Name of the sandbox. Default: the only one of this workspace."`
}

// Help is what `bailey attach --help` says beyond the flags.
func (attachCommand) Help() string {
	return `Goes to the terminal of a command that was started with bailey run --detach or --detachable: its screen is painted again, what you type is its input, and its terminal is as large as fits into all that are attached. Several may be attached at once; one that does not read holds up neither the command nor the others.

Ctrl-P Ctrl-Q leaves the command running, as the end of your terminal does, and signals to this process: they end the attachment and never the command. With --no-stdin nothing is read, not these keys either, and Ctrl-C alone leaves it. Of a command without a terminal the output from now on is shown (bailey logs has the earlier), and Ctrl-C leaves it.

Examples:
  bailey attach api-3f2a91c0
  bailey attach --no-stdin api-3f2a91c0  look over the agent's shoulder

Exit codes: the command's own, as for bailey run; 0 when it was left running.`
}

// Run attaches.
func (c *attachCommand) Run(a *app) error {
	name, _, err := run.Choose(a.ctx, a.host, c.Name)
	if err != nil {
		return err
	}
	code, err := run.Attach(a.ctx, a.host, run.AttachRequest{Name: name, Keys: string(c.DetachKeys), NoInput: c.NoStdin})
	if err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}
