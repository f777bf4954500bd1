package delegate

import (
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/task"
)

// entry is a task in memory.
type entry struct {
	id     task.ID
	ticket *ticket       // nil for one that is done
	cancel chan struct{} // closed when somebody asked for the end
	over   chan struct{} // closed when the task is done
	old    bool          // it was begun by a service before this one
	broken error         // its record cannot be read: it can only be forgotten

	mu       sync.Mutex
	r        record
	feed     *feed
	stopping bool // cancel is closed
	saving   sync.Mutex
}

func newEntry(r *record) *entry {
	return &entry{id: r.Task.ID, r: *r, feed: newFeed(), cancel: make(chan struct{}), over: make(chan struct{})}
}

// feeds is what happened to the task since the service began, while it is not
// done.
func (e *entry) feeds() *feed {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.feed
}

// quiet ends what is told, and lets go of it: who follows has it still.
func (e *entry) quiet() {
	e.feeds().end()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.feed = newFeed()
	e.feed.end()
}

func (e *entry) edit(f func(*record)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.r)
}

func look[T any](e *entry, f func(*record) T) T {
	e.mu.Lock()
	defer e.mu.Unlock()
	return f(&e.r)
}

// copied is the record as it is now. What its slices hold is not changed later.
func (e *entry) copied() record { return look(e, func(r *record) record { return *r }) }

func (e *entry) step() step           { return look(e, func(r *record) step { return r.Step }) }
func (e *entry) begun() bool          { return look(e, func(r *record) bool { return r.Begun }) }
func (e *entry) cancelled() bool      { return look(e, func(r *record) bool { return r.Cancel }) }
func (e *entry) keeps() bool          { return look(e, func(r *record) bool { return r.Keep }) }
func (e *entry) checkedAlready() bool { return look(e, func(r *record) bool { return r.Check != nil }) }

func (e *entry) subdir() string { return look(e, func(r *record) string { return r.Snapshot.Subdir }) }

func (e *entry) task() task.Task { return look(e, func(r *record) task.Task { return r.Task }) }

func (e *entry) request() *task.Request {
	return look(e, func(r *record) *task.Request { q := r.Request; return &q })
}

// askEnd marks that the end was asked for, once.
func (e *entry) askEnd() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.r.Cancel = true
	if !e.stopping {
		e.stopping = true
		close(e.cancel)
	}
}

func firstOf(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}
