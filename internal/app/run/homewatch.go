package run

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/watch"
)

// homeLimit is the name of the limit on a home's growth, which is its flag's.
const homeLimit = "home-disk"

// homeWatch keeps the growth of a home in bounds: a watchdog of its own, since
// one counts one folder. All else is the first one's.
type homeWatch struct {
	dog  *watch.Client
	over atomic.Bool
	gone chan struct{}
}

// watchHome starts it.
func (u *running) watchHome() error {
	hp := u.plan.home
	if hp == nil || hp.open == nil {
		return nil
	}
	m, err := hp.open.Mount("/")
	if err != nil {
		return err
	}
	dog, err := watch.Start(watchdogCommand(), watch.Settings{
		Workspace: m.Source, DiskBytes: hp.growth, Inodes: u.plan.spec.Limits.Inodes, Started: u.stamped,
	})
	if err != nil {
		return fmt.Errorf("for the home: %w", err)
	}
	hp.watch = &homeWatch{dog: dog, gone: make(chan struct{})}
	return nil
}

// awaitHome waits until it watches: nothing of the sandbox runs before.
func (u *running) awaitHome(helper int) error {
	hp := u.plan.home
	if hp == nil || hp.watch == nil {
		return nil
	}
	id, err := proc.Identify(helper)
	if err != nil {
		return fmt.Errorf("identify helper: %w", err)
	}
	if err := hp.watch.dog.Helper(id); err != nil {
		return fmt.Errorf("for the home: %w", err)
	}
	if _, err := hp.watch.dog.Ready(); err != nil {
		return fmt.Errorf("for the home: %w", err)
	}
	go u.hearHome(hp.watch)
	return nil
}

// hearHome turns what it reports into the end of the run.
func (u *running) hearHome(w *homeWatch) {
	defer close(w.gone)
	for {
		r, err := w.dog.Next()
		if err != nil {
			break
		}
		message := strings.ReplaceAll(r.Message, "the workspace has", "the home has")
		message = strings.ReplaceAll(message, "of the workspace", "of the home")
		limit, flag := homeLimit, "--home-disk"
		if r.Limit == watch.Inodes {
			limit, flag = watch.Inodes, "--inodes"
		}
		u.stop <- ending{reason: limit, message: message + "; " + flag + " raises it", at: time.Now()}
	}
	if !w.over.Load() && !u.gone() {
		u.stop <- ending{reason: reasonWatchdog, message: "the watchdog of the home ended, and with it the limit on its growth"}
	}
}

// close ends it.
func (w *homeWatch) close() error {
	if w == nil || w.over.Swap(true) {
		return nil
	}
	return w.dog.Done() //nolint:wrapcheck // it names the watchdog
}
