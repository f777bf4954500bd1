package embedded

import (
	"math"
	"runtime/debug"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/sentry/seccheck"
)

// TestStart is one test, since what it tries is the process's.
func TestStart(t *testing.T) {
	before := debug.SetGCPercent(100)
	collectLater()
	if got := debug.SetGCPercent(-1); got != -1 {
		t.Errorf("collector at %d %% during the start", got)
	}
	if got := debug.SetMemoryLimit(-1); got != startHeap {
		t.Errorf("limit during the start: %d bytes", got)
	}
	time.Sleep(startTime + startTime/2)
	if got := debug.SetGCPercent(before); got != 100 {
		t.Errorf("collector at %d %% after the start, want 100", got)
	}
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("limit after the start: %d bytes", got)
	}

	withoutTracePoints()
	seccheck.Initialize()
	if n := len(seccheck.Points); n != 0 {
		t.Errorf("%d points to trace at", n)
	}
}
