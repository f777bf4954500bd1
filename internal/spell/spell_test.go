package spell_test

import (
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/spell"
)

func TestNearest_FindsSlipsAndNothingFarther(t *testing.T) {
	t.Parallel()
	known := []string{"allow", "deny", "presets"}
	for word, want := range map[string]string{
		"allow": "allow", "alow": "allow", "lalow": "allow", "allwo": "allow", "ALLOW": "allow", "preset": "presets",
		"dney": "deny", "something": "", "": "", strings.Repeat("a", 1000): "",
	} {
		if got := spell.Nearest(word, known); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
	if got := spell.DidYouMean("alow", known); got != `did you mean "allow"? known: allow, deny, presets` {
		t.Error(got)
	}
	if got := spell.DidYouMean("something", known); got != "known: allow, deny, presets" {
		t.Error(got)
	}
}
