package run

import (
	"os/exec"

	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/watch"
)

// Watchdog is one that was started ahead of its use: its program starts while
// the run is planned. Nil is none.
type Watchdog struct {
	started chan *watch.Client // one, or nil; closed when it was taken
}

// LaunchWatchdog starts one. Whoever calls it abandons it.
func LaunchWatchdog() *Watchdog {
	w := &Watchdog{make(chan *watch.Client, 1)}
	go func() {
		defer close(w.started)
		c, err := watch.Launch(watchdogCommand())
		if err == nil { // else the run starts its own, and says what is wrong
			w.started <- c
		}
	}()
	return w
}

func watchdogCommand() *exec.Cmd {
	program, _ := launch.Program()
	return &exec.Cmd{Path: program, Args: []string{watch.Argv0}, Env: []string{}, Dir: "/"}
}

// begin has the watchdog that was started ahead, or a new one, watch.
func (w *Watchdog) begin(s watch.Settings) (*watch.Client, error) {
	if w != nil {
		if c := <-w.started; c != nil {
			return c, c.Begin(s) //nolint:wrapcheck // it names the watchdog
		}
	}
	return watch.Start(watchdogCommand(), s) //nolint:wrapcheck // likewise
}

// Abandon ends one that nobody has used.
func (w *Watchdog) Abandon() {
	if w != nil {
		if c := <-w.started; c != nil {
			c.Abandon()
		}
	}
}
