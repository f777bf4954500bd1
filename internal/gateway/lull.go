package gateway

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// lull gives memory back to the system when large requests have been read and
// no other comes: the streams that they began may last for minutes, and what
// was needed to judge the requests is many times what the streams need.
type lull struct {
	mu    sync.Mutex
	timer *time.Timer
}

const (
	largeBody = 32 << 10               // bytes of a request that leaves much behind
	lullWait  = 500 * time.Millisecond // without another one
	lullHeap  = 24 << 20               // bytes that are not worth the work
)

// after takes note of a request of so many bytes.
func (l *lull) after(size int) {
	if size < largeBody {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		l.timer = time.AfterFunc(lullWait, giveBack)
		return
	}
	l.timer.Reset(lullWait)
}

// giveBack collects, and returns to the system what is free, if that is much.
func giveBack() {
	held := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(held)
	var sum uint64
	for _, s := range held {
		if s.Value.Kind() == metrics.KindUint64 {
			sum += s.Value.Uint64()
		}
	}
	if sum > lullHeap {
		debug.FreeOSMemory()
	}
}
