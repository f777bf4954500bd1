package harness

import "slices"

// Settings is a settings file that presets make, as a home that is kept has it.
type Settings struct {
	Path string // below Home
	// State says that the agent keeps other things there too, whose change is no
	// change of settings.
	State bool
	// Choices are dotted paths of the preset's keys that a person may change
	// inside. What else a preset sets holds on every run.
	Choices []string
	// Transient are dotted paths of what is there while a run lasts.
	Transient []string
	// Diverts are dotted paths of keys that have the agent use other settings than
	// these, or refuse to start: what sets them inside does not hold.
	Diverts []string
	// Rivals are files that the agent reads as well, over this one: they are not
	// to be there.
	Rivals []string
}

// SettingsAt finds the settings file at a path below Home.
func SettingsAt(path string) (Settings, bool) {
	i := slices.IndexFunc(settingsFiles(), func(s Settings) bool { return s.Path == path })
	if i < 0 {
		return Settings{}, false
	}
	return settingsFiles()[i], true
}

func settingsFiles() []Settings {
	return []Settings{
		// A key that was accepted is remembered by its last characters.
		{Path: ".claude.json", State: true, Transient: []string{"customApiKeyResponses"}},
		{Path: ".claude/settings.json", Choices: []string{"permissions.defaultMode"}, Rivals: []string{".claude/remote-settings.json"}},
		{Path: ".codex/config.toml", Diverts: []string{"profile"}},
		{Path: ".copilot/config.json", State: true}, // its login too
		{Path: ".gemini/settings.json", Choices: []string{"security.auth.selectedType"}, Rivals: []string{".gemini/.env", ".env"}},
		{Path: ".config/opencode/opencode.json", Choices: []string{"permission"}, Rivals: []string{
			".config/opencode/opencode.jsonc", ".config/opencode/config.json", ".config/opencode/config", ".opencode/opencode.json", ".opencode/opencode.jsonc",
		}},
		{Path: ".pi/agent/settings.json"},
		{Path: ".pi/agent/models.json"},
		{Path: ".qwen/settings.json", Choices: []string{"tools.approvalMode", "security.auth.selectedType"}, Rivals: []string{".qwen/.env", ".env"}},
	}
}
