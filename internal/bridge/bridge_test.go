package bridge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/bridge"
	"github.com/bailey-dev/bailey/internal/preferences"
)

const canary = "canary-4f1d-key"

// host is one with these files in its home, and these variables passed.
func host(t *testing.T, files map[string]string, passed ...string) bridge.Host {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return bridge.Host{
		Home: home, Workspace: filepath.Join(home, "work"), Env: func(string) string { return "" },
		Passed: func(name string) string {
			if slices.Contains(passed, name) {
				return "value"
			}
			return ""
		},
	}
}

// said is all that would enter.
func said(t *testing.T, c *bridge.Carried) string {
	t.Helper()
	var b strings.Builder
	for _, f := range c.Files {
		data, err := preferences.FormatOf(f.Path).Encode(f.Tree)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s:\n%s", f.Path, data)
	}
	return b.String()
}

const codexFile = `model = "m1"
model_provider = "corp"
model_reasoning_effort = "high"
notify = ["sh", "-c", "` + canary + `"]
[mcp_servers.x]
command = "` + canary + `"
[model_providers.corp]
name = "Corp"
base_url = "https://llm.example.com/v1"
wire_api = "responses"
env_key = "CORP_KEY"
[model_providers.corp.http_headers]
Authorization = "Bearer ` + canary + `"
[model_providers.corp.query_params]
api-version = "1"
key = "` + canary + `"
[model_providers.other]
base_url = "https://other.example.com"
experimental_bearer_token = "` + canary + `"
[model_providers.bad]
base_url = "https://user:` + canary + `@other.example.com"
`

// cases are hosts' settings, each with canaries wherever a key or a command may
// stand.
var cases = map[string]struct {
	agent   string
	files   map[string]string
	passed  []string
	wants   []string // of what enters
	left    string   // of what is said to stay outside
	allow   []string
	refused string // part of the message
}{
	"claude": {
		agent: "claude",
		files: map[string]string{
			".claude/settings.json":     `{"model": "opus", "effortLevel": "high", "apiKeyHelper": "` + canary + `", "env": {"ANTHROPIC_API_KEY": "` + canary + `"}, "hooks": {"Stop": [{"command": "` + canary + `"}]}, "permissions": {"allow": ["` + canary + `"]}}`,
			".claude/.credentials.json": `{"claudeAiOauth": "` + canary + `"}`,
		},
		wants: []string{`"model": "opus"`, `"effortLevel": "high"`},
	},
	"gemini": {
		agent: "gemini",
		files: map[string]string{
			".gemini/settings.json":    "{\n// a comment\n\"model\": {\"name\": \"g1\", \"x\": \"" + canary + `"}, "mcpServers": {"a": {"command": "` + canary + `"}}, "tools": {"discoveryCommand": "` + canary + `"},}`,
			".gemini/oauth_creds.json": canary,
		},
		wants: []string{`"name": "g1"`},
	},
	"codex": {
		agent: "codex", files: map[string]string{".codex/config.toml": codexFile, ".codex/auth.json": canary}, passed: []string{"CORP_KEY"},
		wants: []string{`model_provider = "corp"`, `env_key = "CORP_KEY"`, `base_url = "https://llm.example.com/v1"`, `api-version = "1"`, `model_reasoning_effort = "high"`},
		allow: []string{"llm.example.com:443"},
	},
	"codex, a literal key": {
		agent: "codex", files: map[string]string{".codex/config.toml": codexFile}, passed: []string{"CORP_KEY", "OTHER_API_KEY"},
		wants: []string{`env_key = "OTHER_API_KEY"`}, allow: []string{"llm.example.com:443"},
	},
	"codex, no key": {agent: "codex", files: map[string]string{".codex/config.toml": codexFile}, refused: "$CORP_KEY"},
	"codex, a key in the URL": {
		agent: "codex", files: map[string]string{".codex/config.toml": strings.Replace(codexFile, `model_provider = "corp"`, `model_provider = "bad"`, 1)}, refused: "URL cannot be carried",
	},
	"opencode": {
		agent: "opencode",
		files: map[string]string{
			".config/opencode/opencode.jsonc": `{"model": "corp/m1", "plugin": ["` + canary + `"], "mcp": {"a": {"command": ["` + canary + `"]}}, // why
				"provider": {"corp": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "https://llm.example.com/v1", "apiKey": "` + canary + `", "headers": {"a": "` + canary + `"}}, "models": {"m1": {"name": "M", "limit": {"context": 1000, "output": 10}, "options": {"x": "` + canary + `"}}}},
				"evil": {"npm": "evil", "options": {"apiKey": "{env:EVIL_KEY}"}}}}`,
			".local/share/opencode/auth.json": canary,
		},
		passed: []string{"CORP_API_KEY", "EVIL_KEY"},
		wants:  []string{`"apiKey": "{env:CORP_API_KEY}"`, `"npm": "@ai-sdk/openai-compatible"`, `"context": 1000`, `"apiKey": "{env:EVIL_KEY}"`},
		left:   "provider.corp.options.apiKey",
		allow:  []string{"llm.example.com:443"},
	},
	"opencode, a key from a file": {
		agent:   "opencode",
		files:   map[string]string{".config/opencode/opencode.json": `{"model": "corp/m1", "provider": {"corp": {"options": {"apiKey": "{file:~/key}"}}}}`},
		refused: "$CORP_API_KEY",
	},
	"pi": {
		agent: "pi",
		files: map[string]string{
			".pi/agent/settings.json": `{"defaultProvider": "corp", "defaultModel": "m1", "defaultThinkingLevel": "low", "packages": ["` + canary + `"], "shellCommandPrefix": "` + canary + `"}`,
			".pi/agent/models.json": `{"providers": {
				"corp": {"baseUrl": "https://llm.example.com:8443/v1", "api": "openai-completions", "apiKey": "${CORP_TOKEN}", "headers": {"X-Key": "` + canary + `"}, "models": [{"id": "m1", "headers": {"a": "` + canary + `"}, "samplingParams": {"a": "` + canary + `"}, "contextWindow": 1000}]},
				"local": {"baseUrl": "http://127.0.0.1:11434/v1", "apiKey": "` + canary + `"},
				"command": {"baseUrl": "https://c.example.com", "apiKey": "!` + canary + `"}}}`,
			".pi/agent/auth.json": canary,
		},
		passed: []string{"CORP_TOKEN", "LOCAL_API_KEY", "COMMAND_API_KEY"},
		wants:  []string{`"apiKey": "$CORP_TOKEN"`, `"apiKey": "$LOCAL_API_KEY"`, `"apiKey": "$COMMAND_API_KEY"`, `"http://host.bailey.internal:11434/v1"`, `"defaultThinkingLevel": "low"`, `"contextWindow": 1000`},
		left:   "providers.local.apiKey",
		allow:  []string{"llm.example.com:8443"},
	},
	"pi, a key beside text": {
		agent: "pi",
		files: map[string]string{
			".pi/agent/settings.json": `{"defaultProvider": "my corp"}`,
			".pi/agent/models.json":   `{"providers": {"my corp": {"apiKey": "` + canary + `-$X"}}}`,
		},
		refused: "$MY_CORP_API_KEY",
	},
	"nothing there": {agent: "pi"},
	"no bridge":     {agent: "copilot"},
	"broken":        {agent: "pi", files: map[string]string{".pi/agent/settings.json": canary}},
}

// TestFind_NoKeyEnters holds, over all of them, that no canary is in anything
// that enters or is said, and what is.
func TestFind_NoKeyEnters(t *testing.T) {
	t.Parallel()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := bridge.Find(c.agent, host(t, c.files, c.passed...))
			if c.refused != "" {
				if bailey.KindOf(err) != bailey.Invalid || !strings.Contains(err.Error(), c.refused) || strings.Contains(err.Error(), canary) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text := said(t, got)
			if strings.Contains(text, canary) || strings.Contains(fmt.Sprintf("%+v", got), canary) {
				t.Errorf("a canary enters or is said:\n%s\n%+v", text, got)
			}
			for _, want := range c.wants {
				if !strings.Contains(text, want) {
					t.Errorf("no %s in\n%s", want, text)
				}
			}
			if keys := strings.Join(got.Keys, " "); strings.Contains(keys, "apiKey") {
				t.Errorf("said to be carried: %s", keys)
			}
			if left := strings.Join(got.Left, " "); c.left != "" && !strings.Contains(left, c.left) {
				t.Errorf("left outside: %s, without %s", left, c.left)
			}
			if !slices.Equal(got.Allow(), c.allow) {
				t.Errorf("allows %v, want %v", got.Allow(), c.allow)
			}
		})
	}
}

// TestFind_WorkspaceHasNoWord: what a sandbox can write is not taken for the
// host's settings.
func TestFind_WorkspaceHasNoWord(t *testing.T) {
	t.Parallel()
	h := host(t, map[string]string{"work/dotfiles/pi.json": `{"defaultModel": "theirs"}`, "dotfiles/codex.toml": `model = "mine"`, ".pi/agent/x": "", ".codex/x": ""})
	for from, to := range map[string]string{"work/dotfiles/pi.json": ".pi/agent/settings.json", "dotfiles/codex.toml": ".codex/config.toml"} {
		if err := os.Symlink(filepath.Join(h.Home, from), filepath.Join(h.Home, to)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := bridge.Find("pi", h)
	if err != nil || len(got.Files) != 0 || len(got.Notes) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = bridge.Find("codex", h); err != nil || !strings.Contains(said(t, got), "mine") {
		t.Errorf("a link to elsewhere: %+v %v", got, err)
	}
}

// TestFind_OnlyWhatIsPublicIsAllowed: a provider elsewhere takes a flag, which
// is named.
func TestFind_OnlyWhatIsPublicIsAllowed(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://llm.example.com":      "",
		"http://llm.example.com":       "--allow llm.example.com:80",
		"https://10.1.2.3:8080/v1":     "--allow 10.1.2.3:8080",
		"http://localhost:11434":       "--host-service 11434",
		"http://[::1]:4000":            "--host-service 4000",
		"http://a.localhost:4000":      "--host-service 4000",
		"https://LLM.Example.com./v1/": "",
	} {
		h := host(t, map[string]string{
			".pi/agent/settings.json": `{"defaultProvider": "p"}`,
			".pi/agent/models.json":   `{"providers": {"p": {"baseUrl": "` + url + `"}}}`,
		})
		got, err := bridge.Find("pi", h)
		if err != nil || len(got.Providers) != 1 {
			t.Errorf("%s: %+v %v", url, got, err)
			continue
		}
		if got.Providers[0].Flag != want || (want == "") != (len(got.Allow()) == 1) {
			t.Errorf("%s: %q, allows %v", url, got.Providers[0].Flag, got.Allow())
		}
	}
	for _, url := range []string{
		"ftp://a.example.com", "https://a:b@c.example.com", "https://c.example.com/?key=1", "https://c.example.com#x", "https://*.example.com", "https://a.example.com:0", "https://single", "https://c.example.com/$KEY",
	} {
		h := host(t, map[string]string{
			".pi/agent/settings.json": `{"defaultProvider": "p"}`,
			".pi/agent/models.json":   `{"providers": {"p": {"baseUrl": "` + url + `"}}}`,
		})
		if got, err := bridge.Find("pi", h); err == nil {
			t.Errorf("%s: %+v", url, got.Providers)
		}
	}
}
