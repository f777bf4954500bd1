package openai_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bailey-dev/bailey/internal/gateway"
)

func seeds(f *testing.F, dialect string) {
	f.Helper()
	files, err := filepath.Glob("testdata/" + dialect + "/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(say(`{"type":"additional_tools","tools":[{"type":"mcp"},` + fn + `]}`)))
	f.Add([]byte(ask(`"tools":[{"type":"shell","environment":{"type":"container_auto"}}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"shell"}]}`)))
	f.Add([]byte(talk(`"stream":true,"n":3,"functions":[{"name":"f"}],"function_call":{"name":"f"}`)))
	f.Add([]byte(`{"model":1,"tool_choice":{"tools":{}},"input":{"type":[]},"messages":"x"}`))
}

// What has passed passes again, as it is: nothing is found in it a second time.
func settled(t *testing.T, p gateway.Protocol, body []byte) {
	t.Helper()
	call, err := p.Read(gateway.Generate, "", nil, body, pin())
	if err != nil {
		if _, ok := errors.AsType[*gateway.Refusal](err); !ok {
			t.Fatalf("%T: %v", err, err)
		}
		return
	}
	call.Body.Delete("prompt_cache_key") // a name of a name is another one
	once := call.Body.AppendTo(nil)
	again, err := p.Read(gateway.Generate, "", nil, once, pin())
	if err != nil {
		t.Fatalf("%v, of what had passed: %s", err, once)
	}
	if twice := again.Body.AppendTo(nil); !bytes.Equal(once, twice) || len(again.Removed) > 0 {
		t.Fatalf("what had passed was changed, %q\n%s\n%s", again.Removed, once, twice)
	}
	if p.SetOutput(call, 100); call.Output > 100 || call.Output < 1 {
		t.Fatalf("the output is %d", call.Output)
	}
}

func FuzzResponses_Read(f *testing.F) {
	seeds(f, "responses")
	p := responses(f)
	f.Fuzz(func(t *testing.T, body []byte) { settled(t, p, body) })
}

func FuzzChat_Read(f *testing.F) {
	seeds(f, "chat")
	p := chat(f)
	f.Fuzz(func(t *testing.T, body []byte) { settled(t, p, body) })
}

func metered(t *testing.T, p gateway.Protocol, data []byte, whole bool) {
	t.Helper()
	m := p.Meter(gateway.NewCall(nil))
	for e := range bytes.SplitSeq(data, []byte("\n")) {
		m.Event("", e)
	}
	if whole {
		m.Whole(data)
	}
	r := m.Result()
	u := r.Usage
	if min(u.Input, u.CacheRead, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning, r.Output, u.Tokens()) < 0 || u.Reasoning > u.Output {
		t.Fatalf("%+v", r)
	}
}

func FuzzResponses_Meter(f *testing.F) {
	f.Add([]byte(created+"\n"+delta+"\n"+done("completed", counts)), true)
	p := responses(f)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) { metered(t, p, data, whole) })
}

func FuzzChat_Meter(f *testing.F) {
	f.Add([]byte(piece(`{"content":"x"}`, "stop", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":99}`)+"\n[DONE]"), false)
	p := chat(f)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) { metered(t, p, data, whole) })
}
