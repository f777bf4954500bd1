package gemini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/gemini"
	"github.com/bailey-dev/bailey/internal/pricing"
)

const (
	whole  = "/v1beta/models/gemini-any:generateContent"
	stream = "/v1beta/models/gemini-any:streamGenerateContent?alt=sse"
	count  = "/v1beta/models/gemini-any:countTokens"
)

func dialect(tb testing.TB) *gemini.Dialect {
	tb.Helper()
	d, err := gemini.New()
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func pin() gateway.Pin { return gateway.Pin{ID: "coder", Name: "gemini-pinned"} }

func TestRoute(t *testing.T) {
	t.Parallel()
	d := dialect(t)
	for _, one := range []struct {
		method, target string
		want           gateway.Endpoint
	}{
		{"POST", whole, gateway.Generate},
		{"POST", stream, gateway.Generate},
		{"POST", count, gateway.Count},
		{"POST", "/v1beta/models/gemini-3.1-pro_preview:generateContent", gateway.Generate},
		{"GET", "/v1beta/models", gateway.Models},
		{"GET", "/v1beta/models?pageSize=50", gateway.Models},
		{"GET", "/v1beta/models/gemini-any", gateway.Model},
		{"GET", "/v1beta/models/..", gateway.None},
	} {
		if got := d.Route(one.method, one.target); got != one.want {
			t.Errorf("%s %s is %d, want %d", one.method, one.target, got, one.want)
		}
	}
	for _, target := range []string{
		// D012, D013: what else the API has
		"/v1beta/models/x:batchGenerateContent", "/v1beta/models/x:embedContent", "/v1beta/models/x:predict",
		"/v1beta/models/x:predictLongRunning", "/v1beta/models/x:computeTokens", "/v1beta/interactions",
		"/v1beta/cachedContents", "/v1beta/files", "/upload/v1beta/files", "/v1beta/fileSearchStores", "/v1beta/batches",
		// D010, D033: queries
		whole + "?key=AIza", stream + "&key=AIza", "/v1beta/models/x:streamGenerateContent", whole + "?alt=sse",
		"/v1beta/models/x:streamGenerateContent?alt=sse&alt=json", "/v1beta/models/x:streamGenerateContent?alt=json", whole + "?",
		// D032: other spellings
		"/v1beta/models/../files:generateContent", "/v1beta/models/..:generateContent", "/v1beta/models/a/b:generateContent",
		"/v1beta/models/a%2fb:generateContent", "/v1beta/models/:generateContent", "/v1beta/models/a:b:generateContent",
		"//v1beta/models/x:generateContent", "/v1beta//models/x:generateContent", "/v1/models/x:generateContent",
		"/v1beta/models/x:GenerateContent", "/v1beta/models/x%3agenerateContent", "/v1beta/models/x:generateContent/",
		"/v1beta/tunedModels/x:generateContent", "http://evil.test" + whole, "/v1beta/models/x y:generateContent", "",
		"/v1beta/models/" + strings.Repeat("x", 200) + ":generateContent",
	} {
		if got := d.Route("POST", target); got != gateway.None {
			t.Errorf("POST %s is served as %d", target, got)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "HEAD", "post", ""} {
		if got := d.Route(method, whole); got != gateway.None {
			t.Errorf("%s is served as %d", method, got)
		}
	}
}

// Harnesses must go on working with all that they send by habit: nothing of it
// is changed.
func TestRead_Harnesses(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			call, err := dialect(t).Read(gateway.Generate, stream, nil, body, pin())
			if err != nil {
				t.Fatal(err)
			}
			var asked, sent any
			if json.Unmarshal(body, &asked) != nil || json.Unmarshal(call.Body.AppendTo(nil), &sent) != nil {
				t.Fatal("no JSON")
			}
			if diff := cmp.Diff(asked, sent); diff != "" || len(call.Removed) > 0 {
				t.Errorf("it was changed, %q (-asked +sent):\n%s", call.Removed, diff)
			}
			if call.Target != "/v1beta/models/gemini-pinned:streamGenerateContent?alt=sse" || !call.Stream || call.Input <= 0 {
				t.Errorf("sent to %s, stream %v, input %d", call.Target, call.Stream, call.Input)
			}
		})
	}
}

// ask is a request with more members.
func ask(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]` + more + `}`
}

// with is a request with another part.
func with(part string) string {
	return `{"contents":[{"role":"user","parts":[{"text":"hi"},` + part + `]}]}`
}

const fn = `{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"google_search":{"type":"STRING"}}}}]}`

func TestRead(t *testing.T) {
	t.Parallel()
	type verdict struct {
		name    string
		body    string
		refused string
		path    string
		removed []string
		sent    []string
		gone    []string
	}
	cases := []verdict{
		{name: "positive: a question", body: ask(""), sent: []string{`"text":"hi"`}},
		{name: "positive: tools of the client's", body: ask(`"tools":[` + fn + `,{"computerUse":{"environment":"ENVIRONMENT_BROWSER"}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`), sent: []string{fn, "computerUse", `"ANY"`}},
		{name: "positive: both ways to write a name", body: ask(`"system_instruction":{"parts":[{"text":"s"}]},"generation_config":{"max_output_tokens":5,"thinking_config":{"thinking_budget":-1}},"tools":[{"function_declarations":[{"name":"f","parameters_json_schema":{"a_b":1}}]}]`), sent: []string{`"systemInstruction"`, `"maxOutputTokens":5`, `"thinkingBudget":-1`, `"parametersJsonSchema":{"a_b":1}`}, gone: []string{"max_output"}},
		{name: "positive: calls and their answers", body: with(`{"functionCall":{"name":"f","args":{"file_data":1}},"thoughtSignature":"AAAA"},{"functionResponse":{"name":"f","response":{"output":"x"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}`), sent: []string{`"file_data":1`, "AAAA"}},

		{name: "D001 one entry with several kinds", body: ask(`"tools":[{"googleSearch":{},"functionDeclarations":[{"name":"f"}],"urlContext":{}}]`), removed: []string{"tools[0].googleSearch", "tools[0].urlContext"}, sent: []string{`"tools":[{"functionDeclarations":[{"name":"f"}]}]`}},
		{name: "how much of the budget a picture is to use", body: `{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"},"mediaResolution":{"level":"MEDIA_RESOLUTION_HIGH","numTokens":1000000}}]}]}`, removed: []string{"contents[0].parts[0].mediaResolution.numTokens"}, sent: []string{"MEDIA_RESOLUTION_HIGH"}, gone: []string{"1000000"}},
		{name: "D001 in snake case", body: ask(`"tools":[` + fn + `,{"google_search":{}},{"url_context":{}},{"code_execution":{}}]`), removed: []string{"tools[1].google_search", "tools[1]: nothing is left of it", "tools[2].url_context", "tools[2]: nothing is left of it", "tools[3].code_execution", "tools[3]: nothing is left of it"}, sent: []string{`"tools":[` + fn + `]`}},
		{name: "all tools are gone", body: ask(`"tools":[{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`), removed: []string{"tools[0].googleSearch", "tools[0]: nothing is left of it", "toolConfig: no tool is left"}, gone: []string{"tool"}},
		{name: "D002 a kind that nobody knows", body: ask(`"tools":[{"bingSearch":{}}]`), refused: "unknown_field", path: "tools[0].bingSearch"},
		{name: "D002 upper case", body: ask(`"tools":[{"GoogleSearch":{}}]`), refused: "unknown_field"},
		{name: "D005 MCP", body: ask(`"tools":[` + fn + `,{"mcpServers":[{"name":"x","streamableHttpTransport":{"url":"https://evil.test"}}]}]`), removed: []string{"tools[1].mcpServers", "tools[1]: nothing is left of it"}, gone: []string{"evil"}},
		{name: "D001 a file that would be fetched", body: with(`{"fileData":{"fileUri":"https://evil.test/?d=x","mimeType":"text/plain"}}`), refused: "remote_url_not_allowed", path: "contents[0].parts[1].fileData"},
		{name: "D001 the same in snake case", body: with(`{"file_data":{"file_uri":"gs://x/y"}}`), refused: "remote_url_not_allowed"},
		{name: "D001 in the answer of a tool", body: with(`{"functionResponse":{"name":"f","response":{},"parts":[{"fileData":{"fileUri":"https://evil.test"}}]}}`), refused: "remote_url_not_allowed"},
		{name: "D001 in the system's part", body: ask(`"systemInstruction":{"parts":[{"fileData":{"fileUri":"https://evil.test"}}]}`), refused: "remote_url_not_allowed"},
		{name: "D001 bytes that are an address", body: with(`{"inlineData":{"mimeType":"image/png","data":"https://evil.test"}}`), refused: "value_not_allowed"},
		{name: "positive: bytes", body: with(`{"inline_data":{"mime_type":"image/png","data":"AA-_=="}}`), sent: []string{`"inlineData":{"mimeType":"image/png","data":"AA-_=="}`}},
		{name: "a film in other letters", body: with(`{"inlineData":{"mimeType":" video/mp4","data":"AAAA"}}`), refused: "content_not_allowed"},
		{name: "sound by another name", body: with(`{"inlineData":{"mimeType":"application/ogg","data":"AAAA"}}`), refused: "content_not_allowed"},
		{name: "positive: documents", body: with(`{"inlineData":{"mimeType":"application/pdf","data":"AAAA"}},{"inlineData":{"mimeType":"text/x-go","data":"AAAA"}},{"inlineData":{"mimeType":"text/plain; charset=utf-8","data":"AAAA"}}`), sent: []string{"application/pdf", "text/x-go", "text/plain; charset=utf-8"}},
		{name: "sound behind a parameter", body: with(`{"inlineData":{"mimeType":"text/plain;type=audio/wav","data":"AAAA"}}`), refused: "content_not_allowed"},
		{name: "sound has a price of its own", body: with(`{"inlineData":{"mimeType":"Audio/wav","data":"AAAA"}}`), refused: "content_not_allowed"},
		{name: "two things in one part", body: with(`{"text":"x","inlineData":{"mimeType":"image/png","data":"AAAA"}}`), refused: "ambiguous"},
		{name: "what ran at the provider's", body: with(`{"executableCode":{"language":"PYTHON","code":"x"},"thoughtSignature":"AAAA"},{"codeExecutionResult":{"outcome":"OUTCOME_OK"}},{"toolCall":{"id":"x"}}`), removed: []string{"contents[0].parts[1].executableCode", "contents[0].parts[1]: nothing is left of it", "contents[0].parts[2].codeExecutionResult", "contents[0].parts[2]: nothing is left of it", "contents[0].parts[3].toolCall", "contents[0].parts[3]: nothing is left of it"}, gone: []string{"PYTHON", "toolCall", "AAAA"}},

		{name: "D018 notes", body: ask(`"labels":{"a":"b"}`), removed: []string{"labels"}, gone: []string{"labels"}},
		{name: "D041 other models", body: ask(`"model":"models/dear","generationConfig":{"routingConfig":{"manualMode":{"modelName":"dear"}},"modelSelectionConfig":{},"topP":1}`), removed: []string{"model", "generationConfig.routingConfig", "generationConfig.modelSelectionConfig"}, sent: []string{`"topP":1`}, gone: []string{"dear"}},
		{name: "D041 prices", body: ask(`"serviceTier":"PRIORITY","cachedContent":"cachedContents/x","store":true`), removed: []string{"serviceTier", "cachedContent", "store"}, gone: []string{"PRIORITY", "cachedContents"}},
		{name: "D041 many answers", body: ask(`"generationConfig":{"candidateCount":8,"topP":1}`), removed: []string{`generationConfig.candidateCount: "8" answers`}, gone: []string{"candidateCount"}},
		{name: "pictures and sound for an answer", body: ask(`"generationConfig":{"responseModalities":["TEXT","AUDIO"],"speechConfig":{}}`), removed: []string{"generationConfig.responseModalities[1]: AUDIO", "generationConfig.speechConfig"}, sent: []string{`["TEXT"]`}},

		{name: "D020 what is taken out, in both ways", body: ask(`"cachedContent":"a","cached_content":"b"`), removed: []string{"cachedContent", "cached_content"}, gone: []string{"cached"}},
		{name: "D020 a kept name in both ways", body: ask(`"toolConfig":{},"tool_config":{}`), refused: "duplicate_field", path: "tool_config"},
		{name: "D020 twice", body: ask(`"tools":[],"tools":[]`), refused: "invalid_json"},
		{name: "D021 other case", body: ask(`"Tools":[]`), refused: "unknown_field"},
		{name: "D022 escaped", body: ask(`"tools":[{"google\u005fsearch":{}}]`), removed: []string{"tools[0].google_search", "tools[0]: nothing is left of it"}, gone: []string{"tools"}},
		{name: "D024 more after the end", body: ask("") + "{}", refused: "invalid_json"},
		{name: "D026 null", body: `{"contents":null}`, refused: "missing_field"},
		{name: "D026 many answers in quotes", body: ask(`"generationConfig":{"candidateCount":"8"}`), removed: []string{`generationConfig.candidateCount: "8" answers`}, gone: []string{"candidateCount"}},
		{name: "a bound in quotes, as Google's JSON may have it", body: ask(`"generationConfig":{"max_output_tokens":"100","temperature":"0.5"}`), sent: []string{`"maxOutputTokens":100`, `"temperature":0.5`}},
		{name: "D026 no number in quotes", body: ask(`"generationConfig":{"maxOutputTokens":"NaN"}`), refused: "wrong_type"},
		{name: "D026 a number for a word", body: ask(`"generationConfig":{"responseModalities":[3]}`), refused: "wrong_type"},
		{name: "one content that is no list", body: `{"contents":{"parts":[{"text":"hi"}]}}`, sent: []string{`"contents":[{"parts":[{"text":"hi"}]}]`}},
		{name: "D026 nothing in the place of a list", body: `{"contents":{}}`, refused: "missing_field"},
		{name: "D026 a text in the place of a list", body: `{"contents":"hi"}`, refused: "wrong_type"},
	}
	for _, kind := range []string{
		"googleSearch", "googleSearchRetrieval", "enterpriseWebSearch", "googleMaps", "urlContext", "codeExecution",
		"fileSearch", "retrieval", "parallelAiSearch", "exaAiSearch", "mcpServers",
	} {
		cases = append(cases, verdict{
			name: "D012 hosted " + kind, body: ask(`"tools":[` + fn + `,{"` + kind + `":{}}]`),
			removed: []string{"tools[1]." + kind, "tools[1]: nothing is left of it"}, gone: []string{kind},
		})
	}
	d := dialect(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			call, err := d.Read(gateway.Generate, whole, nil, []byte(c.body), pin())
			if c.refused != "" {
				no, ok := errors.AsType[*gateway.Refusal](err)
				if !ok {
					t.Fatalf("it was sent, as %s", call.Body.AppendTo(nil))
				}
				if no.Code != c.refused || (c.path != "" && no.Path != c.path) {
					t.Errorf("refused for %s at %q, want %s at %q", no.Code, no.Path, c.refused, c.path)
				}
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if diff := cmp.Diff(c.removed, call.Removed); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			if want := "/v1beta/models/gemini-pinned:generateContent"; call.Target != want || call.Stream {
				t.Errorf("sent to %s, stream %v", call.Target, call.Stream)
			}
			sent := string(call.Body.AppendTo(nil))
			for _, s := range c.sent {
				if !strings.Contains(sent, s) {
					t.Errorf("%s is not in %s", s, sent)
				}
			}
			for _, s := range c.gone {
				if strings.Contains(sent, s) {
					t.Errorf("%s is in %s", s, sent)
				}
			}
		})
	}
}

func TestRead_Count(t *testing.T) {
	t.Parallel()
	d := dialect(t)
	call, err := d.Read(gateway.Count, count, nil, []byte(`{"generateContentRequest":{"model":"models/dear","contents":[{"parts":[{"text":"hi"}]}],"tools":[{"googleSearch":{}}]}}`), pin())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"generateContentRequest":{"contents":[{"parts":[{"text":"hi"}]}],"model":"models/gemini-pinned"}}`
	if got := string(call.Body.AppendTo(nil)); got != want || call.Target != "/v1beta/models/gemini-pinned:countTokens" {
		t.Errorf("sent %s to %s", got, call.Target)
	}
	if d.SetOutput(call, 5); call.Output != 0 || call.Body.Get("generationConfig") != nil {
		t.Errorf("a count has an output: %s", call.Body.AppendTo(nil))
	}
	// D014: it is judged alike.
	if _, err := d.Read(gateway.Count, count, nil, []byte(with(`{"fileData":{"fileUri":"https://evil.test"}}`)), pin()); err == nil {
		t.Error("a count may have the provider fetch")
	}
	if _, err := d.Read(gateway.Count, count, nil, []byte(ask("")), pin()); err != nil {
		t.Error(err)
	}
}

func TestSetOutput(t *testing.T) {
	t.Parallel()
	d := dialect(t)
	for _, c := range []struct {
		name, more, want string
		most, n          int64
	}{
		{"not asked", ``, `500`, 0, 500},
		{"lowered", `"generationConfig":{"maxOutputTokens":800}`, `500`, 0, 500},
		{"less was asked", `"generationConfig":{"maxOutputTokens":30}`, `30`, 0, 500},
		{"nothing is left", `"generationConfig":{"maxOutputTokens":30}`, `1`, 0, 0},
		{"the model's most", `"generationConfig":{"maxOutputTokens":800}`, `70`, 70, 500},
		{"the model's most, not asked", ``, `70`, 70, 500},
		{"the model's most, asked for nothing", `"generationConfig":{"maxOutputTokens":0}`, `70`, 70, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := pin()
			p.MaxOutput = c.most
			call, err := d.Read(gateway.Generate, whole, nil, []byte(ask(c.more)), p)
			if err != nil {
				t.Fatal(err)
			}
			d.SetOutput(call, c.n)
			if got := call.Body.Get("generationConfig").Get("maxOutputTokens").Text; got != c.want {
				t.Errorf("maxOutputTokens is %s, want %s", got, c.want)
			}
		})
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	const first = `{"candidates":[{"content":{"role":"m","parts":[{"text":"eleven byte"}]}}],"usageMetadata":{"promptTokenCount":100,"totalTokenCount":100},"modelVersion":"gemini-served"}`
	const last = `{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":20,"thoughtsTokenCount":30,"totalTokenCount":150},"modelVersion":"gemini-served"}`
	used := pricing.Usage{Input: 40, CacheRead: 60, Output: 50, Reasoning: 30}
	for _, c := range []struct {
		name   string
		events []string
		whole  string
		want   gateway.Result
		odd    string
	}{
		{name: "positive: a stream", events: []string{first, last}, want: gateway.Result{Usage: used, Known: true, Ended: true, Output: 4, Served: "gemini-served"}},
		{name: "positive: a whole answer", whole: last, want: gateway.Result{Usage: used, Known: true, Ended: true, Served: "gemini-served"}},
		{name: "a question that was blocked", events: []string{`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}}`}, want: gateway.Result{Usage: pricing.Usage{Input: 7}, Known: true, Ended: true}},
		{name: "D052 cut", events: []string{first}, want: gateway.Result{Usage: pricing.Usage{Input: 100}, Output: 4, Served: "gemini-served"}},
		{name: "D053 no usage", events: []string{`{"candidates":[{"content":{"parts":[{"text":"abc"}]},"finishReason":"STOP"}]}`}, want: gateway.Result{Ended: true, Output: 1}},
		{name: "D053 text after the usage", events: []string{last, `{"candidates":[{"content":{"parts":[{"text":"abc"}]}}]}`}, want: gateway.Result{Usage: used, Ended: true, Output: 1, Served: "gemini-served"}},
		{name: "D053 an error in the middle", events: []string{first, `{"error":{"code":503}}`}, want: gateway.Result{Usage: pricing.Usage{Input: 100}, Ended: true, Failed: true, Output: 4, Served: "gemini-served"}},
		{name: "D053 decreasing", events: []string{last, first}, odd: "totalTokenCount went from 150 to 100", want: gateway.Result{Usage: used, Known: true, Ended: true, Output: 4, Served: "gemini-served"}},
		{name: "D053 negative", whole: `{"usageMetadata":{"promptTokenCount":-1,"candidatesTokenCount":3}}`, odd: "promptTokenCount is negative", want: gateway.Result{Usage: pricing.Usage{Output: 3}, Ended: true}},
		{name: "D054 tools ran all the same", whole: `{"candidates":[{"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["a","b"]}}],"usageMetadata":{"promptTokenCount":10,"toolUsePromptTokenCount":5,"candidatesTokenCount":1,"totalTokenCount":16}}`, odd: "google_search ran", want: gateway.Result{Usage: pricing.Usage{Input: 15, Output: 1, Tools: map[string]int64{"google_search": 2}}, Known: true, Ended: true}},
		{name: "a total above its parts", whole: `{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":1,"totalTokenCount":50}}`, odd: "more than its parts", want: gateway.Result{Usage: pricing.Usage{Input: 10, Output: 40}, Known: true, Ended: true}},
		{name: "no JSON", whole: `<html>`, odd: "could not be read", want: gateway.Result{Ended: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := dialect(t).Meter(nil)
			for _, e := range c.events {
				if !m.Event("", []byte(e)) {
					t.Errorf("%s was hidden", e)
				}
			}
			if c.whole != "" && string(m.Whole([]byte(c.whole))) != c.whole {
				t.Error("the answer was changed")
			}
			got := m.Result()
			if (c.odd == "") != (got.Odd == "") || !strings.Contains(got.Odd, c.odd) {
				t.Errorf("odd is %q, want %q in it", got.Odd, c.odd)
			}
			got.Odd = ""
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	d := dialect(t)
	for code, want := range map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "RESOURCE_EXHAUSTED", 403: "PERMISSION_DENIED",
		404: "NOT_FOUND", 413: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 502: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	} {
		status, h, body := d.Fail(gateway.Failure{Status: code, Code: "budget_spent", Message: "It is \"spent\"."})
		var got struct {
			Error struct {
				Code            int
				Message, Status string
				Details         []struct{ Reason string }
			}
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		if status != code || got.Error.Code != code || got.Error.Status != want || got.Error.Message != `It is "spent".` || got.Error.Details[0].Reason != "budget_spent" {
			t.Errorf("%d %s", status, body)
		}
		if !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
			t.Errorf("%v", h)
		}
	}
	got := string(d.FailStream(gateway.Failure{Status: 402, Code: "budget_spent", Message: "x\n\ndata: y"}))
	if !strings.HasPrefix(got, `{"error":{`) || !strings.HasSuffix(got, "}\n\n") || strings.Count(got, "\n\n") != 1 {
		t.Errorf("%q is not one line", got)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	p := pin()
	p.Context, p.MaxOutput = 1000, 100
	want := `{"models":[{"name":"models/coder","displayName":"coder","inputTokenLimit":1000,"outputTokenLimit":100,"supportedGenerationMethods":["generateContent","countTokens"]}]}`
	if one := string(dialect(t).Model(p)); !strings.Contains(want, "["+one+"]") {
		t.Errorf("one model: %s", one)
	}
	if got := string(dialect(t).Models(p)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// unnamed takes the model out of a count, which is the gateway's to name.
func unnamed(c *gateway.Call) {
	if inner := c.Body.Get("generateContentRequest"); inner != nil {
		inner.Delete("model")
	}
}

// What has passed passes again, as it is.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, false)
	}
	f.Add([]byte(ask(`"tools":[`+fn+`,{"google_search":{}}],"generation_config":{"candidate_count":2}`)), false)
	f.Add([]byte(`{"generateContentRequest":`+ask("")+`}`), true)
	d := dialect(f)
	f.Fuzz(func(t *testing.T, body []byte, counted bool) {
		e, to := gateway.Generate, stream
		if counted {
			e, to = gateway.Count, count
		}
		call, err := d.Read(e, to, nil, body, pin())
		if err != nil {
			if _, ok := errors.AsType[*gateway.Refusal](err); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		unnamed(call)
		once := call.Body.AppendTo(nil)
		again, err := d.Read(e, to, nil, once, pin())
		if err != nil {
			t.Fatalf("%v, of what had passed: %s", err, once)
		}
		unnamed(again)
		if twice := again.Body.AppendTo(nil); !bytes.Equal(once, twice) || len(again.Removed) > 0 {
			t.Fatalf("what had passed was changed, %q\n%s\n%s", again.Removed, once, twice)
		}
		if d.SetOutput(call, 100); !counted && (call.Output > 100 || call.Output < 1) {
			t.Fatalf("the output is %d", call.Output)
		}
	})
}

func FuzzMeter(f *testing.F) {
	f.Add([]byte(`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"totalTokenCount":9}}`), true)
	d := dialect(f)
	f.Fuzz(func(t *testing.T, data []byte, entire bool) {
		m := d.Meter(nil)
		for e := range bytes.SplitSeq(data, []byte("\n")) {
			m.Event("", e)
		}
		if entire {
			m.Whole(data)
		}
		r := m.Result()
		if u := r.Usage; min(u.Input, u.CacheRead, u.Output, u.Reasoning, r.Output, u.Tokens()) < 0 || u.Reasoning > u.Output {
			t.Fatalf("%+v", r)
		}
	})
}

// TestGenerate_DocumentsCostTheirText: bytes that are text cost by the byte at
// most, and a picture by its area, wherever they stand.
func TestGenerate_DocumentsCostTheirText(t *testing.T) {
	t.Parallel()
	d, err := gemini.New()
	if err != nil {
		t.Fatal(err)
	}
	const n = 2_000_000
	data := strings.Repeat("AAAA", n/4)
	for name, tc := range map[string]struct {
		parts       string
		least, most int64
	}{
		"text":                {`{"inlineData":{"mimeType":"text/plain","data":"` + data + `"}}`, n * 3 / 4, 2 * n},
		"by the other name":   {`{"inline_data":{"mime_type":"text/plain","data":"` + data + `"}}`, n * 3 / 4, 2 * n},
		"a document of pages": {`{"inlineData":{"mimeType":"application/pdf","data":"AAAA"}}`, 1_000_000, 1_010_000},
		"in a tool's answer":  {`{"functionResponse":{"name":"f","response":{},"parts":[{"inlineData":{"mimeType":"text/csv","data":"` + data + `"}}]}}`, n * 3 / 4, 2 * n},
		"a picture":           {`{"inlineData":{"mimeType":"image/PNG","data":"iVBORw0KGgoAAAANSUhEUgAA` + data + `"}}`, 10_000, 11_000},
		"a photograph":        {`{"inlineData":{"mimeType":"image/jpeg","data":"_9j_4AAQSkZJRgABAQAAAQAB` + data + `"}}`, 10_000, 11_000},
		"no picture":          {`{"inlineData":{"mimeType":"image/png","data":"` + data + `"}}`, n * 3 / 4, 2 * n},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call, err := d.Read(gateway.Generate, "/v1beta/models/m:generateContent", http.Header{}, []byte(`{"contents":[{"role":"user","parts":[`+tc.parts+`]}]}`), gateway.Pin{Name: "m"})
			if err != nil {
				t.Fatal(err)
			}
			if call.Bound < tc.least || call.Bound > tc.most || call.Input > call.Bound {
				t.Errorf("the bound is %d, want it between %d and %d; the estimate is %d", call.Bound, tc.least, tc.most, call.Input)
			}
		})
	}
}
