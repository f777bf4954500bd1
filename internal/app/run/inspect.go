package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/hide"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/wire"
)

// Inspection is all that a run would have, made of the plan that the run itself
// is made of. Its form as JSON is stable: members are added, never changed.
type Inspection struct {
	Command   []string         `json:"command"`
	Agent     string           `json:"agent,omitempty"`
	Runtime   string           `json:"runtime"`
	Workspace InspectedFolder  `json:"workspace"`
	Network   InspectedNet     `json:"network"`
	Mounts    []InspectedMount `json:"mounts"`
	Memory    []InspectedTmpfs `json:"memory"`    // file systems in memory, gone afterwards
	Files     []string         `json:"files"`     // that bailey makes
	Variables InspectedEnv     `json:"variables"` // names; values are in no output
	Secrets   []InspectedLent  `json:"secrets"`
	Model     *InspectedModel  `json:"model,omitempty"`
	Home      InspectedHome    `json:"home"`
	Bridge    *InspectedBridge `json:"bridge,omitempty"`
	Limits    InspectedLimits  `json:"limits"`
	Hidden    []InspectedItem  `json:"hidden"`    // of what is mounted: what the sandbox does not see as it is
	Published []InspectedItem  `json:"published"` // what of the sandbox the host can reach
	Weakened  []InspectedItem  `json:"weakened"`  // what is less than the default
	Readable  []InspectedItem  `json:"readable"`  // what a person may not expect the sandbox to see
	Notes     []string         `json:"notes"`     // what the header of the run says, and that the command would not start
}

// InspectedFolder is the workspace.
type InspectedFolder struct {
	Path     string `json:"path"`
	Writable bool   `json:"writable"`
}

// InspectedNet is the network.
type InspectedNet struct {
	Mode      string   `json:"mode"`
	DNS       string   `json:"dns"`
	Ask       bool     `json:"ask"`
	Allow     []string `json:"allow"`
	Deny      []string `json:"deny"`
	Inspected []string `json:"inspected"` // hosts whose TLS is opened
}

// InspectedMount is a file or folder of the host.
type InspectedMount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	Writable bool   `json:"writable"`
	Why      string `json:"why,omitempty"`
}

// InspectedTmpfs is a file system in memory.
type InspectedTmpfs struct {
	Target string `json:"target"`
	Bytes  int64  `json:"bytes"`
}

// InspectedEnv are the names of the command's variables.
type InspectedEnv struct {
	Passed []string `json:"passed"` // by --env, --env-file and --secret, and those of the model
	Set    []string `json:"set"`    // by bailey
}

// InspectedLent is a secret that is lent.
type InspectedLent struct {
	Name     string `json:"name"`
	Variable string `json:"variable"`
}

// InspectedModel is the model of the run.
type InspectedModel struct {
	Name    string `json:"name"`
	Dialect string `json:"dialect"`
	Budget  string `json:"budget,omitempty"` // as the header says it; empty: there is none
}

// InspectedHome is the home.
type InspectedHome struct {
	Kept      bool     `json:"kept"` // false: in memory
	Name      string   `json:"name,omitempty"`
	Path      string   `json:"path,omitempty"`
	New       bool     `json:"new,omitempty"`    // the run would make it
	Shared    bool     `json:"shared,omitempty"` // another run uses it
	Logins    []string `json:"logins"`           // paths of files that hold one
	Changed   []string `json:"changed"`          // settings that an earlier run has changed, FILE: KEY, and that hold
	Overruled []string `json:"overruled"`        // and that do not
	Pinned    []string `json:"pinned"`
	Written   []string `json:"written"` // files that the run writes there
}

// InspectedBridge is what is carried of the host's settings for the agent.
type InspectedBridge struct {
	Sources   []string            `json:"sources"`
	Keys      []string            `json:"keys"`
	Left      []string            `json:"left"`
	Providers []InspectedProvider `json:"providers"`
}

// InspectedProvider is a provider of models that the agent may use.
type InspectedProvider struct {
	Name     string `json:"name"`
	URL      string `json:"url,omitempty"`
	Variable string `json:"variable,omitempty"`
	Active   bool   `json:"active"`
	Allowed  bool   `json:"allowed"`        // by the bridge
	Flag     string `json:"flag,omitempty"` // what would allow it, where the bridge does not
}

// InspectedLimits are the limits; 0 is none.
type InspectedLimits struct {
	MemoryBytes int64   `json:"memory_bytes"`
	CPUs        float64 `json:"cpus"`
	Processes   int64   `json:"processes"`
	OpenFiles   int64   `json:"open_files"`
	TmpBytes    int64   `json:"tmp_bytes"`
	DiskBytes   int64   `json:"disk_bytes"`
	Inodes      int64   `json:"inodes"`
	HomeBytes   int64   `json:"home_bytes"`
	TimeoutSec  float64 `json:"timeout_seconds"`
}

// InspectedItem is a thing and why it is there.
type InspectedItem struct {
	What string `json:"what"`
	Why  string `json:"why,omitempty"`
}

// Inspect makes the plan of a run and says what is in it. Nothing is made or
// started.
func Inspect(h Host, r Request) (Inspection, error) {
	if h.Helper == nil {
		h.Helper = &local.Pending{ID: bailey.NewSandboxID()}
	}
	p, err := makePlan(h, &r)
	if err != nil {
		return Inspection{}, err
	}
	defer func() { _ = p.environment.Close() }()
	u := &running{host: h, req: &r, plan: p}
	group, err := u.findGroup()
	if err != nil {
		return Inspection{}, err
	}
	out := Inspection{
		Command: r.Command, Agent: p.agent, Runtime: p.spec.Runtime.String(), Workspace: InspectedFolder{p.workspace, !r.ReadOnly},
		Network: p.inspectNet(), Mounts: []InspectedMount{}, Memory: []InspectedTmpfs{}, Files: []string{},
		Variables: p.inspectEnv(), Secrets: []InspectedLent{}, Home: p.inspectHome(), Bridge: p.inspectBridge(), Limits: p.inspectLimits(),
		Hidden: append(p.hidden(), p.hiddenByName(&r)...), Published: p.inspectPublished(), Weakened: append(p.weakened(), r.Loose.inspected()...), Readable: p.readable(),
		Notes: slices.Concat([]string{u.netLine()}, p.hidingLines(), p.notes, limitLines(watched(group.Statuses())), p.unfitLines()),
	}
	for _, m := range p.spec.Mounts {
		out.Mounts = append(out.Mounts, InspectedMount{m.Source, m.Target, m.Writable, m.Why})
	}
	for _, t := range p.spec.Tmpfs {
		out.Memory = append(out.Memory, InspectedTmpfs{t.Target, t.Bytes})
	}
	for _, f := range p.spec.Files {
		out.Files = append(out.Files, f.Path)
	}
	for _, f := range p.files {
		out.Files = append(out.Files, f.Path)
	}
	for _, s := range p.secrets {
		out.Secrets = append(out.Secrets, InspectedLent{s.Name, s.variable})
	}
	if p.model != nil {
		out.Model = &InspectedModel{p.model.ID, string(p.model.Dialect), p.model.limits.Line()}
	}
	return out, nil
}

func (p *plan) inspectNet() InspectedNet {
	texts := func(list []policy.Rule) []string {
		out := []string{}
		for _, r := range list {
			if text := r.Text(); !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
		return out
	}
	return InspectedNet{
		Mode: p.policy.Mode.String(), DNS: p.policy.DNS.String(), Ask: p.policy.Ask,
		Allow: texts(p.policy.Allow), Deny: texts(p.policy.Deny), Inspected: texts(p.policy.Opened()),
	}
}

func (p *plan) inspectEnv() InspectedEnv {
	out := InspectedEnv{Passed: listOf(p.passed), Set: []string{}}
	for _, name := range names(p.exec.Env) {
		if !slices.Contains(p.passed, name) {
			out.Set = append(out.Set, name)
		}
	}
	return out
}

// unfitLines say that the command would surely not start.
func (p *plan) unfitLines() []string {
	why, code := p.unfit()
	if why == "" {
		return nil
	}
	return []string{fmt.Sprintf("%s: the run would end with exit code %d; --tool NAME shows a program of this machine", why, code)}
}

// listOf is a copy that is [] in JSON and never null.
func listOf(list []string) []string { return append([]string{}, list...) }

// names are the names in a list of NAME=VALUE, sorted.
func names(pairs []string) []string {
	out := make([]string, 0, len(pairs))
	for _, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p *plan) inspectHome() InspectedHome {
	hp := p.home
	if hp == nil {
		return InspectedHome{Logins: []string{}, Changed: []string{}, Overruled: []string{}, Pinned: []string{}, Written: []string{}}
	}
	out := InspectedHome{
		Kept: true, Name: hp.name, New: hp.isNew, Shared: hp.shared, Logins: []string{},
		Changed: listOf(hp.kept), Overruled: listOf(hp.overruled), Pinned: listOf(hp.pins), Written: []string{},
	}
	for _, m := range p.spec.Mounts {
		if m.Target == rootfs.HomeDir {
			out.Path = m.Source
		}
	}
	for _, l := range hp.logins {
		out.Logins = append(out.Logins, l.Path)
	}
	for _, w := range hp.writes {
		out.Written = append(out.Written, rootfs.HomeDir+"/"+w.Path)
	}
	return out
}

func (p *plan) inspectBridge() *InspectedBridge {
	c := p.carried
	if c == nil || len(c.Sources) == 0 {
		return nil
	}
	out := &InspectedBridge{Sources: c.Sources, Keys: listOf(c.Keys), Left: listOf(c.Left), Providers: []InspectedProvider{}}
	for _, pr := range c.Providers {
		allowed, flag := pr.Active && pr.Rule != "", pr.Flag
		if flag == "" && pr.Rule != "" && !allowed {
			flag = "--allow " + pr.Rule
		}
		out.Providers = append(out.Providers, InspectedProvider{pr.Name, pr.URL, pr.Variable, pr.Active, allowed, flag})
	}
	return out
}

func (p *plan) inspectLimits() InspectedLimits {
	l := p.spec.Limits
	out := InspectedLimits{
		MemoryBytes: l.MemoryBytes, CPUs: float64(l.MilliCPUs) / 1000, Processes: l.Processes - wire.ThreadReserve, OpenFiles: l.OpenFiles,
		TmpBytes: l.TmpBytes, DiskBytes: l.DiskBytes, Inodes: l.Inodes, TimeoutSec: l.Timeout.Round(time.Millisecond).Seconds(),
	}
	if p.home != nil {
		out.HomeBytes = p.home.growth
	}
	return out
}

// hidden is what of the mounts the sandbox has a copy of, or does not see.
func (p *plan) hidden() []InspectedItem {
	out := []InspectedItem{}
	for _, s := range p.spec.Shadows {
		out = append(out, InspectedItem{s.Path, "a private copy: what is written there does not reach the host"})
	}
	for _, m := range p.spec.Masks {
		out = append(out, InspectedItem{m, "nobody inside may read or execute it"})
	}
	return out
}

// weakened is what of the network and of hidden files guards less than by default.
func (p *plan) weakened() []InspectedItem {
	out := []InspectedItem{}
	if p.policy.Mode == bailey.NetOpen || p.policy.Mode == bailey.NetFull {
		out = append(out, InspectedItem{fmt.Sprintf("--net %s", p.policy.Mode), "hosts that no rule names are reached"})
	}
	if slices.Contains(p.showing, everythingShown) {
		out = append(out, InspectedItem{"--show " + everythingShown, "the sandbox sees every file of the workspace, secrets too"})
	}
	if p.policy.DNS == bailey.DNSOpen && p.policy.Mode != bailey.NetNone {
		out = append(out, InspectedItem{"--dns open", "any name is looked up"})
	}
	return out
}

// hiddenByName is which files of the workspace are hidden by what they are
// called.
func (p *plan) hiddenByName(r *Request) []InspectedItem {
	out := []InspectedItem{}
	if r.Task != nil || r.Work != nil || slices.Contains(p.showing, everythingShown) {
		return out
	}
	hides, shows := p.hidingRules(r)
	for _, pattern := range hide.Defaults() {
		if slices.Contains(shows, pattern) {
			continue
		}
		out = append(out, InspectedItem{pattern, "usually holds secrets; not where git has it as it is"})
	}
	for _, pattern := range hides {
		out = append(out, InspectedItem{pattern, "by --hide, or hide in a policy file"})
	}
	for _, pattern := range shows {
		out = append(out, InspectedItem{pattern, "not hidden: seen all the same, by --show, or show in your own policy file"})
	}
	return out
}

func (p *plan) inspectPublished() []InspectedItem {
	out := []InspectedItem{}
	for _, port := range p.publishedInfo() {
		out = append(out, InspectedItem{fmt.Sprintf("port %d of this machine's loopback", port.Host), fmt.Sprintf("leads to port %d inside", port.Port)})
	}
	if p.opens {
		out = append(out, InspectedItem{"your browser", "opens pages of logins that a program inside asks for (--open-browser)"})
	}
	return out
}

// readable is what of the host is shown beside the workspace and the system.
func (p *plan) readable() []InspectedItem {
	out := []InspectedItem{}
	for _, s := range p.open.shown {
		why := "skills: every file below it, its history too"
		switch {
		case s.Writable:
			why = s.flag + ": writable"
		case s.flag != "":
			why = s.flag
		case s.what != "skills":
			why = "what the agent remembers of you"
		}
		out = append(out, InspectedItem{s.Path, why})
	}
	return out
}

func (l Loosened) inspected() []InspectedItem {
	out := []InspectedItem{}
	for _, line := range l.lines() {
		flag, why, _ := strings.Cut(strings.TrimPrefix(line, "LOOSENED by "), ": ")
		out = append(out, InspectedItem{flag, why})
	}
	return out
}
