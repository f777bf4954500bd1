package proxy

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey"
)

// An idle proxy is small, and one at work is quick: from its first connection on
// it uses all processors, and memory in the place of collections; when nothing
// has happened for a moment it gives back what it has too much.
const (
	workGC   = 400         // GOGC at work: a collection for each 16 MiB or so
	restWait = time.Second // without an event or a connection
	restHeap = 6 << 20     // bytes that are not worth the work
)

// ease watches whether there is work.
type ease struct {
	once    sync.Once
	free    func()
	wait    time.Duration
	beats   atomic.Uint64 // of work
	watched atomic.Bool
}

func newEase() *ease { return &ease{free: giveBack, wait: restWait} }

// work takes note of work.
func (e *ease) work() {
	e.once.Do(func() {
		runtime.GOMAXPROCS(runtime.NumCPU()) // it began with one: gate.Env
		debug.SetGCPercent(workGC)
	})
	e.beats.Add(1)
	if e.watched.CompareAndSwap(false, true) {
		e.watch()
	}
}

// watch looks in a while whether there is still work.
func (e *ease) watch() {
	seen := e.beats.Load()
	time.AfterFunc(e.wait, func() {
		if e.beats.Load() != seen {
			e.watch()
			return
		}
		e.watched.Store(false) // before memory is freed: work that begins now is for the next look
		e.free()
	})
}

// giveBack collects, and returns to the system what is free, if there is much.
func giveBack() {
	if heapHeld() > restHeap {
		runtime.GC() // what pools keep is freed by the second of two collections
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

// working is a journal each of whose events is work.
type working struct {
	*journal
	ease *ease
}

// Record is journal's.
func (w working) Record(ev bailey.Event) {
	w.ease.work()
	w.journal.Record(ev)
}
