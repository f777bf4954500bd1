package bridge

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/preferences"
)

// opencode carries the models and the providers. It reads up to three files of
// one folder, the later over the earlier.
func (f *finder) opencode() error {
	dir := filepath.Join(f.folder("XDG_CONFIG_HOME", ".config"), "opencode")
	t, source := preferences.Tree{}, ""
	for _, name := range []string{"config.json", "opencode.json", "opencode.jsonc"} {
		if one := f.read(filepath.Join(dir, name)); one != nil {
			t, source = preferences.Over(t, one), filepath.Join(dir, name)
		}
	}
	providers := sub(t, "provider")
	out := shape{keys: plain("model", "small_model", "disabled_providers", "enabled_providers")}.tree(f, preferences.Without(t, "provider"))
	active, _, _ := strings.Cut(text(t, "model"), "/")
	kept := preferences.Tree{}
	for _, id := range slices.Sorted(maps.Keys(providers)) {
		def, err := f.opencodeProvider(id, sub(providers, id), id == active, source)
		if err != nil {
			return err
		}
		if def != nil {
			kept[id] = def
		}
	}
	forced := preferences.Tree{}
	if len(kept) > 0 {
		out["provider"], forced["provider"] = kept, kept
	}
	f.add(harness.Home+"/.config/opencode/opencode.json", out, forced)
	return nil
}

func (f *finder) opencodeProvider(id string, t preferences.Tree, active bool, source string) (preferences.Tree, error) {
	options := sub(t, "options")
	p := Provider{Name: id, Active: active}
	if url, given := options["baseURL"]; given {
		raw, _ := url.(string)
		e, ok := endpointOf(raw)
		if !ok || !isName(id) {
			return nil, f.unusable(id, active, source)
		}
		p.URL, p.Rule, p.Flag = e.url, e.rule, e.flag
	}
	if key, given := options["apiKey"]; given {
		raw, _ := key.(string)
		name, isRef := strings.CutPrefix(strings.TrimSuffix(raw, "}"), "{env:")
		if p.Variable = name; !isRef || !validVariable(name) {
			p.Variable, p.Literal = variableOf(id), true
		}
	}
	use, err := f.use(p, source)
	if !use {
		return nil, err
	}
	numbers := shape{keys: plain("context", "input", "output")}
	model := shape{keys: with(with(with(plain("id", "name", "family", "reasoning", "tool_call", "attachment", "temperature", "status", "release_date"),
		"limit", numbers), "cost", shape{keys: plain("input", "output", "cache_read", "cache_write")}),
		"modalities", shape{keys: plain("input", "output")})}
	def := shape{keys: with(with(plain("name", "npm", "whitelist", "blacklist"),
		"models", shape{any: &model}), "options", shape{keys: plain("timeout", "setCacheKey")})}.tree(f, withoutKey(t), "provider", id)
	if npm := text(def, "npm"); npm != "" && !strings.HasPrefix(npm, "@ai-sdk/") {
		delete(def, "npm") // a program, which nobody on this side has named
		f.out.Left = append(f.out.Left, "provider."+id+".npm")
	}
	kept, _ := def["options"].(preferences.Tree)
	kept = preferences.Over(kept, nil)
	if p.URL != "" {
		kept["baseURL"] = p.URL
	}
	if p.Variable != "" {
		kept["apiKey"] = "{env:" + p.Variable + "}"
		f.refer(p, "provider."+id+".options.apiKey")
	}
	def["options"] = kept
	return def, nil
}

// withoutKey is a provider's definition less what has been dealt with.
func withoutKey(t preferences.Tree) preferences.Tree {
	return preferences.Without(t, "options.apiKey", "options.baseURL")
}
