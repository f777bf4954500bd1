package models_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

func parse(t *testing.T, text string) *models.Config {
	t.Helper()
	c, err := models.Parse("models.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return c
}

const whole = `default: small
budget: {task: 4M, day: [10M, 50usd]}
providers:
  local: {kind: anthropic, base_url: "http://127.0.0.1:18098/", key: {secret: model-key}}
  plain: {kind: vllm}
  lan: {kind: openai-compatible, base_url: "http://lan.example.com:8000/openai/v1", insecure_http: true}
models:
  small:
    provider: local
    name: real-1
    dialect: anthropic
    context: 200000
    max_output: 8000
    max_agents: 4
    price: {input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75}
    budget: {task: 2M, day: 20usd}
    drop: [temperature]
    rename: {max_tokens: max_completion_tokens, top_k: topk}
    extra: {chat_template_kwargs: {enable_thinking: false, n: [1, 2.50, null, "x"]}, seed: 1}
    description: "what it is for"
  claude-haiku-4-5:
    provider: local
  other:
    provider: lan
    price: {input: 0, output: 0, tiers: [{above: 10, input: 1, output: 2}]}
  third: {provider: plain, dialect: openai-responses, price: {input: 0, output: 0}}
`

func TestParse_TheWholeFormat(t *testing.T) {
	t.Parallel()
	c := parse(t, whole)
	m, err := c.Find("")
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != "small" || m.Name != "real-1" || m.Dialect != gateway.Anthropic || m.Context != 200000 || m.MaxOutput != 8000 || m.MaxAgents != 4 || m.Description != "what it is for" || m.From != "models.yaml:8:3" {
		t.Errorf("%+v", m)
	}
	if p := m.Provider; p.Name != "local" || p.Kind != models.Anthropic || p.Base != "http://127.0.0.1:18098" || p.Secret != "model-key" || p.InsecureHTTP || p.Auth().Header != "X-Api-Key" || !p.Loopback() {
		t.Errorf("%+v", p)
	}
	want := pricing.Price{Rates: pricing.Rates{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, CacheWrite1h: 6_000_000}}
	if diff := cmp.Diff(&want, m.Price); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(gateway.Pin{
		ID: "small", Name: "real-1", Dialect: gateway.Anthropic, MaxOutput: 8000, Context: 200000, Drop: []string{"temperature"},
		Rename: map[string]string{"max_tokens": "max_completion_tokens", "top_k": "topk"},
		Extra:  map[string]json.RawMessage{"chat_template_kwargs": json.RawMessage(`{"enable_thinking":false,"n":[1,2.50,null,"x"]}`), "seed": json.RawMessage(`1`)},
	}, m.Pin()); diff != "" {
		t.Error(diff)
	}
	limits, err := c.Limits(m, budget.Limit{Tokens: 5, Money: 7})
	if diff := cmp.Diff(budget.Limits{
		Run: budget.Limit{Tokens: 5, Money: 7}, ModelTask: budget.Limit{Tokens: 2_000_000}, ModelDay: budget.Limit{Money: 20 * pricing.USD},
		Task: budget.Limit{Tokens: 4_000_000}, Day: budget.Limit{Tokens: 10_000_000, Money: 50 * pricing.USD},
	}, limits); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if haiku, err := c.Find("claude-haiku-4-5"); err != nil || haiku.Name != haiku.ID || haiku.Price == nil || haiku.Price.Input != 1_000_000 {
		t.Errorf("a model of the shipped list: %+v, %v", haiku, err)
	}
	other, err := c.Find("other")
	if err != nil || other.Dialect != gateway.OpenAIChat || other.Provider.Auth() != (models.Auth{Header: "Authorization", Prefix: "Bearer "}) || len(other.Price.Tiers) != 1 || other.Provider.Loopback() {
		t.Errorf("%+v, %v", other, err)
	}
	if third, err := c.Find("third"); err != nil || third.Dialect != gateway.OpenAIResponses || third.Provider.Base != "http://127.0.0.1:8000" {
		t.Errorf("%+v, %v", third, err)
	}
	if diff := cmp.Diff([]string{"small", "claude-haiku-4-5", "other", "third"}, c.Names()); diff != "" {
		t.Error(diff)
	}
}

func TestFind_NamesTheNearest(t *testing.T) {
	t.Parallel()
	c := parse(t, whole)
	_, err := c.Find("smal")
	if e, ok := errors.AsType[*bailey.Error](err); !ok || e.Kind != bailey.NotFound || !strings.Contains(e.Hint, `did you mean "small"?`) {
		t.Errorf("%v", err)
	}
	_, err = c.Find("real-1")
	if e, ok := errors.AsType[*bailey.Error](err); !ok || e.Hint != "real-1 is the provider's name for small: write small" {
		t.Errorf("%v", err)
	}
	if _, err := c.Find(strings.Repeat("x", 10000)); err == nil || len(err.Error()) > 300 {
		t.Errorf("%v", err)
	}
	var none *models.Config
	if _, err := none.Find("small"); bailey.KindOf(err) != bailey.NotFound {
		t.Errorf("of no file: %v", err)
	}
	c.Default = ""
	if _, err := c.Find(""); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("%v", err)
	}
	one := parse(t, "providers: {a: {kind: ollama}}\nmodels: {m: {provider: a}}\n")
	if m, err := one.Find(""); err != nil || m.ID != "m" {
		t.Errorf("the only model is not meant: %+v, %v", m, err)
	}
}

func TestLimits_MoneyNeedsAPrice(t *testing.T) {
	t.Parallel()
	c := parse(t, "providers: {a: {kind: ollama}}\nmodels: {m: {provider: a}}\n")
	m, _ := c.Find("m")
	if _, err := c.Limits(m, budget.Limit{Money: 1}); bailey.KindOf(err) != bailey.Invalid {
		t.Error(err)
	}
	if l, err := c.Limits(m, budget.Limit{Tokens: 1}); err != nil || l.Run.Tokens != 1 {
		t.Error(l, err)
	}
}

func TestParse_RefusesWithThePlaceAndTheFix(t *testing.T) {
	t.Parallel()
	model := func(s string) string {
		return "providers:\n  p: {kind: ollama}\nmodels:\n  m:\n    provider: p\n    " + s + "\n"
	}
	provider := func(s string) string {
		return "providers:\n  p:\n    " + s + "\nmodels:\n  m: {provider: p}\n"
	}
	base := func(s string) string { return provider("kind: openai-compatible\n    base_url: " + s) }
	for _, c := range []struct{ text, want string }{
		{"", "f:1:1: the file says nothing"},
		{"models: {}\n", "f:1:1: the file has no providers"},
		{"providers: {}\nmodels: {}\n", "f:2:9: models is empty"},
		{"provider: {}\n", `f:1:1: unknown key "provider" in the file; did you mean "providers"?`},
		{model("pricee: {input: 1}"), `f:6:5: unknown key "pricee" in models.m; did you mean "price"?`},
		{model("name: x\n    name: y"), `key "name" is there twice`},
		{model("budget: {task: 2eur}"), `f:6:20: "2eur" is no budget: unknown unit "eur"`},
		{model("budget: {task: [2M, 3M]}"), `f:6:20: "3M" is a second budget in one unit`},
		{model("budget: {task: [2M, -1]}"), `f:6:25: "-1" is no budget: it is below zero`},
		{model("budget: {task: 0}"), `f:6:20: "0" is no budget`},
		{model("budget: {task: true}"), `f:6:20: "true" is no budget`},
		{model("budget: {week: 2M}"), `unknown key "week" in models.m.budget`},
		{model("budget: {day: 5usd}"), `f:6:13: the budget is in money, and the model m has no price`},
		{"budget: {day: 5usd}\n" + model("name: x"), `f:5:3: the budget over all models is in money, and the model m has no price`},
		{model("price: {input: -1, output: 1}"), `f:6:20: "-1" is below zero`},
		{model("price: {input: 1}"), `f:6:12: models.m.price has no output`},
		{model("price: {input: 1e3, output: 1}"), `f:6:20: "1e3" is not an amount`},
		{model("price: {input: .inf, output: 1}"), `f:6:20: ".inf" is not an amount`},
		{model("price: {input: 0.0000001, output: 1}"), `more than 6 digits`},
		{model("price: {input: 1, output: 1, tiers: [{above: 9, input: 1, output: 1}, {above: 9, input: 1, output: 1}]}"), `f:6:12: the tier above 9 does not follow`},
		{model("dialect: antropic"), `f:6:14: models.m.dialect: unknown value "antropic"; did you mean "anthropic"?`},
		{model("dialect: gemini"), `f:6:14: a provider of kind ollama does not speak gemini; it speaks openai-chat, openai-responses, anthropic`},
		{model("context: -1"), `f:6:14: models.m.context: "-1" is not a number of tokens`},
		{model("context: 1e6"), `f:6:14: `},
		{model("max_agents: 0"), `f:6:17: models.m.max_agents: "0" is not a number of runs`},
		{model("context: 10\n    max_output: 11"), `f:7:17: max_output is more than context`},
		{model("drop: [model]"), `f:6:12: model is the gateway's own, and cannot be dropped`},
		{model("drop: [max_tokens]"), `max_tokens is the gateway's own, and cannot be dropped; leave it out; max_output bounds`},
		{model("context: 200G"), `models.m.context: "200G" is not a number of tokens; write one from 1 to 1000M`},
		{model("context: 1.5"), `models.m.context: "1.5" is not a number of tokens`},
		{model("max_output: 2000M"), `models.m.max_output: "2000M" is not a number of tokens`},
		{model("context: 0x10"), `models.m.context: "0x10" is not a number of tokens`},
		{model("context: 9223372036854775807k"), `is not a number of tokens`},
		{model("context: true"), `models.m.context: "true" is not a number of tokens`},
		{model("context: [1]"), `models.m.context: a list is neither text nor a number`},
		{model("budget: {task: 5}"), `f:6:20: "5" is no budget: 5 tokens would pay for no call; write 5usd or 5M`},
		{model("budget: {task: 'x,1'}"), `f:6:20: "x" is no budget`},
		{model("budget: {run: 2M}"), `unknown key "run" in models.m.budget; did you mean "task"?`},
		{model("max_tokens: 5"), `unknown key "max_tokens" in models.m; did you mean "max_output"?`},
		{model("model: x"), `unknown key "model" in models.m; did you mean "name"?`},
		{model("context_window: 5"), `did you mean "context"?`},
		{model("price: {prompt: 1, input: 1, output: 1}"), `did you mean "input"?`},
		{provider("kind: openai\n    url: x"), `unknown key "url" in providers.p; did you mean "base_url"?`},
		{provider("kind: openai\n    endpoint: x"), `did you mean "base_url"?`},
		{provider("kind: openai\n    type: x"), `did you mean "kind"?`},
		{provider("kind: openai\n    api_key: sk-x"), `f:4:5: unknown key "api_key" in providers.p; did you mean "key"? keep it with bailey secret set NAME --for gateway, and write key: {secret: NAME}`},
		{model("drop: [a, a]"), `drop names "a" twice`},
		{model("rename: {max_tokens: foo}"), ``},
		{model("rename: {a: model}"), `f:6:17: model is the gateway's own`},
		{model("rename: {a: b, c: b}"), `two parameters are renamed to "b"`},
		{model("drop: [a]\n    rename: {a: b}"), `"a" is dropped`},
		{model("extra: {max_tokens: 1}"), `f:6:13: max_tokens is the gateway's own, and cannot be added`},
		{model("extra: {generationConfig: {maxOutputTokens: 1}}"), `maxOutputTokens is the gateway's own`},
		{model("extra: {a: .nan}"), `is no number of JSON`},
		{model("extra: {a: {b: 1, b: 2}}"), `there twice`},
		{model("extra: {a: &x 1}"), `anchors`},
		{model(`description: "a\nb"`), `control character`},
		{model("name: " + strings.Repeat("x", 201)), `longer than 200 bytes`},
		{"providers: {p: {kind: ollama}}\nmodels: {m: {name: x}}\n", `f:2:13: models.m has no provider`},
		{"providers: {ollama: {kind: ollama}}\nmodels: {m: {provider: olama}}\n", `f:2:24: there is no provider "olama" in providers; did you mean "ollama"?`},
		{"providers: {p: {kind: ollama}}\nmodels: {M: {provider: p}}\n", `f:2:10: "M" cannot be a name in models`},
		{"providers: {p: {kind: ollama}}\nmodels: {../x: {provider: p}}\n", `cannot be a name in models`},
		{"default: n\nproviders: {p: {kind: ollama}}\nmodels: {m: {provider: p}}\n", `f:1:10: default: there is no model "n"`},
		{provider("kind: olama"), `f:3:11: providers.p.kind: unknown value "olama"; did you mean "ollama"?`},
		{provider("base_url: http://127.0.0.1"), `providers.p has no kind`},
		{provider("kind: openai-compatible"), `f:2:3: provider p: a server of kind openai-compatible has no usual address`},
		{base("http://example.com"), `f:4:15: base_url: http:// to example.com, which is not this machine`},
		{base("http://10.0.0.1/v1"), `which is not this machine`},
		{base("http://127.0.0.1.example.com/v1"), `which is not this machine`},
		{base("http://0.0.0.0:80"), `names no host`},
		{base("http://0x7f.1/"), `names no host`},
		{base("http://2130706433/"), `names no host`},
		{base("https://user:pw@example.com"), `a name or password in the address`},
		{base("https://example.com/?key=canary"), `a query in the address`},
		{base("https://example.com/v1?"), `a query in the address`},
		{base("'https://example.com/#x'"), `a fragment in the address`},
		{base("'https://example.com/#'"), `a fragment in the address`},
		{base("ftp://example.com"), `neither with https`},
		{base("example.com/v1"), `neither with https`},
		{base("https://example.com:0/"), `names no host`},
		{base("https://example.com:/"), `names no host`},
		{base("https:///v1"), `names no host`},
		{base("https://example.com/a/../b"), `its path has`},
		{base("https://example.com//v1"), `its path has`},
		{base("https://example.com/%2e%2e"), `its path has`},
		{base(`"https://example.com/a b"`), `this is no address`},
		{base(`"https://exämple.com"`), `this is no address`},
		{base("https://example.com\n    insecure_http: true"), `f:5:20: insecure_http says nothing`},
		{provider("kind: openai\n    key: {secret: sk-Canary}"), `f:4:19: providers.p.key.secret: that cannot name a secret; keep it with bailey secret set NAME --for gateway`},
		{provider("kind: openai\n    key: canary"), `f:4:10: providers.p.key: a text does not name a secret; keep it with bailey secret set NAME --for gateway, and write key: {secret: NAME}; a key that stood here should be made anew at the provider`},
		{provider("kind: openai\n    key: {}"), `providers.p.key: that does not name a secret; keep it`},
	} {
		_, err := models.Parse("f", []byte(c.text))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s\n%v", c.text, err)
			}
			continue
		}
		var invalid *yamlfile.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(strings.ToLower(err.Error()), "canary") {
			t.Errorf("%s\n%v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestParse_NeverRepeatsAKey, wherever in a provider it was written.
func TestParse_NeverRepeatsAKey(t *testing.T) {
	t.Parallel()
	const key = "sk-ant-api03-x0canary0x"
	for _, s := range []string{
		"key: " + key, "key: {" + key + "}", "key: {secret: " + key + "}", "key: {env: " + key + "}", "key: {" + key + ": x}", "key: [" + key + "]", "key: {secret: [" + key + "]}",
		"key: {secret: x, value: " + key + "}", "key: {secret: x, secret: " + key + "}", "key: !" + key + " x", "key: *" + key, "key: &" + key + " x",
		"api_key: " + key, "apikey: {value: " + key + "}", "headers: {x-api-key: " + key + "}", "headers: [" + key + "]", "token: " + key, "foo: " + key,
		"base_url: https://api.test/?key=" + key, "base_url: https://" + key + "@api.test", "key: {secret: 0123456789abcdef0123456789abcdef}", "key: {secret: a-0123456789abcdef0123canary}",
	} {
		_, err := models.Parse("f", []byte("providers:\n  p:\n    kind: anthropic\n    "+s+"\nmodels:\n  m: {provider: p}\n"))
		if err == nil || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "0123456789abcdef") || strings.Contains(err.Error(), "api03") {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, name := range []string{"model-key", "anthropic-key-for-the-team-in-zurich", "key_2", "openai.2026-11-30"} {
		c := parse(t, "providers: {p: {kind: anthropic, key: {secret: "+name+"}}}\nmodels: {m: {provider: p}}\n")
		if got := c.Models[0].Provider.Secret; got != name {
			t.Errorf("twin: %q, want %q", got, name)
		}
	}
	_, err := models.Parse("f", []byte("providers: {p: "+key+"}\nmodels: {m: {provider: p}}\n"))
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("in place of a provider: %v", err)
	}
}

// TestParse_NumbersOfTokens are written as budgets are.
func TestParse_NumbersOfTokens(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{"200000": 200_000, "200k": 200_000, "1M": 1_000_000, "1.5M": 1_500_000, "'200k'": 200_000, "1000M": 1_000_000_000, "1": 1} {
		c := parse(t, "providers: {p: {kind: ollama}}\nmodels: {m: {provider: p, context: "+in+", price: {input: 0, output: 0, tiers: [{above: "+in+", input: 0, output: 0}]}}}\n")
		if m := c.Models[0]; m.Context != want || m.Price.Tiers[0].Above != want {
			t.Errorf("%s: %d, %d", in, m.Context, m.Price.Tiers[0].Above)
		}
	}
	c := parse(t, "providers: {p: {kind: ollama}}\nmodels: {m: {provider: p, price: {input: 1, output: 1}, budget: {task: '2M, 5usd'}}}\n")
	if got := c.Models[0].Budget.Task; got != (budget.Limit{Tokens: 2_000_000, Money: 5 * pricing.USD}) {
		t.Errorf("%+v", got)
	}
}

// TestParse_ABaseThatIsGood is the twin of the addresses that are refused.
func TestParse_ABaseThatIsGood(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://api.example.com": "https://api.example.com", "https://API.example.com:8443/v1/": "https://api.example.com:8443/v1",
		"http://localhost:8000/": "http://localhost:8000", "http://127.8.9.1": "http://127.8.9.1", "http://[::1]:8000/v1": "http://[::1]:8000/v1",
		"https://example.com/openai/v1": "https://example.com/openai/v1", "https://192.0.2.1/v1": "https://192.0.2.1/v1",
	} {
		c := parse(t, "providers: {p: {kind: openai-compatible, base_url: '"+in+"'}}\nmodels: {m: {provider: p}}\n")
		if got := c.Models[0].Provider.Base; got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestProvider_URLHasTheVersionOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, target, want string }{
		{"https://example.com", "/v1/messages", "https://example.com/v1/messages"},
		{"https://example.com/v1", "/v1/messages?beta=true", "https://example.com/v1/messages?beta=true"},
		{"https://example.com/api/v1", "/v1/chat/completions", "https://example.com/api/v1/chat/completions"},
		{"https://example.com/api/v4", "/v1/chat/completions", "https://example.com/api/v4/chat/completions"},
		{"https://example.com/v1alpha", "/v1beta/models/x:streamGenerateContent?alt=sse", "https://example.com/v1alpha/models/x:streamGenerateContent?alt=sse"},
		{"https://example.com/v1beta2", "/v1beta/models", "https://example.com/v1beta2/models"},
		{"https://example.com/vault", "/v1/responses", "https://example.com/vault/v1/responses"},
		{"https://example.com/v1", "/api/tags", "https://example.com/v1/api/tags"},
	} {
		p := models.Provider{Base: c.base}
		if got := p.URL(c.target); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.base, c.target, got, c.want)
		}
	}
}

func TestProvider_HostPort(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{"https://example.com/v1": "example.com 443", "http://[::1]:8000": "::1 8000", "http://localhost": "localhost 80"} {
		p := models.Provider{Base: base}
		if host, port := p.HostPort(); host+" "+port != want {
			t.Errorf("%s: %s %s", base, host, port)
		}
	}
}

func TestAuth_LeavesNoOtherCredential(t *testing.T) {
	t.Parallel()
	for _, k := range models.Kinds() {
		h := http.Header{"Authorization": {"Bearer token"}, "X-Api-Key": {"token"}, "X-Goog-Api-Key": {"token"}, "Accept": {"x"}}
		p := models.Provider{Kind: k}
		p.Auth().Put(h, []byte("canary"))
		if got := h.Get(p.Auth().Header); got != p.Auth().Prefix+"canary" || len(h) != 2 {
			t.Errorf("%s: %v", k, h)
		}
		p.Auth().Put(h, nil)
		if len(h) != 1 {
			t.Errorf("%s without a key: %v", k, h)
		}
	}
	h := http.Header{"Authorization": {"Bearer token"}}
	models.Auth{}.Put(h, []byte("canary"))
	if len(h) != 0 {
		t.Errorf("the zero value sends a key: %v", h)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if c, err := models.Load(dir, "/nowhere"); c != nil || err != nil {
		t.Fatalf("of no file: %+v, %v", c, err)
	}
	path := filepath.Join(dir, models.FileName)
	if err := os.WriteFile(path, []byte(models.Example), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := models.Load(dir, "/nowhere")
	if err != nil || c.Default != "sonnet" || len(c.Models) != 2 {
		t.Fatalf("the example: %+v, %v", c, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := models.Load(dir, ""); bailey.KindOf(err) != bailey.Forbidden {
		t.Errorf("a file that everybody can write: %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = models.Load(dir, "")
	if e, ok := errors.AsType[*bailey.Error](err); !ok || e.Hint != "make it yours to write: chmod 600 "+path+" && chmod go-w "+dir {
		t.Errorf("one hint that mends all: %v", e)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	workspace := t.TempDir()
	if err := errors.Join(os.Rename(path, filepath.Join(workspace, "m.yaml")), os.Symlink(filepath.Join(workspace, "m.yaml"), path), os.Chmod(filepath.Join(workspace, "m.yaml"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := models.Load(dir, workspace); bailey.KindOf(err) != bailey.Forbidden {
		t.Errorf("a file in the workspace: %v", err)
	}
	if _, err := models.Load(dir, "/elsewhere"); err != nil {
		t.Errorf("twin: %v", err)
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := models.Load(dir, ""); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("a folder: %v", err)
	}
}

func TestSchema_KnowsWhatTheParserKnows(t *testing.T) {
	t.Parallel()
	b, err := models.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var top map[string]any
	if err := json.Unmarshal(b, &top); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"additionalProperties": false`, `"openai-responses"`, `"llamacpp"`, `"propertyNames"`, `"insecure_http"`} {
		if !strings.Contains(string(b), part) {
			t.Errorf("the schema does not hold %s", part)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{whole, models.Example, "", "models: {}", "providers: {p: {kind: ollama, base_url: 'http://[::1%lo]'}}\nmodels: {m: {provider: p, extra: {a: [[1e400]]}}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		c, err := models.Parse("f", []byte(in))
		var invalid *yamlfile.InvalidError
		if err != nil {
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
				t.Fatalf("%v", err)
			}
			return
		}
		for i := range c.Models {
			m := &c.Models[i]
			if _, err := json.Marshal(m.Pin()); err != nil || m.Provider.Base == "" || m.Dialect == "" || m.Price == nil && m.Budget.Day.Money != 0 {
				t.Fatalf("%+v, %v", m, err)
			}
			if strings.HasPrefix(m.Provider.Base, "http:") && !m.Provider.InsecureHTTP && !m.Provider.Loopback() {
				t.Fatal(m.Provider.Base)
			}
		}
	})
}

// TestPin_OtherServersKnowMaxTokens: the newer name of the bound is OpenAI's
// alone, unless the file says otherwise.
func TestPin_OtherServersKnowMaxTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, more, want string }{
		{"ollama", "", "max_tokens"},
		{"openai-compatible, base_url: https://models.test", "", "max_tokens"},
		{"ollama", ", rename: {temperature: t}", "max_tokens"},
		{"ollama", ", rename: {max_tokens: max_completion_tokens}", ""},
		{"ollama", ", dialect: anthropic", ""},
		{"openai", ", dialect: openai-chat", ""},
	} {
		text := "providers: {p: {kind: " + c.kind + "}}\nmodels: {m: {provider: p" + c.more + "}}\n"
		config, err := models.Parse("models.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := config.Models[0].Pin().Rename["max_completion_tokens"]; got != c.want {
			t.Errorf("%s: sent as %q, want %q", text, got, c.want)
		}
	}
}
