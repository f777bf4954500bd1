package preferences_test

import (
	"testing"

	"github.com/bailey-dev/bailey/internal/preferences"
)

// FuzzParse: whatever a sandbox leaves is read or refused, and what was read can
// be merged and written.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a": {"b": [1, null, "x"]}}`, "a = 1\n[b.\"c.d\"]\ne = [1, 2]\n", "[[a]]\nb = 1\n", `{"a": 1e999}`, "a = 1979-05-27T07:32:00Z", "a = {b = [{c = 1}]}", "a = [1, \"x\", {y = 1}]", "a = nan", "\"\" = 1",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, json bool) {
		format := preferences.TOML
		if json {
			format = preferences.JSON
		}
		tree, err := format.Parse(data)
		if err != nil {
			return
		}
		out := preferences.Merge{Found: tree, Next: preferences.Tree{"a": preferences.Tree{"b": "x"}}, Forced: preferences.Tree{"a": preferences.Tree{"b": "x"}}}.Do()
		written, err := format.Encode(out.Tree)
		if err != nil {
			return // TOML has no word for it, and the run is refused
		}
		if again, err := format.Parse(written); err != nil || again["a"] == nil {
			t.Errorf("%v: %s", err, written)
		}
	})
}
