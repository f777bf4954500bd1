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
	p.Files = geminiFiles(geminiBase(), "")
}

// geminiDir is where its user's settings are.
const geminiDir = Home + "/.gemini/"

// geminiPinned names the model in the variable that is stronger than any
// settings, and the rest in the user's: those of the system must belong to root
// to be read, and no file of a sandbox does. A project that sets another way to
// log in is stronger, and breaks the run.
func geminiPinned(_ Host, m Model, p *Preset) {
	config := geminiBase()
	config["model"] = map[string]any{"name": m.ID}
	p.Env = append(geminiQuiet(), "GEMINI_MODEL="+m.ID)
	p.Files = geminiFiles(config, `
# Both are run by the provider, or ask hosts that nothing leads to.
[[rule]]
toolName = ["google_web_search", "web_fetch"]
decision = "deny"
priority = 950
`)
}

func geminiQuiet() []string {
	return []string{
		"GEMINI_CLI_TRUST_WORKSPACE=true",
		"GEMINI_TELEMETRY_ENABLED=false",
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

// geminiFiles are its user's settings and its user's rules for tools. The
// sandbox is the boundary, so inside it nothing asks; an --approval-mode that
// is given is stronger.
func geminiFiles(config map[string]any, rules string) []bailey.File {
	return []bailey.File{
		jsonFile(geminiDir+"settings.json", config),
		{Path: geminiDir + "policies/bailey.toml", Mode: 0o600, Data: []byte(`# Made by bailey for this run.
[[rule]]
toolName = "*"
decision = "allow"
priority = 900
allowRedirection = true
` + rules)},
	}
}
