package cli

import (
	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
)

type execCommand struct {
	Env     []string `placeholder:"NAME[=VALUE]" sep:"none" help:"Pass this variable, besides those the sandbox was started with. NAME alone takes your own value; NAME=VALUE can be read by every user of the machine while the command runs. Repeatable."`
	Workdir string   `placeholder:"DIR" help:"Start in this folder of the sandbox. Default: where the sandbox's own command started."`

	Name    string   `arg:"" placeholder:"NAME" help:"Name of the sandbox."`
	Command []string `arg:"" passthrough:"partial" optional:"" placeholder:"COMMAND [ARG...]" help:"What to run."`
}

// Help is what `bailey exec --help` says beyond the flags.
func (execCommand) Help() string {
	return `Runs a command beside the one that the sandbox was started with: same view, same limits, same network, same environment. It ends with the sandbox.

Examples:
  bailey exec api-3f2a91c0 -- bash
  bailey exec api-3f2a91c0 -- git status

Exit codes: as for bailey run.`
}

// Run runs the command in the named sandbox.
func (c *execCommand) Run(a *app) error {
	command, _ := afterDashes(append(each(c.Command, asBytes), a.rest...))
	if len(command) == 0 {
		return bailey.NewError(bailey.Invalid, "exec: no command", "bailey exec "+c.Name+" -- bash")
	}
	code, err := run.Exec(a.ctx, a.host, run.ExecRequest{Name: c.Name, Command: command, Env: each(c.Env, asBytes), Workdir: asBytes(c.Workdir)})
	if err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}
