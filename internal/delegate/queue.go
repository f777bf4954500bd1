package delegate

import (
	"slices"
	"sync"

	"github.com/bailey-dev/bailey/internal/task"
)

// queue hands out places: so many agents of each model, and so many in all.
// Who came first is served first, but for those whose model is full.
type queue struct {
	mu      sync.Mutex
	most    int // in all
	busy    map[string]int
	total   int
	waiting []*ticket
}

// ticket is one task's place.
type ticket struct {
	model string
	limit int                 // of the model; 0: any number
	moved func(place, of int) // tells the task its place in the queue of its model; called under the lock
	ready chan struct{}       // closed when it has a place
	has   bool
	gone  bool
	place int // that it was told
}

func newQueue() *queue { return &queue{busy: make(map[string]int)} }

// enter lines a task up. One that has its place already, since its agent runs,
// gets it whatever the bounds are.
func (q *queue) enter(model string, limit int, has bool, moved func(place, of int)) *ticket {
	t := &ticket{model: model, limit: limit, moved: moved, ready: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if has {
		q.give(t)
		return t
	}
	q.waiting = append(q.waiting, t)
	q.serve()
	return t
}

// leave gives the place back, or stops waiting. It may be called again.
func (q *queue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.gone {
		return
	}
	t.gone = true
	if t.has {
		q.total--
		if q.busy[t.model]--; q.busy[t.model] == 0 {
			delete(q.busy, t.model)
		}
	} else {
		q.waiting = slices.DeleteFunc(q.waiting, func(w *ticket) bool { return w == t })
	}
	q.serve()
}

// bound sets how many may have a place in all; 0 is task.MostAgents.
func (q *queue) bound(most int) {
	if most <= 0 || most > task.MostAgents {
		most = task.MostAgents
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.most != most {
		q.most = most
		q.serve()
	}
}

func (q *queue) give(t *ticket) {
	t.has = true
	q.total++
	q.busy[t.model]++
	close(t.ready)
}

// serve gives places to those that can have one, and tells the others theirs.
func (q *queue) serve() {
	q.waiting = slices.DeleteFunc(q.waiting, func(t *ticket) bool {
		if q.total >= q.most || t.limit > 0 && q.busy[t.model] >= t.limit {
			return false
		}
		q.give(t)
		return true
	})
	of := make(map[string]int)
	for _, t := range q.waiting {
		of[t.model]++
	}
	place := make(map[string]int)
	for _, t := range q.waiting {
		place[t.model]++
		if t.place != place[t.model] {
			t.place = place[t.model]
			t.moved(t.place, of[t.model])
		}
	}
}

// load says how many agents of a model have a place, and how many wait.
func (q *queue) load(model string) (busy, queued int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.waiting {
		if t.model == model {
			queued++
		}
	}
	return q.busy[model], queued
}

// placeOf is a task's place in the queue of its model, from 1; 0 for one that
// does not wait.
func (q *queue) placeOf(t *ticket) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.has || t.gone {
		return 0
	}
	return t.place
}
