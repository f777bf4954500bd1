package watchdog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// staleTime is how long a dead starter's socket may go on taking connections:
// the kernel closes a process's descriptors one after the other, and ours may
// be closed before its listener.
const staleTime = time.Second

// removeStale removes a Unix socket that nobody listens on any more. One that
// still takes connections after staleTime is somebody else's by now.
func removeStale(path string) error {
	if path == "" {
		return nil
	}
	for end := time.Now().Add(staleTime); ; {
		err := knock(path)
		if errors.Is(err, unix.ECONNREFUSED) {
			break
		}
		if errors.Is(err, unix.ENOENT) || time.Now().After(end) {
			return nil
		}
		<-time.After(5 * time.Millisecond)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove socket: %w", err)
	}
	return nil
}

// knock tries to connect.
func knock(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("look at socket %s: %w", path, err)
	}
	return errors.Join(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), unix.Close(fd))
}
