package netns

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread runs fn on a thread of its own and returns what fn returned. The
// thread ends with fn, so fn may move it into other namespaces: no goroutine
// ever runs on it again, and Go starts new threads from a clean one while a
// thread is locked (runtime.LockOSThread).
func OnThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end, and /proc/self shows its namespaces
			// as those of the process. Hold it, so that the next goroutine
			// gets another one.
			done <- OnThread(fn)
			runtime.UnlockOSThread()
			return
		}
		done <- fn()
	}()
	return <-done
}

// New moves the calling thread into a new network namespace and returns a
// descriptor of it. The namespace lives as long as the descriptor, a thread or
// a socket in it does. The caller closes the file.
func New() (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("unshare network namespace: %w", err)
	}
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	return f, nil
}

// Enter moves the calling thread into the namespace ns.
func Enter(ns *os.File) error {
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return nil
}
