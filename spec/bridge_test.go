package spec_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

const bridgeCanary = "canary-bridge-77c1"

// hostSettings are what a person's agents have on the host, with canaries where
// keys, commands and logins stand.
func hostSettings(t *testing.T, y *yard.Yard, base string) {
	t.Helper()
	y.Host(t, "mkdir", "-p", y.Home+"/.local/share/opencode", y.Home+"/.config/opencode", y.Home+"/.pi/agent")
	for name, text := range map[string]string{
		".claude/settings.json":     `{"model": "host-claude", "apiKeyHelper": "echo ` + bridgeCanary + `", "env": {"ANTHROPIC_AUTH_TOKEN": "` + bridgeCanary + `"}, "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo ` + bridgeCanary + `"}]}]}}`,
		".claude/.credentials.json": `{"claudeAiOauth": {"accessToken": "` + bridgeCanary + `"}}`,
		".claude.json":              `{"mcpServers": {"x": {"command": "` + bridgeCanary + `"}}}`,
		".codex/config.toml": "model = \"host-codex\"\nmodel_provider = \"corp\"\nnotify = [\"" + bridgeCanary + "\"]\n[model_providers.corp]\nname = \"Corp\"\nbase_url = \"" + base + "/v1\"\nwire_api = \"responses\"\nsupports_websockets = false\n" +
			"experimental_bearer_token = \"" + bridgeCanary + "\"\nhttp_headers = {Authorization = \"" + bridgeCanary + "\"}\n",
		".codex/auth.json":                `{"OPENAI_API_KEY": "` + bridgeCanary + `"}`,
		".gemini/settings.json":           `{"model": {"name": "host-gemini"}, "mcpServers": {"x": {"command": "` + bridgeCanary + `"}}}`,
		".gemini/oauth_creds.json":        bridgeCanary,
		".config/opencode/opencode.json":  `{"model": "corp/host-opencode", "plugin": ["` + bridgeCanary + `"], "provider": {"corp": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "` + base + `/v1", "apiKey": "` + bridgeCanary + `"}, "models": {"host-opencode": {"name": "m"}}}}}`,
		".local/share/opencode/auth.json": `{"x": "` + bridgeCanary + `"}`,
		".pi/agent/settings.json":         `{"defaultProvider": "corp", "defaultModel": "host-pi", "defaultThinkingLevel": "off", "packages": ["` + bridgeCanary + `"]}`,
		".pi/agent/models.json":           `{"providers": {"corp": {"baseUrl": "` + base + `/v1", "api": "openai-completions", "apiKey": "` + bridgeCanary + `", "headers": {"x": "` + bridgeCanary + `"}, "models": [{"id": "host-pi", "contextWindow": 200000, "maxTokens": 8000}]}}}`,
		".pi/agent/auth.json":             `{"x": {"key": "` + bridgeCanary + `"}}`,
	} {
		y.WriteHome(t, name, text)
	}
}

// bridged are the agents with what of the host's settings they begin with.
var bridged = []struct {
	agent, variable, setting string
	work                     []string
}{
	{"claude", "ANTHROPIC_API_KEY", "host-claude", []string{"-p", agentPrompt}},
	{"codex", "CORP_API_KEY", "host-codex", []string{"exec", agentPrompt}},
	{"gemini", "GEMINI_API_KEY", "host-gemini", nil},
	{"opencode", "CORP_API_KEY", "host-opencode", nil},
	{"pi", "CORP_API_KEY", "host-pi", []string{"-p", agentPrompt}},
}

// TestSEC08_BridgesCarryNoKey: the host's settings for each agent enter, and
// none of their keys, commands and logins, anywhere in the sandbox; a key that
// is not passed is named, and nothing runs.
func TestSEC08_BridgesCarryNoKey(t *testing.T) {
	t.Attr("claim", "SEC-08")
	t.Parallel()
	for i, b := range bridged {
		t.Run(b.agent, func(t *testing.T) {
			yard.InTurn(t, i, func(t *testing.T, y *yard.Yard) {
				hostSettings(t, y, "https://llm.example.com")
				y.Write(t, "look.sh", `cd /; cat ~/.claude/settings.json ~/.codex/config.toml ~/.gemini/settings.json ~/.config/opencode/opencode.json ~/.pi/agent/*.json 2>/dev/null
grep -rals `+"'["+bridgeCanary[:1]+"]"+bridgeCanary[1:]+"'"+` /home /root /etc /tmp /run /.bailey 2>/dev/null
cat /proc/*/environ /proc/*/cmdline | tr '\0' '\n' | grep `+"'["+bridgeCanary[:1]+"]"+bridgeCanary[1:]+"'"+`
echo looked`)
				// The agent's own start has put the files into the home; a shell looks.
				with := withAgents(t, b.variable+"=passed-value", "EMPTY=")
				in := y.RunWith(t, with, "run", "--home", "h", "--env", b.variable, b.agent, "--version").OK(t)
				hasNone(t, in.Stdout+in.Stderr, bridgeCanary)
				hasAll(t, in.Stderr, "carried from")
				look := y.Run(t, "run", "--home", "h", "--", "sh", filepath.Join(y.Dir, "look.sh")).OK(t)
				hasAll(t, look.Stdout, b.setting, "looked")
				hasNone(t, look.Stdout, bridgeCanary)
				hasNone(t, y.RunWith(t, with, "inspect", "--json", "--env", b.variable, b.agent).OK(t).Stdout, bridgeCanary, "passed-value", ": null")
				// The twin: the same look finds what does enter.
				twin := y.RunWith(t, withAgents(t, "TWIN="+bridgeCanary), "run", "--home", "h", "--env", "TWIN", "--", "sh", filepath.Join(y.Dir, "look.sh")).OK(t)
				hasAll(t, twin.Stdout, bridgeCanary)
				if b.variable != "CORP_API_KEY" {
					return
				}
				for _, variables := range [][]string{nil, {b.variable + "="}} {
					args := []string{"run", b.agent, "--version"}
					if variables != nil {
						args = []string{"run", "--env", b.variable, b.agent, "--version"}
					}
					r := y.RunWith(t, withAgents(t, variables...), args...).Exit(t, 125)
					hasAll(t, r.Stderr, "$CORP_API_KEY", "not passed, or empty", "--no-bridge")
					hasNone(t, r.Stderr, bridgeCanary, "sandbox work")
				}
				y.RunWith(t, withAgents(t), "run", "--no-bridge", b.agent, "--version").OK(t)
			})
		})
	}
}

// TestSEC08_BridgedAgentsWork: the real agents work with the model and the
// provider that the host's settings name, whose host is allowed with them; the
// provider gets the key that was passed, and no other.
func TestSEC08_BridgedAgentsWork(t *testing.T) {
	t.Attr("claim", "SEC-08")
	t.Parallel()
	for i, b := range bridged {
		if b.work == nil {
			continue
		}
		t.Run(b.agent, func(t *testing.T) {
			yard.InTurn(t, i, func(t *testing.T, y *yard.Yard) {
				l := newAgentLab(t, y)
				const host = "llm.example.test"
				hostSettings(t, y, "https://"+host)
				l.model = provider.New(agentKey, provider.Do(provider.Write(filepath.Join(y.Dir, "new.txt"), "made\n")), provider.Say("all done"))
				if b.agent == "claude" {
					l.lab.Handle("api.anthropic.com", l.model)
				} else {
					l.lab.Name(host, netlab.Allowed)
					l.lab.Handle(host, l.model)
				}
				ctx, cancel := context.WithTimeout(t.Context(), agentTime)
				defer cancel()
				cmd := l.command(ctx, b.agent, b.variable, b.work)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Run(); err != nil {
					t.Errorf("bailey run %s: %v", b.agent, err)
				}
				if made, err := os.ReadFile(filepath.Join(y.Dir, "new.txt")); err != nil || string(made) != "made\n" {
					t.Errorf("%q %v", made, err)
				}
				asked := false
				for _, r := range l.model.Requests() {
					asked = asked || r.Model == b.setting
					for _, values := range r.Header {
						hasNone(t, strings.Join(values, " "), bridgeCanary)
					}
				}
				if !asked {
					t.Errorf("nobody asked for %s: %+v", b.setting, l.model.Requests())
				}
				if t.Failed() {
					t.Logf("output:\n%s", out.String())
				}
			})
		})
	}
}

// TestSEC08_BridgeReadsNoWorkspace: settings that lie where a sandbox can write
// are not the host's.
func TestSEC08_BridgeReadsNoWorkspace(t *testing.T) {
	t.Attr("claim", "SEC-08")
	t.Parallel()
	y := yard.Unprivileged(t)
	y.Write(t, "dotfiles/settings.json", `{"model": "of-the-workspace"}`)
	y.WriteHome(t, "elsewhere/settings.json", `{"model": "of-the-host"}`)
	y.WriteHome(t, ".claude/x", "")
	link := func(to string) {
		t.Helper()
		at := filepath.Join(y.Home, ".claude/settings.json")
		_ = os.Remove(at)
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	inspect := func() string {
		return y.RunWith(t, func(c *exec.Cmd) { withAgents(t)(c) }, "inspect", "claude").OK(t).Stdout
	}
	link(filepath.Join(y.Dir, "dotfiles/settings.json"))
	hasAll(t, inspect(), "is not carried: it lies in the workspace")
	hasNone(t, inspect(), "carried: model")
	link(filepath.Join(y.Home, "elsewhere/settings.json"))
	hasAll(t, inspect(), "carried: model")
}
