package run

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/home"
	"github.com/bailey-dev/bailey/internal/preferences"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/wire"
)

// Homes is what a run is asked about its home, and about the host's settings
// for its agent.
type Homes struct {
	Name      string   // --home; empty: one for the agent and the workspace, and none for other commands
	Ephemeral bool     // --ephemeral-home
	Growth    int64    // --home-disk, in bytes; 0: the default
	Pins      []string // --pin: keys of settings
	NoBridge  bool     // --no-bridge
}

// defaultGrowth is how much a home may grow in a run.
const defaultGrowth = 10 << 30

// homePlan is the home of a run that is kept. What it is to hold is decided
// before anything is made.
type homePlan struct {
	name   string
	store  home.Store
	meta   home.Meta
	isNew  bool
	shared bool // another run uses it
	growth int64

	writes    []home.File
	rivals    []string                // files that the agent would read over its settings
	asides    []string                // those of them that are there
	settings  map[string]settingsFile // by their paths below the home, as they are written
	kept      []string                // what an earlier run has changed, and holds: FILE: KEY
	overruled []string                // and does not
	logins    []home.Login            // that it holds
	pins      []string

	open  *home.Home
	watch *homeWatch
}

// planHome decides about the home, and takes those files out of the plan that it
// is to hold.
func (p *plan) planHome(h Host, r *Request, in entrance) error {
	name, err := r.Homes.home(p.workspace, in.preset, r.Task != nil || r.Work != nil)
	if name == "" || err != nil {
		return err
	}
	hp := &homePlan{name: name, store: home.In(h.Dirs.Data), growth: r.Homes.Growth, settings: map[string]settingsFile{}, meta: home.Meta{Created: time.Now().UTC(), Workspace: p.workspace}}
	if hp.growth == 0 {
		hp.growth = defaultGrowth
	}
	if r.Homes.Name == "" {
		hp.meta.Agent = in.preset.Name
	}
	pins, err := settings.LoadHome(p.place)
	if err != nil {
		return short(err)
	}
	hp.pins = slices.Concat(pins.Pin, r.Homes.Pins)
	found, err := hp.store.Open(name, nil)
	switch {
	case bailey.KindOf(err) == bailey.NotFound:
		hp.isNew = true
	case err != nil:
		return err
	default:
		hp.shared, hp.logins = found.Shared, found.Logins()
		defer func() { _ = found.Close() }()
	}
	if err := hp.fill(p, in.settings, found); err != nil {
		return err
	}
	p.notes = append(p.notes, hp.idlePins(r.Homes.Pins)...)
	p.home = hp
	p.spec.Tmpfs = slices.DeleteFunc(p.spec.Tmpfs, func(t bailey.Tmpfs) bool { return t.Target == rootfs.HomeDir })
	p.spec.Mounts = append(p.spec.Mounts, bailey.Mount{Source: hp.store.Files(name), Target: rootfs.HomeDir, Writable: true, Owned: true})
	p.notes = append(p.notes, hp.notes()...)
	return nil
}

// home is the name of the home that is asked for, or "" for one in memory.
func (o Homes) home(workspace string, preset harness.Preset, none bool) (string, error) {
	switch {
	case o.Name != "" && o.Ephemeral:
		return "", bailey.NewError(bailey.Invalid, "--home and --ephemeral-home exclude each other", "leave one of them out")
	case o.Name != "":
		if err := home.CheckName(o.Name); err != nil {
			return "", bailey.WrapError(bailey.KindOf(err), "--home", err, "")
		}
		return o.Name, nil
	case o.Ephemeral || none || preset.Name == "":
		if len(o.Pins) > 0 {
			return "", bailey.NewError(bailey.Invalid, "--pin is about a home that is kept, and this run has none", "add --home NAME, or leave it out")
		}
		return "", nil
	}
	return home.DefaultName(workspace, preset.Name), nil
}

// fill decides what is written into the home. Found is nil for a new one.
func (hp *homePlan) fill(p *plan, agent agentSettings, found *home.Home) error {
	var rest []wire.File
	for _, f := range p.files {
		rel, ok := strings.CutPrefix(f.Path, rootfs.HomeDir+"/")
		if !ok {
			rest = append(rest, f)
			continue
		}
		w := home.File{Path: rel, Mode: os.FileMode(f.Mode), Data: f.Data}
		if s, ok := agent[f.Path]; ok {
			var err error
			if w.Data, w.Record, err = hp.merge(rel, s, found); err != nil {
				return err
			}
		}
		hp.writes = append(hp.writes, w)
	}
	p.files = rest
	return nil
}

// merge puts a settings file together out of what this run wants and what
// earlier ones have left.
func (hp *homePlan) merge(rel string, s settingsFile, found *home.Home) (data, record []byte, err error) {
	format := preferences.FormatOf(rel)
	m := preferences.Merge{Next: s.next, Forced: s.forced, Pinned: slices.Concat(hp.pins, s.Diverts)}
	// What is not there, or cannot be read, changes nothing: it is made anew.
	if was := found.Read(rel, preferences.MaxFile); was != nil {
		if t, err := format.Parse(was); err == nil {
			m.Found = preferences.Without(t, s.Transient...)
			m.Written, _ = format.Parse(found.Written(rel))
		}
	}
	out := m.Do()
	data, err = format.Encode(out.Tree)
	if err != nil && m.Found != nil { // what an agent left cannot be written again
		m.Found, m.Written = nil, nil
		out = m.Do()
		data, err = format.Encode(out.Tree)
	}
	if !s.State {
		hp.kept = append(hp.kept, inFile(rel, out.Kept)...)
		hp.overruled = append(hp.overruled, inFile(rel, out.Overruled)...)
	}
	if err == nil {
		record, err = format.Encode(preferences.Without(s.next, s.Transient...))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("put %s together: %w", rel, err)
	}
	hp.settings[rel] = settingsFile{s.Settings, out.Tree, nil}
	hp.rivals = append(hp.rivals, s.Rivals...)
	for _, rel := range s.Rivals {
		if found.Has(rel) {
			hp.asides = append(hp.asides, "~/"+rel)
		}
	}
	return data, record, nil
}

// idlePins says which of some pins are about nothing that is there: one that is
// mistyped guards nothing.
func (hp *homePlan) idlePins(pins []string) (notes []string) {
	for _, pin := range pins {
		isThere := slices.ContainsFunc(slices.Collect(maps.Values(hp.settings)), func(s settingsFile) bool {
			return slices.ContainsFunc(preferences.Leaves(s.next), func(leaf string) bool { return leaf == pin || strings.HasPrefix(leaf, pin+".") })
		})
		if !isThere {
			notes = append(notes, fmt.Sprintf("--pin %s: neither the host's settings that are carried nor bailey's have it, so it is kept from being set inside", pin))
		}
	}
	return notes
}

func inFile(rel string, keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = rel + ": " + k
	}
	return out
}

// notes are for the header.
func (hp *homePlan) notes() []string {
	state := "kept"
	if hp.isNew {
		state = "kept, new"
	}
	line := fmt.Sprintf("home: %s (%s)", hp.name, state)
	if of := loginsOf(hp.logins); len(of) > 0 {
		line += "; logged in: " + strings.Join(of, ", ")
	}
	out := []string{line}
	if hp.shared {
		out = append(out, "home "+hp.name+" is in use by another run: each sees what the other writes there")
	}
	if len(hp.kept) > 0 {
		out = append(out, "settings that were changed inside hold: "+shortList(hp.kept)+" (--pin KEY holds to the host's)")
	}
	if len(hp.asides) > 0 {
		out = append(out, "moved aside in the home, since the agent would read it over its settings: "+shortList(hp.asides))
	}
	if len(hp.overruled) > 0 {
		out = append(out, "settings that were changed inside do not hold: "+shortList(hp.overruled))
	}
	return out
}

// homeName is the name of the home that is kept, if one is.
func (p *plan) homeName() string {
	if p.home == nil {
		return ""
	}
	return p.home.name
}

func loginsOf(list []home.Login) []string {
	var out []string
	for _, l := range list {
		if !slices.Contains(out, l.Of) {
			out = append(out, l.Of)
		}
	}
	return out
}

// openHome makes the home, where there is none, and writes into it what the plan
// says. From here to closeHome nobody removes it.
func (p *plan) openHome() error {
	hp := p.home
	if hp == nil {
		return nil
	}
	var err error
	if hp.open, err = hp.store.Open(hp.name, &hp.meta); err != nil {
		return err
	}
	if err = hp.furnish(p); err != nil {
		err = errors.Join(err, p.closeHome())
	}
	return err
}

func (hp *homePlan) furnish(p *plan) error {
	done, err := hp.open.Begin(time.Now())
	if err != nil {
		return err
	}
	defer done()
	for _, rel := range hp.rivals {
		if err := hp.open.Aside(rel); err != nil {
			return err
		}
	}
	for _, f := range hp.writes {
		if err := hp.open.Write(f); err != nil {
			return err
		}
	}
	if err := hp.points(&p.spec); err != nil {
		return err
	}
	m, err := hp.open.Mount(rootfs.HomeDir)
	if err != nil {
		return err
	}
	for i := range p.spec.Mounts {
		if p.spec.Mounts[i].Target == rootfs.HomeDir {
			p.spec.Mounts[i] = m
		}
	}
	return nil
}

// points makes what other mounts lie on in the home, so that no link there leads
// one of them elsewhere.
func (hp *homePlan) points(s *sandbox.Spec) error {
	for _, t := range s.Tmpfs {
		if rel, ok := strings.CutPrefix(t.Target, rootfs.HomeDir+"/"); ok {
			if err := hp.open.Folder(rel); err != nil {
				return err
			}
		}
	}
	for _, m := range s.Mounts {
		rel, ok := strings.CutPrefix(m.Target, rootfs.HomeDir+"/")
		if !ok {
			continue
		}
		point := hp.open.Point
		if fi, err := os.Stat(m.Source); err == nil && fi.IsDir() {
			point = hp.open.Folder
		}
		if err := point(rel); err != nil {
			return err
		}
	}
	return nil
}

// closeHome takes away what is there while a run lasts, and lets go of the home.
func (p *plan) closeHome() error {
	if p.home == nil || p.home.open == nil {
		return nil
	}
	hp := p.home
	errs := []error{hp.watch.close()}
	for rel, s := range hp.settings {
		errs = append(errs, hp.forget(rel, s.Transient))
	}
	errs = append(errs, hp.open.Close())
	hp.open = nil
	return errors.Join(errs...)
}

func (hp *homePlan) forget(rel string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	format := preferences.FormatOf(rel)
	now, err := format.Parse(hp.open.Read(rel, preferences.MaxFile))
	if err != nil {
		return nil //nolint:nilerr // it is not what the agent reads any more
	}
	less := preferences.Without(now, keys...)
	if len(less) == len(now) {
		return nil
	}
	data, err := format.Encode(less)
	if err != nil {
		return fmt.Errorf("put %s together: %w", rel, err)
	}
	return hp.open.Write(home.File{Path: rel, Mode: 0o600, Data: data})
}

// homeFooter says what the run has made of its home, and what the next one will
// find there.
func (u *running) homeFooter() {
	hp := u.plan.home
	if hp == nil || hp.open == nil {
		return
	}
	for _, l := range hp.open.Logins() {
		if !slices.ContainsFunc(hp.logins, l.Same) {
			u.warn(fmt.Sprintf("login made inside: %s (%s), kept in home %s for its next runs; bailey home rm %s forgets it", l.Of, l.Path, hp.name, hp.name))
		}
	}
	var changed []string
	for rel, s := range hp.settings {
		now, err := preferences.FormatOf(rel).Parse(hp.open.Read(rel, preferences.MaxFile))
		if err != nil || s.State {
			continue
		}
		changed = append(changed, inFile(rel, preferences.Merge{Written: s.next, Found: now, Next: s.next}.Do().Kept)...)
	}
	if slices.Sort(changed); len(changed) > 0 {
		u.warn(fmt.Sprintf("settings changed inside: %s, kept in home %s", shortList(changed), hp.name))
	}
}
