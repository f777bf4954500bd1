package gateway

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// lull gives memory back to the system when no request has come for a moment:
// streams that have begun may last for minutes, and what was needed to judge
// their requests is many times what the streams themselves need.
type lull struct {
	free func()

	mu    sync.Mutex
	timer *time.Timer
}

const (
	lullWait = 500 * time.Millisecond // without a request
	lullHeap = 24 << 20               // bytes that are not worth the work
)

// busy takes note of a request.
func (l *lull) busy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		l.timer = time.AfterFunc(lullWait, l.free)
		return
	}
	l.timer.Reset(lullWait)
}

// giveBack collects, and returns to the system what is free, if there is much.
func giveBack() {
	if heapHeld() > lullHeap {
		runtime.GC() // each collection halves the stacks that are too large, and what pools keep
		debug.FreeOSMemory()
	}
}

// heapHeld is what the heap has of the system's memory, in bytes. Package
// runtime/metrics would tell too, and each process would pay for its
// initialisation.
func heapHeld() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased
}
