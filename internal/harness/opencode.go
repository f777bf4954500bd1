package harness

import (
	"net/url"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
)

// opencodeProvider is a model provider that opencode knows by itself.
type opencodeProvider struct {
	key     string // the variable that switches it on
	host    string
	name    string // in opencode's configuration
	baseURL string // the variable that moves it; empty if there is none
}

func opencodeProviders() []opencodeProvider {
	return []opencodeProvider{
		{"ANTHROPIC_API_KEY", "api.anthropic.com", "anthropic", "ANTHROPIC_BASE_URL"},
		{"OPENAI_API_KEY", "api.openai.com", "openai", "OPENAI_BASE_URL"},
		{"GEMINI_API_KEY", "generativelanguage.googleapis.com", "google", ""},
		{"GOOGLE_GENERATIVE_AI_API_KEY", "generativelanguage.googleapis.com", "google", ""},
		{"OPENROUTER_API_KEY", "openrouter.ai", "openrouter", ""},
		{"GROQ_API_KEY", "api.groq.com", "groq", ""},
		{"MISTRAL_API_KEY", "api.mistral.ai", "mistral", ""},
		{"DEEPSEEK_API_KEY", "api.deepseek.com", "deepseek", ""},
		{"XAI_API_KEY", "api.x.ai", "xai", ""},
		{"OPENCODE_API_KEY", "opencode.ai", "opencode", ""},
	}
}

// opencode is opencode-ai. Tried with 1.18.33.
func opencode() agent {
	keys := []string{}
	for _, p := range opencodeProviders() {
		keys = append(keys, p.key)
	}
	return agent{
		name:     "opencode",
		title:    "opencode",
		install:  "npm install -g opencode-ai",
		wrapper:  "opencode-ai",
		bins:     []string{"bin/opencode.exe"},
		native:   []string{".opencode/bin/opencode"},
		keys:     keys,
		baseURLs: []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"},
		platform: func(arch string, musl bool) []program {
			pkg := "opencode-linux-" + npmArch(arch)
			suffix := ""
			if musl {
				suffix = "-musl"
			}
			return []program{{pkg + suffix, "bin/opencode"}, {pkg + "-baseline" + suffix, "bin/opencode"}}
		},
		dialects: []gateway.Dialect{gateway.OpenAIChat, gateway.OpenAIResponses, gateway.Anthropic},
		settings: opencodeSettings,
		pinned:   opencodePinned,
	}
}

func opencodeQuiet() []string {
	return []string{
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		"OPENCODE_DISABLE_SHARE=1",
	}
}

// opencodePinned gives the configuration in the variable that is stronger than
// a project's opencode.json.
func opencodePinned(_ Host, m Model, p *Preset) {
	library := "@ai-sdk/openai-compatible"
	switch m.Dialect {
	case gateway.Anthropic:
		library = "@ai-sdk/anthropic"
	case gateway.OpenAIResponses:
		library = "@ai-sdk/openai"
	case gateway.OpenAIChat, gateway.Gemini:
	}
	model := map[string]any{"name": m.ID, "tool_call": true}
	if m.Context > 0 && m.MaxOutput > 0 { // it takes both or none
		model["limit"] = m.limits(map[string]any{}, "context", "output")
	}
	name := provider + "/" + m.ID
	pin := compactJSON(map[string]any{
		"model": name, "small_model": name, "enabled_providers": []string{provider},
		"provider": map[string]any{provider: map[string]any{
			"npm": library, "name": provider,
			"options": map[string]any{"baseURL": m.versioned(), "apiKey": "{env:" + m.TokenVar + "}"},
			"models":  map[string]any{m.ID: model},
		}},
		// They ask hosts that nothing leads to.
		"permission": map[string]any{"*": "allow", "webfetch": "deny", "websearch": "deny"},
	})
	p.Env = append(opencodeQuiet(), "OPENCODE_CONFIG_CONTENT="+pin)
	p.Files = opencodeFiles(opencodeConfig())
}

func opencodeConfig() map[string]any {
	return map[string]any{
		"$schema":    "https://opencode.ai/config.json",
		"autoupdate": false,
		"share":      "disabled",
		// The sandbox is the boundary, so inside it nothing asks. A project's
		// own opencode.json is stronger.
		"permission": "allow",
	}
}

func opencodeSettings(h Host, p *Preset) {
	p.Env = opencodeQuiet()
	config := opencodeConfig()
	providers := map[string]any{}
	for _, pr := range opencodeProviders() {
		if !h.has(pr.key) {
			continue
		}
		if rule := pr.host + ":443"; !slices.Contains(p.Allow, rule) {
			p.Allow = append(p.Allow, rule)
		}
		if pr.baseURL != "" && h.has(pr.baseURL) {
			providers[pr.name] = map[string]any{"options": map[string]any{"baseURL": versioned(h.Env[pr.baseURL])}}
		}
	}
	if len(providers) > 0 {
		config["provider"] = providers
	}
	p.Files = opencodeFiles(config)
}

func opencodeFiles(config map[string]any) []bailey.File {
	const dir = Home + "/.config/opencode/"
	return []bailey.File{
		jsonFile(dir+"opencode.json", config),
		// At each start opencode installs its plugin library from the npm
		// registry into its configuration folder, unless the lock file there
		// has it and node_modules exists. No plugin of this folder needs it.
		jsonFile(dir+"package-lock.json", map[string]any{"lockfileVersion": 3, "packages": map[string]any{
			"": map[string]any{"dependencies": map[string]any{"@opencode-ai/plugin": "*"}},
		}}),
		{Path: dir + "node_modules/.keep", Mode: 0o600},
	}
}

// versioned adds the /v1 that opencode wants in a base URL and that the
// variable, as Anthropic's own clients read it, does not have.
func versioned(base string) string {
	u, err := url.Parse(base)
	if err != nil || strings.Trim(u.Path, "/") != "" {
		return base
	}
	return strings.TrimSuffix(base, "/") + "/v1"
}
