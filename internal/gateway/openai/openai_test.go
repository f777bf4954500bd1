package openai_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/openai"
)

func responses(tb testing.TB) *openai.Responses {
	tb.Helper()
	r, err := openai.NewResponses()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func chat(tb testing.TB) *openai.Chat {
	tb.Helper()
	c, err := openai.NewChat()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func pin() gateway.Pin { return gateway.Pin{ID: "coder", Name: "gpt-pinned"} }

func read(p gateway.Protocol, body string) (*gateway.Call, error) {
	return p.Read(gateway.Generate, "", nil, []byte(body), pin())
}

// verdict is what a dialect is to say of a request: either it is refused, or it
// is sent, with something taken out or not.
type verdict struct {
	name    string
	body    string
	refused string   // the code; empty: it is sent
	path    string   // of the refusal, if it matters
	removed []string // what is told; nil: nothing is
	sent    []string // what is in the request that is sent
	gone    []string // what is not
}

func (v verdict) check(t *testing.T, p gateway.Protocol) {
	t.Helper()
	call, err := read(p, v.body)
	if v.refused != "" {
		no, ok := errors.AsType[*gateway.Refusal](err)
		if !ok {
			t.Fatalf("it was sent, as %s", call.Body.AppendTo(nil))
		}
		if no.Code != v.refused || (v.path != "" && no.Path != v.path) {
			t.Errorf("refused for %s at %q (%s), want %s at %q", no.Code, no.Path, no.Detail, v.refused, v.path)
		}
		return
	}
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	if diff := cmp.Diff(v.removed, call.Removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	sent := string(call.Body.AppendTo(nil))
	for _, s := range v.sent {
		if !strings.Contains(sent, s) {
			t.Errorf("%s is not in %s", s, sent)
		}
	}
	for _, s := range v.gone {
		if strings.Contains(sent, s) {
			t.Errorf("%s is in %s", s, sent)
		}
	}
}

// Harnesses must go on working with all that they send by habit.
func TestRead_Harnesses(t *testing.T) {
	t.Parallel()
	removed := map[string][]string{
		"responses/codex":      {"tools[9]: web_search", "client_metadata"},
		"responses/codex-lite": {"client_metadata"},
	}
	for dialect, p := range map[string]gateway.Protocol{"responses": responses(t), "chat": chat(t)} {
		files, err := filepath.Glob("testdata/" + dialect + "/*.json")
		if err != nil || len(files) < 5 {
			t.Fatalf("%d fixtures of %s: %v", len(files), dialect, err)
		}
		for _, file := range files {
			name := dialect + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				body, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				call, err := p.Read(gateway.Generate, "", nil, body, pin())
				if err != nil {
					t.Fatal(err)
				}
				harness(t, call, body)
				want := removed[name]
				for i, w := range want {
					if strings.HasPrefix(w, "tools[") { // how many tools a fixture has does not matter
						want[i] = call.Removed[i][:strings.Index(call.Removed[i], "]")] + "]: web_search"
					}
				}
				if diff := cmp.Diff(want, call.Removed); diff != "" {
					t.Errorf("removed (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// harness holds what is sent to what the harness wrote: all of it but what must
// differ.
func harness(t *testing.T, call *gateway.Call, body []byte) {
	t.Helper()
	var asked, sent map[string]any
	if json.Unmarshal(body, &asked) != nil || json.Unmarshal(call.Body.AppendTo(nil), &sent) != nil {
		t.Fatal("no JSON")
	}
	if sent["model"] != "gpt-pinned" || !call.Stream || call.Input <= 0 {
		t.Errorf("the model is %v, stream %v, input %d", sent["model"], call.Stream, call.Input)
	}
	if key := asked["prompt_cache_key"]; key != nil && (sent["prompt_cache_key"] == key || len(sent["prompt_cache_key"].(string)) != 32) {
		t.Errorf("the cache is named %v", sent["prompt_cache_key"])
	}
	for _, m := range []map[string]any{asked, sent} {
		for _, name := range []string{"model", "store", "prompt_cache_key", "client_metadata", "stream_options"} {
			delete(m, name)
		}
		bare(m)
	}
	if diff := cmp.Diff(asked, sent); diff != "" {
		t.Errorf("more than must be was changed (-asked +sent):\n%s", diff)
	}
}

// bare takes out what the gateway may: nulls and hosted tools.
func bare(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if value == nil {
				delete(v, name)
				continue
			}
			if list, ok := value.([]any); ok && name == "tools" {
				kept := []any{}
				for _, tool := range list {
					if tool.(map[string]any)["type"] != "web_search" {
						kept = append(kept, tool)
					}
				}
				v[name] = kept
			}
			bare(v[name])
		}
	case []any:
		for _, item := range v {
			bare(item)
		}
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	r, c := responses(t), chat(t)
	for _, one := range []struct {
		p              gateway.Protocol
		method, target string
		want           gateway.Endpoint
	}{
		{r, "POST", "/v1/responses", gateway.Generate},
		{r, "POST", "/v1/responses/input_tokens", gateway.Count},
		{r, "GET", "/v1/models", gateway.Models},
		{c, "POST", "/v1/chat/completions", gateway.Generate},
		{c, "GET", "/v1/models", gateway.Models},
		{c, "GET", "/v1/models?limit=20", gateway.Models},
		{r, "GET", "/v1/models/gpt-any", gateway.Model},
		{c, "GET", "/v1/models/a/b", gateway.None},
	} {
		if got := one.p.Route(one.method, one.target); got != one.want {
			t.Errorf("%s %s is %d, want %d", one.method, one.target, got, one.want)
		}
	}
	for _, target := range []string{
		// D012, D013: what else the API has
		"/v1/files", "/v1/batches", "/v1/vector_stores", "/v1/assistants", "/v1/threads", "/v1/fine_tuning/jobs",
		"/v1/evals", "/v1/realtime", "/v1/skills", "/v1/containers", "/v1/conversations", "/v1/embeddings",
		"/v1/completions", "/v1/images/generations", "/v1/audio/speech", "/v1/moderations", "/v1/alpha/search",
		"/v1/responses/compact", "/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/decisions",
		// D032: other spellings
		"//v1/responses", "/v1//responses", "/v1/./responses", "/v1/x/../responses", "/v1/%72esponses",
		"/v1%2fresponses", "/v1/responses/", "/V1/responses", "/v1/responses;x=1", "/v1/responses%00",
		"/v1/responses%23", "/v1\\responses", "http://evil.test/v1/responses", "/responses", "",
		"/v1/chat/completions/", "/v1/chat/completions/id",
		// D033: queries
		"/v1/responses?beta=true", "/v1/responses?", "/v1/responses?api-key=x", "/v1/chat/completions?model=dear",
	} {
		for _, p := range []gateway.Protocol{r, c} {
			if got := p.Route("POST", target); got != gateway.None {
				t.Errorf("POST %s is served as %d", target, got)
			}
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "post", "HEAD", "CONNECT", ""} {
		if got := r.Route(method, "/v1/responses"); got != gateway.None {
			t.Errorf("%s of responses is served as %d", method, got)
		}
	}
}

func TestRead_Parameters(t *testing.T) {
	t.Parallel()
	p := pin()
	p.MaxOutput = 1000
	p.Drop = []string{"temperature"}
	p.Rename = map[string]string{"max_completion_tokens": "max_tokens"}
	p.Extra = map[string]json.RawMessage{"reasoning_effort": json.RawMessage(`"low"`)}
	c := chat(t)
	call, err := c.Read(gateway.Generate, "", nil,
		[]byte(`{"model":"x","messages":[{"role":"user","content":"hi"}],"temperature":1,"max_completion_tokens":5000,"reasoning_effort":"high"}`), p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"gpt-pinned","messages":[{"role":"user","content":"hi"}],"reasoning_effort":"low","max_tokens":1000}`
	if got := string(call.Body.AppendTo(nil)); got != want || call.Output != 1000 {
		t.Errorf("sent %s for %d, want %s", got, call.Output, want)
	}
	if c.SetOutput(call, 70); call.Output != 70 || call.Body.Get("max_tokens").Text != "70" {
		t.Errorf("sent %s for %d", call.Body.AppendTo(nil), call.Output)
	}
}

// TestRead_MaxOutput: what a model may answer at most is said to the provider,
// whether the client says anything or not; 0 is "without an end" to some.
// TestRead_OfTwoBoundsTheSmaller is what is sent where one is renamed to the other.
func TestRead_OfTwoBoundsTheSmaller(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"model":"m","messages":[],"max_tokens":9,"max_completion_tokens":100000}`,
		`{"model":"m","messages":[],"max_tokens":100000,"max_completion_tokens":9}`,
	} {
		call, err := chat(t).Read(gateway.Generate, "", nil, []byte(body), gateway.Pin{Name: "n", Rename: map[string]string{"max_completion_tokens": "max_tokens"}})
		if err != nil || call.Output != 9 || call.Body.Get("max_tokens").Text != "9" {
			t.Errorf("%s: %+v, %v", body, call, err)
		}
	}
}

// TestRead_UnseenPrompts: what servers tell a model of themselves counts, or a
// hundred small calls cost several times what was reserved for them.
func TestRead_UnseenPrompts(t *testing.T) {
	t.Parallel()
	bound := func(more string) int64 {
		call, err := chat(t).Read(gateway.Generate, "", nil, []byte(`{"model":"m","messages":[]`+more+`}`), gateway.Pin{Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		return call.Bound
	}
	none, tools := bound(""), bound(`,"tools":[{"type":"function","function":{"name":"t"}}]`)
	if none < 1000 || none > 1100 || tools < 2000 || tools > 2200 {
		t.Errorf("%d without tools, %d with one", none, tools)
	}
	if n := bound(`,"tools":[]`); n > 1100 {
		t.Errorf("%d with a list of no tools", n)
	}
	for text, want := range map[string]int64{`{"verbosity":"low"}`: 1000, `{"format":{"type":"json_object"},"verbosity":"low"}`: 2000} {
		call, err := responses(t).Read(gateway.Generate, "", nil, []byte(`{"model":"m","input":"hi","text":`+text+`}`), gateway.Pin{Name: "n"})
		if err != nil || call.Bound < want || call.Bound > want+200 {
			t.Errorf("text %s: %+v, %v", text, call, err)
		}
	}
}

func TestRead_MaxOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, more, member, want string
		p                        gateway.Protocol
	}{
		{"chat, not asked", ``, "max_completion_tokens", "1000", chat(t)},
		{"chat, less was asked", `,"max_tokens":30`, "max_tokens", "30", chat(t)},
		{"chat, 0", `,"max_tokens":0`, "max_tokens", "1000", chat(t)},
		{"chat, 0 beside a bound", `,"max_tokens":0,"max_completion_tokens":5`, "max_tokens", "1000", chat(t)},
		{"chat, thoughts beside the answer", `,"max_tokens":700,"enable_thinking":true,"thinking_budget":30000`, "thinking_budget", "500", chat(t)},
		{"responses, not asked", ``, "max_output_tokens", "1000", responses(t)},
		{"responses, more was asked", `,"max_output_tokens":5000`, "max_output_tokens", "1000", responses(t)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := pin()
			p.MaxOutput = 1000
			body := `{"model":"x","messages":[{"role":"user","content":"hi"}]` + c.more + `}`
			if strings.HasPrefix(c.name, "responses") {
				body = `{"model":"x","input":"hi"` + c.more + `}`
			}
			call, err := c.p.Read(gateway.Generate, "", nil, []byte(body), p)
			if err != nil {
				t.Fatal(err)
			}
			if v := call.Body.Get(c.member); v == nil || v.Text != c.want || call.Output == 0 || call.Output > 1000 {
				t.Errorf("sent %s for %d, want %s", call.Body.AppendTo(nil), call.Output, c.want)
			}
		})
	}
}

func TestSetOutput(t *testing.T) {
	t.Parallel()
	r, c := responses(t), chat(t)
	for _, one := range []struct {
		name  string
		p     gateway.Protocol
		extra string
		n     int64
		want  map[string]string
	}{
		{"responses, not asked", r, ``, 500, map[string]string{"max_output_tokens": "500"}},
		{"responses, lowered", r, `,"max_output_tokens":800`, 500, map[string]string{"max_output_tokens": "500"}},
		{"responses, less was asked", r, `,"max_output_tokens":30`, 500, map[string]string{"max_output_tokens": "30"}},
		{"responses, the least that is taken", r, `,"max_output_tokens":800`, 3, map[string]string{"max_output_tokens": "16"}},
		{"chat, not asked", c, ``, 500, map[string]string{"max_completion_tokens": "500"}},
		{"chat, by the old name", c, `,"max_tokens":800`, 500, map[string]string{"max_tokens": "500"}},
		{"chat, by both", c, `,"max_tokens":800,"max_completion_tokens":600`, 500, map[string]string{"max_tokens": "500", "max_completion_tokens": "500"}},
		{"chat, nothing is left", c, `,"max_tokens":800`, -1, map[string]string{"max_tokens": "1"}},
		{"chat, nothing was asked for", c, `,"max_tokens":0`, 70, map[string]string{"max_tokens": "70"}},
		{"chat, thoughts beside the answer", c, `,"max_tokens":800,"enable_thinking":true,"thinking_budget":90`, 500, map[string]string{"max_tokens": "410", "thinking_budget": "90"}},
		{"chat, more thoughts than there is room for", c, `,"max_tokens":30,"thinking_budget":9000`, 500, map[string]string{"max_tokens": "30", "thinking_budget": "250"}},
		{"chat, thoughts without a bound", c, `,"max_tokens":16,"enable_thinking":true`, 500, map[string]string{"max_tokens": "16", "thinking_budget": "16"}},
		{"chat, no thoughts", c, `,"max_tokens":800,"enable_thinking":false,"thinking_budget":90`, 500, map[string]string{"max_tokens": "500", "thinking_budget": "90"}},
		{"chat, thoughts within the answer", c, `,"max_tokens":800,"thinking":{"type":"enabled","budget_tokens":700},"reasoning":{"max_tokens":600}`, 500, map[string]string{"max_tokens": "500", "budget_tokens": "500", "reasoning": "500"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			what := `"messages":[{"role":"user","content":"hi"}]`
			if one.p == gateway.Protocol(r) {
				what = `"input":"hi"`
			}
			call, err := read(one.p, `{"model":"x",`+what+one.extra+`}`)
			if err != nil {
				t.Fatal(err)
			}
			one.p.SetOutput(call, one.n)
			for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "thinking_budget", "budget_tokens", "reasoning"} {
				v := call.Body.Get(name)
				switch name {
				case "budget_tokens":
					v = call.Body.Get("thinking").Get(name)
				case "reasoning":
					v = v.Get("max_tokens")
				}
				got := ""
				if v != nil {
					got = v.Text
				}
				if got != one.want[name] {
					t.Errorf("%s is %q, want %q", name, got, one.want[name])
				}
			}
		})
	}
}

// TestRead_DearPictures: with the one model whose pictures cost several times as
// much, the most that a call is says so.
func TestRead_DearPictures(t *testing.T) {
	t.Parallel()
	const body = `{"model":"x","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/webp;base64,UklGRgAAAABXRUJQVlA4IAAAAAAA"}}]}]}`
	for name, want := range map[string]int64{"gpt-4o-mini-2024-07-18": 3 * 16384, "gpt-4o": 16384} {
		call, err := chat(t).Read(gateway.Generate, "", nil, []byte(body), gateway.Pin{ID: "small", Name: name})
		if err != nil || call.Bound < want || call.Bound > want+3500 {
			t.Errorf("%s: %+v, %v", name, call, err)
		}
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	for _, p := range []gateway.Protocol{responses(t), chat(t)} {
		for _, one := range []struct {
			in       gateway.Failure
			kind     string
			code     string
			noRepeat bool
		}{
			{gateway.Failure{Status: 402, Code: "budget_spent", Message: "The budget is spent."}, "insufficient_quota", "insufficient_quota", true},
			{gateway.Failure{Status: 400, Code: "unknown_field", Message: "x"}, "invalid_request_error", "unknown_field", true},
			{gateway.Failure{Status: 401, Code: "token_invalid", Message: "x"}, "authentication_error", "token_invalid", true},
			{gateway.Failure{Status: 426, Code: "upgrade_not_supported", Message: "x"}, "invalid_request_error", "upgrade_not_supported", true},
			{gateway.Failure{Status: 429, Code: "too_many", Message: "x"}, "rate_limit_error", "too_many", false},
			{gateway.Failure{Status: 502, Code: "upstream", Message: "x"}, "server_error", "upstream", false},
		} {
			status, h, body := p.Fail(one.in)
			var got struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			if status != one.in.Status || got.Error.Type != one.kind || got.Error.Code != one.code || got.Error.Message != one.in.Message {
				t.Errorf("%d %s", status, body)
			}
			if (h.Get("X-Should-Retry") == "false") != one.noRepeat || h.Get("Content-Type") != "application/json" {
				t.Errorf("%d has %v", status, h)
			}
		}
	}
}

func TestFailStream(t *testing.T) {
	t.Parallel()
	spent := gateway.Failure{Status: 402, Code: "budget_spent", Message: "The budget is \"spent\".\n\nevent: x"}
	for p, prefix := range map[gateway.Protocol]string{
		responses(t): "event: response.failed\ndata: {", chat(t): "data: {",
	} {
		got := string(p.FailStream(spent))
		if !strings.HasPrefix(got, prefix) || !strings.HasSuffix(got, "}\n\n") || strings.Count(got, "\n\n") != 1 {
			t.Errorf("%q is not one event", got)
		}
		if !strings.Contains(got, `"code":"insufficient_quota"`) {
			t.Errorf("%s", got)
		}
		if strings.Contains(got, "[DONE]") {
			t.Errorf("%s looks complete", got)
		}
		data := []byte(strings.TrimPrefix(got[strings.Index(got, "data: "):], "data: "))
		if m := p.Meter(gateway.NewCall(nil)); !m.Event("", data) || !m.Result().Ended || m.Result().Known {
			t.Errorf("its own meter reads it as %+v", m.Result())
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	want := `{"object":"list","data":[{"id":"coder","object":"model","created":0,"owned_by":"bailey"}]}`
	for _, p := range []gateway.Protocol{responses(t), chat(t)} {
		if one := string(p.Model(pin())); !strings.Contains(want, "["+one+"]") {
			t.Errorf("one model: %s", one)
		}
		if got := string(p.Models(pin())); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The name of a cache says nothing of what the client called it, and is no other
// task's (D077).
func TestRead_CacheKeyIsTheTasks(t *testing.T) {
	t.Parallel()
	body := `{"model":"x","input":"hi","prompt_cache_key":"session"}`
	key := func(r *openai.Responses, body string) string {
		call, err := read(r, body)
		if err != nil {
			t.Fatal(err)
		}
		return call.Body.Get("prompt_cache_key").Str()
	}
	task := responses(t)
	one := key(task, body)
	if again := key(task, body); again != one {
		t.Errorf("the same is named %s, then %s", one, again)
	}
	if other := key(responses(t), body); other == one {
		t.Error("two tasks share a name")
	}
	if other := key(task, strings.Replace(body, "session", "another", 1)); other == one {
		t.Error("two sessions share a name")
	}
}
