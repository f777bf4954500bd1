package harness_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/harness"
)

// spoken are the dialects that each agent works with.
var spoken = map[string][]gateway.Dialect{
	"claude":   {gateway.Anthropic},
	"codex":    {gateway.OpenAIResponses},
	"copilot":  {gateway.OpenAIChat, gateway.OpenAIResponses, gateway.Anthropic},
	"gemini":   {gateway.Gemini},
	"opencode": {gateway.OpenAIChat, gateway.OpenAIResponses, gateway.Anthropic},
	"pi":       {gateway.OpenAIChat, gateway.OpenAIResponses, gateway.Anthropic},
	"qwen":     {gateway.OpenAIChat, gateway.Anthropic},
}

const token = "canary-token-0123456789"

func pin(t *testing.T, agent string, m harness.Model) (harness.Preset, error) {
	t.Helper()
	h := host(t, map[string]string{m.TokenVar: token})
	h.Model = &m
	return harness.Find(agent, h)
}

func model(d gateway.Dialect) harness.Model {
	return harness.Model{
		ID: "small \"one\"", Dialect: d, BaseURL: "http://127.0.0.1:9911", TokenVar: "THE_TOKEN", Context: 123_456, MaxOutput: 7890,
		Others: map[string]gateway.Dialect{"chatty": gateway.OpenAIChat, "claude": gateway.Anthropic, "replies": gateway.OpenAIResponses, "gem": gateway.Gemini},
	}
}

// TestModel_Dialects: each agent takes a model of each dialect that it speaks,
// and for any other names the models that it could use.
func TestModel_Dialects(t *testing.T) {
	t.Parallel()
	for _, agent := range harness.Names() {
		if len(spoken[agent]) == 0 {
			t.Errorf("%s is not in the table", agent)
		}
		for _, d := range []gateway.Dialect{gateway.Anthropic, gateway.OpenAIResponses, gateway.OpenAIChat, gateway.Gemini, "", "klingon"} {
			m := model(d)
			_, err := pin(t, agent, m)
			if slices.Contains(spoken[agent], d) {
				if err != nil {
					t.Errorf("%s %s: %v", agent, d, err)
				}
				continue
			}
			var e *bailey.Error
			if !errors.As(err, &e) || e.Kind != bailey.Invalid || !strings.Contains(e.Error(), string(d)) {
				t.Errorf("%s %s: %v", agent, d, err)
				continue
			}
			if want := "dialect: " + string(spoken[agent][0]); !strings.Contains(e.Hint, want) {
				t.Errorf("%s %s: hint %q without %q", agent, d, e.Hint, want)
			}
			for id, other := range m.Others {
				if strings.Contains(e.Hint, id) != slices.Contains(spoken[agent], other) {
					t.Errorf("%s %s: hint %q and %s", agent, d, e.Hint, id)
				}
			}
			m.Others = nil
			if _, err := pin(t, agent, m); !errors.As(err, &e) || !strings.Contains(e.Hint, "models.yaml") {
				t.Errorf("%s %s, and no other model: %v", agent, d, err)
			}
		}
	}
}

// TestModel_Preset holds what every preset with a model has: no rule, no word
// about keys, and the token nowhere but by its variable's name.
func TestModel_Preset(t *testing.T) {
	t.Parallel()
	for agent, dialects := range spoken {
		for _, d := range dialects {
			p, err := pin(t, agent, model(d))
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Allow) != 0 || len(p.Notes) != 0 {
				t.Errorf("%s %s: rules %v, notes %v", agent, d, p.Allow, p.Notes)
			}
			all := strings.Join(slices.Concat(p.Argv, p.Env), "\n")
			for _, f := range p.Files {
				all += "\n" + string(f.Data)
				if strings.HasSuffix(f.Path, ".json") && !json.Valid(f.Data) {
					t.Errorf("%s: %s is no JSON", agent, f.Path)
				}
			}
			if strings.Contains(all, token) {
				t.Errorf("%s %s holds the token:\n%s", agent, d, all)
			}
			if !strings.Contains(all, "small") {
				t.Errorf("%s %s does not name the model:\n%s", agent, d, all)
			}
			if agent != "gemini" && !strings.Contains(all, "123456") && !strings.Contains(all, "115566") {
				t.Errorf("%s %s does not know the context:\n%s", agent, d, all)
			}
			if agent != "gemini" && agent != "codex" && !strings.Contains(all, "7890") {
				t.Errorf("%s %s does not know the output:\n%s", agent, d, all)
			}
		}
	}
}

// TestModel_WhereItIs: the address, with the version where the agent's client
// does not add it. Claude Code and Gemini CLI read the variables of the run.
func TestModel_WhereItIs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		agent   string
		dialect gateway.Dialect
		want    string // in argv, a variable or a file
	}{
		{"codex", gateway.OpenAIResponses, `base_url="http://127.0.0.1:9911/v1",env_key="THE_TOKEN"`},
		{"copilot", gateway.OpenAIChat, "COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:9911/v1\n"},
		{"copilot", gateway.Anthropic, "COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:9911\n"},
		{"copilot", gateway.OpenAIResponses, "COPILOT_PROVIDER_API_KEY_COMMAND=printenv THE_TOKEN\n"},
		{"opencode", gateway.Anthropic, `"apiKey":"{env:THE_TOKEN}","baseURL":"http://127.0.0.1:9911/v1"`},
		{"pi", gateway.Anthropic, `"baseUrl": "http://127.0.0.1:9911"`},
		{"pi", gateway.OpenAIChat, `"baseUrl": "http://127.0.0.1:9911/v1"`},
		{"pi", gateway.OpenAIResponses, `"apiKey": "$THE_TOKEN"`},
		{"qwen", gateway.Anthropic, `"baseUrl": "http://127.0.0.1:9911"`},
		{"qwen", gateway.OpenAIChat, `"baseUrl": "http://127.0.0.1:9911/v1"`},
		{"qwen", gateway.OpenAIChat, `"envKey": "THE_TOKEN"`},
	} {
		for _, base := range []string{"http://127.0.0.1:9911", "http://127.0.0.1:9911/", "http://127.0.0.1:9911/v1"} {
			m := model(tc.dialect)
			m.BaseURL = base
			p, err := pin(t, tc.agent, m)
			if err != nil {
				t.Fatal(err)
			}
			all := strings.Join(slices.Concat(p.Argv, p.Env), "\n") + "\n"
			for _, f := range p.Files {
				all += string(f.Data)
			}
			if !strings.Contains(all, tc.want) {
				t.Errorf("%s %s: no %q in\n%s", tc.agent, tc.dialect, tc.want, all)
			}
		}
	}
}

// TestModel_UnknownLimits are not told.
func TestModel_UnknownLimits(t *testing.T) {
	t.Parallel()
	for agent, dialects := range spoken {
		m := model(dialects[0])
		m.Context, m.MaxOutput = 0, 0
		p, err := pin(t, agent, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range slices.Concat(p.Env, p.Argv) {
			if strings.HasSuffix(kv, "=0") && strings.Contains(kv, "TOKENS") || strings.Contains(kv, "window=") || strings.Contains(kv, `"limit"`) {
				t.Errorf("%s: %s", agent, kv)
			}
		}
		for _, f := range p.Files {
			for _, name := range []string{"contextWindow", "maxTokens", "max_tokens"} {
				if strings.Contains(string(f.Data), name) {
					t.Errorf("%s: %s in %s", agent, name, f.Path)
				}
			}
		}
	}
}

// TestModel_WithoutOne pins nothing.
func TestModel_WithoutOne(t *testing.T) {
	t.Parallel()
	for _, agent := range harness.Names() {
		p := find(t, agent, nil)
		for _, kv := range slices.Concat(p.Env, p.Argv) {
			if strings.Contains(kv, "MODEL=") || strings.Contains(kv, "BASE_URL") || strings.Contains(kv, "OFFLINE=true") {
				t.Errorf("%s: %s", agent, kv)
			}
		}
	}
}
