package run

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/wire"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// Openings is what a run shows its sandbox of the host beside the workspace.
type Openings struct {
	Mounts    []string // --mount SRC:DST[:rw]
	NoAgents  bool     // --no-agents
	AgentsDir string   // --agents-dir; empty: ~/.agents, if it is there
	NoMemory  bool     // --no-memory
}

// opening is the part of a plan that they ask for.
type opening struct {
	beside []*workspace.Beside
	shown  []opened
	kept   []string // of the host: what no sandbox may write to
	rw     []string // of the host, as named: what this one may write to beside the workspace
	links  []wire.File
	notes  []string
}

// opened is one thing of the host that is shown.
type opened struct {
	*workspace.Beside

	at   string // where the command finds it
	flag string // by which it is named; empty: it is shown unless a flag says no
	what string // for the header
}

// besideDir is where lies inside what is found by a link in the home: whoever
// mounts below a folder there would have that folder made, and made root's.
const besideDir = "/.bailey/beside"

// openHost finds what is to be shown of the host beside the workspace. It has
// to come before the root file system is laid out, which says whom git trusts.
func (p *plan) openHost(h Host, r *Request, ws *workspace.Workspace, preset harness.Preset) error {
	if r.Task != nil || r.Work != nil {
		return nil
	}
	o := &p.open
	for _, text := range r.Open.Mounts {
		if m, err := parseMount(text, h); err == nil && m.writable {
			o.rw = append(o.rw, m.source)
		}
	}
	skills, err := o.skills(h, r, ws)
	if err != nil {
		return err
	}
	if skills != nil {
		o.shown = append(o.shown, *skills)
	}
	o.memory(h, r, ws, preset)
	for _, text := range r.Open.Mounts {
		if err := o.named(h, ws, text); err != nil {
			return err
		}
	}
	for _, s := range o.shown {
		o.beside = append(o.beside, s.Beside)
		ws.SafeDirs = append(ws.SafeDirs, s.SafeDirs...)
		o.notes = append(o.notes, s.Notes...)
	}
	return nil
}

// naming is what all that is shown has in common.
func (o *opening) naming(h Host, ws *workspace.Workspace, name, target string) workspace.Named {
	return workspace.Named{
		Name: name, Target: target, Workspace: ws.Path, Written: o.rw, Kept: o.kept,
		UID: h.UID, Home: h.Home, Own: slices.Concat(h.Dirs.All(), h.Vault().Files()),
		GitConfigs: gitdata.UserFiles(h.Home, h.Env.Get("XDG_CONFIG_HOME"), h.Env.Get("GIT_CONFIG_GLOBAL")),
	}
}

// agentsName is the folder of skills in a home, on the host and inside.
const agentsName = ".agents"

// skills finds the folder of skills. It is kept from being written to whether
// it is shown or not: agents on the host are told by it too.
func (o *opening) skills(h Host, r *Request, ws *workspace.Workspace) (*opened, error) { //nolint:gocognit // one check after the other
	standing := ""
	if h.Home != "" {
		standing = filepath.Join(h.Home, agentsName)
		if at, path, _, err := beneath.Named(standing); err == nil {
			_ = at.Close() // O_PATH: nothing to lose
			o.kept = append(o.kept, path)
		}
	}
	target := path.Join(rootfs.HomeDir, agentsName)
	if r.Open.AgentsDir != "" { //nolint:nestif // one check after the other
		if r.Open.NoAgents {
			return nil, bailey.NewError(bailey.Invalid, "--agents-dir and --no-agents say opposite things", "leave one of them out")
		}
		dir := r.Open.AgentsDir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(h.Dir, dir)
		}
		b, err := workspace.OpenBeside(o.naming(h, ws, dir, target))
		if err != nil {
			return nil, flagged("--agents-dir", err)
		}
		if !b.Dir {
			return nil, bailey.NewError(bailey.Invalid, "--agents-dir: "+b.Path+" is no folder", "name the folder that the skills are in")
		}
		o.kept = append(o.kept, b.Path)
		return &opened{Beside: b, at: target, flag: "--agents-dir", what: "skills"}, nil
	}
	if r.Open.NoAgents || len(o.kept) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	b, why := o.own(h, ws, agentsName, target)
	if why == "" && !b.Dir {
		why = "it is no folder"
	}
	if why != "" {
		o.notes = append(o.notes, fmt.Sprintf("skills: %s is not shown: %s", standing, why))
		return nil, nil //nolint:nilnil // likewise
	}
	return &opened{Beside: b, at: target, flag: "", what: "skills"}, nil
}

// own opens what is shown without having been named, or says why not: it is the
// caller's, and nobody else's to write. It may be a link, as into a repository of
// one's settings; but where agents have run in that, a second link behind the
// first would be theirs, and any file of the user's be shown to every sandbox.
func (o *opening) own(h Host, ws *workspace.Workspace, rel, target string) (*workspace.Beside, string) {
	w, err := beneath.WalkHome(h.Home, rel)
	if err != nil {
		return nil, "it leads to nothing"
	}
	_ = w.At.Close() // O_PATH: nothing to lose
	switch {
	case len(w.Links) > 1:
		return nil, fmt.Sprintf("it leads by more than one link (%s), of which an agent may have made the last; if that is meant: ln -sfn %s %s", strings.Join(w.Links, ", "), w.Path, filepath.Join(h.Home, rel))
	case w.Info.UID != h.UID:
		return nil, fmt.Sprintf("%s belongs to user %d", w.Path, w.Info.UID)
	case w.Info.Mode.Perm()&0o002 != 0:
		return nil, "others may write to " + w.Path
	case sandbox.Within(w.Path, ws.Path):
		return nil, "it lies in the workspace"
	}
	b, err := workspace.OpenBeside(o.naming(h, ws, w.Path, target))
	if err != nil {
		return nil, err.Error()
	}
	if is := b.Mounts[0].Is; b.Path != w.Path || is != (bailey.FileID{Dev: w.Info.Dev, Ino: w.Info.Ino}) {
		return nil, "it was moved meanwhile"
	}
	return b, ""
}

// memory finds the instructions that the user keeps for the agents of the run.
func (o *opening) memory(h Host, r *Request, ws *workspace.Workspace, preset harness.Preset) {
	if r.Open.NoMemory || h.Home == "" {
		return
	}
	agents := slices.Clone(r.Tools)
	if preset.Name != "" {
		agents = append([]string{preset.Name}, agents...)
	}
	for i, agent := range agents {
		rel := harness.Memory(agent)
		if rel == "" || slices.Contains(agents[:i], agent) {
			continue
		}
		name := filepath.Join(h.Home, rel)
		at, _, _, err := beneath.Named(name)
		if err != nil {
			continue // there is none
		}
		_ = at.Close() // O_PATH: nothing to lose
		b, why := o.own(h, ws, rel, path.Join(besideDir, agent, path.Base(rel)))
		if why == "" && b.Dir {
			why = "it is no file"
		}
		if why != "" {
			o.notes = append(o.notes, fmt.Sprintf("memory: %s is not shown: %s", name, why))
			continue
		}
		found := path.Join(rootfs.HomeDir, rel)
		o.links = append(o.links, wire.File{Path: found, Mode: wire.LinkMode, Data: []byte(b.Mounts[0].Target)})
		o.kept = append(o.kept, b.Path)
		o.shown = append(o.shown, opened{Beside: b, at: found, flag: "", what: "memory"})
	}
}

// named finds what one --mount names.
func (o *opening) named(h Host, ws *workspace.Workspace, text string) error {
	m, err := parseMount(text, h)
	if err != nil {
		return err
	}
	at := m.target
	if rel, ok := strings.CutPrefix(m.target, rootfs.HomeDir+"/"); ok && strings.Contains(rel, "/") {
		at = path.Join(besideDir, fmt.Sprintf("mount-%d", len(o.shown)), path.Base(rel))
		o.links = append(o.links, wire.File{Path: m.target, Mode: wire.LinkMode, Data: []byte(at)})
	}
	n := o.naming(h, ws, m.source, at)
	n.Writable = m.writable
	b, err := workspace.OpenBeside(n)
	if err != nil {
		return flagged("--mount", err)
	}
	for _, other := range o.shown {
		if (b.Writable || other.Writable) && (sandbox.Within(b.Path, other.Path) || sandbox.Within(other.Path, b.Path)) {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("--mount: %s and %s overlap, and one of them may be written to", b.Path, other.Path), "name one of them")
		}
	}
	if b.Dir && (sandbox.Within(b.Path, ws.Path) || sandbox.Within(ws.Path, b.Path)) {
		o.notes = append(o.notes, fmt.Sprintf("--mount shows at %s what is hidden of the workspace below %s", m.target, b.Path))
	}
	o.shown = append(o.shown, opened{Beside: b, at: m.target, flag: "--mount", what: "mount"})
	return nil
}

// flagged names the flag that an error is about.
func flagged(flag string, err error) error {
	if e, ok := err.(*bailey.Error); ok { //nolint:errorlint // only the outermost is printed
		e.Message = flag + ": " + e.Message
	}
	return err
}

// mountFlag is what one --mount says.
type mountFlag struct {
	source, target string
	writable       bool
}

// parseMount reads SRC:DST[:rw].
func parseMount(text string, h Host) (m mountFlag, err error) { //nolint:gocognit // one check after the other
	wrong := func(what string) error {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--mount %s: %s", text, what), "use SRC:DST, which is read-only, or SRC:DST:rw")
	}
	parts := strings.Split(text, ":")
	if n := len(parts); n > 2 {
		switch parts[n-1] {
		case "rw":
			m.writable, parts = true, parts[:n-1]
		case "ro":
			parts = parts[:n-1]
		}
	}
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
		return m, wrong("this is not a source and a place (a path with a colon cannot be named)")
	}
	m.source, m.target = parts[0], parts[1]
	if rest, ok := strings.CutPrefix(m.source, "~"); ok && (rest == "" || rest[0] == '/') {
		if h.Home == "" {
			return m, wrong("you have no home folder")
		}
		m.source = filepath.Join(h.Home, rest)
	}
	if !filepath.IsAbs(m.source) {
		m.source = filepath.Join(h.Dir, m.source)
	}
	if rest, ok := strings.CutPrefix(m.target, "~"); ok && (rest == "" || rest[0] == '/') {
		m.target = path.Join(rootfs.HomeDir, rest)
	}
	if !path.IsAbs(m.target) {
		return m, wrong("the place inside is not an absolute path")
	}
	if strings.ContainsFunc(m.target, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return m, wrong("the place inside has control characters")
	}
	m.target = path.Clean(m.target)
	return m, nil
}

// placeHost puts what is shown into the plan, when all else is there that it
// must not cover.
func (p *plan) placeHost(ws *workspace.Workspace) error {
	for i, s := range p.open.shown {
		if err := p.placeable(ws, s, p.open.shown[:i]); err != nil {
			return err
		}
	}
	for _, s := range p.open.shown {
		p.spec.Mounts = append(p.spec.Mounts, s.Mounts...)
		p.spec.Shadows = append(p.spec.Shadows, s.Shadows...)
		p.spec.GitDirs = append(slices.Clone(p.spec.GitDirs), s.GitDirs...)
	}
	p.files = append(p.files, p.open.links...)
	p.notes = append(p.notes, p.open.notes...)
	return p.keep()
}

// keep refuses a sandbox that could write to what none may, by whatever mount.
func (p *plan) keep() error {
	for _, m := range p.spec.Mounts {
		for _, kept := range p.open.kept {
			if m.Writable && (sandbox.Within(m.Source, kept) || sandbox.Within(kept, m.Source)) {
				return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s would be the sandbox's to change through %s, and it is read-only in every sandbox: agents are told by it", kept, m.Source),
					"use --read-only, or work on a copy of it (git clone)")
			}
		}
	}
	return nil
}

// systemTargets are folders inside that are the sandbox's own.
func systemTargets() []string {
	return []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/run", "/.bailey"}
}

// freePlace is a place inside where nothing is asked to be shown.
func (p *plan) freePlace(name string) string {
	dir := "/mnt"
	if slices.ContainsFunc(p.open.shown, func(o opened) bool { return o.at == dir }) {
		dir = "/opt"
	}
	place := path.Join(dir, name)
	taken := func(o opened) bool { return sandbox.Within(o.at, place) || sandbox.Within(place, o.at) }
	for n := 2; n < len(p.open.shown)+2 && slices.ContainsFunc(p.open.shown, taken); n++ {
		place = fmt.Sprintf("%s/%s-%d", dir, name, n)
	}
	return place
}

// placeable says why something may not be shown at its place, or nil.
func (p *plan) placeable(ws *workspace.Workspace, s opened, before []opened) error { //nolint:gocognit // one check after the other
	no := func(why string) error {
		flag := s.flag
		if flag == "" {
			flag = s.what
		}
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: nothing is mounted at %s: %s", flag, s.at, why), "choose another place inside, such as "+p.freePlace(path.Base(s.at)))
	}
	if slices.ContainsFunc(systemTargets(), func(dir string) bool { return sandbox.Within(s.at, dir) }) {
		return no("it belongs to the system inside")
	}
	overlaps := func(place string) bool { return sandbox.Within(s.at, place) || sandbox.Within(place, s.at) }
	for _, o := range before {
		if overlaps(o.at) {
			return no("something else is shown at " + o.at)
		}
	}
	if sandbox.Within(s.at, ws.Seen()) {
		return p.placeableInside(ws, s, no)
	}
	isOfWorkspace := func(place string) bool { return sandbox.Within(place, ws.Seen()) && s.at == s.Path }
	inHome := func(place string) bool { return place == rootfs.HomeDir && !sandbox.Within(place, s.at) } // one that is kept
	for _, m := range p.spec.Mounts {
		if overlaps(m.Target) && !isOfWorkspace(m.Target) && !inHome(m.Target) {
			return no("it would cover, or lie in, " + m.Target)
		}
	}
	for _, t := range p.spec.Tmpfs {
		if sandbox.Within(t.Target, s.at) {
			return no("it would cover " + t.Target)
		}
	}
	var made []string
	for _, f := range p.spec.Files {
		made = append(made, f.Path)
	}
	for _, f := range p.files {
		made = append(made, f.Path)
	}
	for _, l := range p.spec.Links {
		made = append(made, l.Path)
	}
	for _, place := range made {
		if overlaps(place) {
			return no("bailey makes " + place + " itself")
		}
	}
	return nil
}

// placeableInside is placeable for a place in the workspace: what is covered
// there has to exist, or it would be made on the host, and nothing of git's is
// covered, nor what stands in for it.
func (p *plan) placeableInside(ws *workspace.Workspace, s opened, no func(string) error) error { //nolint:gocognit // one check after the other
	rel := strings.TrimPrefix(strings.TrimPrefix(s.at, ws.Seen()), "/")
	if rel == "" {
		return no("the workspace is there")
	}
	for name := range strings.SplitSeq(rel, "/") {
		if strings.EqualFold(name, ".git") {
			return no("git keeps its own there")
		}
	}
	guarded := slices.Concat(p.spec.GitDirs, p.guard.Parts, p.guard.Absent, p.guard.Watch, p.guard.Programs)
	for _, sh := range p.spec.Shadows {
		guarded = append(guarded, sh.Path)
	}
	for _, m := range ws.Mounts[1:] {
		guarded = append(guarded, m.Target)
	}
	for _, g := range guarded {
		if sandbox.Within(s.at, g) || sandbox.Within(g, s.at) {
			return no("git keeps its own at " + g)
		}
	}
	root, err := beneath.Dir(ws.Path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	info, err := beneath.Lstat(root, rel)
	if err != nil || info.Mode.IsDir() != s.Dir || !s.Dir && !info.Mode.IsRegular() {
		kind := "file"
		if s.Dir {
			kind = "folder"
		}
		return no(fmt.Sprintf("in the workspace it has to be a %s that is there, with no link on the way", kind))
	}
	return nil
}

// writes reports whether something beside the workspace may be written to.
func (o *opening) writes() bool {
	return slices.ContainsFunc(o.beside, func(b *workspace.Beside) bool { return b.Writable })
}

// guards is what is guarded of the workspace and of what is beside it.
func (p *plan) guards() workspace.Guard {
	g := p.guard
	for _, b := range p.open.beside {
		if b.Writable && b.Dir {
			g = g.With(b.Guard)
		}
	}
	return g
}

// writable lists what is beside the workspace and may be written to.
func (o *opening) writable() (paths []string) {
	for _, b := range o.beside {
		if b.Writable {
			paths = append(paths, b.Path)
		}
	}
	return paths
}

// onHost is the path on the host of one of a private copy's.
func (o *opening) onHost(inside string) string {
	for _, b := range o.beside {
		if t := b.Mounts[0].Target; len(b.Shadows) > 0 && sandbox.Within(inside, t) {
			return b.Path + strings.TrimPrefix(inside, t)
		}
	}
	return inside
}

// lines are for the header.
func (o *opening) lines() (lines []string) {
	for _, s := range o.shown {
		switch {
		case s.Writable:
			lines = append(lines, fmt.Sprintf("mounted WRITABLE: %s at %s (%s); what is written there stays on this machine", s.Path, s.at, s.flag))
		case s.flag != "":
			lines = append(lines, fmt.Sprintf("mounted read-only: %s at %s (%s)", s.Path, s.at, s.flag))
		case s.what == "skills":
			lines = append(lines, fmt.Sprintf("skills, read-only: %s at %s (--no-agents leaves them out)", s.Path, s.at))
		default:
			lines = append(lines, fmt.Sprintf("memory, read-only: %s at %s (--no-memory leaves it out)", s.Path, s.at))
		}
	}
	return lines
}

// skillsAt is where the folder of skills is inside, or empty.
func (o *opening) skillsAt() string {
	for _, s := range o.shown {
		if s.what == "skills" {
			return s.at
		}
	}
	return ""
}

// listed is what `bailey ps` shows.
func (o *opening) listed() (list []control.Mount) {
	for _, s := range o.shown {
		list = append(list, control.Mount{Source: s.Path, Target: s.at, Writable: s.Writable})
	}
	return list
}

// besideFooter says what a person should know of what was written beside the
// workspace.
func (u *running) besideFooter() {
	for _, b := range u.plan.open.beside {
		switch {
		case !b.Writable:
		case b.Dir:
			repos, truncated := workspace.NewGitDirs(b.Guard, u.stamped, scanBudget, u.out.now)
			u.report(bailey.EventFileGit, "do not run git there, nor in a checkout above, before you have looked", repos)
			if truncated {
				u.warn(fmt.Sprintf("not all of %s was looked through for new git folders", b.Path))
			}
			u.reportRuns(workspace.HostRun(b.Guard, u.stamped))
		default:
			u.report(bailey.EventFileRuns, "written to by --mount, and read by programs of yours", b.Touched(u.stamped))
		}
	}
}
