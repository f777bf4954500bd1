package harness

import (
	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
)

// qwen is Qwen Code, @qwen-code/qwen-code. Tried with 0.24.4.
func qwen() agent {
	return agent{
		name:    "qwen",
		title:   "Qwen Code",
		install: "npm install -g @qwen-code/qwen-code",
		wrapper: "@qwen-code/qwen-code",
		// Its entry starts node a second time, with the first flag. Without the
		// other, node optimises the shell's grammar, which is WebAssembly, for ten
		// seconds and gigabytes, and waits for that at its end.
		node:     []string{"--expose-gc", "--liftoff-only"},
		keys:     []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY"},
		baseURLs: []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"},
		dialects: []gateway.Dialect{gateway.OpenAIChat, gateway.Anthropic},
		settings: qwenSettings,
		pinned:   qwenPinned,
	}
}

// qwenDir is where its user's settings are.
const qwenDir = Home + "/.qwen/"

func qwenSettings(h Host, p *Preset) {
	config := qwenBase()
	switch {
	case h.has("OPENAI_API_KEY"):
		p.Allow = []string{"api.openai.com:443"}
		config["security"] = qwenAuth("openai")
	case h.has("ANTHROPIC_API_KEY"):
		p.Allow = []string{"api.anthropic.com:443"}
		config["security"] = qwenAuth("anthropic")
	}
	p.Env = qwenQuiet()
	p.Files = []bailey.File{jsonFile(qwenDir+"settings.json", config)}
}

// qwenPinned uses the settings of the system, which are stronger than a
// project's. A variable says where they are.
func qwenPinned(_ Host, m Model, p *Preset) {
	const system = qwenDir + "system.json"
	kind, base := "openai", m.versioned()
	if m.Dialect == gateway.Anthropic {
		kind, base = "anthropic", m.origin()
	}
	generation := map[string]any{}
	if m.Context > 0 {
		generation["contextWindowSize"] = m.Context
	}
	if m.MaxOutput > 0 {
		generation["samplingParams"] = map[string]any{"max_tokens": m.MaxOutput}
	}
	config := qwenBase()
	config["security"] = qwenAuth(kind)
	config["model"] = map[string]any{"name": m.ID}
	config["modelProviders"] = map[string]any{kind: []any{map[string]any{
		"id": m.ID, "name": m.ID, "baseUrl": base, "envKey": m.TokenVar, "generationConfig": generation,
	}}}
	// They ask hosts that nothing leads to.
	config["permissions"] = map[string]any{"deny": []string{"WebFetch", "WebSearch"}}
	p.Env = append(qwenQuiet(), "QWEN_CODE_SYSTEM_SETTINGS_PATH="+system)
	p.Files = []bailey.File{jsonFile(system, config)}
}

func qwenQuiet() []string {
	return []string{
		"QWEN_USAGE_STATISTICS_ENABLED=0",
		"QWEN_TELEMETRY_ENABLED=0",
		"QWEN_CODE_DISABLE_PRECONNECT=1",
		"QWEN_CODE_SUPPRESS_YOLO_WARNING=1",
		"QWEN_CODE_NO_RELAUNCH=true", // with half of the machine's memory for its heap, which it has not
	}
}

func qwenAuth(kind string) map[string]any {
	return map[string]any{
		"auth":        map[string]any{"selectedType": kind},
		"folderTrust": map[string]any{"enabled": false},
	}
}

func qwenBase() map[string]any {
	return map[string]any{
		"general": map[string]any{"enableAutoUpdate": false},
		"privacy": map[string]any{"usageStatisticsEnabled": false},
		// The sandbox is the boundary, so inside it nothing asks; an
		// --approval-mode that is given is stronger.
		"tools": map[string]any{"approvalMode": "yolo"},
		// Model calls of its own after each answer, for a home that goes.
		"memory": map[string]any{"enableManagedAutoMemory": false, "enableManagedAutoDream": false, "enableAutoSkill": false},
	}
}
