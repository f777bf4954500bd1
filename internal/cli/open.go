package cli

import "github.com/bailey-dev/bailey/internal/app/run"

// openFlags are what a run shows its sandbox of the host beside the workspace.
type openFlags struct {
	Mount     []string `placeholder:"SRC:DST[:rw]" sep:"none" help:"Show this file or folder of yours inside, at DST: read-only, unless :rw is said. ~ in SRC is your home, in DST the home inside. Keys, whole homes, sockets, devices and what is bailey's own are refused, and with :rw what programs of yours run or obey. Repeatable." group:"Workspace"`
	NoAgents  bool     `help:"Do not show ~/.agents, the skills and prompts that you keep for agents, which is otherwise at /home/agent/.agents, read-only." group:"Workspace"`
	AgentsDir text     `placeholder:"DIR" help:"Show this folder in the place of ~/.agents, read-only as well." group:"Workspace"`
	NoMemory  bool     `help:"Do not show the agent's own memory file of your home (~/.claude/CLAUDE.md, ~/.codex/AGENTS.md …), which an agent by name otherwise finds, read-only." group:"Workspace"`
}

func (f openFlags) openings() run.Openings {
	return run.Openings{Mounts: each(f.Mount, asBytes), NoAgents: f.NoAgents, AgentsDir: asBytes(string(f.AgentsDir)), NoMemory: f.NoMemory}
}
