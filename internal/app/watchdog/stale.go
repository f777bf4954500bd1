package watchdog

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// removeStale removes a Unix socket that nobody listens on any more.
func removeStale(path string) error {
	if path == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("look at socket %s: %w", path, err)
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	if cerr := unix.Close(fd); cerr != nil {
		return cerr
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return nil // in use again, or gone
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove socket: %w", err)
	}
	return nil
}
