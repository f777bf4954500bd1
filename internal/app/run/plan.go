package run

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/bridge"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/environment"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/pki"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/vault"
	"github.com/bailey-dev/bailey/internal/wire"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// plan is everything decided before anything is made.
type plan struct {
	name      string
	workspace string
	guard     workspace.Guard
	spec      sandbox.Spec
	policy    policy.Policy // at the start
	sources   settings.Sources
	effective settings.Effective // by them
	mark      settings.Mark      // of the files that the sources were read from
	place     settings.Place
	seen      settings.Seen // the project's policy file at the start
	quiet     []string      // hosts whose refusal is not worth a line
	exec      wire.Exec
	tty       bool
	files     []wire.File // for the command's home
	notes     []string    // sentences for the header
	mounted   []bailey.Mount
	open      opening      // of the host beside the workspace
	root      *pki.Root    // with which TLS is opened, or nil; it leaves this process for the proxy alone
	secrets   []lentSecret // so do their values
	vault     *vault.Vault // that they were read from
	model     *modelPlan   // nil: the run has none
	git       *gitPlan     // over SSH; nil: the run has none
	upstream  upstreamPlan
	learned   *learned     // nil: the run does not learn
	hiding    *hiding      // nil: no file is hidden
	showing   []string     // --show
	published []*published // --publish
	opens     bool         // --open-browser
	lacks     []string     // of a task: what its agent does not do by itself
	agent     string       // by name; empty: another command
	passed    []string     // the names of variables that the caller gave, as they are
	carried   *bridge.Carried

	home        *homePlan                // nil: the home is in memory, and gone afterwards
	environment *environment.Environment // nil: the run uses none
	use         environment.Use          // what it gets of that
}

// makePlan checks the request against the machine and decides everything. It
// makes nothing, so any error leaves nothing behind.
func makePlan(h Host, r *Request) (*plan, error) { //nolint:funlen,gocognit // the order of decisions is the point
	ws, start, err := openWorkspace(&h, r)
	if err != nil {
		return nil, nested(h, err)
	}
	in, err := entering(h, r, ws)
	if err != nil {
		return nil, err
	}
	preset, model, env := in.preset, in.model, in.env
	place := h.Place(ws.Path)
	seen, mark := place.Look(), place.Mark()
	sources, holds, err := buildPolicy(h, r, ws.Path, preset.Allow)
	if err != nil {
		return nil, err
	}
	pol := holds.Policy()
	if err := model.apart(pol); err != nil {
		return nil, err
	}
	ports, err := parsePublished(r.Publish)
	if err != nil {
		return nil, err
	}
	limits := r.Limits.Limits(h.CPUs, h.Memory)
	if err := config.Check(limits); err != nil {
		return nil, err
	}
	p := &plan{published: ports, workspace: ws.Path, guard: ws.Guard, policy: pol, place: place, seen: seen, lacks: in.lacks, tty: r.Background.terminal(h)}
	p.spec = sandbox.Spec{ID: h.Helper.ID, Net: pol.Mode, Limits: limits, FirstArgs: []string{sandbox.FirstPath, sandbox.FirstArg}}
	if err := p.chooseRuntime(r); err != nil {
		return nil, err
	}
	// The first process needs room for threads of its own when a fork bomb has
	// filled the command's.
	p.spec.Limits.Processes += wire.ThreadReserve
	if p.name, err = sandboxName(r.Name, ws.Path, p.spec.ID); err != nil {
		return nil, err
	}
	p.spec.Hostname = p.name
	if p.root, err = newRoot(p.name, pol, limits.Timeout); err != nil {
		return nil, err
	}
	p.agent, p.passed, p.carried = preset.Name, in.passed, in.carried
	p.model, p.secrets, p.vault = model, in.lent.secrets, in.lent.vault
	if p.git, err = planGit(h, ws.Path, holds); err != nil {
		return nil, err
	}
	if p.upstream, err = r.planUpstream(h, ws.Path, p, holds); err != nil {
		return nil, err
	}
	if p.learned, err = r.learning(h, ws.Path); err != nil {
		return nil, err
	}
	if p.spec.Loose, err = r.Loose.spec(p.spec.Runtime); err != nil {
		return nil, err
	}
	if err := p.openHost(h, r, ws, preset); err != nil {
		return nil, err
	}
	system, err := p.system(h, r, ws, preset)
	if err != nil {
		return nil, err
	}
	p.sources, p.effective, p.mark = sources, holds, mark
	p.notes = slices.Concat(model.notes(pol.Mode), sources.Notes(), r.Background.notes(p.name), r.doubts(h.isModel(ws.Path)), p.asks(), p.git.notes(), p.upstream.notes, lentNotes(p.secrets, pol), in.lent.notes)
	p.fill(ws, system, preset, r.Task)
	if err := errors.Join(p.planHome(h, r, in), p.placeHost(ws), p.hideFiles(r, ws), p.shareKernel()); err != nil {
		return nil, errors.Join(err, p.environment.Close())
	}
	p.exec = wire.Exec{
		Argv: r.Command, Dir: r.Work.dir(start), Main: true, Umask: umask(),
		Env:    merge(system.Env, giveWay(p.proxyEnv(), slices.Concat(preset.Env, env)), preset.Env, env, []string{"BAILEY_SANDBOX=" + p.name}),
		Files:  p.files,
		Limits: []wire.Limit{{Resource: unix.RLIMIT_NPROC, Value: uint64(limits.Processes)}},
	}
	p.lendBrowser(r)
	if preset.Name != "" {
		p.exec.Argv = preset.Command(r.Command[1:])
	}
	return p, nil
}

// entrance is what enters a sandbox with its command.
type entrance struct {
	lent   lending
	model  *modelPlan
	preset harness.Preset
	env    []string // what was given, lent and set for the model
	passed []string // the names of what was given
	lacks  []string // what the agent of a task does not do by itself

	settings agentSettings
	carried  *bridge.Carried // of the host's own settings; nil: nothing
}

// entering finds it.
func entering(h Host, r *Request, ws *workspace.Workspace) (in entrance, err error) {
	given, err := givenVariables(h, r, ws)
	if err != nil {
		return in, err
	}
	if in.lent, err = lend(h, r, given); err != nil {
		return in, err
	}
	if in.model, err = planModel(h, r, ws.Path, slices.Concat(given, in.lent.env)); err != nil {
		return in, err
	}
	in.passed = names(given)
	in.env = slices.Concat(given, in.lent.env, in.model.env())
	if in.preset, err = findPreset(h, r, ws.Seen(), in.env, in.model); err != nil {
		return in, err
	}
	if err = in.carry(h, r, ws.Seen()); err != nil {
		return in, err
	}
	in.preset, in.lacks, err = r.headless(in.preset)
	return in, err
}

// newRoot makes the root with which TLS is opened, or nil. It outlives the run,
// or where that has no end, lives as long as any.
func newRoot(name string, p policy.Policy, timeout time.Duration) (*pki.Root, error) {
	if timeout > 0 {
		timeout += time.Hour
	}
	return gate.NewRoot(name, p, time.Now(), timeout)
}

// asks says how a person answers, where they are asked, and which setting of
// the network comes to nothing.
func (p *plan) asks() []string {
	switch {
	case p.policy.DNS == bailey.DNSOpen && p.policy.Mode == bailey.NetNone:
		return []string{"dns open says nothing here: there is no network"}
	case p.policy.Ask && !p.policy.Mode.ByList() && p.policy.Mode != bailey.NetNone:
		return []string{fmt.Sprintf("ask says nothing here: mode %s lets hosts through that no rule names", p.policy.Mode)}
	case !p.answered():
		return nil
	}
	return []string{p.answerLine()}
}

// answered reports whether a person's answers are waited for.
func (p *plan) answered() bool { return p.policy.Ask && p.policy.Mode.ByList() }

// answerLine says how a person answers. It is said also under --quiet, where
// connections would wait for somebody who does not know.
func (p *plan) answerLine() string {
	return fmt.Sprintf("asks: a host that no rule names waits 30 seconds for an answer: bailey net pending --sandbox %s", p.name)
}

// system lays out the root file system.
func (p *plan) system(h Host, r *Request, ws *workspace.Workspace, preset harness.Preset) (rootfs.Plan, error) {
	id := gitdata.ReadIdentity(h.Home, h.Env.Get("XDG_CONFIG_HOME"))
	host := rootfs.Host{
		UID: h.UID, GID: h.GID, Hostname: p.spec.Hostname, Env: h.Env.Get, Workspace: ws.Seen(),
		GitName: id.Name, GitEmail: id.Email, SafeDirs: ws.SafeDirs, TmpBytes: p.spec.Limits.TmpBytes, AsRoot: p.spec.Loose.Root,
	}
	if p.policy.Mode != bailey.NetNone {
		host.Nameserver = airlock.Gateway()
	}
	if p.root != nil {
		host.Root = p.root.DER()
	}
	if p.policy.Mode != bailey.NetNone {
		host.Extra = p.upstream.extra
	}
	r.Work.into(ws, r.Own)
	if err := p.openEnvironment(h, r, ws); err != nil {
		return rootfs.Plan{}, err
	}
	var err error
	var plan rootfs.Plan
	if host.Tools, err = p.tools(h, r, ws.Seen(), preset, r.agentTools(p.model)); err == nil {
		plan, err = rootfs.FromHost(host)
	}
	if err != nil {
		return rootfs.Plan{}, errors.Join(err, p.environment.Close())
	}
	return plan, nil
}

// fill puts the parts together.
func (p *plan) fill(ws *workspace.Workspace, system rootfs.Plan, preset harness.Preset, task *Task) {
	s := &p.spec
	s.UID, s.GID = system.UID, system.GID
	preset.Mounts = slices.DeleteFunc(slices.Clone(preset.Mounts), func(m bailey.Mount) bool {
		return slices.ContainsFunc(system.Mounts, func(o bailey.Mount) bool { return o.Target == m.Target }) // --tool named it too
	})
	s.Mounts = slices.Concat(system.Mounts, preset.Mounts, ws.Mounts)
	for i := range s.Mounts {
		if s.Mounts[i].Target == ws.Seen() {
			s.Mounts[i].Dcache = dcache()
		}
	}
	s.Tmpfs, s.Links = system.Tmpfs, slices.Concat(system.Links, ws.Links)
	s.Files = system.Files
	s.Shadows, s.GitDirs = ws.Shadows, ws.Guard.GitDirs
	for _, f := range slices.Concat(system.Home, preset.Files) {
		p.files = append(p.files, wire.File{Path: f.Path, Mode: uint16(f.Mode.Perm()), Data: f.Data})
	}
	for _, m := range slices.Concat(system.Mounts, preset.Mounts) {
		if m.Why != "" {
			p.mounted = append(p.mounted, m)
		}
	}
	p.git.into(p)
	p.confine(task)
	p.quiet = preset.Quiet
	p.notes = slices.Concat(system.Notes, preset.Notes, ws.Notes, p.notes)
}

func (p *plan) proxyEnv() []string {
	if p.policy.Mode == bailey.NetNone {
		return nil
	}
	return proxyEnv(p.spec.Hostname)
}

// proxy is what the proxy is told.
func (p *plan) proxy() (gate.Settings, error) {
	s := gate.Settings{Sandbox: p.spec.ID, Policy: p.policy, Secrets: forProxy(p.secrets), Git: p.git.hostKey(), Upstream: p.upstream.proxy, Extra: p.upstream.extra}
	if p.root == nil {
		return s, nil
	}
	var err error
	s.Root, err = p.root.Seal()
	return s, err
}

// mostDcache is how many names of the workspace gVisor remembers at most.
const mostDcache = 16000

// dcache is how many names of the workspace gVisor remembers: each may cost
// its kernel two descriptors of the host, of which it needs some for itself.
// 0 leaves it at gVisor's own default, 1000.
func dcache() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	const own = 3000
	n := (int(min(l.Max, 1<<20)) - own) / 2
	if n < 2000 {
		return 0
	}
	return min(n, mostDcache)
}

// umask returns the caller's, which the command gets: it is the caller's files
// that are made. What bailey makes from here on, its runtime folder and what is
// in it, is private to the user and open to them, whatever the caller's mask.
func umask() uint16 { return uint16(unix.Umask(0o077)) }
