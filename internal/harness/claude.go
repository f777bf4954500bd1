package harness

import (
	"encoding/json"
	"fmt"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
)

// claude is Claude Code, @anthropic-ai/claude-code. Tried with 2.1.332.
func claude() agent {
	return agent{
		name:     "claude",
		title:    "Claude Code",
		install:  "npm install -g @anthropic-ai/claude-code",
		wrapper:  "@anthropic-ai/claude-code",
		bins:     []string{"bin/claude.exe"},
		native:   []string{".local/bin/claude", ".claude/local/claude"},
		keys:     []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
		baseURLs: []string{"ANTHROPIC_BASE_URL"},
		platform: func(arch string, musl bool) []program {
			pkg := "@anthropic-ai/claude-code-linux-" + npmArch(arch)
			if musl {
				pkg += "-musl"
			}
			return []program{{pkg, "claude"}}
		},
		dialects: []gateway.Dialect{gateway.Anthropic},
		settings: claudeSettings,
		pinned:   claudePinned,
	}
}

func claudeSettings(h Host, p *Preset) {
	p.Allow = []string{"api.anthropic.com:443"}
	p.Env = claudeQuiet()
	claudeFiles(h, p, nil)
}

// claudePinned keeps the model in variables: what the host sets there is
// stronger than the "env" of any settings file, a project's too, once Claude
// Code is told that the host manages its provider. It also keeps the token
// from the commands that it runs.
func claudePinned(h Host, m Model, p *Preset) {
	p.Env = append(claudeQuiet(), "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST=1", "CLAUDE_CODE_DISABLE_WEB_FETCH=1")
	for _, name := range []string{
		"ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
		"ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_DEFAULT_FABLE_MODEL",
	} {
		p.Env = append(p.Env, name+"="+m.ID)
	}
	if m.MaxOutput > 0 {
		p.Env = append(p.Env, fmt.Sprintf("CLAUDE_CODE_MAX_OUTPUT_TOKENS=%d", m.MaxOutput))
	}
	if m.Context > 0 {
		p.Env = append(p.Env, fmt.Sprintf("CLAUDE_CODE_MAX_CONTEXT_TOKENS=%d", m.Context))
	} else {
		p.Notes = append(p.Notes, "models.yaml says no context for "+m.ID+", and Claude Code assumes a million tokens: context: 200000 would say it")
	}
	// One is run by the provider, the other asks hosts that nothing leads to.
	claudeFiles(h, p, []string{"WebSearch", "WebFetch"})
}

func claudeQuiet() []string {
	return []string{
		// No telemetry, error reports, update checks, release notes: nothing
		// but the model API is asked for.
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL=1",
		// Its own word for "the folder is in a sandbox": it does not ask
		// whether the workspace is to be trusted.
		"CLAUDE_CODE_SANDBOXED=1",
	}
}

// claudeFiles answers what a first start asks, and switches tools off.
func claudeFiles(h Host, p *Preset, deny []string) {
	state := map[string]any{
		"hasCompletedOnboarding":        true,
		"lastOnboardingVersion":         "99.0.0",
		"autoUpdates":                   false,
		"hasSeenTasksHint":              true,
		"bypassPermissionsModeAccepted": true,
		// With the setting below: whether "auto" is to be the mode from now on.
		"hasResetAutoModeOptInForDefaultOffer": true,
		"projects": map[string]any{h.Workspace: map[string]any{
			"hasTrustDialogAccepted":        true,
			"hasCompletedProjectOnboarding": true,
		}},
	}
	if key := h.Env["ANTHROPIC_API_KEY"]; key != "" {
		// A first start asks whether a key from the environment is to be used;
		// naming it with --env was the answer. It is remembered by its last
		// twenty characters. The file lives and dies on the sandbox's tmpfs.
		state["customApiKeyResponses"] = map[string]any{"approved": []string{key[max(0, len(key)-20):]}, "rejected": []string{}}
	}
	// The sandbox is the boundary, so inside it nothing asks; a
	// --permission-mode that is given is stronger.
	permissions := map[string]any{"defaultMode": "bypassPermissions"}
	if len(deny) > 0 {
		permissions["deny"] = deny
		// It would have another model judge each step.
		permissions["disableAutoMode"] = "disable"
	}
	settings := map[string]any{
		"permissions":                       permissions,
		"env":                               map[string]any{"DISABLE_AUTOUPDATER": "1"}, // it writes that here itself
		"skipDangerousModePermissionPrompt": true,
		"skipAutoPermissionPrompt":          true,
		"skipWebFetchPreflight":             true, // it would ask a host that no rule names
	}
	p.Files = []bailey.File{
		jsonFile(Home+"/.claude.json", state),
		jsonFile(Home+"/.claude/settings.json", settings),
	}
}

// jsonFile is a generated file that only the agent's user reads. The value is
// made of maps, strings and booleans, which always encode.
func jsonFile(path string, v any) bailey.File {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("bug: generated settings do not encode: " + err.Error())
	}
	return bailey.File{Path: path, Mode: 0o600, Data: append(data, '\n')}
}

// compactJSON is a value on one line, for a variable.
func compactJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("bug: generated settings do not encode: " + err.Error())
	}
	return string(data)
}
