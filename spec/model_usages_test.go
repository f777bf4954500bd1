package spec_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// sayer is a provider that answers with what stands under the name that the
// request holds as "say:NAME.". A body that begins with "{" is a whole answer,
// any other a stream.
type sayer struct {
	answers map[string]string
	asked   atomic.Int64
}

func (s *sayer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s.asked.Add(1)
	_, rest, _ := strings.Cut(string(b), "say:")
	name, _, _ := strings.Cut(rest, ".")
	text, ok := s.answers[name]
	if !ok {
		http.Error(rw, "no such answer", http.StatusTeapot)
		return
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	if strings.HasPrefix(text, "{") {
		rw.Header().Set("Content-Type", "application/json")
	}
	_, _ = io.WriteString(rw, text)
}

// saying is a request of at most 50 tokens for an answer by its name: whole, or
// as a stream.
func saying(dialect, name string, stream bool) modelTry {
	form := map[string]string{
		"anthropic":        `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"say:%s."}],"stream":%v}`,
		"openai-responses": `{"model":"x","max_output_tokens":50,"input":[{"role":"user","content":"say:%s."}],"stream":%v}`,
		"openai-chat":      `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"say:%s."}],"stream":%v,"stream_options":{"include_usage":false}}`,
		"gemini":           `{"contents":[{"role":"user","parts":[{"text":"say:%s."}]}],"generationConfig":{"maxOutputTokens":50,"responseLogprobs":false}}`,
	}[dialect]
	if dialect == "gemini" {
		c := talk(dialect, name, fmt.Sprintf(form, name))
		if stream {
			c.Line = "POST /v1beta/models/any-model:streamGenerateContent?alt=sse"
		}
		return c
	}
	return talk(dialect, name, fmt.Sprintf(form, name, stream))
}

// stream makes events of their data. Where they have a type, it is their name.
func stream(list ...string) string {
	var b strings.Builder
	for _, data := range list {
		var typed struct {
			Type string `json:"type"`
		}
		if json.Unmarshal([]byte(data), &typed) == nil && typed.Type != "" {
			b.WriteString("event: " + typed.Type + "\n")
		}
		b.WriteString("data: " + data + "\n\n")
	}
	return b.String()
}

// said is an answer, and what is booked for it: want is "input output", with
// "cached written" where there is any. Empty: nobody knows, so that all that was
// reserved is. "broken": an estimate.
type said struct{ name, answer, want string }

// oddUsages are answers of each dialect whose usage is missing or odd (D053),
// or has classes of its own (D054).
func oddUsages() map[string][]said {
	start := func(usage string) string {
		return `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"real-1","content":[],"usage":` + usage + `}}`
	}
	const (
		text    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`
		stop    = `{"type":"message_stop"}`
		created = `{"type":"response.created","response":{"id":"r","model":"real-1","status":"in_progress"}}`
		spoken  = `{"type":"response.output_text.delta","delta":"hello"}`
		piece   = `{"id":"c","model":"real-1","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}`
		last    = `{"id":"c","model":"real-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	)
	delta := func(usage string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"end_turn"}` + usage + `}`
	}
	out := func(n string) string { return delta(`,"usage":{"output_tokens":` + n + `}`) }
	completed := func(usage string) string {
		return `{"type":"response.completed","response":{"id":"r","model":"real-1","status":"completed","usage":` + usage + `}}`
	}
	usage := func(u string) string { return `{"id":"c","model":"real-1","choices":[],"usage":` + u + `}` }
	chunk := func(usage string) string {
		return `{"candidates":[{"content":{"role":"model","parts":[{"text":"hello"}]},"finishReason":"STOP"}],"modelVersion":"real-1"` + usage + `}`
	}
	meta := func(u string) string { return chunk(`,"usageMetadata":` + u) }
	begin := start(`{"input_tokens":100,"output_tokens":1}`)
	whole := func(usage string) string {
		return `{"id":"m","type":"message","role":"assistant","model":"real-1","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn"` + usage + `}`
	}
	return map[string][]said{
		"anthropic": {
			{"twin", stream(begin, text, out("7"), stop), "100 7"},
			{"twice", stream(begin, text, out("5"), out("7"), stop), "100 7"},
			{"decreasing", stream(begin, text, out("7"), out("3"), stop), "100 7"},
			{"negative", stream(begin, text, out("-5"), stop), ""},
			{"huge", stream(begin, text, out("9000000000000000"), stop), ""},
			{"text", stream(begin, text, out(`"7"`), stop), ""},
			{"start alone", stream(begin, text, delta(""), stop), ""},
			{"missing", stream(start("null"), text, delta(""), stop), ""},
			{"zero", stream(start(`{"input_tokens":0,"output_tokens":0}`), text, out("0"), stop), ""},
			{"an error", stream(begin, text, text, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`), "broken"},
			{"cut", stream(begin, text), "broken"},
			{"no event", "data: hello", "broken"},
			{"whole twin", whole(`,"usage":{"input_tokens":100,"output_tokens":7}`), "100 7"},
			{"whole missing", whole(""), ""},
			{"whole negative", whole(`,"usage":{"input_tokens":-100,"output_tokens":7}`), ""},
			{"D054 caches", stream(start(`{"input_tokens":100,"cache_read_input_tokens":1000,"cache_creation_input_tokens":3000,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":2000},"output_tokens":1}`), text, out("7"), stop), "100 7 1000 3000"},
			{"D054 thinking", stream(begin, text, delta(`,"usage":{"output_tokens":47,"output_tokens_details":{"thinking_tokens":40}}`), stop), "100 47"},
		},
		"openai-responses": {
			{"twin", stream(created, spoken, completed(`{"input_tokens":100,"output_tokens":7,"total_tokens":107}`)), "100 7"},
			{"negative", stream(created, spoken, completed(`{"input_tokens":100,"output_tokens":-7}`)), ""},
			{"huge", stream(created, spoken, completed(`{"input_tokens":100,"output_tokens":1e300}`)), ""},
			{"missing", stream(created, spoken, completed("null")), ""},
			{"half", stream(created, spoken, completed(`{"input_tokens":100}`)), ""},
			{"zero", stream(created, spoken, completed(`{"input_tokens":0,"output_tokens":0}`)), ""},
			{"cut", stream(created, spoken), "broken"},
			{"twice", stream(created, spoken, completed(`{"input_tokens":100,"output_tokens":7}`), completed(`{"input_tokens":10,"output_tokens":1}`)), "100 7"},
			{"D054 caches", stream(created, spoken, completed(`{"input_tokens":4100,"input_tokens_details":{"cached_tokens":1000,"cache_write_tokens":3000,"cache_write_tokens_details":{"ttl_12h_tokens":2000}},"output_tokens":7}`)), "100 7 1000 3000"},
			{"D054 reasoning outside", stream(created, spoken, completed(`{"input_tokens":100,"output_tokens":7,"output_tokens_details":{"reasoning_tokens":40},"total_tokens":147}`)), "100 47"},
		},
		"openai-chat": {
			{"twin", stream(piece, last, usage(`{"prompt_tokens":100,"completion_tokens":7}`), "[DONE]"), "100 7"},
			{"in each", stream(strings.Replace(piece, `"choices"`, `"usage":{"prompt_tokens":100,"completion_tokens":3},"choices"`, 1), last, usage(`{"prompt_tokens":100,"completion_tokens":7}`), "[DONE]"), "100 7"},
			{"decreasing", stream(piece, last, usage(`{"prompt_tokens":100,"completion_tokens":7}`), usage(`{"prompt_tokens":1,"completion_tokens":1}`), "[DONE]"), "100 7"},
			{"negative", stream(piece, last, usage(`{"prompt_tokens":100,"completion_tokens":-7}`), "[DONE]"), ""},
			{"zero", stream(piece, last, usage(`{"prompt_tokens":0,"completion_tokens":0}`), "[DONE]"), ""},
			{"no output", stream(piece, last, usage(`{"prompt_tokens":100,"completion_tokens":0}`), "[DONE]"), ""},
			{"DONE alone", stream(piece, last, "[DONE]"), ""},
			{"cut", stream(piece), "broken"},
			{"D054 caches", stream(piece, last, usage(`{"prompt_tokens":1100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":1000}}`), "[DONE]"), "100 7 1000 0"},
		},
		"gemini": {
			{"twin", stream(meta(`{"promptTokenCount":100,"candidatesTokenCount":7,"totalTokenCount":107}`)), "100 7"},
			{"negative", stream(meta(`{"promptTokenCount":100,"candidatesTokenCount":-7}`)), ""},
			{"missing", stream(chunk("")), ""},
			{"input alone", stream(meta(`{"promptTokenCount":100}`)), ""},
			{"zero", stream(meta(`{"promptTokenCount":0,"candidatesTokenCount":0}`)), ""},
			{"text after it", stream(strings.Replace(meta(`{"promptTokenCount":100,"candidatesTokenCount":1}`), `,"finishReason":"STOP"`, "", 1), chunk("")), ""},
			{"whole twin", meta(`{"promptTokenCount":100,"candidatesTokenCount":7}`), "100 7"},
			{"whole missing", chunk(""), ""},
			{"D054 caches", stream(meta(`{"promptTokenCount":1100,"cachedContentTokenCount":1000,"candidatesTokenCount":7}`)), "100 7 1000 0"},
			{"D054 thoughts", stream(meta(`{"promptTokenCount":100,"candidatesTokenCount":7,"thoughtsTokenCount":40}`)), "100 47"},
		},
	}
}

// modelCalls are the calls of a run's events, in order.
func modelCalls(t *testing.T, stderr string) (list []bailey.Event) {
	t.Helper()
	for line := range strings.Lines(stderr) {
		var e bailey.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Type == bailey.EventModelCall || e.Type == bailey.EventModelRefused {
			list = append(list, e)
		}
	}
	return list
}

// TestModel_UsageMissingOrOdd (D053, D054, D073): whatever a provider makes of
// its usage, no answer is free; what it says twice is not added, and each class
// has its price. The sandbox gets the answer all the same.
func TestModel_UsageMissingOrOdd(t *testing.T) {
	t.Parallel()
	for dialect, cases := range oddUsages() {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			w := newModelWorld(t, yard.Unprivileged(t), dialect, nil)
			p := &sayer{answers: map[string]string{}}
			w.serve(t, p)
			w.models(t, dialect, "max_output: 400", "price: {input: 1.0, output: 10.0, cache_read: 0.1, cache_write: 1.25, cache_write_1h: 2.0}")
			var list []modelTry
			for _, c := range cases {
				p.answers[c.name] = c.answer
				list = append(list, saying(dialect, c.name, !strings.HasPrefix(c.answer, "{")))
			}
			got, r := w.run(t, list, "--json", "--budget", "100k")
			calls := modelCalls(t, r.Stderr)
			if len(calls) != len(cases) {
				t.Fatalf("%d events: %s", len(calls), r.Stderr)
			}
			var sum int64
			for i, c := range cases {
				u := calls[i].Use
				checkUse(t, c, u)
				sum += u.Input + u.Output + u.CacheRead + u.CacheWrite
				if g := got[c.name]; g.Status != 200 || c.want != "broken" && !strings.Contains(g.Body, "hello") {
					t.Errorf("%s: %d %s", c.name, g.Status, g.Body)
				} else if strings.Contains(g.Body, "completion_tokens") && strings.Contains(g.Body, `"choices":[]`) {
					t.Errorf("%s: usage that was not asked for: %s", c.name, g.Body)
				}
			}
			var booked int64
			for _, row := range usageOf(t, w.y) {
				booked += row["input_tokens"] + row["output_tokens"] + row["cache_read"] + row["cache_write"]
			}
			if booked != sum {
				t.Errorf("booked are %d tokens, the events say %d", booked, sum)
			}
		})
	}
}

// checkUse compares an event's use with what a case wants.
func checkUse(t *testing.T, c said, u *bailey.ModelUse) {
	t.Helper()
	got := fmt.Sprint(u.Input, u.Output)
	if u.CacheRead+u.CacheWrite > 0 {
		got += fmt.Sprint(" ", u.CacheRead, " ", u.CacheWrite)
	}
	cost, _ := strconv.ParseFloat(u.CostUSD, 64)
	want := float64(u.Input) + 10*float64(u.Output) + 0.1*float64(u.CacheRead)
	if u.CacheWrite == 3000 { // 1000 for minutes and 2000 for an hour
		want += 1250 + 4000
	}
	if c.want == "" {
		want += float64(u.Input) // nobody knows which kind of input it was: the dearest costs 2
	}
	switch {
	case math.Abs(cost*1e6-want) > 0.01:
		t.Errorf("%s: it costs %v, want %v", c.name, cost*1e6, want)
	case c.want == "" && (!u.Estimated || u.Output != 50 || u.Input <= 0):
		t.Errorf("%s: %+v, want all that was reserved", c.name, u)
	case c.want == "broken" && (!u.Estimated || u.Output < 1 || u.Output > 50 || u.Input <= 0):
		t.Errorf("%s: %+v, want an estimate", c.name, u)
	case c.want != "" && c.want != "broken" && (u.Estimated || got != c.want):
		t.Errorf("%s: %s, want %s: %+v", c.name, got, c.want, u)
	}
}

// usageOf is `bailey usage --json` with all its numbers.
func usageOf(t *testing.T, y *yard.Yard) (rows []map[string]int64) {
	t.Helper()
	var list []map[string]any
	out := y.Run(t, "usage", "--json").OK(t).Stdout
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, row := range list {
		numbers := map[string]int64{}
		for name, v := range row {
			if n, ok := v.(float64); ok {
				numbers[name] = int64(n)
			}
		}
		rows = append(rows, numbers)
	}
	return rows
}

// TestModel_OneDaysBudget (D058): runs at the same time and runs after one
// another draw from one day's budget; neither a name, a budget of a run's own nor
// another workspace gives a fresh one.
func TestModel_OneDaysBudget(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	w := newModelWorld(t, y, "anthropic", nil)
	p := &meteredProvider{end: make(chan struct{})}
	w.serve(t, p)
	w.models(t, "anthropic", "max_output: 400", "budget: {day: 1200}")
	many := talk("anthropic", "many", strings.Replace(hello, "50", "400", 1))
	many.Count = 20
	putCalls(t, y, []modelTry{many})
	var boxes []*yard.Running
	for _, name := range []string{"one", "two"} {
		boxes = append(boxes, y.Start(t, "run", "--name", name, "--model", "small", "--budget", "100k", "--", "./calls", "tries.json"))
	}
	passed := 0
	for _, b := range boxes {
		out := b.Wait(t, time.Minute).OK(t).Stdout
		r := callResults(t, []modelTry{many}, out)["many"]
		passed += r.Statuses[200]
		if r.Statuses[200]+r.Statuses[402] != 20 {
			t.Errorf("%v", r)
		}
	}
	if n := len(p.asked()); passed < 2 || passed > 3 || n != passed {
		t.Errorf("%d calls passed, the provider was asked %d times", passed, n)
	}
	again := talk("anthropic", "again", strings.Replace(hello, "50", "400", 1))
	for _, flags := range [][]string{nil, {"--name", "another"}, {"--budget", "2M"}} {
		if got, _ := w.run(t, []modelTry{again}, flags...); got["again"].Status != 402 || !strings.Contains(got["again"].Body, "raise models.small.budget.day in models.yaml and start again, or wait: a day begins again at 00:00 UTC") {
			t.Errorf("%v: %d %s", flags, got["again"].Status, got["again"].Body)
		}
	}
	if u := usage(t, y); len(u) != 1 || u[0].Input+u[0].Output > 1200+3*100 { // the provider counts 100 where a tenth was guessed
		t.Errorf("%+v", u)
	}
	w.models(t, "anthropic", "max_output: 400", "budget: {day: 3000}") // the person raises it
	if got, _ := w.run(t, []modelTry{again}); got["again"].Status != 200 {
		t.Errorf("the twin: %d %s", got["again"].Status, got["again"].Body)
	}
}
