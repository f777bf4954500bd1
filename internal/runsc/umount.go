package runsc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Umount is gVisor's "umount" command: `--sync-fd=FD DIR` waits for one byte
// on FD and then detaches the mount at DIR. A sandbox starts one to be rid of
// /proc; as a command of gVisor it takes as long to start as the sandbox's
// kernel does. It returns the exit code.
func Umount(args []string) int {
	if err := umount(args); err != nil {
		fmt.Fprintln(os.Stderr, "umount:", err)
		return 1
	}
	return 0
}

func umount(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want --sync-fd=FD DIR, have %q", args)
	}
	number, ok := strings.CutPrefix(args[0], "--sync-fd=")
	fd, err := strconv.Atoi(number)
	if !ok || err != nil || fd < 0 {
		return fmt.Errorf("want --sync-fd=FD, have %q", args[0])
	}
	sync := os.NewFile(uintptr(fd), "sync")
	if n, err := sync.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("wait on descriptor %d: %w", fd, err)
	}
	if err := syscall.Unmount(args[1], syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", args[1], err)
	}
	return nil
}
