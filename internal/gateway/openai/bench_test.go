package openai_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/openai"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
)

// A session of some length: what is judged at each turn.
func BenchmarkResponses_Read(b *testing.B) {
	body, err := os.ReadFile("testdata/responses/codex.json")
	if err != nil {
		b.Fatal(err)
	}
	const turn = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"`
	turns := strings.Repeat(turn+strings.Repeat("a line of output\\n", 100)+`"},`, 250)
	long := strings.Replace(string(body), `"input": [`, `"input": [`+turns, 1)
	r := responses(b)
	b.SetBytes(int64(len(long)))
	for b.Loop() {
		if _, err := r.Read(gateway.Generate, "", nil, []byte(long), pin()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChat_Event(b *testing.B) {
	m := chat(b).Meter(gateway.NewCall(nil))
	event := []byte(piece(`{"content":"twelve bytes"}`, "null", "null"))
	for b.Loop() {
		m.Event("", event)
	}
}

// The list is loaded at the start of each run.
func BenchmarkLoad(b *testing.B) {
	file, err := os.ReadFile("responses.json")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := openai.NewResponses(); err != nil {
		b.Fatal(err)
	}
	inline := shape.Checks()["data_uri"]
	for b.Loop() {
		if _, err := shape.Load(file, map[string]shape.Check{"inline": inline}); err != nil {
			b.Fatal(err)
		}
	}
}
