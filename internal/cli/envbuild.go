package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/environment"
	"github.com/bailey-dev/bailey/internal/mirror"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type envBuildCommand struct {
	Repo    text     `placeholder:"DIR" help:"A folder in a git repository: the project. Default: the current one."`
	Kind    []string `placeholder:"KIND" sep:"none" help:"python, node or go. Default: each that the project is of. Repeatable."`
	Name    text     `placeholder:"NAME" help:"Name of the environment. Default: the folder's."`
	Rebuild bool     `help:"Build it though there is one of the same files, tools and packages."`

	Allow   []string        `placeholder:"HOST[:PORT]" sep:"none" help:"Let install scripts reach this host too, beside those that the package managers are configured for. Repeatable." group:"Network"`
	Memory  config.Bytes    `placeholder:"4G" help:"Memory of each sandbox of the build. Default: 4G, at most three quarters of the machine's." group:"Limits"`
	Disk    config.Bytes    `placeholder:"10G" help:"How much each kind may install, temporary files included. Default: 10G." group:"Limits"`
	Timeout config.Duration `placeholder:"1h" help:"How long each sandbox of the build may take. Default: 1h." group:"Limits"`

	JSON bool `name:"json" help:"Print the result as JSON." group:"Output"`

	Packages []string `arg:"" optional:"" help:"Packages beyond those of the project, as pip, npm or go install take them; after --."`
}

// Help is what `bailey env build --help` says beyond the flags.
func (envBuildCommand) Help() string {
	return `Installs what the committed state of a project names, in sandboxes that see nothing of the machine but its programs and reach nothing but the hosts that pip, npm and go are configured for on it. Tasks, checks and bailey run --environment NAME then have it read-only, at /opt/env, without any network (docs/environments.md).

Python: a virtual environment with pytest, the packages of requirements files and pyproject.toml, and groups and extras whose name has test or dev in it. Node: the packages of the lock file (npm ci), else of package.json. Go: the modules of go.mod.

When nothing changed that decides what is installed there is nothing to do, and that is said. What changed is built beside the environment, which is replaced when the new one is whole.

With --json: an object as bailey env ls has them, with reused: true where it was there.

Exit codes: 0 when the environment is there; 1 when a package manager failed, whose last lines are printed; 125 when bailey did.`
}

// Run builds.
func (c *envBuildCommand) Run(a *app) error {
	ctx, stop := untilTold(a.ctx)
	defer stop()
	project, err := c.project(a)
	if err != nil {
		return err
	}
	kinds, err := c.kinds()
	if err != nil {
		return err
	}
	// A sandbox's workspace is the current folder, whose rules hold.
	if err := os.Chdir(project.Root()); err != nil {
		return bailey.WrapError(bailey.NotFound, "go to the repository", err, "")
	}
	from := mirror.Host{Home: a.host.Home, Workspace: project.Root(), Env: a.host.Env.Get}
	b := &envBuilder{a: a, command: c, project: project, said: newProgress(a.host.Stderr)}
	built, err := a.environments().Build(ctx, environment.Request{
		Project: project, Kinds: kinds, Name: asBytes(string(c.Name)), Packages: each(c.Packages, asBytes), Rebuild: c.Rebuild, Arch: runtime.GOARCH,
		NPMRC: mirror.SourceOf("npm", from).NPMRC,
		Env: map[environment.Kind][]string{
			environment.Node:   nil, // has a file of settings
			environment.Python: mirror.SourceOf("pip", from).Env,
			environment.Go:     mirror.SourceOf("go", from).Env,
		},
		Say: b.said.say, Now: a.now,
	}, b)
	b.said.clear()
	if told := exitTold(ctx); told != nil {
		return told
	}
	if f, ok := errors.AsType[*environment.FailedError](err); ok {
		return c.failed(a, b, f)
	}
	if err != nil {
		return err
	}
	return c.built(a, built)
}

func (c *envBuildCommand) project(a *app) (environment.Project, error) {
	dir := asBytes(string(c.Repo))
	if dir == "" {
		dir = a.host.Dir
	}
	return environment.FindProject(dir)
}

func (c *envBuildCommand) kinds() ([]environment.Kind, error) {
	var out []environment.Kind
	for _, name := range c.Kind {
		k, err := kindOf(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out, nil
}

// failed shows the end of what a step said.
func (c *envBuildCommand) failed(a *app, b *envBuilder, f *environment.FailedError) error {
	for _, line := range b.said.tail() {
		_, _ = fmt.Fprintln(a.stderr, line)
	}
	_, _ = fmt.Fprintf(a.stderr, "bailey: the environment is not built: %s; nothing of it is left\n", terminal.Sanitize(f.Error()))
	return errUnfit
}

func (c *envBuildCommand) built(a *app, built environment.Built) error {
	row := rowOf(built.Folder, built.Manifest)
	row.Reused = built.Reused
	if c.JSON {
		return printJSON(a.stdout, row)
	}
	m := &built.Manifest
	for _, n := range m.Notes {
		_, _ = fmt.Fprintf(a.stderr, "bailey: %s\n", terminal.Sanitize(n))
	}
	what := "built"
	if built.Reused {
		what = "up to date"
	}
	_, err := fmt.Fprintf(a.stdout, "%s: %s (%s, %s)\n", what, m.Name, kindsText(m.Kinds), sizeText(m.Bytes))
	return err
}

// envBuilder runs the steps of a build, each as a run of its own.
type envBuilder struct {
	a       *app
	command *envBuildCommand
	project environment.Project
	said    *progress
}

// Step runs one. What it says goes to the progress alone.
func (b *envBuilder) Step(ctx context.Context, s environment.Step) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }() // read only
	said, done, err := b.said.follow()
	if err != nil {
		return 0, err
	}
	host := b.a.host
	host.Stdin, host.Stdout, host.Stderr, host.Helper, host.Dir = null, said, said, nil, b.project.Root()
	code, err := run.Run(ctx, host, b.request(s))
	return code, errors.Join(err, said.Close(), done())
}

func (b *envBuilder) request(s environment.Step) run.Request {
	c := b.command
	r := run.Request{
		Command: s.Command, ReadOnly: true, Env: s.Env,
		Limits: config.LimitFlags{Memory: c.Memory, Disk: c.Disk, Timeout: c.Timeout, Inodes: environment.MaxFiles},
		Work:   &run.Work{Hidden: !s.Repository, Output: s.Output, Mounts: s.Mounts, Programs: s.Programs},
	}
	if r.Limits.Disk == 0 {
		r.Limits.Disk = environment.MaxBytes
	}
	if r.Limits.Timeout == 0 {
		r.Limits.Timeout = config.Duration(time.Hour)
	}
	if s.Repository && b.project.Folder != "" {
		r.Workdir = "./" + filepath.FromSlash(b.project.Folder)
	}
	if s.Preset == "" {
		r.Net = bailey.NetNone.String()
		return r
	}
	r.Net, r.Presets, r.Allow = bailey.NetAllow.String(), []string{s.Preset}, c.Allow
	return r
}
