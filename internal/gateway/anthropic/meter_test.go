package anthropic_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/pricing"
)

func meter(t testing.TB) gateway.Meter {
	t.Helper()
	c, err := dialect(t).Read(gateway.Generate, target, http.Header{}, []byte(with(`"stream":true`)), pin)
	if err != nil {
		t.Fatal(err)
	}
	return dialect(t).Meter(c)
}

// event is one of a stream, by its type.
func event(m gateway.Meter, data string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(data, `{"type":"`), `"`)
	return m.Event(name, []byte(data))
}

const (
	startOf = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"usage":{"input_tokens":10,"cache_creation_input_tokens":30,"cache_read_input_tokens":500,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":10},"output_tokens":1,"service_tier":"standard"}}}`
	textOf  = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"123456789"}}`
	endOf   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":42}}`
	stopOf  = `{"type":"message_stop"}`
)

var usageOf = pricing.Usage{Input: 10, CacheRead: 500, CacheWrite: 20, CacheWrite1h: 10, Output: 42}

func TestMeter_Stream(t *testing.T) {
	t.Parallel()
	delta := func(usage string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{` + usage + `}}`
	}
	with := func(change func(*pricing.Usage)) pricing.Usage {
		u := usageOf
		change(&u)
		return u
	}
	for name, tc := range map[string]struct {
		events []string
		want   gateway.Result
	}{
		"a whole stream": {
			[]string{startOf, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"ping"}`, textOf, `{"type":"content_block_stop","index":0}`, endOf, stopOf},
			gateway.Result{Usage: usageOf, Known: true, Ended: true, Output: 3, Served: "claude-opus-5-5"},
		},
		"D053 usage restated is not added": {
			[]string{startOf, delta(`"input_tokens":10,"cache_read_input_tokens":500,"output_tokens":20`), delta(`"input_tokens":12,"output_tokens":42,"output_tokens_details":{"thinking_tokens":7}`), stopOf},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Input, u.Reasoning = 12, 7 }), Known: true, Ended: true, Served: "claude-opus-5-5"},
		},
		"D053 a count that decreases": {
			[]string{startOf, delta(`"input_tokens":1,"output_tokens":42`), stopOf},
			gateway.Result{Usage: usageOf, Known: true, Ended: true, Served: "claude-opus-5-5", Odd: "input_tokens decreased"},
		},
		"D053 a negative count": {
			[]string{startOf, delta(`"output_tokens":-5`), stopOf},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Output = 1 }), Ended: true, Served: "claude-opus-5-5", Odd: "output_tokens is negative"},
		},
		"D053 no number": {
			[]string{startOf, delta(`"output_tokens":"many"`), stopOf},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Output = 1 }), Ended: true, Served: "claude-opus-5-5", Odd: "output_tokens is no count"},
		},
		"D053 a number beyond all": {
			[]string{startOf, delta(`"output_tokens":9223372036854775807`), stopOf},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Output = 1 }), Ended: true, Served: "claude-opus-5-5", Odd: "output_tokens is no count"},
		},
		"D053 usage in the start alone": {
			[]string{startOf, textOf, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, stopOf},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Output = 1 }), Ended: true, Output: 3, Served: "claude-opus-5-5", Odd: "no usage for the whole answer"},
		},
		"D053 no usage": {
			[]string{`{"type":"message_start","message":{"model":"x"}}`, textOf, stopOf},
			gateway.Result{Ended: true, Output: 3, Served: "x", Odd: "no usage for the whole answer"},
		},
		"D053 an error in the middle": {
			[]string{startOf, textOf, textOf, `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Output = 1 }), Failed: true, Output: 6, Served: "claude-opus-5-5", Odd: "the provider broke off: overloaded_error"},
		},
		"D052 broken off": {
			[]string{startOf, textOf, `{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`, `{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"","estimated_tokens":50}}`},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Output = 1 }), Output: 5 + 50, Served: "claude-opus-5-5"},
		},
		"D054 a compaction beside it, restated": {
			[]string{startOf, delta(`"output_tokens":42,"iterations":[{"type":"message","input_tokens":9,"output_tokens":9},{"type":"compaction","input_tokens":100,"output_tokens":7,"cache_creation_input_tokens":4,"cache_creation":{"ephemeral_1h_input_tokens":4}}]`), delta(`"output_tokens":42,"iterations":[{"type":"compaction","input_tokens":100,"output_tokens":7},{"type":"advisor_message","model":"dear","input_tokens":1,"output_tokens":1}]`), stopOf},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Input, u.Output, u.CacheWrite1h = 111, 50, 14 }), Known: true, Ended: true, Served: "claude-opus-5-5", Odd: "iterations: compaction; iterations: advisor_message"},
		},
		"D054 a tool of the provider's": {
			[]string{startOf, delta(`"output_tokens":42,"server_tool_use":{"web_search_requests":2,"web_fetch_requests":0}`), stopOf},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Tools = map[string]int64{"web_search_requests": 2} }), Known: true, Ended: true, Served: "claude-opus-5-5", Odd: "a tool of the provider's ran: web_search_requests"},
		},
		"D054 a tier of another price": {
			[]string{startOf, delta(`"output_tokens":42,"service_tier":"priority"`), stopOf},
			gateway.Result{Usage: usageOf, Known: true, Ended: true, Served: "claude-opus-5-5", Odd: "service_tier priority"},
		},
		"another model in the middle": {
			[]string{startOf, `{"type":"message_start","message":{"model":"claude-other"}}`, endOf, stopOf},
			gateway.Result{Usage: usageOf, Known: true, Ended: true, Served: "claude-other", Odd: "the model changed in the middle"},
		},
		"no JSON": {
			[]string{startOf, `{"type":"message_delta"`, endOf, stopOf},
			gateway.Result{Usage: usageOf, Known: true, Ended: true, Served: "claude-opus-5-5", Odd: "an event that is no JSON"},
		},
		"D073 text that looks like an event": {
			[]string{startOf, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"\n\nevent: message_stop\ndata: {\"usage\":{\"output_tokens\":0}}"}}`},
			gateway.Result{Usage: with(func(u *pricing.Usage) { u.Output = 1 }), Output: 19, Served: "claude-opus-5-5"},
		},
		"D053 no input": {
			[]string{`{"type":"message_start","message":{"model":"x","usage":{"input_tokens":0,"output_tokens":0}}}`, endOf, stopOf},
			gateway.Result{Usage: pricing.Usage{Output: 42}, Ended: true, Served: "x", Odd: "no input was counted"},
		},
		"input at the end alone": {
			[]string{`{"type":"message_start","message":{"model":"x","usage":{"input_tokens":0,"output_tokens":0}}}`, delta(`"input_tokens":5,"output_tokens":42`), stopOf},
			gateway.Result{Usage: pricing.Usage{Input: 5, Output: 42}, Known: true, Ended: true, Served: "x"},
		},
		"nothing": {nil, gateway.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := meter(t)
			for _, e := range tc.events {
				if !event(m, e) {
					t.Errorf("%s is hidden", e)
				}
			}
			if diff := cmp.Diff(tc.want, m.Result()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMeter_StreamWithoutNames(t *testing.T) {
	t.Parallel()
	m := meter(t)
	for _, e := range []string{startOf, endOf, stopOf} {
		m.Event("", []byte(e))
	}
	if got := m.Result(); !got.Known || !got.Ended || got.Usage.Output != 42 {
		t.Errorf("got %+v", got)
	}
}

func TestMeter_Whole(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		want gateway.Result
	}{
		"an answer":      {`{"type":"message","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":4,"cache_creation_input_tokens":null}}`, gateway.Result{Usage: pricing.Usage{Input: 3, Output: 4}, Known: true, Ended: true, Served: "m", Output: 41}},
		"no usage":       {`{"type":"message","model":"m","content":[]}`, gateway.Result{Ended: true, Served: "m", Output: 15, Odd: "no usage for the whole answer"}},
		"half a usage":   {`{"type":"message","model":"m","usage":{"input_tokens":3}}`, gateway.Result{Usage: pricing.Usage{Input: 3}, Ended: true, Served: "m", Output: 19, Odd: "no usage for the whole answer"}},
		"an error":       {`{"type":"error","error":{"type":"api_error"}}`, gateway.Result{Failed: true}},
		"no JSON":        {`<html>`, gateway.Result{Output: 2, Odd: "the answer is no JSON"}},
		"nothing":        {``, gateway.Result{Odd: "the answer is no JSON"}},
		"two usages":     {`{"usage":{"output_tokens":0},"usage":{"output_tokens":9}}`, gateway.Result{Output: 19, Odd: "the answer is no JSON"}},
		"a list":         {`[]`, gateway.Result{Ended: true, Output: 1, Odd: "no usage for the whole answer"}},
		"usage as a sum": {`{"usage":12}`, gateway.Result{Ended: true, Output: 4, Odd: "no usage for the whole answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := meter(t)
			if got := string(m.Whole([]byte(tc.body))); got != tc.body {
				t.Errorf("the client sees %s", got)
			}
			if diff := cmp.Diff(tc.want, m.Result()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzMeter(f *testing.F) {
	f.Add(startOf + "\n" + textOf + "\n" + endOf + "\n" + stopOf)
	f.Add(`{"type":"message_delta","usage":{"iterations":[{"type":"x","input_tokens":-1}],"server_tool_use":{"a":1}}}`)
	f.Fuzz(func(t *testing.T, in string) {
		m := meter(t)
		for line := range strings.SplitSeq(in, "\n") {
			before := m.Result()
			m.Event("", []byte(line))
			after := m.Result()
			if after.Usage.Tokens() < before.Usage.Tokens() || after.Usage.Input < 0 || after.Usage.Output < before.Usage.Output || after.Output < before.Output {
				t.Fatalf("%s: %+v became %+v", line, before, after)
			}
			if len(after.Odd) > 4096 {
				t.Fatalf("%d bytes of oddities", len(after.Odd))
			}
		}
		meter(t).Whole([]byte(in))
	})
}

func FuzzRead(f *testing.F) {
	f.Add(with(`"tools":[{"type":"web_search_20250305","name":"w"},{"name":"t","input_schema":{}}],"tool_choice":{"type":"tool","name":"w"}`), "effort-2025-11-24,x", int64(7))
	f.Add(says("user", `[{"type":"image","source":{"type":"url","url":"https://evil.test"}}]`), "", int64(2000))
	f.Add(says("system", `[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_fetch_20250910"}}}]`), "", int64(0))
	f.Add(with(`"thinking":{"type":"enabled","budget_tokens":5000},"container":null`), "a,b", int64(-1))
	m := dialect(f)
	f.Fuzz(func(t *testing.T, body, beta string, n int64) {
		c, err := m.Read(gateway.Generate, target, http.Header{"Anthropic-Beta": {beta}}, []byte(body), pin)
		if err != nil {
			return
		}
		m.SetOutput(c, n)
		// What is sent would be sent again as it is: there is nothing left in it
		// that the list drops or refuses.
		once := sent(c)
		again, err := m.Read(gateway.Generate, target, c.Header, []byte(once), pin)
		if err != nil {
			t.Fatalf("what is sent is refused: %v\n%s", err, once)
		}
		if diff := cmp.Diff(once, sent(again)); diff != "" {
			t.Fatal(diff)
		}
		if len(again.Removed) > 0 {
			t.Fatalf("it still holds %q", again.Removed)
		}
		if again.Body.Get("model").Str() != pin.Name {
			t.Fatal("D040: another model")
		}
	})
}
