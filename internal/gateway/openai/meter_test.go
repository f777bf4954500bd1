package openai_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// answered is an answer and what the meter is to make of it.
type answered struct {
	name   string
	ask    string   // what was asked; empty: a plain question
	events []string // data of events
	whole  string   // or the whole answer
	want   gateway.Result
	odd    string // in what is odd; empty: nothing is
	hidden int    // how many events the client does not get
}

func (a answered) check(t *testing.T, p gateway.Protocol) {
	t.Helper()
	call := gateway.NewCall(nil)
	if a.ask != "" {
		var err error
		if call, err = read(p, a.ask); err != nil {
			t.Fatal(err)
		}
	}
	m := p.Meter(call)
	hidden := 0
	for _, e := range a.events {
		if !m.Event("", []byte(e)) {
			hidden++
		}
	}
	if a.whole != "" {
		if got := string(m.Whole([]byte(a.whole))); got != a.whole {
			t.Errorf("the client gets %s", got)
		}
	}
	got := m.Result()
	if (a.odd == "") != (got.Odd == "") || !strings.Contains(got.Odd, a.odd) {
		t.Errorf("odd is %q, want %q in it", got.Odd, a.odd)
	}
	got.Odd = ""
	if diff := cmp.Diff(a.want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if hidden != a.hidden {
		t.Errorf("%d events were hidden, want %d", hidden, a.hidden)
	}
}

const (
	created = `{"type":"response.created","response":{"model":"gpt-served","status":"in_progress","usage":null}}`
	delta   = `{"type":"response.output_text.delta","delta":"twelve bytes"}`
	counts  = `{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":30,"cache_write_tokens_details":{"ttl_30m_tokens":20,"ttl_12h_tokens":10}},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":40},"total_tokens":150}`
)

func done(kind, usage string) string {
	return `{"type":"response.` + kind + `","sequence_number":9,"response":{"model":"gpt-served","status":"` + kind + `","output":[],"usage":` + usage + `}}`
}

func TestResponses_Meter(t *testing.T) {
	t.Parallel()
	all := pricing.Usage{Input: 10, CacheRead: 60, CacheWrite: 20, CacheWrite1h: 10, Output: 50, Reasoning: 40}
	p := responses(t)
	for _, a := range []answered{
		{
			name: "positive: a stream", events: []string{created, delta, done("completed", counts)},
			want: gateway.Result{Usage: all, Known: true, Ended: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "cut off by its bound", events: []string{created, done("incomplete", counts)},
			want: gateway.Result{Usage: all, Known: true, Ended: true, Served: "gpt-served"},
		},
		{
			name: "positive: a whole answer", whole: `{"model":"gpt-served","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hello"}]}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}`,
			want: gateway.Result{Usage: pricing.Usage{Input: 3, Output: 2}, Known: true, Ended: true, Output: 8, Served: "gpt-served"},
		},
		{
			name: "D053 no usage", events: []string{created, delta, done("completed", "null")},
			want: gateway.Result{Ended: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "D053 usage before the end alone", events: []string{`{"type":"response.created","response":{"model":"gpt-served","usage":{"input_tokens":1,"output_tokens":1}}}`, delta, done("completed", "null")},
			want: gateway.Result{Usage: pricing.Usage{Input: 1, Output: 1}, Ended: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "D053 half of it", events: []string{done("completed", `{"input_tokens":7}`)},
			want: gateway.Result{Usage: pricing.Usage{Input: 7}, Ended: true, Served: "gpt-served"},
		},
		{
			name: "D052 cut", events: []string{created, delta, delta},
			want: gateway.Result{Output: 8, Served: "gpt-served"},
		},
		{
			name: "D052 cut, without deltas", events: []string{created, `{"type":"response.output_item.done","item":{"type":"function_call","arguments":"twelve bytes"}}`},
			want: gateway.Result{Output: 9, Served: "gpt-served"},
		},
		{
			name: "D053 an error in the middle", events: []string{created, delta, `{"type":"error","code":"server_error","message":"x"}`},
			want: gateway.Result{Ended: true, Failed: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "D053 twice, and less", events: []string{done("completed", counts), done("completed", `{"input_tokens":1,"output_tokens":1}`)}, odd: "input_tokens went from 100 to 1",
			want: gateway.Result{Usage: all, Known: true, Ended: true, Served: "gpt-served"},
		},
		{
			name: "D053 negative", events: []string{done("completed", `{"input_tokens":-5,"output_tokens":9}`)}, odd: "input_tokens is negative",
			want: gateway.Result{Usage: pricing.Usage{Output: 9}, Ended: true, Served: "gpt-served"},
		},
		{
			name: "parts above the sum", events: []string{done("completed", `{"input_tokens":5,"input_tokens_details":{"cached_tokens":9},"output_tokens":1,"output_tokens_details":{"reasoning_tokens":3}}`)}, odd: "more than the sum",
			want: gateway.Result{Usage: pricing.Usage{CacheRead: 9, Output: 3, Reasoning: 3}, Known: true, Ended: true, Served: "gpt-served"},
		},
		{
			name: "D054 a tool ran all the same", odd: "web_search ran",
			events: []string{`{"type":"response.completed","response":{"output":[{"type":"web_search_call"},{"type":"web_search_call"},{"type":"mcp_call"}],"usage":{"input_tokens":1,"output_tokens":1}}}`},
			want:   gateway.Result{Usage: pricing.Usage{Input: 1, Output: 1, Tools: map[string]int64{"web_search": 2, "mcp": 1}}, Known: true, Ended: true},
		},
		{
			name: "fields that nobody knows", events: []string{done("completed", `{"input_tokens":3,"output_tokens":2,"new":{"x":[1]},"input_tokens_details":null,"output_tokens_details":"odd"}`)}, odd: "not as it should be",
			want: gateway.Result{Usage: pricing.Usage{Input: 3, Output: 2}, Known: true, Ended: true, Served: "gpt-served"},
		},
		{name: "no JSON", events: []string{"{", created}, odd: "could not be read", want: gateway.Result{Served: "gpt-served"}},
		{name: "a page of somebody else's", whole: "<html>", odd: "could not be read", want: gateway.Result{Ended: true}},
	} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.check(t, p)
		})
	}
	m := p.Meter(gateway.NewCall(nil))
	m.Event("response.completed", []byte(`{"response":{"usage":{"input_tokens":1,"output_tokens":2}}}`))
	if r := m.Result(); !r.Known || r.Usage.Output != 2 {
		t.Errorf("an event that is named beside its data is read as %+v", r)
	}
}

func piece(delta, finish, usage string) string {
	if finish != "null" {
		finish = `"` + finish + `"`
	}
	return `{"model":"gpt-served","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}],"usage":` + usage + `}`
}

func TestChat_Meter(t *testing.T) {
	t.Parallel()
	const (
		text  = `{"content":"twelve bytes"}`
		last  = `{"model":"gpt-served","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}}}`
		mark  = "[DONE]"
		quiet = `{"model":"x","messages":[{"role":"user","content":"hi"}],"stream":true}`
	)
	aware := strings.TrimSuffix(quiet, "}") + `,"stream_options":{"include_usage":true}}`
	used := pricing.Usage{Input: 6, CacheRead: 4, Output: 5}
	p := chat(t)
	for _, a := range []answered{
		{
			name: "positive: the client asked", ask: aware, events: []string{piece(text, "null", "null"), piece("{}", "stop", "null"), last, mark},
			want: gateway.Result{Usage: used, Known: true, Ended: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "D053 the client had not asked", ask: quiet, events: []string{piece(text, "null", "null"), piece("{}", "stop", "null"), last, mark}, hidden: 1,
			want: gateway.Result{Usage: used, Known: true, Ended: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "usage in the last piece", ask: quiet, events: []string{piece(text, "null", "null"), piece("{}", "stop", `{"prompt_tokens":10,"completion_tokens":5}`)},
			want: gateway.Result{Usage: pricing.Usage{Input: 10, Output: 5}, Known: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "usage in each piece, to the end", ask: quiet, events: []string{piece(text, "null", `{"prompt_tokens":10,"completion_tokens":1}`), piece(text, "null", `{"prompt_tokens":10,"completion_tokens":4}`), mark},
			want: gateway.Result{Usage: pricing.Usage{Input: 10, Output: 4}, Known: true, Ended: true, Output: 8, Served: "gpt-served"},
		},
		{
			name: "usage in each piece, cut", ask: quiet, events: []string{piece(text, "null", `{"prompt_tokens":10,"completion_tokens":1}`), piece(text, "null", `{"prompt_tokens":10,"completion_tokens":4}`)},
			want: gateway.Result{Usage: pricing.Usage{Input: 10, Output: 4}, Output: 8, Served: "gpt-served"},
		},
		{
			name: "usage in the first piece alone", ask: quiet, events: []string{piece("{}", "null", `{"prompt_tokens":10,"completion_tokens":0}`), piece(text, "stop", "null"), mark},
			want: gateway.Result{Usage: pricing.Usage{Input: 10}, Ended: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "D053 the end without usage", ask: quiet, events: []string{piece(text, "stop", "null"), mark},
			want: gateway.Result{Ended: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "D053 an error in the middle", ask: quiet, events: []string{piece(text, "null", "null"), `{"error":{"message":"x"}}`},
			want: gateway.Result{Ended: true, Failed: true, Output: 4, Served: "gpt-served"},
		},
		{
			name: "D053 decreasing", ask: quiet, events: []string{last, strings.Replace(last, `"completion_tokens":5`, `"completion_tokens":1`, 1), mark}, hidden: 2, odd: "completion_tokens went from 5 to 1",
			want: gateway.Result{Usage: used, Known: true, Ended: true, Served: "gpt-served"},
		},
		{
			name:   "filters before the first piece",
			ask:    quiet,
			events: []string{`{"model":"","choices":[],"prompt_filter_results":[]}`, piece(text, "stop", "null"), last, mark}, hidden: 1,
			want: gateway.Result{Usage: used, Known: true, Ended: true, Output: 4, Served: "gpt-served"},
		},
		{
			name:  "positive: a whole answer",
			whole: `{"model":"gpt-served","choices":[{"message":{"content":"twelve bytes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_cache_hit_tokens":4}}`,
			want:  gateway.Result{Usage: used, Known: true, Ended: true, Output: 4, Served: "gpt-served"},
		},
		{
			name:  "reasoning beside the output",
			whole: `{"model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}}`,
			want:  gateway.Result{Usage: pricing.Usage{Input: 10, Output: 25, Reasoning: 20}, Known: true, Ended: true, Served: "m"},
		},
		{
			name:  "a local server's few fields",
			whole: `{"model":"qwen","choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":10,"completion_tokens":5},"timings":{"x":1.5}}`,
			want:  gateway.Result{Usage: pricing.Usage{Input: 10, Output: 5}, Known: true, Ended: true, Output: 1, Served: "qwen"},
		},
		{name: "no JSON", events: []string{"{"}, odd: "could not be read"},
	} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.check(t, p)
		})
	}
}
