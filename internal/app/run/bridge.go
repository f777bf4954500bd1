package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/bridge"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/preferences"
)

// agentSettings are the settings files of a run's agent, by their paths inside:
// what they are to say, and which part of it holds whatever an earlier run has
// made of them.
type agentSettings map[string]settingsFile

type settingsFile struct {
	harness.Settings

	next, forced preferences.Tree
}

// settingsOf reads the files of a preset.
func settingsOf(p harness.Preset) (agentSettings, error) {
	out := agentSettings{}
	for _, f := range p.Files {
		s, ok := harness.SettingsAt(strings.TrimPrefix(f.Path, harness.Home+"/"))
		if !ok {
			continue
		}
		t, err := preferences.FormatOf(f.Path).Parse(f.Data)
		if err != nil {
			return nil, fmt.Errorf("read the preset's %s: %w", f.Path, err)
		}
		out[f.Path] = settingsFile{s, t, preferences.Without(t, s.Choices...)}
	}
	return out, nil
}

// carry lays the host's own settings for the run's agent over the preset's. A
// run with a model has its provider, and a task has its work; neither gets any.
func (in *entrance) carry(h Host, r *Request, workspace string) error {
	var err error
	if in.settings, err = settingsOf(in.preset); err != nil {
		return err
	}
	if in.preset.Name == "" || in.model != nil || r.Task != nil || r.Homes.NoBridge {
		return nil
	}
	in.carried, err = bridge.Find(in.preset.Name, bridge.Host{
		Home: h.Home, Workspace: workspace, Env: h.Env.Get, Passed: func(name string) string { return valueIn(in.env, name) },
	})
	if err != nil {
		return err
	}
	for _, f := range in.carried.Files {
		if err := in.lay(f); err != nil {
			return err
		}
	}
	for _, rule := range in.carried.Allow() {
		if _, err := policy.ParseRule(rule); err == nil && !slices.Contains(in.preset.Allow, rule) {
			in.preset.Allow = append(slices.Clone(in.preset.Allow), rule)
		}
	}
	if len(in.carried.Variables) > 0 { // it has one
		in.preset.Notes = slices.DeleteFunc(slices.Clone(in.preset.Notes), func(n string) bool { return strings.HasPrefix(n, "no key for ") })
	}
	in.preset.Notes = slices.Concat(in.preset.Notes, bridgeNotes(in.carried))
	return nil
}

// lay lays one file over the preset's.
func (in *entrance) lay(f bridge.File) error {
	s, had := in.settings[f.Path]
	if !had {
		s.Settings, _ = harness.SettingsAt(strings.TrimPrefix(f.Path, harness.Home+"/"))
	}
	s.next = preferences.Over(s.next, f.Tree)
	s.forced = preferences.Over(preferences.Without(s.forced, preferences.Leaves(f.Tree)...), f.Forced)
	data, err := preferences.FormatOf(f.Path).Encode(s.next)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	in.settings[f.Path] = s
	file := bailey.File{Path: f.Path, Mode: 0o600, Data: data}
	in.preset.Files = slices.Clone(in.preset.Files)
	if i := slices.IndexFunc(in.preset.Files, func(o bailey.File) bool { return o.Path == f.Path }); i >= 0 {
		in.preset.Files[i] = file
		return nil
	}
	in.preset.Files = append(in.preset.Files, file)
	return nil
}

// valueIn is the value of a variable in a list of NAME=VALUE, or "".
func valueIn(pairs []string, name string) string {
	for _, pair := range slices.Backward(pairs) {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			return v
		}
	}
	return ""
}

// bridgeNotes says in the header what is carried.
func bridgeNotes(c *bridge.Carried) []string {
	var out []string
	if len(c.Keys) > 0 {
		out = append(out, fmt.Sprintf("carried from %s: %s (--no-bridge leaves it out)", strings.Join(c.Sources, ", "), shortList(tops(c.Keys))))
	}
	for _, p := range c.Providers {
		line := "provider " + p.Name
		if p.URL != "" {
			line += " at " + p.URL
		}
		if p.Variable != "" {
			line += ", key in $" + p.Variable
		}
		switch {
		case p.Flag != "":
			line += ": reached only with " + p.Flag
		case p.Rule != "" && p.Active:
			line += ": allowed"
		case p.Rule != "":
			line += ": reached only with --allow " + p.Rule
		}
		out = append(out, line)
	}
	return append(out, c.Notes...)
}

// tops shortens dotted paths to their first two parts.
func tops(paths []string) []string {
	var out []string
	for _, p := range paths {
		parts := strings.SplitN(p, ".", 3)
		if top := strings.Join(parts[:min(len(parts), 2)], "."); !slices.Contains(out, top) {
			out = append(out, top)
		}
	}
	return out
}
