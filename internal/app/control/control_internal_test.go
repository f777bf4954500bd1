package control

import (
	"context"
	"net"
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

func TestCounted_CountsOpenConnections(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var told []int
	c := &counted{Listener: l, told: func(n int) { told = append(told, n) }}
	defer c.Close()
	var open []net.Conn
	for range 2 {
		out, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		in, err := c.Accept()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, in)
	}
	for _, in := range append(open, open...) { // a second close counts nothing
		_ = in.Close()
	}
	if len(told) != 4 || told[1] != 2 || told[3] != 0 {
		t.Errorf("%v", told)
	}
}
