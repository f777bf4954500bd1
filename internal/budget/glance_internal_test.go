package budget

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/pricing"
)

// written are lines as they are written.
func written(t testing.TB) [][]byte {
	t.Helper()
	u := pricing.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, CacheWrite1h: 4, Output: 5, Reasoning: 6}
	tools := pricing.Usage{Tools: map[string]int64{"web": 1}}
	var out [][]byte
	for _, r := range []record{
		{Kind: reserveOne, ID: newCallID(), At: 1_796_000_000_000, Task: "sbx_1", Model: "m", Tokens: 5, Money: 7, Priced: true},
		{Kind: reserveOne, ID: 1, At: 1, Task: "t", Run: "r", Model: "m"},
		{Kind: settleOne, ID: 2, At: 1, Task: "t", Model: "m", Tokens: 15, Money: 1 << 62, Usage: &u, Estimated: true},
		{Kind: settleOne, ID: 3, At: 1, Task: "t", Model: "m", Usage: &pricing.Usage{}, Void: true},
		{Kind: settleOne, ID: 4, At: 1, Task: "t", Model: "m", Usage: &tools},
		{Kind: settleOne, ID: 5, At: 1, Task: "t\u00e4\"\\<", Model: "m", Tokens: 1},
		{Kind: dayLine, Version: 1, Day: "2026-11-30"},
		{Kind: endOfDay, Next: "2026-12-01"},
	} {
		b, err := r.line()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b[:len(b)-1])
	}
	return out
}

func TestGlance_ReadsWhatIsWrittenWithoutTheDecoder(t *testing.T) {
	t.Parallel()
	quick := 0
	for _, b := range written(t) {
		s := scan{rest: b}
		if _, ok := s.record(); ok {
			quick++
		}
		got, ok := glance(b)
		want, known := readLine(b)
		want.Usage = nil
		if diff := cmp.Diff(want, got); !ok || !known || diff != "" {
			t.Errorf("%s: %v, %v %s", b, ok, known, diff)
		}
	}
	if quick != 3 {
		t.Errorf("%d lines were read without the decoder", quick)
	}
}

// FuzzGlance holds the quick way to the decoder's: what it reads is the same.
func FuzzGlance(f *testing.F) {
	for _, b := range written(f) {
		f.Add(b)
	}
	for _, s := range []string{`{"k":"settle","k":"reserve","id":"0000000000000001","model":"m"}`, `{"tokens":01}`, `{"usage":{"input":}}`, `{}`, `{"priced":tru}`, `{"k":"reserve","id":"0000000000000001","model":"m"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := glance(b)
		want, known := readLine(b)
		want.Usage = nil
		if ok != known || ok && !cmp.Equal(got, want) {
			t.Fatalf("%s: %+v, %v; the decoder: %+v, %v", b, got, ok, want, known)
		}
	})
}
