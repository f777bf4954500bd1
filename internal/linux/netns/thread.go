package netns

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

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
