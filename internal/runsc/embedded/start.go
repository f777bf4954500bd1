package embedded

import (
	"math"
	"runtime/debug"
	"sync"
	"time"
	_ "unsafe" // for linkname

	_ "gvisor.dev/gvisor/pkg/sentry/seccheck" // the home of tracePoints
)

//go:linkname tracePoints gvisor.dev/gvisor/pkg/sentry/seccheck.initOnce
var tracePoints sync.Once

// withoutTracePoints leaves the points that gVisor's own tracing could be
// attached to unregistered. Nothing here attaches to them, and to describe
// each system call's takes 7 to 10 ms of every start.
func withoutTracePoints() { tracePoints.Do(func() {}) }

// How long, and up to how much memory, nothing is collected.
const (
	startTime = time.Second
	startHeap = 64 << 20
)

// collectLater keeps the collector from running while gVisor starts: nearly
// all of what it allocates then stays.
func collectLater() {
	percent := debug.SetGCPercent(-1)
	debug.SetMemoryLimit(startHeap)
	time.AfterFunc(startTime, func() {
		debug.SetMemoryLimit(math.MaxInt64)
		debug.SetGCPercent(percent)
	})
}
