package shape_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
)

const file = `{
  "source": "a test", "dated": "2026-11-30", "note": "for readers",
  "weights": {"image": {"per": 100, "min": 16, "max": 50}, "photo": {"per": 100, "min": 16, "max": 9000, "picture": true}, "sealed": {"per": 4, "min": 0, "max": 0, "text": true}},
  "types": {
    "request": {"fields": {
      "model": "string!",
      "messages": "list message!",
      "system": "text or list block",
      "tools": "list tool",
      "stream": "bool",
      "max": "int",
      "temperature": "number",
      "stop": "list string or null",
      "labels": "map string",
      "mode": "one of fast|slow",
      "callers": "list caller",
      "container": "drop: a hosted machine",
      "thread": "refuse server_state_not_allowed: the history would be the provider's",
      "config": {"required": false, "with": ["base"], "fields": {"format": "any", "base": "string"}},
      "store": "opaque(even)"
    }},
    "count": {"with": ["request"], "fields": {"max": "drop"}},
    "base": {"fields": {"base": "int", "note": "text"}},
    "message": {"tokens": 5, "fields": {"role": "one of user|assistant!", "content": "content!"}},
    "content": "text or list block",
    "block": {"by": "type", "variants": {
      "text": {"fields": {"text": "text!", "id": "string(plain)"}},
      "image": {"fields": {"source": "source!"}},
      "photo": {"fields": {"data": "blob(photo)!"}},
      "sealed": {"fields": {"data": "blob(sealed)!"}},
      "both": {"fields": {"data": "blob(sealed)", "kind": "source!"}},
      "result": {"fields": {"content": "content", "input": "any"}},
      "addition": {"fields": {"tool": "tool!"}},
      "gone": "drop",
      "upload": "refuse file_not_allowed: a file of the provider's"
    }},
    "source": {"by": "type", "variants": {
      "base64": {"fields": {"data": "blob(image)!"}},
      "uri": {"fields": {"uri": "blob(image,data_uri)!"}},
      "file": "drop"
    }},
    "tool": {"by": "type", "absent": "custom", "code": "tool_type_not_allowed", "status": 403, "variants": {
      "custom": "custom", "search": "drop"
    }},
    "custom": {"fields": {"name": "string!", "schema": "any"}},
    "caller": {"values": {"direct": "keep", "code": "drop", "never": "refuse caller_not_allowed: no"}}
  }
}`

func load(t testing.TB, data string) *shape.Shape {
	t.Helper()
	s, err := shape.Load([]byte(data), map[string]shape.Check{"even": func(s string) *gateway.Refusal {
		if len(s)%2 == 0 {
			return nil
		}
		return &gateway.Refusal{Status: 400, Code: "odd", Detail: "this is odd"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t testing.TB, s string) *document.Value {
	t.Helper()
	v, err := document.Parse([]byte(s), document.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func with(members string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}],` + members + `}`
}

func message(blocks string) string {
	return `{"model":"m","messages":[{"role":"user","content":[` + blocks + `]}]}`
}

func TestShape_Keeps(t *testing.T) {
	t.Parallel()
	s := load(t, file)
	for name, in := range map[string]string{
		"the least":                 `{"model":"m","messages":[]}`,
		"every field":               with(`"system":"be good","tools":[{"name":"t","schema":{"type":["x"],"deep":[null,1.5]}}],"stream":false,"max":0,"temperature":0.7,"stop":null,"labels":{"any name":"v"},"mode":"slow","callers":["direct"],"config":{"format":null,"base":"own","note":"n"},"store":"ab"`),
		"a list in place of a text": with(`"system":[{"type":"text","text":"x","id":"a_1"}]`),
		"blocks in blocks":          message(`{"type":"result","content":[{"type":"result","content":"x","input":{"type":"gone"}}]}`),
		"a tool in a message":       message(`{"type":"addition","tool":{"type":"custom","name":"n"}}`),
		"bytes":                     message(`{"type":"image","source":{"type":"base64","data":"AAAA"}},{"type":"image","source":{"type":"uri","uri":"DATA:image/png;base64,AA"}}`),
		"empty lists":               with(`"tools":[],"system":[],"callers":[],"labels":{}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := parse(t, in)
			got, err := s.Walk("request", v)
			if err != nil {
				t.Fatal(err)
			}
			if got.Removed != nil {
				t.Errorf("removed %q", got.Removed)
			}
			if diff := cmp.Diff(in, string(v.AppendTo(nil))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestShape_Drops(t *testing.T) {
	t.Parallel()
	s := load(t, file)
	for name, tc := range map[string]struct {
		typ, in, want string
		removed       []string
	}{
		"a field":                      {in: with(`"container":{"id":"x","unknown":[1]},"stream":true`), want: with(`"stream":true`), removed: []string{"container"}},
		"a field that the other keeps": {typ: "count", in: with(`"max":1,"stream":true`), want: with(`"stream":true`), removed: []string{"max"}},
		"a tool, told by its place":    {in: with(`"tools":[{"type":"search"},{"name":"t"},{"type":"search","x":1}]`), want: with(`"tools":[{"name":"t"}]`), removed: []string{"tools[0]: search", "tools[2]: search"}},
		"the list that it empties":     {in: with(`"tools":[{"type":"search"}],"mode":"fast"`), want: with(`"mode":"fast"`), removed: []string{"tools[0]: search"}},
		"a value":                      {in: with(`"callers":["code","direct"]`), want: with(`"callers":["direct"]`), removed: []string{"callers[0]: code"}},
		"what loses what it must have": {
			in:      message(`{"type":"text","text":"x"},{"type":"image","source":{"type":"file","id":"f"}},{"type":"addition","tool":{"type":"search"}}`),
			want:    message(`{"type":"text","text":"x"}`),
			removed: []string{"messages[0].content[1].source: file", "messages[0].content[1]: nothing is left of it", "messages[0].content[2].tool: search", "messages[0].content[2]: nothing is left of it"},
		},
		"a message of nothing else": {
			in:      `{"model":"m","messages":[{"role":"assistant","content":[{"type":"gone"}]},{"role":"user","content":"x"}]}`,
			want:    `{"model":"m","messages":[{"role":"user","content":"x"}]}`,
			removed: []string{"messages[0].content[0]: gone", "messages[0]: nothing is left of it"},
		},
		"null, of what is not known": {in: with(`"parsed":null,"mode":"fast"`), want: with(`"mode":"fast"`), removed: []string{"parsed: null"}},
		"null, without a word":       {in: with(`"mode":null,"container":null,"thread":null,"stop":null`), want: with(`"stop":null`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			typ := tc.typ
			if typ == "" {
				typ = "request"
			}
			v := parse(t, tc.in)
			got, err := s.Walk(typ, v)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(v.AppendTo(nil))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.removed, got.Removed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestShape_Refuses(t *testing.T) {
	t.Parallel()
	s := load(t, file)
	long := strings.Repeat("x", 5000)
	for name, tc := range map[string]struct {
		in     string
		status int
		code   string
		path   string
	}{
		"an unknown field":             {with(`"api_base":"https://evil.test"`), 400, "unknown_field", "api_base"},
		"D021 another case":            {with(`"MODEL":"b"`), 400, "unknown_field", "MODEL"},
		"D021 a long s":                {with(`"toolſ":[]`), 400, "unknown_field", `"tool\u017f"`},
		"D022 an escaped type":         {with(`"tools":[{"type":"sea\u0072ch2"}]`), 403, "tool_type_not_allowed", "tools[0].type"},
		"an unknown field at depth":    {message(`{"type":"result","content":[{"type":"text","text":"","x":1}]}`), 400, "unknown_field", "messages[0].content[0].content[0].x"},
		"an unknown block":             {message(`{"type":"video"}`), 400, "unknown_block_type", "messages[0].content[0].type"},
		"a block without a type":       {message(`{"text":"x"}`), 400, "missing_field", "messages[0].content[0]"},
		"D002 a later version":         {with(`"tools":[{"type":"search_2099","name":"x"}]`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 upper case":              {with(`"tools":[{"type":"SEARCH"}]`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 a space":                 {with(`"tools":[{"type":"custom ","name":"x"}]`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 a list":                  {with(`"tools":[{"type":["custom"],"name":"x"}]`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 null":                    {with(`"tools":[{"type":null,"name":"x"}]`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 the empty type":          {with(`"tools":[{"type":"","name":"x"}]`), 403, "tool_type_not_allowed", "tools[0].type"},
		"a tool in a message":          {message(`{"type":"addition","tool":{"type":"fetch"}}`), 403, "tool_type_not_allowed", "messages[0].content[0].tool.type"},
		"a refused field":              {with(`"thread":{}`), 403, "server_state_not_allowed", "thread"},
		"a refused block":              {message(`{"type":"upload","x":1}`), 403, "file_not_allowed", "messages[0].content[0]"},
		"a refused value":              {with(`"callers":["never"]`), 403, "caller_not_allowed", "callers[0]"},
		"an unknown value":             {with(`"callers":["other"]`), 400, "value_not_allowed", "callers[0]"},
		"a value of another set":       {with(`"mode":"FAST"`), 400, "value_not_allowed", "mode"},
		"a missing member":             {`{"messages":[]}`, 400, "missing_field", ""},
		"D026 null for it":             {`{"model":null,"messages":[]}`, 400, "missing_field", ""},
		"a missing member at depth":    {`{"model":"m","messages":[{"role":"user"}]}`, 400, "missing_field", "messages[0]"},
		"D026 a list for a string":     {`{"model":["a"],"messages":[]}`, 400, "wrong_type", "model"},
		"D026 an object for a list":    {`{"model":"m","messages":{}}`, 400, "wrong_type", "messages"},
		"D026 a string for a boolean":  {with(`"stream":"true"`), 400, "wrong_type", "stream"},
		"D026 a number for a boolean":  {with(`"stream":1`), 400, "wrong_type", "stream"},
		"D026 a string for a number":   {with(`"temperature":"NaN"`), 400, "wrong_type", "temperature"},
		"D026 null in a list":          {with(`"tools":[null]`), 400, "wrong_type", "tools[0]"},
		"D026 a list as the document":  {`[]`, 400, "wrong_type", ""},
		"a fraction for an integer":    {with(`"max":1.0`), 400, "wrong_type", "max"},
		"an exponent for an integer":   {with(`"max":1e3`), 400, "wrong_type", "max"},
		"a negative integer":           {with(`"max":-1`), 400, "wrong_type", "max"},
		"an integer beyond 2^53":       {with(`"max":9007199254740993`), 400, "wrong_type", "max"},
		"a long id":                    {`{"model":"` + long + `","messages":[]}`, 400, "too_long", "model"},
		"an id with a space":           {message(`{"type":"text","text":"","id":"a b"}`), 400, "value_not_allowed", "messages[0].content[0].id"},
		"a check of the dialect's":     {with(`"store":"abc"`), 400, "odd", "store"},
		"a remote address":             {message(`{"type":"image","source":{"type":"uri","uri":"https://evil.test/?d=1"}}`), 403, "remote_url_not_allowed", "messages[0].content[0].source.uri"},
		"nothing is left of it":        {`{"model":"m","messages":[{"role":"user","content":[{"type":"gone"}]}]}`, 400, "nothing_left", ""},
		"a name that is no plain word": {with(`"` + long + `\n":1`), 400, "unknown_field", `"` + strings.Repeat("x", 64) + `"…`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Walk("request", parse(t, tc.in))
			var r *gateway.Refusal
			if !errors.As(err, &r) {
				t.Fatalf("got %v", err)
			}
			if r.Status != tc.status || r.Code != tc.code || r.Path != tc.path || r.Detail == "" {
				t.Errorf("got %d %s at %q (%s), want %d %s at %q", r.Status, r.Code, r.Path, r.Detail, tc.status, tc.code, tc.path)
			}
		})
	}
}

func TestShape_EstimatesTokens(t *testing.T) {
	t.Parallel()
	s := load(t, file)
	for name, tc := range map[string]struct {
		in   string
		want int64
	}{
		"text and a message":           {`{"model":"m","messages":[{"role":"user","content":"123456789"}]}`, 5 + 3},
		"bytes are rounded up":         {`{"model":"m","messages":[{"role":"user","content":"1234"}]}`, 5 + 2},
		"ids and numbers are nothing":  {`{"model":"mmmmmmmmmmmmmmmmm","messages":[],"max":100,"store":"abcdefgh"}`, 0},
		"ids that are texts are":       {`{"model":"m","messages":[],"tools":[{"name":"` + strings.Repeat("n", 64+300) + `"}]}`, 100},
		"the client's JSON as text":    {`{"model":"m","messages":[],"tools":[{"name":"n","schema":{"a":"bcd"}}]}`, 4},
		"an image at least":            {message(`{"type":"image","source":{"type":"base64","data":"AAAA"}}`), 5 + 16},
		"an image by its size":         {message(`{"type":"image","source":{"type":"base64","data":"` + strings.Repeat("A", 3000) + `"}}`), 5 + 30},
		"an image at most":             {message(`{"type":"image","source":{"type":"base64","data":"` + strings.Repeat("A", 90_000) + `"}}`), 5 + 50},
		"what is dropped costs little": {with(`"container":"` + strings.Repeat("x", 9000) + `"`), 5 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s.Walk("request", parse(t, tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if got.Tokens != tc.want {
				t.Errorf("got %d, want %d", got.Tokens, tc.want)
			}
		})
	}
}

// TestShape_BoundIsOne: whatever a request is made of, no byte that is sent is
// beyond the bound, but those of an image, which costs by its area.
// photo is a picture in base64 that is all of one colour.
func photo(t *testing.T, width, height int) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black})); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestShape_BoundIsOne(t *testing.T) {
	t.Parallel()
	s := load(t, file)
	for name, tc := range map[string]struct {
		in          string
		least, most int64
	}{
		"text":                              {`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 1000) + `"}]}`, 1000, 1100},
		"items that say little":             {`{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":""},`, 999) + `{"role":"user","content":""}]}`, 28_000, 60_000},
		"names":                             {`{"model":"m","messages":[],"tools":[` + strings.Repeat(`{"name":"`+strings.Repeat("n", 64)+`"},`, 99) + `{"name":"n"}]}`, 7000, 9000},
		"a photo":                           {message(`{"type":"photo","data":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA` + strings.Repeat("A", 90_000) + `"}`), 9000, 9300},
		"a photo that says how large it is": {message(`{"type":"photo","data":"data:image/png;base64,` + photo(t, 300, 200) + `"}`), 4000, 4300},
		"a larger one":                      {message(`{"type":"photo","data":"` + photo(t, 2800, 1960) + `"}`), 7000, 7300},
		"the largest":                       {message(`{"type":"photo","data":"` + photo(t, 8000, 8000) + `"}`), 9000, 9300},
		"no photo by its type":              {message(`{"type":"photo","data":"data:text/plain;base64,iVBORw0KGgoAAAANSUhEUgAA` + strings.Repeat("A", 90_000) + `"}`), 1_000_000, 1_000_300},
		"no photo by its bytes":             {message(`{"type":"photo","data":"data:image/png;base64,` + strings.Repeat("QUJD", 500_000) + `"}`), 1_500_000, 1_500_300},
		"a bare one":                        {message(`{"type":"photo","data":"/9j/4AAQSkZJRgABAQAAAQAB` + strings.Repeat("A", 90_000) + `"}`), 9000, 9300},
		"what is encrypted":                 {message(`{"type":"sealed","data":"` + strings.Repeat("A", 4000) + `"}`), 3000, 3300},
		"D050 control characters":           {message(`{"type":"text","text":"` + strings.Repeat(`\u0001`, 1000) + `"}`), 6000, 6300},
		"what is dropped":                   {message(`{"type":"text","text":"` + strings.Repeat("x", 1000) + `"},{"type":"both","data":"` + strings.Repeat("A", 900) + `","kind":{"type":"file"}}`), 1000, 1200},
		"a number":                          {message(`{"type":"result","input":[` + strings.Repeat("1e15,", 99) + `1]}`), 2400, 2700},
		"line ends":                         {message(`{"type":"text","text":"` + strings.Repeat(`\n`, 1000) + `"}`), 2000, 2300},
		"what is normalised":                {message(`{"type":"text","text":"` + strings.Repeat("\ufdfa", 1000) + `"}`), 33_000, 33_300},
		"letters of elsewhere":              {message(`{"type":"text","text":"` + strings.Repeat("\u4f60\u00e9\U0001f600", 1000) + `"}`), 9000, 10_300},
		"D050 a tool's text as JSON":        {`{"model":"m","messages":[],"tools":[{"name":"` + strings.Repeat("<", 1000) + `"}]}`, 6000, 6300},
		"D050 letters in a schema":          {`{"model":"m","messages":[],"tools":[{"name":"n","schema":{"` + strings.Repeat("\u4f60\u00e9\U0001f600", 100) + `":"` + strings.Repeat("\u4f60\u00e9\U0001f600", 900) + `"}}]}`, 24_000, 25_300},
		"D050 arguments":                    {message(`{"type":"result","input":{"x":"` + strings.Repeat("&", 1000) + `"}}`), 6000, 6300},
		"an image":                          {message(`{"type":"image","source":{"type":"base64","data":"` + strings.Repeat("A", 90_000) + `"}}`), 50, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s.Walk("request", parse(t, tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if got.Bound < tc.least || got.Bound > tc.most {
				t.Errorf("the bound is %d, want it between %d and %d", got.Bound, tc.least, tc.most)
			}
		})
	}
}

func TestShape_RemovedIsBounded(t *testing.T) {
	t.Parallel()
	v := parse(t, with(`"tools":[`+strings.Repeat(`{"type":"search"},`, 5000)+`{"name":"t"}]`))
	got, err := load(t, file).Walk("request", v)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Removed) != 101 || got.Removed[100] != "and 4900 more" {
		t.Errorf("%d told, the last %q", len(got.Removed), got.Removed[len(got.Removed)-1])
	}
}

// Google's APIs take names in camelCase and in snake_case.
const aliased = `{"aliases":"snake_case","types":{
  "part": {"one_of": ["text","fileData","inlineData"], "fields": {
    "text": "text", "fileData": "drop", "inlineData": "string", "thoughtSignature": "opaque"
  }},
  "content": {"fields": {"parts": "list part!"}},
  "tool": {"fields": {"googleSearch": "drop", "functionDeclarations": "list any"}},
  "request": {"fields": {"contents": "list content", "tools": "list tool", "maxTokens": "int!"}}
}}`

func TestShape_AliasesAndDecidingMembers(t *testing.T) {
	t.Parallel()
	s := load(t, aliased)
	for name, tc := range map[string]struct{ in, want, code string }{
		"an alias is renamed":               {in: `{"max_tokens":1}`, want: `{"maxTokens":1}`},
		"one item in the place of a list":   {in: `{"maxTokens":1,"contents":{"parts":{"text":"x"}},"tools":{"google_search":{}}}`, want: `{"maxTokens":1,"contents":[{"parts":[{"text":"x"}]}]}`},
		"a number as text":                  {in: `{"max_tokens":"100"}`, want: `{"maxTokens":100}`},
		"a fraction as text for a whole":    {in: `{"maxTokens":"1.5"}`, code: "wrong_type"},
		"a negative one as text":            {in: `{"maxTokens":"-1"}`, code: "wrong_type"},
		"no number as text":                 {in: `{"maxTokens":"NaN"}`, code: "wrong_type"},
		"two numbers as text":               {in: `{"maxTokens":"1 2"}`, code: "wrong_type"},
		"an empty text for a number":        {in: `{"maxTokens":""}`, code: "wrong_type"},
		"a list as text for a number":       {in: `{"maxTokens":"[1]"}`, code: "wrong_type"},
		"a number for a text":               {in: `{"maxTokens":1,"contents":[{"parts":[{"text":1}]}]}`, code: "wrong_type"},
		"a text in the place of a list":     {in: `{"maxTokens":1,"contents":"x"}`, code: "wrong_type"},
		"an alias is dropped as its name":   {in: `{"maxTokens":1,"tools":[{"google_search":{}},{"googleSearch":{},"function_declarations":[1]}]}`, want: `{"maxTokens":1,"tools":[{"functionDeclarations":[1]}]}`},
		"a part goes with what decides":     {in: `{"maxTokens":1,"contents":[{"parts":[{"text":"x"},{"file_data":{},"thoughtSignature":"s"}]}]}`, want: `{"maxTokens":1,"contents":[{"parts":[{"text":"x"}]}]}`},
		"a part without one":                {in: `{"maxTokens":1,"contents":[{"parts":[{"thought_signature":"s"}]}]}`, want: `{"maxTokens":1,"contents":[{"parts":[{"thoughtSignature":"s"}]}]}`},
		"both names":                        {in: `{"max_tokens":1,"maxTokens":2}`, code: "duplicate_field"},
		"both names, the other way":         {in: `{"maxTokens":1,"max_tokens":2}`, code: "duplicate_field"},
		"two that decide":                   {in: `{"maxTokens":1,"contents":[{"parts":[{"text":"x","inline_data":"y"}]}]}`, code: "ambiguous"},
		"two that decide, one of them gone": {in: `{"maxTokens":1,"contents":[{"parts":[{"text":"x","file_data":{}}]}]}`, code: "ambiguous"},
		"another case":                      {in: `{"MaxTokens":1}`, code: "unknown_field"},
		"missing":                           {in: `{}`, code: "missing_field"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := parse(t, tc.in)
			_, err := s.Walk("request", v)
			var r *gateway.Refusal
			if errors.As(err, &r) != (tc.code != "") || (r != nil && r.Code != tc.code) {
				t.Fatalf("got %v, want the code %q", err, tc.code)
			}
			if err == nil {
				if diff := cmp.Diff(tc.want, string(v.AppendTo(nil))); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestShape_Verdicts(t *testing.T) {
	t.Parallel()
	s := load(t, file)
	want := map[string]shape.Verdict{"text": shape.Keep, "image": shape.Keep, "photo": shape.Keep, "sealed": shape.Keep, "both": shape.Keep, "result": shape.Keep, "addition": shape.Keep, "gone": shape.Drop, "upload": shape.Refuse}
	if diff := cmp.Diff(want, s.Verdicts("block")); diff != "" {
		t.Error(diff)
	}
	if got := s.Verdicts("block.text")["text"]; got != shape.Keep {
		t.Errorf("a type in a type's place: %v", got)
	}
	for value, want := range map[string]shape.Verdict{"direct": shape.Keep, "code": shape.Drop, "never": shape.Refuse, "Direct": shape.Unknown} {
		if got := s.Judge("caller", value); got != want {
			t.Errorf("%s: %v, want %v", value, got, want)
		}
	}
	if s.Verdicts("none") != nil || s.Judge("none", "x") != shape.Unknown {
		t.Error("a type that is not there says something")
	}
	if _, err := s.Walk("none", parse(t, "{}")); err == nil {
		t.Error("a type that is not there lets something through")
	}
	var zero shape.Shape
	if _, err := zero.Walk("request", parse(t, "{}")); err == nil {
		t.Error("the zero shape lets something through")
	}
}

func TestLoad_Refuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"no JSON":                      `{`,
		"no types":                     `{}`,
		"a word at the root":           `{"types":{},"source_":"x"}`,
		"a word in a type":             `{"types":{"a":{"feilds":{}}}}`,
		"a word beside the fields":     `{"types":{"a":{"fields":{},"token":1}}}`,
		"an unknown type":              `{"types":{"a":{"fields":{"x":"list b"}}}}`,
		"an unknown check":             `{"types":{"a":{"fields":{"x":"string(b)"}}}}`,
		"an unknown weight":            `{"types":{"a":{"fields":{"x":"blob(b)"}}}}`,
		"a weight without bounds":      `{"weights":{"b":{"per":1}},"types":{"a":{"fields":{"x":"blob(b)"}}}}`,
		"arguments too many":           `{"types":{"a":{"fields":{"x":"string(plain,plain)"}}}}`,
		"arguments where none are":     `{"types":{"a":{"fields":{"x":"int(plain)"}}}}`,
		"two of one kind":              `{"types":{"a":{"fields":{"x":"text or string"}}}}`,
		"a refusal without reason":     `{"types":{"a":{"fields":{"x":"refuse"}}}}`,
		"a refusal without code":       `{"types":{"a":{"fields":{"x":"refuse: why"}}}}`,
		"a variant that is no object":  `{"types":{"a":{"by":"type","variants":{"x":"text"}}}}`,
		"a union without variants":     `{"types":{"a":{"by":"type"}}}`,
		"a value that is a type":       `{"types":{"a":{"values":{"x":"text"}}}}`,
		"fields in a circle":           `{"types":{"a":{"with":["b"]},"b":{"with":["a"]}}}`,
		"a type that is itself":        `{"types":{"a":"a"}}`,
		"types that are each other":    `{"types":{"a":"b","b":"a or text"}}`,
		"one_of that is no field":      `{"types":{"a":{"fields":{},"one_of":["x"]}}}`,
		"a field that is a number":     `{"types":{"a":{"fields":{"x":1}}}}`,
		"fields of a type that is not": `{"types":{"a":{"with":["b"]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := shape.Load([]byte(in), nil); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func FuzzShape(f *testing.F) {
	s, other := load(f, file), load(f, aliased)
	f.Add(message(`{"type":"result","content":[{"type":"image","source":{"type":"file"}},{"type":"gone"}]}`))
	f.Add(with(`"tools":[{"type":"search"},{"name":"x","schema":{}}],"callers":["code"],"container":1,"mode":null`))
	f.Add(`{"max_tokens":1,"contents":[{"parts":[{"file_data":1},{"text":"x"}]}],"tools":[{"google_search":1}]}`)
	f.Fuzz(func(t *testing.T, in string) {
		for _, s := range []*shape.Shape{s, other} {
			v, err := document.Parse([]byte(in), document.Limits{})
			if err != nil {
				return
			}
			first, err := s.Walk("request", v)
			if err != nil {
				continue
			}
			// What is left is known in full: judged again, it stays as it is.
			once := string(v.AppendTo(nil))
			second, err := s.Walk("request", v)
			if err != nil || second.Removed != nil || second.Tokens > first.Tokens {
				t.Fatalf("again: %+v, %v, of %s", second, err, once)
			}
			if twice := string(v.AppendTo(nil)); once != twice {
				t.Fatalf("not stable:\n%s\n%s", once, twice)
			}
		}
	})
}

func BenchmarkWalk(b *testing.B) {
	s := load(b, file)
	var blocks []string
	for i := range 400 {
		blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":"%d%s"}`, i, strings.Repeat("text ", 240)))
	}
	body := []byte(message(strings.Join(blocks, ",")))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		v, err := document.Parse(body, document.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Walk("request", v); err != nil {
			b.Fatal(err)
		}
		v.AppendTo(make([]byte, 0, len(body)))
	}
}
