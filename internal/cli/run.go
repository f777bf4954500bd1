package cli

import (
	"slices"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/config"
)

// runFlags say what a sandbox is to be: all of `bailey run` but its command and
// how it speaks.
type runFlags struct {
	Net   text     `placeholder:"MODE" env:"BAILEY_NET" help:"How far the network reaches: none, allow (what rules name), open (any public address) or full (private addresses too). Default: none, or allow when there is a rule; --allow beats a mode that comes from the environment." group:"Network"`
	Allow []string `placeholder:"HOST[:PORT]" sep:"none" help:"Let the sandbox reach this host, a name or an IPv4 address; *.example.com is every name below it; no port means 80 and 443. Repeatable." group:"Network"`
	Deny  []string `placeholder:"HOST[:PORT]" sep:"none" help:"Never let the sandbox reach this host, whatever allows it; no port means every port. It covers the name where a connection says one, and the addresses of a single name where it says none. A range of addresses (203.0.113.0/24) covers whatever lies or resolves there. Repeatable." group:"Network"`

	Preset      []string `placeholder:"NAME" sep:"none" help:"Let the sandbox reach the hosts of a preset (bailey policy presets). Repeatable." group:"Network"`
	HostService []string `placeholder:"PORT" sep:"none" help:"Let the sandbox reach the service at this port of this machine's loopback, as host.bailey.internal:PORT. Repeatable." group:"Network"`
	Ask         bool     `help:"Ask about a host that no rule names, in place of refusing it: its connections wait up to 30 seconds for your answer (bailey net pending)." group:"Network"`
	DNS         text     `name:"dns" placeholder:"MODE" help:"Which names are answered: rules (those that may be reached) or open (any; connections stay ruled). Default: rules." group:"Network"`

	reachFlags

	Model  []string `placeholder:"NAME" sep:"none" help:"Give the command this model of models.yaml (bailey models) and no other: it finds the gateway in the variables of the model's protocol, and no key. The network is none unless rules are given." group:"Model"`
	Budget []string `placeholder:"2M|5usd" sep:"none" help:"How much the run may use of the model, in tokens (500k, 2M) or in money (5usd, 0.50usd), beside the limits in models.yaml. When it is spent, calls are refused with status 402. Repeatable." group:"Model"`
	Record text     `placeholder:"DIR" help:"Write requests and answers with their content to a file in this folder. Otherwise no content is kept." group:"Model"`

	Env     []string `placeholder:"NAME[=VALUE]" sep:"none" help:"Pass this variable to the command. Nothing else of your environment enters. NAME alone takes your own value; NAME=VALUE stands in bailey's own arguments, where every user of the machine can read it while it runs: pass a secret as NAME. Repeatable." group:"Environment"`
	Secret  []string `placeholder:"NAME[=VAR]" sep:"none" help:"Lend this secret (bailey secret): the command gets a placeholder in the secret's variable, or in VAR, and the proxy puts the value on requests to the secret's hosts, which are allowed with it. Repeatable." group:"Environment"`
	EnvFile []string `placeholder:"FILE" sep:"none" help:"Pass the variables that a file names, one NAME=VALUE a line, as docker reads it: quotes are kept as part of the value, and a line that begins with export is refused. NAME alone takes your own value, but not in a file of the workspace, which the sandbox can write; nor is a link followed there. Repeatable." group:"Environment"`

	Memory  config.Bytes    `placeholder:"4G" env:"BAILEY_MEMORY" help:"Memory of the whole sandbox; no swap. Default: 4G, at most three quarters of the machine's." group:"Limits"`
	Cpus    config.CPUs     `placeholder:"2" env:"BAILEY_CPUS" help:"Processors. Default: all." group:"Limits"`
	Pids    config.Count    `placeholder:"512" env:"BAILEY_PIDS" help:"Processes and threads. Default: 512." group:"Limits"`
	Nofile  config.Count    `placeholder:"4096" env:"BAILEY_NOFILE" help:"Open files of one process. Default: 4096." group:"Limits"`
	TmpSize config.Bytes    `placeholder:"2G" env:"BAILEY_TMP_SIZE" help:"Size of each memory file system: /tmp, the home, and so on; it counts as memory. Default: 2G." group:"Limits"`
	Disk    config.Bytes    `placeholder:"20G" env:"BAILEY_DISK" help:"How much the workspace may grow. Default: 20G." group:"Limits"`
	Inodes  config.Count    `placeholder:"1000000" env:"BAILEY_INODES" help:"By how many files and folders the workspace may grow. Default: 1000000." group:"Limits"`
	Timeout config.Duration `placeholder:"30m" env:"BAILEY_TIMEOUT" help:"End the sandbox after this time, with exit code 124. Default: never." group:"Limits"`

	ReadOnly bool     `help:"Mount the workspace read-only." group:"Workspace"`
	Workdir  text     `placeholder:"DIR" help:"Start here: a folder of the current one, or another folder to be the workspace instead." group:"Workspace"`
	Name     text     `placeholder:"NAME" help:"Name of the sandbox, for exec, ps and stop. Default: made from the folder's name." group:"Workspace"`
	Tool     []string `placeholder:"NAME" sep:"none" help:"Mount this program of yours read-only, with what it needs from your home; for go also the modules that you have downloaded, those of other projects too. With --model an agent by name comes with its settings, for a command that starts it. Repeatable." group:"Workspace"`

	Environment text `placeholder:"NAME" help:"Show an environment (bailey env) read-only at /opt/env, and set the variables by which its packages are found." group:"Workspace"`

	homeFlags

	openFlags
	looseFlags
	hidingFlags
	publishFlags

	runtimeFlags
}

type runCommand struct {
	runFlags

	backgroundFlags

	Quiet bool `short:"q" help:"Say nothing but errors, and with --ask what waits for your answer." group:"Output"`
	JSON  bool `name:"json" help:"Report events as JSON lines on stderr (docs/events.md)." group:"Output"`

	Command []string `arg:"" passthrough:"partial" optional:"" placeholder:"COMMAND [ARG...]" help:"What to run: an agent by name (claude, codex, copilot, gemini, opencode, pi, qwen), or any command. After -- it is never an agent's name."`
}

// text is a value that was given and therefore says something.
type text string

// UnmarshalText refuses an empty value: a script's unset variable.
func (t *text) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return bailey.NewError(bailey.Invalid, "its value is empty", "give a value, or leave the flag out")
	}
	*t = text(b)
	return nil
}

// Help is what `bailey run --help` says beyond the flags.
func (runCommand) Help() string {
	return `The current folder is the workspace. Of this machine's files the command may change that, its home where one is kept, what --mount shows with :rw, and nothing else. Of the rest it sees /usr read-only and a small /etc. Only variables named with --env enter.

An agent by name has a home that is kept for this folder, and the model and the provider of your own settings (docs/homes.md). Any other command has an empty home in memory, unless --home names one that is kept.

Examples:
  bailey run -- make test                       no network
  bailey run --tool go -- go test ./...         none either: the modules that you have downloaded are shown
  bailey run --allow '*.example.com' -- npm ci  the names below example.com, ports 80 and 443
  bailey run --allow db.example.com:5432 -- psql -h db.example.com
  bailey run --env ANTHROPIC_API_KEY claude     Claude Code, its own API host and no other
  bailey run --model small --budget 2M claude   Claude Code with a model of models.yaml, no network and no key
  bailey run --detach --name api -- make watch  in the background: bailey attach api, bailey logs api
  bailey run --memory 8G --timeout 30m --env OPENAI_API_KEY codex exec 'fix the tests'

Exit codes: the command's own; 128+N when signal N ended it; 124 when --timeout passed; 137 when memory ran out, a limit was passed, or git on the host would have acted for it; 125 when bailey failed; 126 when the command cannot be run; 127 when it was not found.`
}

// typed reports whether a flag stands on the command line itself.
func typed(line *kong.Context, flag string) bool {
	return slices.ContainsFunc(line.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == flag && !p.Resolved })
}

// Run runs the command.
func (c *runCommand) Run(a *app, line *kong.Context) error {
	command, dashed := afterDashes(append(each(c.Command, asBytes), a.rest...))
	if len(command) == 0 {
		return bailey.NewError(bailey.Invalid, "run: no command", "bailey run -- bash, or bailey run claude")
	}
	code, err := c.start(a, c.request(line, command, dashed))
	if err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// request is what the command line asks for.
func (c *runCommand) request(line *kong.Context, command []string, dashed bool) run.Request {
	r := c.runFlags.request(line)
	r.Command, r.Preset, r.Quiet, r.JSON, r.Background = command, !dashed, c.Quiet, c.JSON, c.background()
	return r
}

// request is what the flags ask for, without a command.
func (c *runFlags) request(line *kong.Context) run.Request {
	return run.Request{
		Workdir: asBytes(string(c.Workdir)),
		Net:     string(c.Net), NetWeak: !typed(line, "net"), DNS: string(c.DNS), Allow: c.Allow, Deny: c.Deny, Presets: c.Preset, Services: c.HostService, Ask: c.Ask,
		Secrets: each(c.Secret, asBytes), Models: c.Model, Budget: c.Budget, Record: asBytes(string(c.Record)), Env: each(c.Env, asBytes), EnvFiles: each(c.EnvFile, asBytes),
		Limits: config.LimitFlags{
			Memory: c.Memory, CPUs: c.Cpus, PIDs: c.Pids, NoFile: c.Nofile,
			TmpSize: c.TmpSize, Disk: c.Disk, Inodes: c.Inodes, Timeout: c.Timeout,
		},
		Homes: c.homes(),
		Open:  c.openings(), Loose: c.loosened(), Hiding: c.hidingFlags.request(), Reach: c.reach(), Publish: c.Publish, OpenBrowser: c.OpenBrowser,
		Kernel:   run.Kernel{Runtime: string(c.Runtime)},
		ReadOnly: c.ReadOnly, Name: string(c.Name), Tools: each(c.Tool, asBytes), Environment: asBytes(string(c.Environment)),
	}
}
