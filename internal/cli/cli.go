package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/sysinfo"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// commands is the whole command line. Its tags are the source of --help, the
// completion scripts, the manual page and docs/cli.md.
type commands struct {
	Run     runCommand     `cmd:"" help:"Run a command or an agent in a sandbox, with this folder as its workspace."`
	Inspect inspectCommand `cmd:"" help:"Say what a run would have: mounts, variables, rules, limits, home. Nothing is made or started."`
	Exec    execCommand    `cmd:"" help:"Run another command in a running sandbox."`
	Shell   shellCommand   `cmd:"" help:"Open a shell in a running sandbox."`
	Attach  attachCommand  `cmd:"" help:"Go to the terminal of a sandbox in the background."`
	Logs    logsCommand    `cmd:"" help:"Print what a sandbox in the background wrote, also after it has ended."`
	Cp      cpCommand      `cmd:"" help:"Copy files between this machine and a running sandbox."`
	Stats   statsCommand   `cmd:"" help:"Show what running sandboxes use."`
	Ps      psCommand      `cmd:"" help:"List running sandboxes."`
	Stop    stopCommand    `cmd:"" help:"Stop a running sandbox."`
	Wait    waitCommand    `cmd:"" help:"Wait until a sandbox in the background has ended, and print its exit code."`
	Task    taskCommand    `cmd:"" help:"Hand tasks to agents, and take in what they did."`
	Phase   phaseCommand   `cmd:"" help:"Have agents do a plan, unit by unit, in this folder."`
	MCP     mcpCommand     `cmd:"" name:"mcp" help:"Let a planner that speaks MCP hand tasks to agents."`
	Policy  policyCommand  `cmd:"" help:"Look at the rules of the network, and at the files they come from."`
	Net     netCommand     `cmd:"" help:"Look at what the network decided, and why."`
	Secret  secretCommand  `cmd:"" help:"Keep secrets, and say where their values may go."`
	Home    homeCommand    `cmd:"" help:"Keep, look at and remove the homes of agents."`
	Skill   skillCommand   `cmd:"" help:"Look at what agents are told by."`
	Env     envCommand     `cmd:"" help:"Build environments for tests, once, to be used without a network."`
	Models  modelsCommand  `cmd:"" help:"Look at the models that sandboxes may use."`
	Usage   usageCommand   `cmd:"" help:"Print what models were used for: requests, tokens and money."`
	Serve   serveCommand   `cmd:"" help:"Keep the service that works on tasks."`
	Redteam redteamCommand `cmd:"" help:"Attack a sandbox that is made as here, and report what held."`
	Doctor  doctorCommand  `cmd:"" help:"Say which layers of a sandbox this machine has, and how to get the others."`
	Version versionCommand `cmd:"" help:"Print the version."`

	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`
	Complete   completeCommand   `cmd:"" hidden:"" name:"__complete" help:"Print what may stand at the last word."`
	Man        manCommand        `cmd:"" hidden:"" help:"Print the manual page."`
	Reference  referenceCommand  `cmd:"" hidden:"" help:"Print a page of the reference as Markdown."`

	RedteamAttack redteamAttackCommand `cmd:"" hidden:"" name:"redteam-attack" help:"Try attacks."`
	RedteamHold   redteamHoldCommand   `cmd:"" hidden:"" name:"redteam-hold" help:"Be a process to attack."`
}

const description = `Runs untrusted AI agents, or any command, in a sandbox: gVisor inside this binary, only the current folder writable, nothing else of the machine in sight, and one guarded way out.

  bailey run -- bash                                a shell in a sandbox, without network
  bailey run --allow api.example.com -- ./agent.sh  one host, and no other
  bailey run --env ANTHROPIC_API_KEY claude         an agent by name`

// app is what every command's Run method gets.
type app struct {
	ctx    context.Context //nolint:containedctx // a command's whole life is this context
	host   run.Host
	stdout io.Writer
	stderr io.Writer
	now    func() time.Time
	model  *kong.Kong
	rest   []string // of the arguments of a command to run: see beyondDashes

	captured *captured // gets what is asked of `bailey run`, in the place of a run
}

// exitError carries the exit code of the sandboxed command.
type exitError int

// Error is never printed.
func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Main runs one command line and returns the exit code.
func Main(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	if err := harden.KeepDescriptors(); err != nil {
		return fail(stderr, err)
	}
	host, err := FindHost(stdin, stdout, stderr)
	if err != nil {
		return fail(stderr, err)
	}
	host.Holds = len(args) > 0 && args[0] == role.Holder
	if len(args) > 2 && args[1] == "run" && (host.Holds || !launch.HandsOver(args)) {
		// Its namespaces are made while the rest of the command line is read.
		host.Helper, host.Watchdog = local.Launch(host.Caller()), run.LaunchWatchdog()
		defer host.Helper.Abandon()
		defer host.Watchdog.Abandon()
	}
	return run1(ctx, args[1:], host)
}

func run1(ctx context.Context, args []string, host run.Host) (code int) {
	out := &printed{to: host.Stdout}
	defer func() {
		if err := out.failed(); err != nil && code == 0 {
			code = fail(host.Stderr, err)
		}
	}()
	//nolint:forbidigo // a process begins here
	a := &app{ctx: ctx, host: host, stdout: out, stderr: host.Stderr, now: time.Now}
	args = familiar(args)
	if args[0] == "run" || args[0] == "exec" || args[0] == "inspect" {
		args, a.rest = beyondDashes(args)
	}
	if args[0] == "phase" {
		args, a.rest = phaseWords(args)
	}
	parsed := quick(args)
	if parsed == nil {
		var code int
		if parsed, code = a.parse(args); parsed == nil {
			return code
		}
	}
	err := parsed.Run(a)
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if err != nil {
		return fail(host.Stderr, err)
	}
	return 0
}

// parse reads a command line by the whole grammar. Without a result there is
// nothing to run any more: help has been printed, or what is wrong.
func (a *app) parse(args []string) (*kong.Context, int) {
	exited := -1
	parser, err := newParser(&commands{}, a.stdout, a.stderr, func(c int) { exited = c })
	if err != nil {
		return nil, fail(a.stderr, err)
	}
	a.model = parser
	parsed, err := parser.Parse(each(slices.Clone(args), asText))
	switch {
	case exited >= 0: // --help has been printed
		return nil, exited
	case err == nil:
		return parsed, 0
	}
	if err = usageError(err, args, parser.Model); wantsJSON(args) {
		run.Report(a.stderr, err)
		return nil, bailey.ExitBailey
	}
	return nil, fail(a.stderr, err)
}

// quick reads the command lines of those commands that are run most often, and
// are waited for, by the part of the grammar that they need: to build the whole
// takes longer than anything else that they do on this side. On nil the whole
// grammar has to say what the command line means, or what is wrong with it.
func quick(args []string) *kong.Context {
	var grammar any
	switch args[0] {
	case "run":
		grammar = &struct {
			Run runCommand `cmd:""`
		}{}
	case "exec":
		grammar = &struct {
			Exec execCommand `cmd:""`
		}{}
	case "attach":
		grammar = &struct {
			Attach attachCommand `cmd:""`
		}{}
	case "shell":
		grammar = &struct {
			Shell shellCommand `cmd:""`
		}{}
	default:
		return nil
	}
	exited := false
	parser, err := newParser(grammar, io.Discard, io.Discard, func(int) { exited = true })
	if err != nil {
		return nil
	}
	parsed, err := parser.Parse(each(slices.Clone(args), asText))
	if err != nil || exited {
		return nil
	}
	return parsed
}

func newParser(grammar any, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(grammar,
		kong.Name("bailey"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, Summary: false, FlagsLast: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
	)
}

// afterDashes takes a "--" away that stands before a command, which the parser
// hands on, and reports whether there was one.
func afterDashes(args []string) (rest []string, dashed bool) {
	if len(args) > 0 && args[0] == "--" {
		return args[1:], true
	}
	return args, false
}

// wantsJSON reports whether a command line that could not be read asks for
// errors as events.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return len(args) > 0 && args[0] == "run" && slices.Contains(args, "--json")
}

// errorOf finds one of our own errors.
func errorOf(err error) (*bailey.Error, bool) { return errors.AsType[*bailey.Error](err) }

// flagOf finds the flag that the parser put before our error's text.
func flagOf(text string, e *bailey.Error) string {
	before, _, found := strings.Cut(text, e.Message)
	if before = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(before), ":")); found && before != "" {
		return before + ": "
	}
	return ""
}

// fail says what went wrong. Whatever it is, bailey's own failure is 125, as
// docker's is.
func fail(w io.Writer, err error) int {
	for _, line := range terminal.Lines(err) {
		_, _ = fmt.Fprintf(w, "bailey: %s\n", line)
	}
	if e, ok := errorOf(err); ok && e.Hint != "" {
		_, _ = fmt.Fprintf(w, "hint: %s\n", terminal.Sanitize(e.Hint))
	}
	return bailey.ExitBailey
}

// FindHost finds out who asks, and on which machine.
func FindHost(stdin, stdout, stderr *os.File) (run.Host, error) {
	h := run.Host{
		UID: os.Getuid(), GID: os.Getgid(), Env: config.Environment(),
		Stdin: stdin, Stdout: stdout, Stderr: stderr, CPUs: runtime.NumCPU(), Memory: sysinfo.Memory(),
	}
	h.DebugDir = h.Env.Get("BAILEY_DEBUG")
	h.Home = homeDir(h.Env)
	h.Dirs = config.FindDirs(h.Env, h.UID, h.Home)
	h.Dir, _ = os.Getwd() // most commands do not need it; who does looks for itself
	var err error
	if h.Executable, err = os.Executable(); err != nil {
		return h, bailey.WrapError(bailey.Unavailable, "find bailey's own binary", err, "is /proc mounted?")
	}
	return h, nil
}

// homeDir prefers $HOME, as everything else on the machine does.
func homeDir(env config.Lookup) string {
	if v := env.Get("HOME"); strings.HasPrefix(v, "/") {
		return v
	}
	if u, err := user.Current(); err == nil && strings.HasPrefix(u.HomeDir, "/") {
		return u.HomeDir
	}
	return "/nonexistent"
}
