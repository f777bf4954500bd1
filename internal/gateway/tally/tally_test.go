package tally_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/gateway/tally"
)

func TestTally_Count(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		said []string
		want int64
		odd  string
		bad  bool // it is no count
	}{
		{"once", []string{"7"}, 7, "", false},
		{"cumulative, the last is the most", []string{"1", "5", "9"}, 9, "", false},
		{"null and absent change nothing", []string{"5", "null", ""}, 5, "", false},
		{"D053 decreasing", []string{"9", "3"}, 9, "n went from 9 to 3", false},
		{"D053 negative", []string{"-4"}, 0, "n is negative", true},
		{"D053 huge", []string{"9223372036854775807"}, tally.Most, "more than any call", true},
		{"over int64", []string{"99999999999999999999"}, tally.Most, "no whole number", true},
		{"a fraction is rounded up", []string{"2.5"}, 3, "no whole number", false},
		{"a negative fraction", []string{"-2.5"}, 0, "no whole number", true},
		{"an object", []string{"{}"}, 0, "no number", true},
		{"a string", []string{`"7"`}, 0, "no number", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var ty tally.Tally
			got := int64(-1)
			for _, s := range c.said {
				got = ty.Count("n", json.RawMessage(s))
			}
			if got != c.want {
				t.Errorf("counted %d, want %d", got, c.want)
			}
			if ty.Sound() == c.bad {
				t.Errorf("sound is %v", ty.Sound())
			}
			if (c.odd == "") != (ty.Odd() == "") || !strings.Contains(ty.Odd(), c.odd) {
				t.Errorf("odd is %q, want %q in it", ty.Odd(), c.odd)
			}
		})
	}
}

func TestTally_NotesAreFew(t *testing.T) {
	t.Parallel()
	var ty tally.Tally
	for i := range 1000 {
		ty.Note("note %d", i)
		ty.Note("the same")
	}
	if n := strings.Count(ty.Odd(), ";"); n > 8 {
		t.Errorf("%d notes were kept", n+1)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int64{
		``:                                      0,
		`{"a":"xyz","b":["1","22"],"c":3}`:      6,
		`{"a" : "x\"y"}`:                        4,
		`"open`:                                 4,
		`"a\`:                                   2,
		`{"args":{"command":"echo"},"name":""}`: 4,
	} {
		if got := tally.Text(json.RawMessage(raw)); got != want {
			t.Errorf("Text(%s) is %d, want %d", raw, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte(`{"a":"xyz"}`), []byte("1"))
	f.Add([]byte(`"\`), []byte("-1e400"))
	f.Fuzz(func(t *testing.T, raw, number []byte) {
		if n := tally.Text(raw); n < 0 || n > int64(len(raw)) {
			t.Errorf("%d bytes of text in %d bytes", n, len(raw))
		}
		var ty tally.Tally
		if n := ty.Count("n", number); n < 0 || n > tally.Most {
			t.Errorf("counted %d", n)
		}
	})
}
