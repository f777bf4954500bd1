package spell_test

import (
	"testing"

	"github.com/bailey-dev/bailey/internal/spell"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files"} {
		if got := spell.Count(n, "file"); got != want {
			t.Errorf("%d: %q, not %q", n, got, want)
		}
	}
}
