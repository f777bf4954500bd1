package control

import (
	"context"
	"sync"

	"github.com/bailey-dev/bailey/internal/launcher"
)

// teller is the part of launcher.Host that wants to know who needs the service.
type teller interface {
	Activity(ctx context.Context, a launcher.Activity) error
}

// activity tells the launcher how many clients and tasks there are, at each
// change. Who counts does not wait for it.
type activity struct {
	to     teller
	change chan struct{} // of one place

	mu             sync.Mutex
	unixes, others int
	now            launcher.Activity
}

func newActivity(to teller) *activity { return &activity{to: to, change: make(chan struct{}, 1)} }

func (a *activity) tasks(n int) { a.set(func() { a.now.Tasks = n }) }
func (a *activity) unix(n int)  { a.set(func() { a.unixes = n }) }
func (a *activity) mcp(n int)   { a.set(func() { a.others = n }) }

// resumed is told once, of what a service before this one left.
func (a *activity) resumed(n int) { a.set(func() { a.now.Resumed = n }) }

func (a *activity) set(f func()) {
	a.mu.Lock()
	f()
	a.now.Clients = a.unixes + a.others
	a.mu.Unlock()
	select {
	case a.change <- struct{}{}:
	default: // it will be told what is so by then
	}
}

// run tells until ctx ends.
func (a *activity) run(ctx context.Context) {
	for {
		select {
		case <-a.change:
		case <-ctx.Done():
			return
		}
		a.mu.Lock()
		now := a.now
		a.mu.Unlock()
		if err := a.to.Activity(ctx, now); err != nil && ctx.Err() == nil {
			say("tell the launcher who needs the service: " + err.Error())
		}
	}
}
