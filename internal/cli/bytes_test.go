package cli_test

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/bailey-dev/bailey/internal/cli"
)

func FuzzAsText(f *testing.F) {
	for _, s := range []string{"", "plain", "\xff\xfe", "a\xffb", "\uFFFD", "\U0010ff41", "\xf4\x8f", "é\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := cli.AsText(s)
		if !utf8.ValidString(text) {
			t.Errorf("%q became %q, which is no text", s, text)
		}
		if got := cli.AsBytes(text); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
	})
}

func TestBeyondDashes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, seen, rest []string }{
		{[]string{"run", "a", "b"}, []string{"run", "a", "b"}, nil},
		{[]string{"run", "--"}, []string{"run", "--"}, nil},
		{[]string{"run", "--", "a"}, []string{"run", "--", "a"}, nil},
		{[]string{"run", "-q", "--", "a", "--", "c"}, []string{"run", "-q", "--", "a"}, []string{"--", "c"}},
	} {
		seen, rest := cli.BeyondDashes(c.args)
		if !slices.Equal(seen, c.seen) || !slices.Equal(rest, c.rest) {
			t.Errorf("%q: %q and %q", c.args, seen, rest)
		}
	}
}
