package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Run runs fn on a thread of its own and returns what fn returned. The thread
// ends with fn, so fn may change it as it likes: no goroutine ever runs on it
// again, and Go starts new threads from a clean one while a thread is locked
// (runtime.LockOSThread).
func Run(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end, and /proc/PID shows its state as
			// that of the process. Hold it, so that the next goroutine gets
			// another one.
			done <- Run(fn)
			runtime.UnlockOSThread()
			return
		}
		done <- fn()
	}()
	return <-done
}
