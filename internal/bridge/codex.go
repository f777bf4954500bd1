package bridge

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/preferences"
)

// codex carries the model and its own providers. Headers of a provider hold
// keys, and are left out, but for those whose values are in variables.
func (f *finder) codex() error {
	path := filepath.Join(f.folder("CODEX_HOME", ".codex"), "config.toml")
	t := f.read(path)
	providers := sub(t, "model_providers")
	top := shape{keys: plain("model", "model_provider", "model_reasoning_effort", "model_reasoning_summary", "model_verbosity",
		"model_context_window", "model_max_output_tokens", "model_auto_compact_token_limit", "plan_mode_reasoning_effort")}
	out := top.tree(f, preferences.Without(t, "model_providers"))
	active := text(t, "model_provider")
	forced, kept := preferences.Tree{}, preferences.Tree{}
	for _, id := range slices.Sorted(maps.Keys(providers)) {
		def, err := f.codexProvider(id, sub(providers, id), id == active, path)
		if err != nil {
			return err
		}
		if def != nil {
			kept[id] = def
		}
	}
	if _, own := kept[active]; active != "" && !own {
		// Its own, or one that has no key here: the preset knows which.
		delete(out, "model_provider")
	}
	if len(kept) > 0 {
		out["model_providers"], forced["model_providers"] = kept, kept
	}
	f.add(harness.Home+"/.codex/config.toml", out, forced)
	return nil
}

func (f *finder) codexProvider(id string, t preferences.Tree, active bool, source string) (preferences.Tree, error) {
	e, ok := endpointOf(text(t, "base_url"))
	if !ok || !isName(id) {
		return nil, f.unusable(id, active, source)
	}
	p := Provider{Name: id, URL: e.url, Rule: e.rule, Flag: e.flag, Active: active, Variable: text(t, "env_key")}
	_, p.Literal = t["experimental_bearer_token"]
	if p.Literal || p.Variable != "" && !validVariable(p.Variable) {
		p.Variable = variableOf(id)
	}
	if login, _ := t["requires_openai_auth"].(bool); login {
		p.Variable = ""
	}
	use, err := f.use(p, source)
	if !use {
		return nil, err
	}
	def := shape{keys: with(with(plain("name", "wire_api", "request_max_retries", "stream_max_retries", "stream_idle_timeout_ms",
		"supports_websockets", "requires_openai_auth"), "query_params", shape{keys: plain("api-version")}),
		"env_http_headers", shape{any: &shape{}})}.tree(f, preferences.Without(t, "base_url", "env_key"), "model_providers", id)
	def["base_url"] = e.url
	if p.Variable != "" {
		def["env_key"] = p.Variable
	}
	if _, named := def["name"]; !named {
		def["name"] = id
	}
	return def, nil
}

// unusable is a provider whose address is not carried.
func (f *finder) unusable(id string, active bool, source string) error {
	if !active {
		f.out.Left = append(f.out.Left, "provider "+id+" (its URL)")
		return nil
	}
	return bailey.NewError(bailey.Invalid,
		f.agent+" begins with the provider "+id+" of "+source+", whose URL cannot be carried: it is none of http or https, or it holds a user, a query, or what looks like a key",
		"take that out of the URL there, or leave the host's settings out: --no-bridge")
}
