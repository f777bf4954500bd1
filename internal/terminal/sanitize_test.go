package terminal_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bailey-dev/bailey/internal/terminal"
)

func TestISO11_SanitizeShowsWhatIsThere(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "",
		"plain name-1.txt":       "plain name-1.txt",
		"grüße 世界 🦊":             "grüße 世界 🦊",
		`back\slash "quote"`:     `back\slash "quote"`,
		"a\x1b[31mb":             `a\x1b[31mb`,
		"two\nlines\r\tand tab":  `two\nlines\r\tand tab`,
		"\x00\x05\x07\x08\x7f":   `\x00\x05\x07\x08\x7f`,
		"c1 \u009b31m \u0085":    `c1 \u009b31m \u0085`,
		"raw \x9b31m \xff":       `raw \x9b31m \xff`,
		"cut \xe4\xb8":           `cut \xe4\xb8`,
		"gnp.\u202eexe":          `gnp.\u202eexe`,
		"\u2066x\u2069\u200f":    `\u2066x\u2069\u200f`,
		"zero\u200bwidth\ufeff":  `zero\u200bwidth\ufeff`,
		"line\u2028sep":          `line\u2028sep`,
		"tag\U000e0041":          `tag\U000e0041`,
		"no-break\u00a0space":    `no-break\u00a0space`,
		"private \ue000":         `private \ue000`,
		"\x1b]52;c;eA==\x07":     `\x1b]52;c;eA==\x07`,
		"was replaced \ufffd ok": "was replaced \ufffd ok",
	} {
		if got := terminal.Sanitize(in); got != want {
			t.Errorf("Sanitize(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestISO11_SanitizedJSONMeansTheSame(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain 世界 🦊":           `"plain 世界 🦊"`,
		"\x1b]0;t\x07":         `"\u001b]0;t\u0007"`,
		"c1 \u009b31m \x7f":    `"c1 \u009b31m \u007f"`,
		"gnp.\u202eexe \u200b": `"gnp.\u202eexe \u200b"`,
		"tag\U000e0041":        `"tag\udb40\udc41"`,
	} {
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		got := terminal.SanitizeJSON(b)
		if string(got) != want {
			t.Errorf("%q is printed as %s, want %s", in, got, want)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != in {
			t.Errorf("%s means %q (%v), want %q", got, back, err, in)
		}
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("a\x1b\u202e\xff")
	f.Fuzz(func(t *testing.T, in string) {
		out := terminal.Sanitize(in)
		if !utf8.ValidString(out) || terminal.Sanitize(out) != out {
			t.Fatalf("%q becomes %q", in, out)
		}
		if strings.ContainsFunc(out, func(r rune) bool { return r < 0x20 || (r >= 0x7f && r <= 0xa0) || (r >= 0x2028 && r <= 0x202e) }) {
			t.Fatalf("%q is not safe", out)
		}
		if whole, filter := filter(out); whole != out || filter.Dropped() != (terminal.Counts{}) {
			t.Fatalf("the filter changes %q", out)
		}
	})
}
