package cli

import "github.com/bailey-dev/bailey/internal/app/run"

// openFlags are what a run shows its sandbox of the host beside the workspace.
type openFlags struct {
	Mount     []string `placeholder:"SRC:DST[:rw]" sep:"none" help:"Show this file or folder of yours inside, at DST: read-only, unless :rw is said. ~ in SRC is your home, in DST the home inside. Keys, whole homes, sockets, devices and what is bailey's own are refused, and with :rw what programs of yours run or obey. Repeatable." group:"Workspace"`
	NoAgents  bool     `help:"Do not show ~/.agents, the skills and prompts that you keep for agents, which is otherwise at /home/agent/.agents, read-only." group:"Workspace"`
	AgentsDir text     `placeholder:"DIR" help:"Show this folder in the place of ~/.agents, read-only as well." group:"Workspace"`
	NoMemory  bool     `help:"Do not show the agent's own memory file of your home (~/.claude/CLAUDE.md, ~/.codex/AGENTS.md and their like), which an agent by name otherwise finds, read-only." group:"Workspace"`
}

// looseFlags loosen the sandbox itself, each by its own name.
type looseFlags struct {
	InsecureKeepRoot   bool     `help:"Be user 0 inside, over a throw-away layer that may be written to, for package managers: with capabilities over files and ids that are gVisor's own. On this machine the sandbox is who it is without." group:"Loosened"`
	InsecureUnenforced bool     `help:"Run although a limit that was asked for can neither be enforced nor watched here: --cpus without a cgroup. Everything else stops the run as ever." group:"Loosened"`
	AllowNestedUserns  bool     `help:"Let programs inside make user namespaces, and mounts in them, as bubblewrap, Chromium and the sandboxes of agents do: they are gVisor's." group:"Loosened"`
	RuntimeArg         []string `placeholder:"ARG" sep:"none" help:"Give gVisor this flag: one of those that leave the sandbox as it is; others are refused with the reason. Repeatable." group:"Loosened"`
}

func (f looseFlags) loosened() run.Loosened {
	return run.Loosened{KeepRoot: f.InsecureKeepRoot, Unenforced: f.InsecureUnenforced, NestedUserns: f.AllowNestedUserns, RuntimeArgs: f.RuntimeArg}
}

func (f openFlags) openings() run.Openings {
	return run.Openings{Mounts: each(f.Mount, asBytes), NoAgents: f.NoAgents, AgentsDir: asBytes(string(f.AgentsDir)), NoMemory: f.NoMemory}
}
