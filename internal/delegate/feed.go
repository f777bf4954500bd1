package delegate

import (
	"sync"

	"github.com/bailey-dev/bailey/internal/task"
)

// mostTold is how much of what happened to a task is kept for who follows it
// late; what is older goes.
const mostTold = 2000

// feed is what happened to a task. Any number may follow it, each as fast as
// it likes: nobody who is slow holds up the task.
type feed struct {
	mu     sync.Mutex
	first  int // number of items[0]
	items  []task.Progress
	ended  bool
	change chan struct{} // closed at the next change
}

func newFeed() *feed { return &feed{change: make(chan struct{})} }

func (f *feed) tell(p task.Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	f.items = append(f.items, p)
	if len(f.items) > mostTold {
		drop := mostTold / 4
		f.items = append(f.items[:0:0], f.items[drop:]...)
		f.first += drop
	}
	f.wake()
}

// end says that nothing more comes.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended = true
		f.wake()
	}
}

func (f *feed) wake() {
	close(f.change)
	f.change = make(chan struct{})
}

// from returns what there is from a number on, the number behind it, and what
// to wait for if it has not ended.
func (f *feed) from(n int) (items []task.Progress, next int, ended bool, change <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = max(n, f.first)
	items = append(items, f.items[min(n-f.first, len(f.items)):]...)
	return items, n + len(items), f.ended, f.change
}
