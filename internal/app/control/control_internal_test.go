package control

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bailey-dev/bailey/internal/launcher"
)

type teller1 struct {
	mu   sync.Mutex
	told []launcher.Activity
}

func (t *teller1) Activity(_ context.Context, a launcher.Activity) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = append(t.told, a)
	return nil
}

// TestActivity_TellsWhatIsSo: the last that is told is how things are, however
// many changes came before.
func TestActivity_TellsWhatIsSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := &teller1{}
		a := newActivity(to)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.run(ctx) }()
		for n := range 100 {
			a.tasks(n)
			a.unix(2 * n)
			a.mcp(1)
		}
		synctest.Wait()
		if got := to.told[len(to.told)-1]; got != (launcher.Activity{Clients: 199, Tasks: 99}) {
			t.Errorf("%+v", got)
		}
		a.tasks(0)
		a.unix(0)
		a.mcp(0)
		synctest.Wait()
		if got := to.told[len(to.told)-1]; got != (launcher.Activity{}) {
			t.Errorf("%+v", got)
		}
		cancel()
		<-done
	})
}
