package document

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cases are documents for both readers, each of which is read or refused.
func cases() []string {
	out := []string{
		`{"model":"a","messages":[{"role":"user","content":"x\n\ud83d\ude00"}],"n":1.50,"t":[true,false,null,{}]}`,
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1},"b":{"b":2}}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{1:2}`, `[1 2]`, `{"a":1 "b":2}`,
		``, ` `, `[`, `{`, `"`, `{"a":`, `]`, `}`, `[}`, `{]`, `{} {}`, ` [ ] `, "\t{\r\n}\n", "\v[]", "\ufeff{}", `nul`, `null`, `nulls`, `tru`, `falsey`, `True`,
		`0`, `-0`, `00`, `01`, `-`, `-a`, `1.`, `.1`, `1.5`, `1e`, `1e+`, `1E-05`, `1e400`, `+1`, `1f5`, `0x1`, `1.2.3`, `12345`, `123456789012`, `-1.5e+10`, `NaN`, `Infinity`,
		`"\u0000"`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\t\"", `"\x"`, `"\'"`, `"\u12"`, `"\u12G4"`, `"\uABCD\uabcd"`, `"\U0041"`, `"\ud800"`, `"\ud800\u0041"`, `"\ude00\ud83d"`, `"\ud83d\ude00"`, `"\ud83d\n"`, `"\"\\\/\b\f\n\r\t"`, `"\`, `"\u`, `"\ufffd"`,
		"\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\ufffd\u2028\"", `"grüße, 世界 \U0001f600"`, "\"grüße, 世界 \U0001f600\"",
		`[[[[]]]]`, `[[[]]]`, `[1,2,3,4]`, `[1,2,3]`, `{"a":1,"b":2,"c":3,"d":4}`, `"0123456"`, `"012345"`, `{"0123456":1}`, `"\u0061\u0061\u0061\u0061\u0061\u0061\u0061"`,
	}
	var many strings.Builder
	for i := range 40 {
		many.WriteString(`,"` + strings.Repeat("n", i+1) + `":0`)
	}
	out = append(out, "{"+many.String()[1:]+"}", `{"nnn":1`+many.String()+"}")
	for n := range 20 { // each place of a word of eight bytes
		at := strings.Repeat("x", n)
		for _, c := range []string{`\n`, "\n", "\x80", "é", "\x1f", "\x7f", `\"`, " "} {
			out = append(out, `"`+at+c+strings.Repeat("y", 20-n)+`"`)
		}
		out = append(out, `"`+at)
	}
	return out
}

// both holds the quick reader to the thorough one: what it reads is the same, and
// what it leaves alone is refused.
func both(t *testing.T, s string, lim Limits) (ok bool) {
	t.Helper()
	lim = lim.orDefault()
	quick := quickly([]byte(s), lim)
	want, err := thoroughly([]byte(s), tree{lim: lim})
	if (err == nil) != (quick != nil) {
		t.Fatalf("%.200q: quickly %v, thoroughly %v", s, quick, err)
	}
	if d := cmp.Diff(want, quick); err == nil && d != "" {
		t.Fatalf("%.200q (-thoroughly +quickly): %s", s, d)
	}
	if _, why := thoroughly([]byte(s), tree{lim: lim, barren: true}); !cmp.Equal(why, err) {
		t.Fatalf("%.200q: %v, and with a tree %v", s, why, err)
	}
	return err == nil
}

// narrow are bounds that small documents pass.
func narrow() Limits { return Limits{Depth: 3, Nodes: 5, Width: 3, String: 6, Number: 4} }

func TestQuickly_ReadsAsThoroughly(t *testing.T) {
	t.Parallel()
	count := map[bool]int{}
	for _, s := range cases() {
		count[both(t, s, Limits{})]++
		count[both(t, s, narrow())]++
	}
	if count[true] < 100 || count[false] < 100 {
		t.Errorf("%d are read, %d refused", count[true], count[false])
	}
}

// TestQuickly_KeepsNothing: what a tree holds does not change with the bytes that
// it was read from.
func TestQuickly_KeepsNothing(t *testing.T) {
	t.Parallel()
	const text = `{"name":["text \u0061\n",12.5,null]}`
	b := []byte(text)
	v := quickly(b, Limits{}.orDefault())
	for i := range b {
		b[i] = '#'
	}
	want, err := thoroughly([]byte(text), tree{lim: Limits{}.orDefault()})
	if d := cmp.Diff(want, v); d != "" || err != nil {
		t.Error(d, err)
	}
}

func FuzzQuickly(f *testing.F) {
	for _, s := range cases() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		both(t, s, Limits{})
		both(t, s, narrow())
	})
}
