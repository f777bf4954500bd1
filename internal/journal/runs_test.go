package journal_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/journal"
)

// TestRuns_SayHowTheyEnded lists one that lasts, one that ended, and one whose
// holder was killed.
func TestRuns_SayHowTheyEnded(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if runs, err := journal.Runs(state, os.Getuid()); err != nil || len(runs) != 0 {
		t.Fatalf("of nothing: %v, %v", runs, err)
	}
	ended := create(t, state, "ended", 1<<20)
	if err := ended.End(journal.End{Code: 3, At: time.Unix(100, 0)}); err != nil {
		t.Fatal(err)
	}
	lasts := create(t, state, "lasts", 1<<20)
	defer func() { _ = lasts.Discard() }()
	runs, err := journal.Runs(state, os.Getuid())
	if err != nil || len(runs) != 2 {
		t.Fatalf("%v, %v", runs, err)
	}
	for _, k := range runs {
		if k.Lasts != (k.Name == "lasts") || !k.Lasts && (k.End.Code != 3 || k.End.At.Unix() != 100) {
			t.Errorf("%+v", k)
		}
	}
}

// TestOpen_HintIsWhole: what is not listed is counted.
func TestOpen_HintIsWhole(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	for i := range 8 {
		if err := create(t, state, fmt.Sprintf("run%d", i), 1<<20).End(journal.End{At: time.Unix(100, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := journal.Open(state, os.Getuid(), "nobody")
	e, ok := errors.AsType[*bailey.Error](err)
	if !ok || strings.Count(e.Hint, "run") != 7 || !strings.Contains(e.Hint, " and 2 more (") {
		t.Errorf("%v: %+v", err, e)
	}
}
