package harness

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
)

// codex is Codex CLI, @openai/codex. Tried with 0.171.0.
func codex() agent {
	return agent{
		name:     "codex",
		title:    "Codex",
		install:  "npm install -g @openai/codex",
		wrapper:  "@openai/codex",
		keys:     []string{"OPENAI_API_KEY", "CODEX_API_KEY"},
		baseURLs: []string{"OPENAI_BASE_URL"},
		platform: func(arch string, _ bool) []program {
			triple := "x86_64-unknown-linux-musl"
			if arch == "arm64" {
				triple = "aarch64-unknown-linux-musl"
			}
			file := "vendor/" + triple + "/bin/codex"
			return []program{
				{"@openai/codex-linux-" + npmArch(arch), file},
				{"@openai/codex", file},
			}
		},
		root: codexRoot,
		// It would refuse a folder that no git could take back, which here is the
		// workspace that was given to it.
		behind:   [2]string{"exec", "--skip-git-repo-check"},
		dialects: []gateway.Dialect{gateway.OpenAIResponses},
		settings: codexSettings,
		pinned:   codexPinned,
	}
}

// codexRoot is the folder with the helpers (rg, the code host) beside bin.
func codexRoot(f Files, program string) string {
	dir := path.Dir(program)
	root := path.Dir(dir)
	if path.Base(dir) != "bin" {
		return ""
	}
	for _, mark := range []string{"codex-package.json", "codex-resources", "codex-path"} {
		if exists(f, path.Join(root, mark)) {
			return root
		}
	}
	return ""
}

func codexSettings(h Host, p *Preset) {
	p.Allow = []string{"api.openai.com:443"}
	p.Quiet = []string{"raw.githubusercontent.com"} // an announcement, in a terminal; no switch turns it off
	base := h.Env["OPENAI_BASE_URL"]
	if base == "" {
		base = "https://api.openai.com/v1"
	}
	i := slices.IndexFunc([]string{"OPENAI_API_KEY", "CODEX_API_KEY"}, h.has)
	if i < 0 {
		p.Files = codexFiles(h, "", "")
		return
	}
	key := []string{"OPENAI_API_KEY", "CODEX_API_KEY"}[i]
	// The built-in provider would ask for a login; this one takes the key from
	// the variable that was named, which stays out of the file.
	p.Files = codexFiles(h, "model_provider = \"openai-key\"\n", fmt.Sprintf(`
[model_providers.openai-key]
name = "OpenAI"
base_url = %s
env_key = %s
wire_api = "responses"
supports_websockets = false
`, tomlString(base), tomlString(key)))
}

// codexPinned names the model on the command line: a project's configuration
// is stronger than the user's, and no option that follows is weaker.
func codexPinned(h Host, m Model, p *Preset) {
	p.Quiet = []string{"raw.githubusercontent.com"}
	options := []string{
		"model_provider=" + tomlString(provider),
		"model=" + tomlString(m.ID),
		fmt.Sprintf("model_providers.%s={name=%s,base_url=%s,env_key=%s,wire_api=\"responses\",supports_websockets=false}",
			provider, tomlString(provider), tomlString(m.versioned()), tomlString(m.TokenVar)),
		// It is run by the provider.
		`web_search="disabled"`,
	}
	if m.Context > 0 {
		options = append(options, fmt.Sprintf("model_context_window=%d", m.Context))
	}
	for _, o := range options {
		p.Argv = append(p.Argv, "-c", o)
	}
	p.Files = codexFiles(h, "", "")
}

// codexFiles is the user's configuration: top holds keys for its first part,
// tables what follows it.
func codexFiles(h Host, top, tables string) []bailey.File {
	var b strings.Builder
	b.WriteString(`# Made by bailey for this run.
# The sandbox is the boundary: Codex's own cannot nest in it, and nobody need be
# asked. Flags and the project's configuration are stronger.
sandbox_mode = "danger-full-access"
approval_policy = "never"
check_for_update_on_startup = false
cli_auth_credentials_store = "file"
`)
	b.WriteString(top)
	b.WriteString(`
[analytics]
enabled = false

[otel]
metrics_exporter = "none"

[feedback]
enabled = false

[features]
plugins = false
apps = false
# It would copy all of itself into the home folder, which is memory here.
daemon_auto_start = false

[tui]
show_tooltips = false

[notice]
hide_full_access_warning = true
hide_rate_limit_model_nudge = true
`)
	b.WriteString(tables)
	if h.Workspace != "" {
		fmt.Fprintf(&b, "\n[projects.%s]\ntrust_level = \"trusted\"\n", tomlString(h.Workspace))
	}
	return []bailey.File{{Path: Home + "/.codex/config.toml", Mode: 0o600, Data: []byte(b.String())}}
}

// tomlString quotes a text as a TOML basic string (TOML 1.0, "String").
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
