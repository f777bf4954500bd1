package preferences_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/preferences"
)

func tree(t *testing.T, text string) preferences.Tree {
	t.Helper()
	if text == "" {
		return nil
	}
	out, err := preferences.JSON.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMerge_WhoWins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		written, found, next, forced string
		pinned                       []string
		want                         string
		kept, overruled              []string
	}{
		"a first run":                    {next: `{"a": 1, "b": {"c": 2}}`, want: `{"a": 1, "b": {"c": 2}}`},
		"untouched follows the host":     {written: `{"a": 1}`, found: `{"a": 1}`, next: `{"a": 2}`, want: `{"a": 2}`},
		"changed inside wins":            {written: `{"a": 1}`, found: `{"a": 9}`, next: `{"a": 2}`, want: `{"a": 9}`, kept: []string{"a"}},
		"set inside before the host":     {written: `{}`, found: `{"a": 9}`, next: `{"a": 2}`, want: `{"a": 9}`, kept: []string{"a"}},
		"removed inside stays away":      {written: `{"a": 1}`, found: `{}`, next: `{"a": 1}`, want: `{}`, kept: []string{"a"}},
		"gone from the host":             {written: `{"a": 1, "b": 1}`, found: `{"a": 1, "b": 2}`, next: `{}`, want: `{"b": 2}`, kept: []string{"b"}},
		"added inside":                   {written: `{"a": 1}`, found: `{"a": 1, "x": {"y": 1}}`, next: `{"a": 1}`, want: `{"a": 1, "x": {"y": 1}}`, kept: []string{"x.y"}},
		"pinned":                         {written: `{"a": 1}`, found: `{"a": 9}`, next: `{"a": 2}`, pinned: []string{"a"}, want: `{"a": 2}`, overruled: []string{"a"}},
		"pinned where the host has none": {found: `{"a": {"b": 9}}`, next: `{}`, pinned: []string{"a.b"}, want: `{"a": {}}`, overruled: []string{"a.b"}},
		"forced":                         {written: `{"a": {"b": 1}}`, found: `{"a": {"b": 9, "c": 3}}`, next: `{"a": {"b": 1}}`, forced: `{"a": {"b": 1}}`, want: `{"a": {"b": 1, "c": 3}}`, kept: []string{"a.c"}, overruled: []string{"a.b"}},
		"forced and removed":             {written: `{"a": {"b": 1}}`, found: `{}`, next: `{"a": {"b": 1}}`, forced: `{"a": {"b": 1}}`, want: `{"a": {"b": 1}}`, overruled: []string{"a.b"}},
		"forced below a text":            {written: `{"a": {"b": 1}}`, found: `{"a": "no"}`, next: `{"a": {"b": 1}}`, forced: `{"a": {"b": 1}}`, want: `{"a": {"b": 1}}`, overruled: []string{"a.b"}},
		"the same set on both sides":     {written: `{"a": 1}`, found: `{"a": 2}`, next: `{"a": 2}`, want: `{"a": 2}`},
		"a list is one value":            {written: `{"a": [1]}`, found: `{"a": [1, 2]}`, next: `{"a": [3]}`, want: `{"a": [1, 2]}`, kept: []string{"a"}},
		"a former provider goes":         {written: `{"p": {"x": {"u": "1"}}}`, found: `{"p": {"x": {"u": "1"}}}`, next: `{}`, want: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := preferences.Merge{
				Written: tree(t, c.written), Found: tree(t, c.found), Next: tree(t, c.next), Forced: tree(t, c.forced), Pinned: c.pinned,
			}.Do()
			if d := cmp.Diff(tree(t, c.want), got.Tree); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.kept, got.Kept); d != "" {
				t.Errorf("kept: %s", d)
			}
			if d := cmp.Diff(c.overruled, got.Overruled); d != "" {
				t.Errorf("overruled: %s", d)
			}
		})
	}
}

func TestParse_IsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format preferences.Format
		data   string
	}{
		"deep lists":     {preferences.JSON, `{"a": ` + strings.Repeat("[", 1_000_000)},
		"deep in TOML":   {preferences.TOML, "a = " + strings.Repeat("[", 100_000)},
		"a long key":     {preferences.TOML, strings.Repeat("a.", 100_000) + "b = 1"},
		"large":          {preferences.JSON, `{"a": "` + strings.Repeat("x", preferences.MaxFile) + `"}`},
		"a list":         {preferences.JSON, `[1]`},
		"two objects":    {preferences.JSON, `{} {}`},
		"no JSON":        {preferences.JSON, `{`},
		"no TOML":        {preferences.TOML, `=`},
		"unknown format": {preferences.None, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := c.format.Parse([]byte(c.data)); err == nil {
				t.Errorf("read as %.100v", got)
			}
		})
	}
	with, err := preferences.JSON.Parse([]byte("{\n// why\n\"a\": 12345678901234567890, /* and */ \"b\": [1,],}"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := preferences.JSON.Encode(with)
	if err != nil || !strings.Contains(string(out), "12345678901234567890") {
		t.Errorf("%s %v", out, err)
	}
}

func TestTOML_ComesBack(t *testing.T) {
	t.Parallel()
	const text = "model = \"m\"\nn = 3\nwhen = 2026-01-02T03:04:05Z\n\n[projects.\"/a/b.c\"]\ntrust_level = \"trusted\"\n\n[[hooks]]\ncommand = [\"x\"]\n"
	one, err := preferences.TOML.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	data, err := preferences.TOML.Encode(one)
	if err != nil {
		t.Fatal(err)
	}
	again, err := preferences.TOML.Parse(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if d := cmp.Diff(one, again); d != "" {
		t.Error(d)
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	from := tree(t, `{"a": {"b": 1, "c": 2}, "d": 3}`)
	if d := cmp.Diff(tree(t, `{"a": {"c": 2}}`), preferences.Without(from, "a.b", "d", "x.y")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a.b", "a.c", "d"}, preferences.Leaves(from)); d != "" {
		t.Error(d)
	}
}

// TestParse_CostsWhatItIsWorth: a file that an agent wrote costs whoever reads it no more
// than an honest one of its length, in either direction.
func TestParse_CostsWhatItIsWorth(t *testing.T) {
	t.Parallel()
	repeated := func(s string, n int) []byte { return []byte(strings.Repeat(s, n)) }
	var dotted strings.Builder
	for i := range 2000 {
		dotted.WriteString("k" + strconv.Itoa(i) + strings.Repeat(".a", 50) + "=1\n")
	}
	for name, c := range map[string]struct {
		format preferences.Format
		data   []byte
	}{
		"dotted keys":    {preferences.TOML, []byte(dotted.String())},
		"deep keys":      {preferences.TOML, append(repeated("a.", 100), "b=1"...)},
		"arrays":         {preferences.JSON, append(append([]byte(`{"a":[`), repeated("[],", 400_000)...), "1]}"...)},
		"many keys":      {preferences.JSON, append(append([]byte(`{`), repeated(`"a":1,`, 300_000)...), `"b":1}`...)},
		"nested objects": {preferences.JSON, append(repeated(`{"a":`, 100), append([]byte("1"), repeated("}", 100)...)...)},
	} {
		if _, err := c.format.Parse(c.data); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
	// The twin: a history of prompts.
	long := append(append([]byte(`{"history":[`), repeated(`{"display":"`+strings.Repeat("words, and more of them. ", 40)+`"},`, 1500)...), "1]}"...)
	if _, err := preferences.JSON.Parse(long); err != nil {
		t.Error(err)
	}
	inner := preferences.Tree{}
	for i := range 1000 {
		inner["k"+strconv.Itoa(i)] = preferences.Tree{"a": 1}
	}
	if out, err := preferences.TOML.Encode(preferences.Tree{strings.Repeat("x", 100_000): inner}); err == nil {
		t.Errorf("%d bytes are written", len(out))
	}
}
