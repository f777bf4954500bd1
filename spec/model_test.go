package spec_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// hello is a request of the Messages API.
const hello = `{"model":"any","max_tokens":50,"messages":[{"role":"user","content":"hello"}]}`

// answered are turns enough for every question of a test.
var answered = provider.Say("done")

// TestMGW01_OneWireOneToken (D074): the token is good in its own sandbox while
// that runs, and worth nothing in another, on the host, or changed.
func TestMGW01_OneWireOneToken(t *testing.T) {
	t.Attr("claim", "MGW-01")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newModelWorld(t, y, "anthropic", nil, answered)
		box := y.Start(t, "run", "--json", "--name", "other", "--model", "small", "--", "sh", "-c", `echo "token $ANTHROPIC_AUTH_TOKEN."; cat`)
		box.Await(t, "token ")
		out, _ := box.Output()
		_, foreign, _ := strings.Cut(out, "token ")
		foreign, _, _ = strings.Cut(foreign, ".")
		with := func(name string, fields ...string) modelTry {
			return modelTry{Name: name, Line: "POST /v1/messages", Fields: append(fields, "Content-Type: application/json"), Body: []byte(hello)}
		}
		list := []modelTry{
			with("twin", "x-api-key: @TOKEN@"), with("twin, bearer", "Authorization: Bearer @TOKEN@"),
			with("none"), with("changed", "x-api-key: @TOKEN@0"), with("cut", "x-api-key: "+foreign[:20]),
			with("another sandbox's", "x-api-key: "+foreign), with("both", "x-api-key: @TOKEN@", "x-api-key: "+foreign),
			with("the provider's key", "x-api-key: "+w.key),
			{Name: "another path", Line: "GET /"},
		}
		got, _ := w.run(t, list)
		for _, c := range list {
			want := 401
			if strings.HasPrefix(c.Name, "twin") {
				want = 200
			}
			if got[c.Name].Status != want {
				t.Errorf("%s: %d %s", c.Name, got[c.Name].Status, got[c.Name].Body)
			}
		}
		if n := len(w.srv.Requests()); n != 2 {
			t.Errorf("the provider was asked %d times", n)
		}
		// On the host nothing listens, and to no process inside does the wire belong.
		if c, err := net.DialTimeout("tcp4", "127.0.0.1:4749", time.Second); err == nil {
			_ = c.Close()
			t.Error("the host listens where the sandbox does")
		}
		inside := y.Run(t, "exec", "other", "--", "sh", "-c", `ls /proc/self/fd; (cat /proc/1/fd/4) 2>&1; (ls -l /proc/1/fd) 2>&1`)
		if strings.Contains(inside.Stdout, "socket") || !strings.Contains(inside.Stdout, "denied") {
			t.Errorf("the first process's descriptors: %s", inside.Stdout)
		}
		y.Run(t, "stop", "other")
		box.Wait(t, time.Minute)
		again, r := w.run(t, []modelTry{with("of a run that is over", "x-api-key: "+foreign), with("twin", "x-api-key: @TOKEN@")})
		if again["of a run that is over"].Status != 401 || again["twin"].Status != 200 {
			t.Errorf("%v", again)
		}
		if strings.Contains(r.Stderr, "bly-") {
			t.Errorf("the token is printed: %s", r.Stderr)
		}
	})
}

// TestMGW02_ExactEndpoints (D009, D010, D012, D013, D032, D033, D034): what is not listed, letter by
// letter, is answered by the gateway alone.
func TestMGW02_ExactEndpoints(t *testing.T) {
	t.Attr("claim", "MGW-02")
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newModelWorld(t, y, "anthropic", nil, answered)
	list := []modelTry{talk("anthropic", "twin", hello), talk("anthropic", "twin, beta", hello)}
	list[1].Line += "?beta=true"
	for _, line := range []string{
		"POST /v1/files", "POST /v1/messages/batches", "GET /v1/messages/batches", "POST /v1/skills", "POST /v1/sessions", "GET /v1/tunnels/x/reveal_token",
		"POST /v1/complete", "POST /v1/organizations/x", "POST /v1/vaults", "POST /v1/responses", "POST /v1/chat/completions", "POST /v1/embeddings",
		"POST //v1/messages", "POST /v1//messages", "POST /v1/./messages", "POST /v1/messages/../files", "POST /v1/%6dessages", "POST /v1%2fmessages",
		"POST /v1/messages/", "POST /V1/messages", "POST /v1/messages;x=1", "POST /v1/messages%00", "POST /v1/messages%3fbeta=true", "POST /v1/messages%23", `POST /v1\messages`,
		"POST http://evil.test/v1/messages", "POST https://api.anthropic.com/v1/messages", "POST /v1/messages?beta=true&beta=false", "POST /v1/messages?model=dear", "POST /v1/messages?key=AIza",
		"POST /v1/messages?api_base=http://evil.test", "POST /v1/messages?", "POST /v1/messages?beta=TRUE", "GET /v1/messages", "PUT /v1/messages", "PATCH /v1/messages", "CONNECT evil.test:443", "OPTIONS *", "TRACE /v1/messages",
	} {
		list = append(list, modelTry{Name: line, Line: line, Fields: []string{tokenField("anthropic"), "Content-Type: application/json"}, Body: []byte(hello)})
	}
	got, r := w.run(t, list)
	for _, c := range list {
		g := got[c.Name]
		if strings.HasPrefix(c.Name, "twin") {
			if g.Status != 200 {
				t.Errorf("%s: %d %s", c.Name, g.Status, g.Body)
			}
			continue
		}
		if g.Status != 404 && g.Status != 400 || g.Header.Get("Location") != "" {
			t.Errorf("%s: %d %s %s", c.Name, g.Status, g.Error, g.Body)
		}
	}
	if n := len(w.srv.Requests()); n != 2 {
		t.Errorf("the provider was asked %d times", n)
	}
	if !strings.Contains(r.Stderr, "does not serve") {
		t.Errorf("the footer does not say it: %s", r.Stderr)
	}
}

// TestMGW03_TheModelIsTheTasks (D040, D041): whatever a request names, one
// model is asked, and what would change it or its price is not sent.
func TestMGW03_TheModelIsTheTasks(t *testing.T) {
	t.Attr("claim", "MGW-03")
	t.Parallel()
	for dialect, body := range map[string]string{
		"anthropic":        `{"model":%q,"max_tokens":50,"messages":[{"role":"user","content":"hello"}]}`,
		"openai-responses": `{"model":%q,"input":[{"role":"user","content":"hello"}]}`,
		"openai-chat":      `{"model":%q,"messages":[{"role":"user","content":"hello"}]}`,
		"gemini":           `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`,
	} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			w := newModelWorld(t, yard.Unprivileged(t), dialect, nil, answered)
			var list []modelTry
			for _, name := range []string{"real-1", "small", "claude-opus-latest", "REAL-1", "real-1 ", "other/real-1", "../../evil", "real‑1", "openai/https://evil.test", ""} {
				c := talk(dialect, name, strings.ReplaceAll(body, "%q", jsonString(name)))
				if dialect == "gemini" {
					if strings.ContainsAny(name, "/ ‑") || name == "" {
						continue // no target: it is another endpoint
					}
					c.Line = "POST /v1beta/models/" + name + ":generateContent"
				}
				list = append(list, c)
			}
			got, _ := w.run(t, list)
			for _, c := range list {
				if got[c.Name].Status != 200 {
					t.Errorf("%q: %d %s", c.Name, got[c.Name].Status, got[c.Name].Body)
				}
			}
			for _, r := range w.srv.Requests() {
				if r.Model != "real-1" || strings.Contains(string(r.Body), "evil") {
					t.Errorf("sent %s %s", r.Path, r.Body)
				}
			}
		})
	}
}

func jsonString(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// TestMGW04_NobodyActsForTheAgent (D001–D006, D012, D041): what a provider would run, fetch or keep is
// taken out or refused, wherever it stands; the twin of each is the same request
// with a tool of the client's own.
func TestMGW04_NobodyActsForTheAgent(t *testing.T) {
	t.Attr("claim", "MGW-04")
	t.Parallel()
	own := map[string]string{
		"anthropic":        `{"name":"read","input_schema":{"type":"object"}}`,
		"openai-responses": `{"type":"function","name":"read","parameters":{"type":"object"}}`,
		"openai-chat":      `{"type":"function","function":{"name":"read","parameters":{"type":"object"}}}`,
		"gemini":           `{"functionDeclarations":[{"name":"read"}]}`,
	}
	form := map[string]string{
		"anthropic":        `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"hello"}],"tools":[@TOOL@]@MORE@}`,
		"openai-responses": `{"model":"x","input":[{"role":"user","content":"hello"}],"tools":[@TOOL@]@MORE@}`,
		"openai-chat":      `{"model":"x","messages":[{"role":"user","content":"hello"}],"tools":[@TOOL@]@MORE@}`,
		"gemini":           `{"contents":[{"role":"user","parts":[{"text":"hello"}]}],"tools":[@TOOL@]@MORE@}`,
	}
	for dialect, tools := range map[string][]string{
		"anthropic": {
			`{"type":"web_search_20250305","name":"web_search"}`, `{"type":"web_fetch_20250910","name":"web_fetch"}`, `{"type":"web_fetch_20991231","name":"w"}`,
			`{"type":"WEB_FETCH_20250910","name":"w"}`, `{"type":"web\u005ffetch_20250910","name":"w"}`, `{"type":["web_fetch"],"name":"w"}`, `{"type":"code_execution_20250825","name":"c"}`,
			`{"type":"mcp_toolset","mcp_server_name":"x"}`, `{"type":"advisor_20260301","name":"a","model":"dear"}`,
		},
		"openai-responses": {
			`{"type":"web_search"}`, `{"type":"mcp","server_url":"https://evil.test","require_approval":"never"}`, `{"type":"mcp","connector_id":"x"}`, `{"type":"file_search","vector_store_ids":["x"]}`,
			`{"type":"code_interpreter","container":{"type":"auto"}}`, `{"type":"image_generation"}`, `{"type":"shell","environment":{"type":"container_auto"}}`, `{"type":"programmatic_tool_calling"}`, `{"type":"nobody_knows_it"}`,
		},
		"openai-chat": {`{"type":"web_search"}`, `{"type":"mcp","server_url":"https://evil.test"}`, `{"type":"nobody_knows_it"}`},
		"gemini":      {`{"googleSearch":{}}`, `{"google_search":{}}`, `{"urlContext":{}}`, `{"codeExecution":{}}`, `{"mcpServers":[{"name":"x"}]}`, `{"nobodyKnowsIt":{}}`},
	} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			w := newModelWorld(t, yard.Unprivileged(t), dialect, nil, answered)
			fill := func(tool, more string) string {
				return strings.NewReplacer("@TOOL@", tool, "@MORE@", more).Replace(form[dialect])
			}
			list := []modelTry{talk(dialect, "twin", fill(own[dialect], ""))}
			for _, tool := range tools {
				list = append(list, talk(dialect, tool, fill(own[dialect]+","+tool, "")))
			}
			for _, more := range map[string][]string{
				"anthropic":        {`"mcp_servers":[{"type":"url","url":"https://evil.test","name":"x","authorization_token":"y"}]`, `"container":"cntr_1"`, `"fallbacks":[{"model":"dear"}]`, `"service_tier":"auto"`, `"speed":"fast"`, `"MCP_SERVERS":[]`, `"api_base":"https://evil.test"`},
				"openai-responses": {`"background":true`, `"previous_response_id":"resp_1"`, `"conversation":"conv_1"`, `"prompt":{"id":"p"}`, `"service_tier":"priority"`, `"store":true`, `"nobody_knows_it":1`},
				"openai-chat":      {`"web_search_options":{}`, `"store":true`, `"service_tier":"priority"`, `"n":128`, `"api_base":"https://evil.test"`},
				"gemini":           {`"cachedContent":"cachedContents/x"`, `"serviceTier":"priority"`, `"routingConfig":{}`, `"nobodyKnowsIt":1`},
			}[dialect] {
				list = append(list, talk(dialect, more, fill(own[dialect], ","+more)))
			}
			got, r := w.run(t, list)
			passed := 0
			for _, c := range list {
				switch g := got[c.Name]; g.Status {
				case 200:
					passed++
				case 400, 403:
					if c.Name == "twin" {
						t.Errorf("the twin: %d %s", g.Status, g.Body)
					}
				default:
					t.Errorf("%s: %d %s %s", c.Name, g.Status, g.Error, g.Body)
				}
			}
			sent := w.sent()
			if passed == 0 || len(sent) != passed {
				t.Errorf("%d passed, the provider got %d", passed, len(sent))
			}
			for _, body := range sent {
				for _, word := range []string{
					"web", "mcp", "evil", "code_", "codeExec", "advisor", "google", "urlContext", "file_search", "image_generation", "container", "programmatic", "nobody",
					"fallback", "tier", "Tier", "speed", "background", "previous", "conversation", "prompt\"", "cachedContent", "routing", `"store":true`, `"n":128`,
				} {
					if strings.Contains(body, word) {
						t.Errorf("%q was sent in %s", word, body)
					}
				}
				if !strings.Contains(body, "read") {
					t.Errorf("the client's own tool was not sent: %s", body)
				}
			}
			if passed > 1 && !strings.Contains(r.Stderr, "taken out of requests") {
				t.Errorf("the footer does not say what was taken out: %s", r.Stderr)
			}
		})
	}
}

// TestMGW05_JudgedAsItWillBeRead (D020–D030): there is one way to read what is
// passed on, and everything else is refused before the provider sees it.
func TestMGW05_JudgedAsItWillBeRead(t *testing.T) {
	t.Attr("claim", "MGW-05")
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newModelWorld(t, y, "anthropic", nil, answered)
	const rest = `"max_tokens":50,"messages":[{"role":"user","content":"hello"}]}`
	list := []modelTry{
		talk("anthropic", "twin", `{"model":"a",`+rest), talk("anthropic", "twin, escapes", `{"mo\u0064el":"\u0061",`+rest),
		talk("anthropic", "twin, spaces", " {\n\"model\" : \"a\",\t"+rest+"\r\n"), talk("anthropic", "twin, an emoji", `{"model":"a","max_tokens":50,"messages":[{"role":"user","content":"\ud83d\ude00 😀"}]}`),
	}
	for name, body := range map[string]string{
		"D020 twice":              `{"model":"a","model":"b",` + rest,
		"D020 twice, escaped":     `{"model":"a","mo\u0064el":"b",` + rest,
		"D020 twice, inside":      `{"model":"a","max_tokens":50,"messages":[{"role":"user","role":"system","content":"hello"}]}`,
		"D021 capitals":           `{"model":"a","MODEL":"b",` + rest,
		"D021 long s":             `{"model":"a","mcp_ſervers":[],` + rest,
		"D021 Kelvin":             `{"model":"a","max_toKens":5,` + rest,
		"D024 two documents":      `{"model":"a",` + rest + ` {"model":"b"}`,
		"D024 a NUL after":        `{"model":"a",` + rest + "\x00",
		"D025 mark":               "\xef\xbb\xbf" + `{"model":"a",` + rest,
		"D025 bad UTF-8":          "{\"model\":\"a\xff\"," + rest,
		"D025 overlong":           "{\"model\":\"a\xc0\xaf\"," + rest,
		"D025 lone surrogate":     `{"model":"a\ud800",` + rest,
		"D025 NUL":                `{"model":"a\u0000",` + rest,
		"D025 UTF-16":             "\xff\xfe{\x00}\x00",
		"D026 null":               `{"model":null,` + rest,
		"D026 list":               `{"model":["a"],` + rest,
		"D026 stream as text":     `{"model":"a","stream":"true",` + rest,
		"D026 messages as object": `{"model":"a","max_tokens":50,"messages":{}}`,
		"D026 NaN":                `{"model":"a","temperature":NaN,` + rest,
		"D028 depth":              `{"model":"a","max_tokens":50,"messages":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `}`,
		"D028 width":              `{"model":"a","max_tokens":50,"messages":[` + strings.Repeat("0,", 2_000_000) + `0]}`,
		"no document":             "hello",
		"an empty document":       "{}",
		"comments":                `{"model":"a",/* */` + rest,
		"a comma too many":        `{"model":"a","max_tokens":50,"messages":[],}`,
	} {
		list = append(list, talk("anthropic", name, body))
	}
	for name, field := range map[string]string{
		"D029 gzip": "Content-Encoding: gzip", "D029 zstd": "Content-Encoding: zstd", "D029 two": "Content-Encoding: identity, gzip",
		"D030 form": "Content-Type: application/x-www-form-urlencoded", "D030 two types": "Content-Type: text/plain",
	} {
		c := talk("anthropic", name, `{"model":"a",`+rest)
		if strings.HasPrefix(name, "D030 form") {
			c.Fields = c.Fields[:1]
		}
		c.Fields = append(c.Fields, field)
		list = append(list, c)
	}
	got, _ := w.run(t, list)
	twins := 0
	for _, c := range list {
		g := got[c.Name]
		switch {
		case strings.HasPrefix(c.Name, "twin"):
			twins++
			if g.Status != 200 {
				t.Errorf("%s: %d %s", c.Name, g.Status, g.Body)
			}
		case g.Status != 400 && g.Status != 415 && g.Status != 413:
			t.Errorf("%s: %d %s %s", c.Name, g.Status, g.Error, g.Body)
		case !json.Valid([]byte(g.Body)) || !strings.Contains(g.Body, `"message"`):
			t.Errorf("%s: no answer of the dialect: %s", c.Name, g.Body)
		}
	}
	if n := len(w.srv.Requests()); n != twins {
		t.Errorf("the provider was asked %d times, the twins are %d", n, twins)
	}
}

// TestMGW06_Budgets (D050, D052, D053, D058): nothing that a sandbox sends at once, breaks
// off or asks for makes it use more than its budget and the answer that was
// reserved.
func TestMGW06_Budgets(t *testing.T) {
	t.Attr("claim", "MGW-06")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newModelWorld(t, y, "anthropic", nil)
		p := &meteredProvider{end: make(chan struct{})}
		w.serve(t, p)
		w.models(t, "anthropic", "max_output: 400", "price: {input: 1.0, output: 10.0, cache_read: 0.1, cache_write: 1.25}")
		race := talk("anthropic", "race", strings.Replace(hello, "50", "400", 1))
		race.Count = 200
		after := talk("anthropic", "after", hello)
		got, r := w.run(t, []modelTry{race, after}, "--budget", "1200")
		passed, spent := got["race"].Statuses[200], got["race"].Statuses[402]
		// Two whole answers fit, and a third that is cut to what is left: no more
		// than what was reserved for one of them is used beyond the budget.
		if passed < 2 || passed > 3 || passed+spent != 200 || got["after"].Status != 402 {
			t.Errorf("%v, then %d %s", got["race"].Statuses, got["after"].Status, got["after"].Body)
		}
		if n := len(p.asked()); n != passed {
			t.Errorf("the provider was asked %d times", n)
		}
		if !strings.Contains(r.Stderr, "budget") || !strings.Contains(r.Stderr, "spent") {
			t.Errorf("the person is not told: %s", r.Stderr)
		}
		u := usage(t, y)
		if len(u) != 1 || u[0].Requests != int64(passed) || u[0].Input != int64(100*passed) || u[0].Input+u[0].Output > 1200+500 {
			t.Fatalf("usage %+v of %d", u, passed)
		}
		if want := float64(u[0].Input)*1e-6 + float64(u[0].Output)*10e-6; math.Abs(u[0].Cost-want) > 1e-9 {
			t.Errorf("cost %v, want %v", u[0].Cost, want)
		}
		t.Run("hang up", func(t *testing.T) { hangUps(t, w, p) })
		t.Run("leave always", func(t *testing.T) { leavers(t, w) })
		t.Run("errors after the work", func(t *testing.T) { lateErrors(t, w) })
		t.Run("documents", func(t *testing.T) { documentsRace(t, w) })
		t.Run("limits of a request", func(t *testing.T) { limitsOfRequests(t, w, p) })
		t.Run("money", func(t *testing.T) { moneyBudget(t, w) })
	})
}

// useRow is a row of `bailey usage --json`.
type useRow struct {
	Key      string  `json:"key"`
	Requests int64   `json:"requests"`
	Input    int64   `json:"input_tokens"`
	Output   int64   `json:"output_tokens"`
	Cost     float64 `json:"cost_usd"`
}

func usage(t *testing.T, y *yard.Yard, flags ...string) []useRow {
	t.Helper()
	var rows []useRow
	out := y.Run(t, append([]string{"usage", "--json"}, flags...)...).OK(t).Stdout
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return rows
}

// limitsOfRequests: no limit that a request names is above what is left, and one
// that is none is refused.
func limitsOfRequests(t *testing.T, w *modelWorld, p *meteredProvider) {
	t.Helper()
	before := len(p.asked())
	limit := func(name, v string) modelTry { return talk("anthropic", name, strings.Replace(hello, "50", v, 1)) }
	list := []modelTry{limit("twin", "50"), limit("huge", "99999999"), limit("negative", "-1"), limit("a fraction", "1.5"), limit("too long", "99999999999999999999999"), limit("text", `"50"`)}
	list = append(list, talk("anthropic", "missing", strings.Replace(hello, `"max_tokens":50,`, "", 1)))
	got, _ := w.run(t, list, "--budget", "100k")
	if got["twin"].Status != 200 || got["huge"].Status != 200 {
		t.Errorf("twin %d, huge %d %s", got["twin"].Status, got["huge"].Status, got["huge"].Body)
	}
	for _, name := range []string{"negative", "a fraction", "text"} {
		if got[name].Status != 400 {
			t.Errorf("%s: %d %s", name, got[name].Status, got[name].Body)
		}
	}
	for _, body := range p.asked()[before:] {
		var b struct {
			Max int64 `json:"max_tokens"`
		}
		if err := json.Unmarshal([]byte(body), &b); err != nil || b.Max <= 0 || b.Max > 400 {
			t.Errorf("sent %s", body)
		}
	}
}

// documentsRace: what says little of what it costs, documents and items that hold
// next to nothing, does not pass beside others on estimates.
func documentsRace(t *testing.T, w *modelWorld) {
	t.Helper()
	was := w.url
	defer func() { w.url = was; w.models(t, "anthropic", "max_output: 400", "price: {input: 1.0, output: 10.0}") }()
	const (
		chatAnswer = `{"id":"c","object":"chat.completion","model":"real-1","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":300000,"completion_tokens":1,"total_tokens":300001}}`
		respAnswer = `{"id":"r","object":"response","status":"completed","model":"real-1","output":[],"usage":{"input_tokens":300000,"output_tokens":1,"total_tokens":300001}}`
	)
	for name, c := range map[string]struct{ dialect, body, answer string }{
		"a document": {
			"anthropic", `{"model":"x","max_tokens":100,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + strings.Repeat("QUJD", 300) + `"}}]}]}`,
			`{"id":"m","type":"message","role":"assistant","model":"real-1","content":[],"stop_reason":"end_turn","usage":{"input_tokens":300000,"output_tokens":1}}`,
		},
		"a text in the place of bytes": {
			"gemini", `{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"text/plain","data":"` + strings.Repeat("QUJD", 100_000) + `"}}]}]}`,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":300000,"candidatesTokenCount":1,"totalTokenCount":300001},"modelVersion":"real-1"}`,
		},
		"a text in the place of a picture": {
			"openai-chat", `{"model":"x","max_tokens":100,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/plain;base64,` + strings.Repeat("QUJD", 100_000) + `"}}]}]}`, chatAnswer,
		},
		"a text that says it is a picture": {
			"openai-responses", `{"model":"x","max_output_tokens":100,"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + strings.Repeat("QUJD", 100_000) + `"}]}]}`, respAnswer,
		},
		"control characters": {
			"openai-chat", `{"model":"x","max_tokens":100,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"t","description":"` + strings.Repeat(`\u0001`, 60_000) + `","parameters":{}}}]}`, chatAnswer,
		},
		"a tool as servers write it": {
			"openai-chat", `{"model":"x","max_tokens":100,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"t","description":"` + strings.Repeat("<", 60_000) + `","parameters":{}}}]}`, chatAnswer,
		},
		"characters that become many": {
			"openai-chat", `{"model":"x","max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat("\ufdfa", 20_000) + `"}]}`, chatAnswer,
		},
		"items that say nothing": {
			"openai-chat", `{"model":"x","max_tokens":100,"messages":[{"role":"assistant","tool_calls":[` + strings.Repeat(`{"id":"","type":"function","function":{"name":"f","arguments":""}},`, 4999) + `{"id":"","type":"function","function":{"name":"f","arguments":""}}]}]}`,
			chatAnswer,
		},
	} {
		if got, served := raced(t, w, c.dialect, c.body, c.answer, "200k"); got.Statuses[200] != 1 || got.Statuses[402] != 29 || served != 1 {
			t.Errorf("%s: %v, %d served, such as %.300s", name, got.Statuses, served, got.Body)
		}
	}
	// What the provider tells the model of a tool itself.
	const each = 541
	explained := `{"model":"x","max_tokens":16,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"t","input_schema":{}}]}`
	got, served := raced(t, w, "anthropic", explained, `{"id":"m","type":"message","role":"assistant","model":"real-1","content":[],"stop_reason":"end_turn","usage":{"input_tokens":540,"output_tokens":1}}`, "5k")
	if served == 0 || served*each > 5000+2*each || got.Statuses[200] != int(served) {
		t.Errorf("a tool that is explained: %v, %d served", got.Statuses, served)
	}
	// Twin: what the provider encrypted is no more than its bytes, and many calls
	// that have it go on side by side.
	sealed := `{"model":"x","max_output_tokens":100,"input":[{"role":"user","content":"hi"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` + strings.Repeat("g", 1000) + `"}]}`
	if got, served := raced(t, w, "openai-responses", sealed, strings.NewReplacer("300000", "500", "300001", "501").Replace(respAnswer), "200k"); got.Statuses[200] != 30 || served != 30 {
		t.Errorf("what is encrypted: %v, such as %.300s", got.Statuses, got.Body)
	}
}

// raced sends a request thirty times at once.
func raced(t *testing.T, w *modelWorld, dialect, body, answer, budget string) (modelTried, int64) {
	t.Helper()
	var served atomic.Int64
	p := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		served.Add(1)
		time.Sleep(50 * time.Millisecond) // so that they are under way at once
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, answer)
	})
	w.serve(t, p)
	w.models(t, dialect, "max_output: 400")
	race := talk(dialect, "race", body)
	race.Count = 30
	got, _ := w.run(t, []modelTry{race}, "--budget", budget)
	return got["race"], served.Load()
}

// lateErrors (D052): a proxy that waits no longer, for an answer that the provider
// has made, says an error; that is no free call. Twin: an error at once.
func lateErrors(t *testing.T, w *modelWorld) {
	t.Helper()
	was := w.url
	defer func() { w.url = was; w.models(t, "anthropic", "max_output: 400", "price: {input: 1.0, output: 10.0}") }()
	for _, late := range []time.Duration{1200 * time.Millisecond, 0} {
		var served atomic.Int64
		w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			served.Add(1)
			time.Sleep(late)
			rw.WriteHeader(http.StatusGatewayTimeout)
		}))
		w.models(t, "anthropic", "max_output: 400")
		race := talk("anthropic", "race", hello)
		race.Count = 4
		again := talk("anthropic", "again", hello)
		got, _ := w.run(t, []modelTry{race, again}, "--budget", "500")
		if late > 0 && got["again"].Status != 402 || late == 0 && (got["again"].Status == 402 || served.Load() != 5) {
			t.Errorf("after %v: %v, then %d %s; %d served", late, got["race"].Statuses, got["again"].Status, got["again"].Body, served.Load())
		}
	}
}

// leavers (D052): whoever hangs up on each call, before anybody has said what it
// costs, pays for the most that it can be.
func leavers(t *testing.T, w *modelWorld) {
	t.Helper()
	was := w.url
	defer func() { w.url = was; w.models(t, "anthropic", "max_output: 400", "price: {input: 1.0, output: 10.0}") }()
	const input = 3000 // dense text: a token a byte
	var served atomic.Int64
	w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		served.Add(1)
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, `data: {"id":"c","object":"chat.completion.chunk","model":"real-1","choices":[{"index":0,"delta":{"role":"assistant","content":"some words"}}]}`+"\n\n")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}))
	w.models(t, "openai-chat", "max_output: 20")
	leave := talk("openai-chat", "leave", `{"model":"x","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"`+strings.Repeat("#", input)+`"}]}`)
	leave.HangUp = 20
	const budget = 10_000
	w.run(t, slices.Repeat([]modelTry{leave}, 8), "--budget", strconv.Itoa(budget))
	if n := served.Load(); n < 2 || n*input > budget+input {
		t.Errorf("the provider served %d calls of %d tokens, and the budget is %d", n, input, budget)
	}
	// So does whoever leaves a model that thinks fast and shows nothing of it.
	served.Store(0)
	const thoughts = 8000
	w.models(t, "openai-chat", fmt.Sprintf("max_output: %d", thoughts))
	leave = talk("openai-chat", "leave", `{"model":"x","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	leave.HangUp = 20
	w.run(t, slices.Repeat([]modelTry{leave}, 8), "--budget", "20k")
	if n := served.Load(); n < 2 || n*thoughts > 20_000+thoughts {
		t.Errorf("the provider served %d calls of %d thoughts, and the budget is 20k", n, thoughts)
	}
}

// hangUps (D052): who leaves in the middle of an answer pays for it, by what the
// provider says of it a moment later, or by an estimate.
func hangUps(t *testing.T, w *modelWorld, p *meteredProvider) {
	t.Helper()
	total := func() int64 {
		var n int64
		for _, row := range usage(t, w.y) {
			n += row.Input + row.Output
		}
		return n
	}
	leave := talk("anthropic", "leave", strings.Replace(hello, `"model"`, `"stream":true,"model"`, 1))
	leave.HangUp = 20
	before := total()
	w.run(t, []modelTry{leave, leave}, "--budget", "100k")
	if used := total() - before; used < 2*101 || used > 2*(100+50) {
		t.Errorf("two answers that broke off count %d", used)
	}
	close(p.end)
	before = total()
	leave.HangUp = 0
	w.run(t, []modelTry{leave}, "--budget", "100k")
	if used := total() - before; used != 150 {
		t.Errorf("the twin, a whole answer, counts %d", used)
	}
}

// moneyBudget: a budget in money holds as well, and one that the model has no
// price for is an error.
func moneyBudget(t *testing.T, w *modelWorld) {
	t.Helper()
	list := []modelTry{talk("anthropic", "1", hello), talk("anthropic", "2", hello), talk("anthropic", "3", hello)}
	got, _ := w.run(t, list, "--budget", "0.001usd") // an answer costs 0.0006
	if got["1"].Status != 200 || got["3"].Status != 402 {
		t.Errorf("%v", got)
	}
	w.models(t, "anthropic", "max_output: 400")
	r := w.y.Run(t, "run", "--model", "small", "--budget", "1usd", "--", "true")
	if r.Code != bailey.ExitBailey || !strings.Contains(r.Stderr, "price") {
		t.Errorf("without a price: %d %s", r.Code, r.Stderr)
	}
	w.models(t, "anthropic", "max_output: 400", "price: {input: 1.0, output: 10.0}")
	w.y.Run(t, "run", "--model", "small", "--budget", "1usd", "--", "true").OK(t)
}

// TestMGW07_KeyInOneProcess: the provider's key is in the memory of the gateway
// and of no other process, in no environment, argument, file or output, and the
// gateway can be looked into by nobody but root.
func TestMGW07_KeyInOneProcess(t *testing.T) {
	t.Attr("claim", "MGW-07")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newModelWorld(t, y, "anthropic", nil, answered)
		putCalls(t, y, []modelTry{talk("anthropic", "call", hello)})
		box := y.Start(t, "run", "--json", "--name", "held", "--model", "small", "--", "sh", "-c", `./calls tries.json; echo ready; cat`)
		box.Await(t, "ready")
		if got := w.srv.Requests(); len(got) != 1 || got[0].Header.Get("X-Api-Key") != w.key {
			t.Fatalf("the key did not arrive: %v", got)
		}
		holders := 0
		pids := processesOf(y)
		for _, pid := range pids {
			role := readProc(t, pid, "cmdline")
			for _, file := range []string{"environ", "cmdline"} {
				if strings.Contains(readProc(t, pid, file), w.key) {
					t.Errorf("the key is in %s of %q", file, role)
				}
			}
			if !inMemory(t, pid, w.key) {
				continue
			}
			holders++
			if !strings.HasPrefix(role, "bailey-gateway") {
				t.Errorf("the key is in the memory of %q", role)
			}
			if st := statOf(t, fmt.Sprintf("/proc/%d/mem", pid)); y.UID != 0 && st.Uid != 0 {
				t.Errorf("%q can be looked into by its user", role)
			}
			if status := readProc(t, pid, "status"); y.UID == 0 && strings.Contains(status, "Uid:\t0") || !strings.Contains(status, "CapEff:\t0000000000000000") || !strings.Contains(status, "NoNewPrivs:\t1") {
				t.Errorf("%q has rights: %s", role, status)
			}
		}
		if holders != 1 || len(pids) < 5 {
			t.Errorf("%d of %d processes hold the key", holders, len(pids))
		}
		inside := y.Run(t, "exec", "held", "--", "sh", "-c", `cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; env; grep -rs sk- /etc /home /tmp /run 2>/dev/null; true`)
		if strings.Contains(inside.Stdout, w.key) || !strings.Contains(inside.Stdout, "bly-") {
			t.Errorf("inside: %s", inside.Stdout)
		}
		y.Run(t, "stop", "held")
		box.Wait(t, time.Minute)
		out, stderr := box.Output()
		if strings.Contains(out+stderr, w.key) {
			t.Error("the key was printed")
		}
		for _, dir := range []string{y.Home, y.Dir} {
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					if b, _ := os.ReadFile(path); strings.Contains(string(b), w.key) {
						t.Errorf("the key is in %s", path)
					}
				}
				return nil
			})
		}
	})
}

// TestModel_KeyIsFollowed (D080): what is rotated or removed in the vault holds
// for the next call of a sandbox that runs.
func TestModel_KeyIsFollowed(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newModelWorld(t, y, "anthropic", nil, answered)
	putCalls(t, y, []modelTry{talk("anthropic", "call", hello)})
	box := y.Start(t, "run", "--json", "--name", "keys", "--model", "small", "--", "sh", "-c", `while :; do ./calls tries.json; sleep 0.1; done`)
	defer func() { y.Run(t, "stop", "keys"); box.Wait(t, time.Minute) }()
	box.Await(t, `"Status":200`)
	next := "sk-" + newValue()
	y.RunWith(t, stdin(next), "secret", "rotate", "provider").OK(t)
	yard.Eventually(t, yard.Timeout, func() bool {
		return slices.ContainsFunc(w.srv.Requests(), func(r provider.Request) bool { return r.Header.Get("X-Api-Key") == next })
	}, func() string { return "the new key is not used" })
	box.Await(t, `"Status":403`) // the provider refuses it, which is not the harness's to mend
	y.Run(t, "secret", "rm", "provider").OK(t)
	box.Await(t, "provider_key_removed")
	if all := w.srv.Requests(); all[len(all)-1].Header.Get("X-Api-Key") != next {
		t.Error("the provider was asked without a key")
	}
}

// TestModel_Record: content is kept for who asks for it, outside of the
// workspace, and otherwise nowhere (D076).
func TestModel_Record(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newModelWorld(t, y, "anthropic", nil, answered)
	const prompt = "a-prompt-that-is-nobodys-business"
	list := []modelTry{talk("anthropic", "call", strings.Replace(hello, "hello", prompt, 1)), talk("anthropic", "refused", `{"`+prompt+`":1}`)}
	_, r := w.run(t, list[:1], "--json")
	if strings.Contains(r.Stderr, prompt) || !strings.Contains(r.Stderr, `"model.call"`) {
		t.Errorf("printed: %s", r.Stderr)
	}
	w.run(t, list[1:])
	found := func(dir string) (paths []string) {
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if b, _ := os.ReadFile(path); strings.Contains(string(b), `"content":"`+prompt) || strings.Contains(string(b), `\"content\":\"`+prompt) {
					paths = append(paths, path)
				}
			}
			return nil
		})
		return paths
	}
	if got := found(y.Home); len(got) != 0 {
		t.Errorf("content is in %v", got)
	}
	dir := y.Home + "/records"
	y.WriteHome(t, "records/.keep", "")
	_, r = w.run(t, list, "--record", dir)
	if got := found(dir); len(got) != 1 || !strings.Contains(r.Stderr, "recorded: ") {
		t.Errorf("recorded in %v: %s", got, r.Stderr)
	}
	if r := y.Run(t, "run", "--model", "small", "--record", y.Dir, "--", "true"); r.Code != bailey.ExitBailey {
		t.Errorf("recorded in the workspace: %s", r.Stderr)
	}
}

// TestModel_HeaderFooterAndEvents: a person and a program are told which model
// there is, what it may use and what it used.
func TestModel_HeaderFooterAndEvents(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	w := newModelWorld(t, y, "anthropic", []string{"budget: {task: 2M, day: 20usd}", "price: {input: 3.0, output: 15.0}"}, answered)
	call := talk("anthropic", "call", hello)
	_, r := w.run(t, []modelTry{call})
	for _, want := range []string{"model: small (real-1 at local, anthropic)", "2M", "20usd", "network: none", "small used 11 input and 7 output tokens in 1 call"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("no %q in:\n%s", want, r.Stderr)
		}
	}
	_, r = w.run(t, []modelTry{call, {Name: "no such", Line: "GET /v1/files", Fields: []string{tokenField("anthropic")}}}, "--json")
	seen := map[bailey.EventType]bailey.Event{}
	for line := range strings.Lines(r.Stderr) {
		var e bailey.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		seen[e.Type] = e
	}
	if e := seen[bailey.EventModelCall]; e.Model != "small" || e.Status != 200 || e.Use == nil || e.Use.Input != 11 || e.Use.Output != 7 || e.Use.CostUSD == "" {
		t.Errorf("%+v", e)
	}
	if e := seen[bailey.EventModelRefused]; e.Status != 404 || e.Reason != "endpoint_not_served" {
		t.Errorf("%+v", e)
	}
	if e := seen[bailey.EventModelTotal]; e.Use == nil || e.Use.Requests != 1 {
		t.Errorf("%+v", e)
	}
	rows := usage(t, y, "--by", "task")
	if len(rows) != 2 {
		t.Errorf("by task: %+v", rows)
	}
	if log := y.Run(t, "net", "log").OK(t).Stdout; !strings.Contains(log, "model") || !strings.Contains(log, "endpoint_not_served") {
		t.Errorf("the log: %s", log)
	}
}

// TestModel_BadRequests: what is wrong with a run with a model is said before
// anything starts.
func TestModel_BadRequests(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newModelWorld(t, y, "anthropic", nil, answered)
	y.RunWith(t, stdin("some-other-value-1234"), "secret", "set", "plain", "--host", "allow.test").OK(t)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no such model", []string{"--model", "smal"}, "small"},
		{"a budget without a model", []string{"--budget", "2M"}, "--model"},
		{"a record without a model", []string{"--record", "/tmp"}, "--model"},
		{"a budget of nothing", []string{"--model", "small", "--budget", "0"}, "budget"},
		{"a budget in no unit", []string{"--model", "small", "--budget", "5eur"}, "5eur"},
		{"two models", []string{"--model", "small", "--model", "large"}, "one model"},
		{"a key beside it", []string{"--model", "small", "--env", "ANTHROPIC_API_KEY=x"}, "ANTHROPIC_API_KEY"},
	} {
		r := y.Run(t, append(append([]string{"run"}, c.args...), "--", "true")...)
		if r.Code != bailey.ExitBailey || !strings.Contains(r.Stderr, c.want) || strings.Contains(r.Stderr, "panic") {
			t.Errorf("%s: %d %s", c.name, r.Code, r.Stderr)
		}
	}
	y.Run(t, "run", "--model", "small", "--", "true").OK(t)
	w.url = "https://provider.test"
	w.models(t, "anthropic")
	if r := y.Run(t, "run", "--model", "small", "--allow", "*.provider.test", "--allow", "provider.test", "--", "true"); r.Code != bailey.ExitBailey || !strings.Contains(r.Stderr, "beside the gateway") {
		t.Errorf("D009, the provider by a rule: %d %s", r.Code, r.Stderr)
	}
	y.Run(t, "run", "--model", "small", "--allow", "other.test", "--", "true").OK(t)
	y.Run(t, "secret", "rm", "provider").OK(t)
	if r := y.Run(t, "run", "--model", "small", "--", "true"); r.Code != bailey.ExitBailey || !strings.Contains(r.Stderr, "there is no secret provider, which is the key of the provider local") || !strings.Contains(r.Stderr, "hint: keep it: bailey secret set provider --for gateway") {
		t.Errorf("without the key: %d %s", r.Code, r.Stderr)
	}
	y.WriteHome(t, ".config/bailey/models.yaml", "models:\n  small: {providr: local}\n")
	if r := y.Run(t, "run", "--model", "small", "--", "true"); r.Code != bailey.ExitBailey || !strings.Contains(r.Stderr, "models.yaml:2:11: ") || !strings.Contains(r.Stderr, "provider") {
		t.Errorf("a file with a fault: %d %s", r.Code, r.Stderr)
	}
}

// TestModel_CheckAsksTheProvider: the whole of a set-up is looked at, and says
// what is wrong with it.
func TestModel_CheckAsksTheProvider(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newModelWorld(t, y, "anthropic", nil, answered)
	y.Run(t, "models", "check").OK(t)
	if r := y.Run(t, "models", "test", "small").OK(t); !strings.Contains(r.Stdout, "real-1") {
		t.Errorf("%s", r.Stdout)
	}
	w.url = "http://127.0.0.1:1"
	w.models(t, "anthropic")
	if r := y.Run(t, "models", "check"); r.Code != 1 || !strings.Contains(r.Stdout+r.Stderr, "127.0.0.1:1") {
		t.Errorf("nobody there: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
}
