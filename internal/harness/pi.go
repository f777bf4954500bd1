package harness

import (
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
)

// pi is the pi coding agent, @earendil-works/pi-coding-agent. Tried with 1.6.0.
func pi() agent {
	var keys []string
	for _, p := range piProviders() {
		keys = append(keys, p.key)
	}
	return agent{
		name:     "pi",
		title:    "pi",
		install:  "npm install -g @earendil-works/pi-coding-agent",
		wrapper:  "@earendil-works/pi-coding-agent",
		script:   "dist/bundle/cli.js",
		keys:     keys,
		dialects: []gateway.Dialect{gateway.OpenAIChat, gateway.OpenAIResponses, gateway.Anthropic},
		settings: piSettings,
		pinned:   piPinned,
	}
}

// piProvider is a model provider that pi knows by itself.
type piProvider struct{ key, host string }

func piProviders() []piProvider {
	return []piProvider{
		{"ANTHROPIC_API_KEY", "api.anthropic.com"},
		{"OPENAI_API_KEY", "api.openai.com"},
		{"GEMINI_API_KEY", "generativelanguage.googleapis.com"},
		{"OPENROUTER_API_KEY", "openrouter.ai"},
		{"GROQ_API_KEY", "api.groq.com"},
		{"MISTRAL_API_KEY", "api.mistral.ai"},
		{"XAI_API_KEY", "api.x.ai"},
	}
}

// piDir is where its settings are.
const piDir = Home + "/.pi/agent/"

func piSettings(h Host, p *Preset) {
	for _, pr := range piProviders() {
		if rule := pr.host + ":443"; h.has(pr.key) && !slices.Contains(p.Allow, rule) {
			p.Allow = append(p.Allow, rule)
		}
	}
	p.Env = piQuiet()
	p.Files = []bailey.File{jsonFile(piDir+"settings.json", piBase())}
}

// piPinned makes the gateway a provider. Models of the providers that pi knows
// by themselves lead there too: a project's settings may name one.
func piPinned(_ Host, m Model, p *Preset) {
	api, base, known := "openai-completions", m.versioned(), "openai"
	switch m.Dialect {
	case gateway.OpenAIResponses:
		api = "openai-responses"
	case gateway.Anthropic:
		api, base, known = "anthropic-messages", m.origin(), "anthropic"
	case gateway.OpenAIChat, gateway.Gemini:
	}
	model := m.limits(map[string]any{"id": m.ID, "name": m.ID}, "contextWindow", "maxTokens")
	config := piBase()
	config["defaultProvider"], config["defaultModel"] = provider, m.ID
	p.Env = piQuiet()
	p.Files = []bailey.File{
		jsonFile(piDir+"settings.json", config),
		jsonFile(piDir+"models.json", map[string]any{"providers": map[string]any{
			provider: map[string]any{"baseUrl": base, "api": api, "apiKey": "$" + m.TokenVar, "models": []any{model}},
			known:    map[string]any{"baseUrl": base},
		}}),
	}
}

func piQuiet() []string {
	return []string{"PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1", "PI_TELEMETRY=0"}
}

func piBase() map[string]any {
	return map[string]any{
		"defaultProjectTrust":    "always", // the sandbox is the boundary
		"enableInstallTelemetry": false,
		"quietStartup":           true,
	}
}
