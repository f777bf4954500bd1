package tier_test

import (
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/tier"
)

// verdict stands for a test and notes how it ended.
type verdict struct {
	testing.TB
	ended string
}

func (v *verdict) Helper()               {}
func (v *verdict) Skip(...any)           { v.ended = "skipped" }
func (v *verdict) Fatalf(string, ...any) { v.ended = "failed"; panic(v) }

func TestLacks_FailsInTheTierOfRoot(t *testing.T) {
	for name, want := range map[string]string{"root": "failed", "user": "skipped", "": "skipped"} {
		t.Setenv("BAILEY_TEST_TIER", name)
		v := &verdict{}
		func() {
			defer func() { _ = recover() }()
			tier.Lacks(v, "the moon")
		}()
		if v.ended != want {
			t.Errorf("tier %q: %q, want %q", name, v.ended, want)
		}
	}
}
