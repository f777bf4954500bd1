package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Adopt has the kernel give this process the descendants whose parents end, in
// place of the machine's first process (PR_SET_CHILD_SUBREAPER): whoever starts
// a tree of processes can then see that all of it is gone. It has to Reap them.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// Children returns the children of this process, those that have ended and were
// not waited for among them.
func Children() []int { return children(os.Getpid()) }

// Reap takes note of the end of a child, and reports whether it is gone: it has
// ended now or before.
func Reap(pid int) bool {
	for {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err != nil || got == pid
	}
}

// BootID names the time since the machine was started: an Identity means
// nothing in another. It is empty where the kernel does not tell.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(b) < 36 {
		return ""
	}
	return string(b[:36])
}
