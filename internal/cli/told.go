package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/bailey-dev/bailey"
)

// toldError is the cause of a context that a signal ended.
type toldError syscall.Signal

// Error names the signal.
func (e toldError) Error() string { return "interrupted: " + syscall.Signal(e).String() }

// untilTold is a context that ends when somebody tells this process to end,
// with a toldError as its cause, so that what was made is taken away before. A
// signal that this process was started to ignore, as by nohup(1), is left alone.
// The caller calls stop.
func untilTold(parent context.Context) (ctx context.Context, stop func()) {
	list := slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	ctx, cancel := context.WithCancelCause(parent)
	if len(list) == 0 { // Notify takes none for all
		return ctx, func() { cancel(nil) }
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, list...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				cancel(toldError(n))
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
		signal.Stop(signals)
	}
}

// exitTold is the exit code of the signal that ended a context of untilTold, or
// nil.
func exitTold(ctx context.Context) error {
	if e, ok := errors.AsType[toldError](context.Cause(ctx)); ok {
		return exitError(bailey.ExitSignalBase + int(e))
	}
	return nil
}
