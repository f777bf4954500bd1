package harness

import (
	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
)

// gemini is Gemini CLI, @google/gemini-cli. Tried with 0.61.0.
func gemini() agent {
	return agent{
		name:     "gemini",
		title:    "Gemini CLI",
		install:  "npm install -g @google/gemini-cli",
		wrapper:  "@google/gemini-cli",
		script:   "bundle/gemini.js",
		keys:     []string{"GEMINI_API_KEY"},
		baseURLs: []string{"GOOGLE_GEMINI_BASE_URL"},
		dialects: []gateway.Dialect{gateway.Gemini},
		settings: geminiSettings,
		pinned:   geminiPinned,
	}
}

func geminiSettings(_ Host, p *Preset) {
	p.Allow = []string{"generativelanguage.googleapis.com:443"}
	p.Env = geminiQuiet()
	p.Files = geminiFiles(geminiDir+"settings.json", geminiBase())
}

// geminiDir is where its user's settings are.
const geminiDir = Home + "/.gemini/"

// geminiPinned uses the settings of the system, which are stronger than a
// project's. A variable says where they are.
func geminiPinned(_ Host, m Model, p *Preset) {
	const system = geminiDir + "system.json"
	config := geminiBase()
	config["model"] = map[string]any{"name": m.ID}
	// Both are run by the provider, or ask hosts that nothing leads to.
	config["tools"] = map[string]any{"exclude": []string{"google_web_search", "web_fetch"}}
	p.Env = append(geminiQuiet(), "GEMINI_CLI_SYSTEM_SETTINGS_PATH="+system, "GEMINI_MODEL="+m.ID)
	p.Files = geminiFiles(system, config)
}

func geminiQuiet() []string {
	return []string{
		"GEMINI_CLI_TRUST_WORKSPACE=true",
		// It would start itself once more, for a larger heap.
		"GEMINI_CLI_NO_RELAUNCH=true",
	}
}

func geminiBase() map[string]any {
	return map[string]any{
		"general":  map[string]any{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
		"privacy":  map[string]any{"usageStatisticsEnabled": false},
		"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}, "folderTrust": map[string]any{"enabled": false}},
		"ide":      map[string]any{"enabled": false, "hasSeenNudge": true},
		"ui":       map[string]any{"hideTips": true},
	}
}

func geminiFiles(path string, config map[string]any) []bailey.File {
	return []bailey.File{
		jsonFile(path, config),
		// The sandbox is the boundary, so inside it nothing asks; an
		// --approval-mode that is given is stronger.
		{Path: geminiDir + "policies/bailey.toml", Mode: 0o600, Data: []byte(`# Made by bailey for this run.
[[rule]]
toolName = "*"
decision = "allow"
priority = 900
`)},
	}
}
