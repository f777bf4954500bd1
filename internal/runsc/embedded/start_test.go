package embedded_test

import (
	"math"
	"runtime/debug"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/sentry/seccheck"

	"github.com/bailey-dev/bailey/internal/runsc/embedded"
)

// TestStart is one test, since what it tries is the process's.
func TestStart(t *testing.T) {
	before := debug.SetGCPercent(100)
	embedded.CollectLater()
	if got := debug.SetGCPercent(-1); got != -1 {
		t.Errorf("collector at %d %% during the start", got)
	}
	if got := debug.SetMemoryLimit(-1); got != embedded.StartHeap {
		t.Errorf("limit during the start: %d bytes", got)
	}
	time.Sleep(embedded.StartTime + embedded.StartTime/2)
	if got := debug.SetGCPercent(before); got != 100 {
		t.Errorf("collector at %d %% after the start, want 100", got)
	}
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("limit after the start: %d bytes", got)
	}

	embedded.WithoutTracePoints()
	seccheck.Initialize()
	if n := len(seccheck.Points); n != 0 {
		t.Errorf("%d points to trace at", n)
	}
}
