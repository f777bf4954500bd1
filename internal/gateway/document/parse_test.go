package document_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gateway/document"
)

func TestParse_Accepts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"D020 the same name in different objects":   {`{"a":{"model":"x"},"b":{"model":"y"}}`, ""},
		"D021 names that differ in case":            {`{"model":"a","MODEL":"b"}`, ""},
		"D022 an escaped name is the name":          {`{"mo\u0064el":"a"}`, `{"model":"a"}`},
		"D024 space around the document":            {" \r\n\t{\"a\":1}\n ", `{"a":1}`},
		"D025 an escaped surrogate pair":            {`"\ud83d\ude00"`, `"😀"`},
		"D025 text beyond ASCII":                    {`"é 😀 \u2028"`, "\"é 😀 \u2028\""},
		"D025 U+FFFD that was written":              {`"\ufffd"`, `"` + "\ufffd" + `"`},
		"D025 control characters, escaped":          {`"\u0001\n\t\u001f"`, `"\u0001\n\t\u001f"`},
		"D026 numbers keep their literals":          {`[1.0,1e3,-0,12345678901234567890,0.10]`, ""},
		"D026 a string that looks like a number":    {`"NaN"`, ""},
		"D028 depth 64":                             {strings.Repeat("[", 64) + strings.Repeat("]", 64), ""},
		"slashes are not escaped":                   {`"a\/b<&>"`, `"a/b<&>"`},
		"literals":                                  {`[null,true,false,"",{},[]]`, ""},
		"the empty name":                            {`{"":1}`, ""},
		"a name is kept for the right member":       {`{"a":{"b":1},"c":[{"d":2}],"e":3}`, ""},
		"D024 something that looks like a document": {`{"a":"{} {}"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := document.Parse([]byte(tc.in), document.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want == "" {
				want = tc.in
			}
			if got := string(v.AppendTo(nil)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestParse_Refuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in, reason, path string
	}{
		"D020 duplicate":                      {`{"model":"cheap","model":"dear"}`, "twice", "model"},
		"D020 duplicate of another kind":      {`{"tools":[],"tools":[{"type":"web_fetch"}]}`, "twice", "tools"},
		"D020 duplicate at depth":             {`{"a":[{"b":1},{"b":1,"c":2,"b":3}]}`, "twice", "a[1].b"},
		"D020 duplicate by escape":            {`{"model":"a","mo\u0064el":"b"}`, "twice", "model"},
		"D020 duplicate in a wide object":     {wide(3000, `"k17":1`), "twice", "k17"},
		"D020 duplicate empty name":           {`{"":1,"":2}`, "twice", `""`},
		"D024 a second document":              {`{"model":"a"} {"model":"b"}`, "more after", ""},
		"D024 a second document, by line":     {"{\"model\":\"a\"}\n{\"model\":\"b\"}", "more after", ""},
		"D024 a NUL after it":                 {"{}\x00", "more after", ""},
		"D024 a bracket after it":             {"{}}", "more after", ""},
		"D024 a comma after it":               {"{},", "more after", ""},
		"D025 byte order mark":                {"\ufeff{}", "not JSON", ""},
		"D025 UTF-16":                         {"{\x00\"\x00a\x00\"\x00:\x001\x00}\x00", "not JSON", ""},
		"D025 invalid UTF-8":                  {"{\"a\":\"a\xff\"}", "UTF-8", "a"},
		"D025 invalid UTF-8 in a name":        {"{\"a\xff\":1}", "UTF-8", ""},
		"D025 overlong":                       {"\"\xc0\xaf\"", "UTF-8", ""},
		"D025 an encoded surrogate":           {"\"\xed\xa0\x80\"", "UTF-8", ""},
		"D025 lone high surrogate":            {`{"x":["\ud800"]}`, "surrogate", "x[0]"},
		"D025 lone low surrogate":             {`"\udc00"`, "surrogate", ""},
		"D025 surrogates the wrong way round": {`"\ude00\ud83d"`, "surrogate", ""},
		"D025 U+0000":                         {`{"a":"x\u0000y"}`, "U+0000", "a"},
		"D025 U+0000 in a name":               {`{"a\u0000":1}`, "U+0000", ""},
		"D025 a raw NUL":                      {"\"a\x00\"", "not JSON", ""},
		"D025 a raw line end in a string":     {"\"a\n\"", "not JSON", ""},
		"D026 NaN":                            {`{"temperature":NaN}`, "not JSON", "temperature"},
		"D026 Infinity":                       {`-Infinity`, "not JSON", ""},
		"D026 a leading zero":                 {`01`, "more after", ""},
		"D026 hexadecimal":                    {`0x10`, "more after", ""},
		"D026 a plus":                         {`+1`, "not JSON", ""},
		"D028 depth 65":                       {strings.Repeat("[", 65) + strings.Repeat("]", 65), "deeper than 64", ""},
		"D028 depth 10,001, not closed":       {strings.Repeat("[", 10_001), "deeper than 64", ""},
		"D028 depth of objects":               {strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), "deeper than 64", ""},
		"D028 100,001 members":                {wide(100_001, ""), "more than 100000 parts", ""},
		"D028 100,001 items":                  {"[" + strings.Repeat("1,", 100_000) + "1]", "more than 100000 parts", ""},
		"D028 a million values":               {"[" + strings.Repeat("[1,1,1,1],", 200_000) + "1]", "more than 250000 values", ""},
		"D028 a string of 20 MB":              {`{"a":"` + strings.Repeat("x", 20<<20) + `"}`, "longer than", "a"},
		"D028 a long number":                  {`{"n":` + strings.Repeat("9", 129) + `}`, "a number is longer", "n"},
		"empty":                               {"", "empty", ""},
		"space alone":                         {" \n", "empty", ""},
		"cut short":                           {`{"a":[1,`, "too early", ""},
		"cut in a string":                     {`{"a":"x`, "too early", ""},
		"a comment":                           {`{/* */}`, "not JSON", ""},
		"a trailing comma":                    {`[1,]`, "not JSON", ""},
		"single quotes":                       {`{'a':1}`, "not JSON", ""},
		"a name that is no string":            {`{1:1}`, "not JSON", ""},
		"a name without a value":              {`{"a"}`, "not JSON", ""},
		"an unknown literal":                  {`{"a":tru}`, "not JSON", ""},
		"a bracket of the other kind":         {`[1}`, "not JSON", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := document.Parse([]byte(tc.in), document.Limits{})
			var e *document.Error
			if !errors.As(err, &e) {
				t.Fatalf("accepted, or no *Error: %v, %v", v, err)
			}
			if v != nil {
				t.Error("an error with a value")
			}
			if !strings.Contains(e.Error(), tc.reason) {
				t.Errorf("the error %q does not say %q", e.Error(), tc.reason)
			}
			if tc.path != "" && e.Path != tc.path {
				t.Errorf("the path is %q, want %q", e.Path, tc.path)
			}
			if e.Offset < 0 || e.Offset > int64(len(tc.in)) {
				t.Errorf("the offset %d is outside", e.Offset)
			}
		})
	}
}

func wide(n int, last string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"k%d":1`, i)
	}
	if last != "" {
		b.WriteString("," + last)
	}
	b.WriteByte('}')
	return b.String()
}

func TestParse_D028_BoundsAreSettable(t *testing.T) {
	t.Parallel()
	lim := document.Limits{Depth: 2, Nodes: 6, Width: 3, String: 4, Number: 2}
	for in, ok := range map[string]bool{
		`[[]]`: true, `[[[]]]`: false,
		`[1,2,3]`: true, `[1,2,3,4]`: false,
		`[[1,2],[3]]`: true, `[[1,2],[3,4]]`: false,
		`"abcd"`: true, `"abcde"`: false,
		`"\n\n\n\n"`: true, `"\n\n\n\n\n"`: false,
		`"\u00e9\u00e9"`: true, `"\u00e9\u00e9a"`: false,
		`{"abcd":1}`: true, `{"abcde":1}`: false,
		`12`: true, `123`: false, `-1`: true, `-1.`: false,
		`{"a":1,"b":2,"c":3}`: true, `{"a":1,"b":2,"c":3,"d":4}`: false,
	} {
		if _, err := document.Parse([]byte(in), lim); (err == nil) != ok {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// The bound is on what the tree costs, so it holds before the tree is there.
func TestParse_D028_MemoryIsBounded(t *testing.T) {
	body := []byte("[" + strings.Repeat("[],", 5_000_000) + "[]]") // 15 MB
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if _, err := document.Parse(body, document.Limits{Width: 1 << 30}); err == nil {
		t.Fatal("accepted")
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 64 {
		t.Errorf("%d MB for a body of 15 MB that is refused", got)
	}
}

func TestParse_KeepsNothingOfTheBody(t *testing.T) {
	t.Parallel()
	body := []byte(`{"a":"text","b":"li\nne","c":12}`)
	v, err := document.Parse(body, document.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'x'
	}
	if got, want := string(v.AppendTo(nil)), `{"a":"text","b":"li\nne","c":12}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestValue_Accessors(t *testing.T) {
	t.Parallel()
	v, err := document.Parse([]byte(`{"a":1,"b":"x","c":true,"d":1.5,"e":{"f":null}}`), document.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := v.Get("a").Int(); !ok || n != 1 {
		t.Error("a is not 1")
	}
	if _, ok := v.Get("d").Int(); ok {
		t.Error("1.5 is an integer")
	}
	if _, ok := v.Get("missing").Get("deeper").Int(); ok {
		t.Error("a missing value is a number")
	}
	if v.Get("b").Str() != "x" || v.Get("a").Str() != "" || !v.Get("c").IsTrue() || v.Get("A") != nil {
		t.Error("the accessors are wrong")
	}
	v.Set("a", document.NewInt(-2))
	v.Set("new", document.NewArray(document.NewBool(false), document.NewString("é\"\\")))
	if v.Delete("d") == nil || v.Delete("d") != nil {
		t.Error("d was not deleted once")
	}
	if !v.Rename("b", "c") || v.Rename("b", "c") || !v.Rename("a", "a") {
		t.Error("renaming is wrong")
	}
	want := `{"a":-2,"c":"x","e":{"f":null},"new":[false,"é\"\\"]}`
	if got := string(v.AppendTo(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	v.Get("a").Set("x", v)
	if v.Get("a").Kind != document.Number {
		t.Error("a number took a member")
	}
}

func TestStep_Shortens(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"model": ".model", "3": "[3]", "a b": `."a b"`, "": `.""`, "mcp_ſervers": `."mcp_\u017fervers"`,
		strings.Repeat("é", 60): `."` + strings.Repeat(`\u00e9`, 32) + `"…`,
	} {
		if got := document.Step(in); got != want {
			t.Errorf("Step(%q) = %s, want %s", in, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"model":"a","messages":[{"role":"user","content":"x\n\ud83d\ude00"}],"n":1.50,"t":[true,false,null,{}]}`,
		`{"a":1,"a":2}`, `"\ud800"`, "\ufeff{}", `[1e400,-0,0.1]`, `{"A":1,"a":2}`, `[[[[]]]]`, "\"\xff\"", `{"a":{"b":[1,{"c":"d"}]}} `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := document.Parse(b, document.Limits{})
		if err != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatal("accepted what encoding/json does not")
		}
		once := v.AppendTo(nil)
		again, err := document.Parse(once, document.Limits{})
		if err != nil {
			t.Fatalf("what was written is refused: %v\n%s", err, once)
		}
		if twice := again.AppendTo(nil); !bytes.Equal(once, twice) {
			t.Fatalf("not stable:\n%s\n%s", once, twice)
		}
		if diff := cmp.Diff(decode(t, b), plain(v)); diff != "" {
			t.Fatalf("encoding/json reads it otherwise (-it +we):\n%s", diff)
		}
	})
}

func decode(t *testing.T, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		t.Fatal(err)
	}
	return x
}

// plain is v as encoding/json would have it.
func plain(v *document.Value) any {
	switch v.Kind {
	case document.Null:
		return nil
	case document.False, document.True:
		return v.Kind == document.True
	case document.Number:
		return json.Number(v.Text)
	case document.String:
		return v.Text
	case document.Array:
		items := make([]any, 0, len(v.Items))
		for _, item := range v.Items {
			items = append(items, plain(item))
		}
		return items
	case document.Object:
		members := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			members[m.Name] = plain(m.Value)
		}
		return members
	}
	return nil
}

// history is a body of about the size, with the make of a coding agent's: long
// texts with line ends and quotes, many small blocks.
func history(size int) []byte {
	code := strings.Repeat("func main() {\n\tfmt.Println(\"hello, world\")\n}\n", 40)
	var b bytes.Buffer
	b.WriteString(`{"model":"m","max_tokens":32000,"stream":true,"messages":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		text, _ := json.Marshal(code)
		fmt.Fprintf(&b, `{"role":"assistant","content":[{"type":"text","text":"I read it."},{"type":"tool_use","id":"toolu_%d","name":"Read","input":{"file_path":"/src/main.go","limit":100}}]},`, i)
		fmt.Fprintf(&b, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%s}]}`, i, text)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func BenchmarkParse(b *testing.B) {
	for _, size := range []int{4 << 10, 500 << 10} {
		body := history(size)
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := document.Parse(body, document.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendTo(b *testing.B) {
	body := history(500 << 10)
	v, err := document.Parse(body, document.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, len(body)+1024)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		buf = v.AppendTo(buf[:0])
	}
}
