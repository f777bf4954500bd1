package bridge

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/preferences"
)

// pi carries which model it begins with and how hard it thinks, and the
// providers of models.json. The level of thinking costs money: that of the host
// holds whatever is changed inside.
func (f *finder) pi() error {
	dir := f.folder("PI_CODING_AGENT_DIR", ".pi/agent")
	level := shape{any: &shape{}}
	settings := shape{keys: with(with(plain("defaultProvider", "defaultModel", "defaultThinkingLevel", "enabledModels", "hideThinkingBlock", "transport"),
		"modelThinkingLevels", level), "thinkingBudgets", level)}.tree(f, f.read(filepath.Join(dir, "settings.json")))
	forced := preferences.Tree{}
	if v, ok := settings["defaultThinkingLevel"]; ok {
		forced["defaultThinkingLevel"] = v
	}
	f.add(harness.Home+"/.pi/agent/settings.json", settings, forced)

	path := filepath.Join(dir, "models.json")
	t := f.read(path)
	for k := range t {
		if k != "providers" && k != "$schema" {
			f.out.Left = append(f.out.Left, k)
		}
	}
	kept, providers, active := preferences.Tree{}, sub(t, "providers"), text(settings, "defaultProvider")
	for _, id := range slices.Sorted(maps.Keys(providers)) {
		def, err := f.piProvider(id, sub(providers, id), id == active, path)
		if err != nil {
			return err
		}
		if def != nil {
			kept[id] = def
		}
	}
	if len(kept) > 0 {
		f.add(harness.Home+"/.pi/agent/models.json", preferences.Tree{"providers": kept}, preferences.Tree{"providers": kept})
	}
	return nil
}

func (f *finder) piProvider(id string, t preferences.Tree, active bool, source string) (preferences.Tree, error) {
	p := Provider{Name: id, Active: active}
	if url, given := t["baseUrl"]; given {
		raw, _ := url.(string)
		e, ok := endpointOf(raw)
		if !ok || !isName(id) {
			return nil, f.unusable(id, active, source)
		}
		p.URL, p.Rule, p.Flag = e.url, e.rule, e.flag
	}
	if key, given := t["apiKey"]; given {
		raw, _ := key.(string)
		p.Variable = piReference(raw)
		if p.Literal = p.Variable == ""; p.Literal {
			p.Variable = variableOf(id)
		}
	}
	use, err := f.use(p, source)
	if !use {
		return nil, err
	}
	def := shape{keys: with(with(with(plain("name", "api", "authHeader"),
		"compat", piCompat()), "models", shape{list: &shape{keys: piModel("id", "api")}}),
		"modelOverrides", shape{any: &shape{keys: piModel()}})}.tree(f, preferences.Without(t, "baseUrl", "apiKey"), "providers", id)
	if p.URL != "" {
		def["baseUrl"] = p.URL
	}
	if p.Variable != "" {
		def["apiKey"] = "$" + p.Variable
		f.refer(p, "providers."+id+".apiKey")
	}
	return def, nil
}

// piReference is the variable that a value of pi's is, and nothing besides.
func piReference(s string) string {
	name, ok := strings.CutPrefix(s, "$")
	if inner, braced := strings.CutPrefix(name, "{"); braced {
		name, braced = strings.CutSuffix(inner, "}")
		ok = ok && braced
	}
	if !ok || !validVariable(name) {
		return ""
	}
	return name
}

// piModel are the keys of a model, and some more.
func piModel(more ...string) map[string]shape {
	keys := plain(append(more, "name", "reasoning", "input", "contextWindow", "maxTokens")...)
	keys["cost"] = shape{keys: plain("input", "output", "cacheRead", "cacheWrite")}
	keys["thinkingLevelMap"] = shape{any: &shape{}}
	keys["compat"] = piCompat()
	return keys
}

// piCompat are switches: what else stands there is sent to the provider, and
// may be anything.
func piCompat() shape {
	return shape{keys: plain("supportsStore", "supportsDeveloperRole", "supportsReasoningEffort", "supportsUsageInStreaming", "supportsFinishReason",
		"maxTokensField", "requiresToolResultName", "requiresAssistantAfterToolResult", "requiresNonNullAssistantContent", "requiresToolsWithToolHistory",
		"requiresThinkingAsText", "requiresReasoningContentOnAssistantMessages", "thinkingFormat", "supportsStrictMode", "cacheControlFormat",
		"supportsLongCacheRetention", "supportsEagerToolInputStreaming", "supportsCacheControlOnTools", "supportsTemperature",
		"forceAdaptiveThinking", "supportsMaxOutputTokens", "thinkingTokenBudgetField")}
}
