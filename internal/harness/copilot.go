package harness

import (
	"fmt"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
)

// copilot is GitHub Copilot CLI, @github/copilot. Tried with 1.0.102.
func copilot() agent {
	return agent{
		name:    "copilot",
		title:   "GitHub Copilot CLI",
		install: "npm install -g @github/copilot",
		wrapper: "@github/copilot",
		keys:    []string{"COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"},
		platform: func(arch string, musl bool) []program {
			system := "linux"
			if musl {
				system = "linuxmusl"
			}
			return []program{{"@github/copilot-" + system + "-" + npmArch(arch), "copilot"}}
		},
		dialects: []gateway.Dialect{gateway.OpenAIChat, gateway.OpenAIResponses, gateway.Anthropic},
		settings: copilotSettings,
		pinned:   copilotPinned,
	}
}

func copilotSettings(h Host, p *Preset) {
	p.Allow = []string{
		"api.github.com:443", "api.githubcopilot.com:443", "api.individual.githubcopilot.com:443",
		"api.business.githubcopilot.com:443", "api.enterprise.githubcopilot.com:443",
	}
	p.Env = copilotQuiet()
	p.Files = copilotFiles(h)
}

// copilotPinned uses its variables for a provider of the user's own, which no
// file of a project can change, and what it calls offline: no login, no
// telemetry, no web tools, no update.
func copilotPinned(h Host, m Model, p *Preset) {
	kind, wire, base := "openai", "completions", m.versioned()
	switch m.Dialect {
	case gateway.OpenAIResponses:
		wire = "responses"
	case gateway.Anthropic:
		kind, base = "anthropic", m.origin()
	case gateway.OpenAIChat, gateway.Gemini:
	}
	p.Env = append(copilotQuiet(),
		"COPILOT_OFFLINE=true",
		"COPILOT_PROVIDER_BASE_URL="+base,
		"COPILOT_PROVIDER_TYPE="+kind,
		"COPILOT_PROVIDER_WIRE_API="+wire,
		"COPILOT_PROVIDER_API_KEY_COMMAND=printenv "+m.TokenVar,
		"COPILOT_MODEL="+m.ID,
	)
	if m.MaxOutput > 0 {
		p.Env = append(p.Env, fmt.Sprintf("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS=%d", m.MaxOutput))
	}
	if prompt := m.Context - m.MaxOutput; m.Context > 0 && prompt > 0 {
		p.Env = append(p.Env, fmt.Sprintf("COPILOT_PROVIDER_MAX_PROMPT_TOKENS=%d", prompt))
	}
	p.Files = copilotFiles(h)
}

func copilotQuiet() []string {
	return []string{
		// The sandbox is the boundary, so inside it nothing asks, not whether
		// the workspace is to be trusted either.
		"COPILOT_ALLOW_ALL=true",
		"COPILOT_AUTO_UPDATE=false",
	}
}

func copilotFiles(h Host) []bailey.File {
	return []bailey.File{jsonFile(Home+"/.copilot/config.json", map[string]any{
		"banner": "never", "trusted_folders": []string{h.Workspace},
	})}
}
