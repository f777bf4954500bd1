package cli

import (
	"github.com/bailey-dev/bailey/internal/app/run"
)

type shellCommand struct {
	Env []string `placeholder:"NAME[=VALUE]" sep:"none" help:"Pass this variable, besides those the sandbox was started with. NAME alone takes your own value; NAME=VALUE can be read by every user of the machine while the shell runs. Repeatable."`

	Name string `arg:"" optional:"" placeholder:"NAME" help:"Name of the sandbox. Default: the only one of this workspace."`
}

// Help is what `bailey shell --help` says beyond the flags.
func (shellCommand) Help() string {
	return `Opens a shell beside the command that the sandbox was started with: same view, same limits, same network, same environment. It is your own ($SHELL) if that is in the sandbox, otherwise bash or sh, and starts in the current folder if that is in the workspace. Any number may be open; all end with the sandbox.

Examples:
  bailey shell api-3f2a91c0
  bailey shell               in the sandbox of this checkout

Exit codes: the shell's own, as for bailey run.`
}

// Run opens a shell.
func (c *shellCommand) Run(a *app) error {
	code, err := run.Shell(a.ctx, a.host, run.ShellRequest{Name: c.Name, Env: each(c.Env, asBytes)})
	if err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}
