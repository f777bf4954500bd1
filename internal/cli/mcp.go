package cli

import (
	"fmt"
	"path/filepath"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/mcp"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/version"
)

// mcpCommand is delegation for planners that speak MCP.
type mcpCommand struct {
	Serve   mcpServeCommand   `cmd:"" default:"withargs" help:"Speak MCP on standard input and output."`
	Install mcpInstallCommand `cmd:"" help:"Tell an MCP client of bailey."`
	Token   mcpTokenCommand   `cmd:"" help:"Say where the token for MCP over HTTP is."`
	Skill   mcpSkillCommand   `cmd:"" help:"Print what a planner should know to delegate well, as a skill."`
}

type mcpServeCommand struct{}

// Help is what `bailey mcp serve --help` says beyond the flags.
func (mcpServeCommand) Help() string {
	return `MCP clients start this. It has the tools delegate_task, run_checks, task_status, task_result, cancel_task, list_models, list_tasks and cleanup_delegation, which are those of bailey task, and gives them to the service of tasks. That is started with the first use of a tool where it does not run, with --idle 30s; tasks go on when the client ends.

Examples:
  bailey mcp install claude --print                 how a client is told of it`
}

// Run serves the client at the other end of standard input and output.
func (mcpServeCommand) Run(a *app) error {
	tasks := &summoned{connect: a.tasks}
	defer tasks.close()
	s, err := mcp.New(mcp.Config{Service: tasks, Version: version.Number, Now: a.now})
	if err != nil {
		return err
	}
	return s.ServeIO(a.ctx, a.host.Stdin, a.host.Stdout)
}

type mcpTokenCommand struct {
	Rotate bool `help:"Make a new token. A service that runs takes the old one until it is started again."`
}

// Help is what `bailey mcp token --help` says beyond the flags.
func (mcpTokenCommand) Help() string {
	return `Prints the path of the file, which is made if it is not there. Whoever can read it can give orders to the service; every request over HTTP has to carry it, as Authorization: Bearer TOKEN. bailey mcp (without HTTP) needs none.

Examples:
  bailey mcp token
  bailey mcp token --rotate`
}

// Run prints the path.
func (c *mcpTokenCommand) Run(a *app) error {
	path := a.mcpToken()
	get := mcp.Token
	if c.Rotate {
		get = mcp.RotateToken
	}
	if _, err := get(path); err != nil {
		return err
	}
	if c.Rotate {
		_, _ = fmt.Fprintln(a.stderr, "bailey: the token is new: tell the clients that have the old one (bailey mcp install CLIENT --http), and start bailey serve again")
	}
	_, err := fmt.Fprintln(a.stdout, terminal.Sanitize(path))
	return err
}

// mcpToken is where the token is.
func (a *app) mcpToken() string { return filepath.Join(a.host.Dirs.Config, launcher.TokenName) }

type mcpSkillCommand struct{}

// Help is what `bailey mcp skill --help` says beyond the flags.
func (mcpSkillCommand) Help() string {
	return `A skill file for planners: when to delegate, how to write a task, how to judge what comes back, how to merge and clean up. Clients that know skills read it from a folder of theirs.

Examples:
  bailey mcp skill > SKILL.md`
}

// Run prints the skill.
func (mcpSkillCommand) Run(a *app) error {
	_, err := fmt.Fprint(a.stdout, mcp.Skill)
	return err
}
