package settings

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/mirror"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// Preset is a list of rules by name.
type Preset struct {
	Name  string
	About string
	From  string // the package manager whose configuration names its hosts; empty for none
	Allow []Held
}

// PresetNames lists the presets, sorted.
func PresetNames() []string {
	entries, _ := presetFiles.ReadDir("presets") // embedded
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// presetSpec is a preset's file.
func presetSpec() *yamlfile.Spec {
	return &yamlfile.Spec{Kind: yamlfile.Mapping, Keys: []yamlfile.Key{
		{Name: "about", Spec: &yamlfile.Spec{Kind: yamlfile.Text}},
		{Name: "from", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Enum: mirror.Managers()}},
		{Name: "allow", Spec: &yamlfile.Spec{Kind: yamlfile.List, Item: rule("")}},
	}}
}

// ReadPreset returns a preset as its file has it, without the hosts that this
// machine's configuration names.
func ReadPreset(name string) (Preset, error) {
	path := "presets/" + name + ".yaml"
	data, err := presetFiles.ReadFile(path)
	if err != nil {
		return Preset{}, fmt.Errorf("read preset %s: %w", name, err)
	}
	p := newParser("preset " + name)
	top := p.Document(data, presetSpec())
	if err := p.Err(); err != nil {
		return Preset{}, err
	}
	out := Preset{Name: name}
	if v := yamlfile.Get(top, "about"); v != nil {
		out.About = v.Value
	}
	if v := yamlfile.Get(top, "from"); v != nil {
		out.From = v.Value
	}
	for _, v := range yamlfile.Items(yamlfile.Get(top, "allow")) {
		out.Allow = append(out.Allow, p.entry(v, false)...)
	}
	return out, p.Err()
}

// Expand returns the rules of a preset on this machine. from is where it was
// named.
func Expand(name, from string, h mirror.Host) ([]Held, error) {
	p, err := ReadPreset(name)
	if err != nil {
		return nil, err
	}
	rules := slices.Clone(p.Allow)
	if p.From != "" {
		hosts, err := mirror.Find(p.From, h)
		if err != nil {
			return nil, err
		}
		found, err := flagRules("preset "+name, hosts, policy.ParseRule)
		if err != nil {
			return nil, err
		}
		rules = append(rules, found...)
	}
	for i := range rules {
		rules[i].From, rules[i].Preset = from, name
	}
	return rules, nil
}
