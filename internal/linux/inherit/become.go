package inherit

import (
	"fmt"
	"os"
	"syscall"
)

// First is the number of the first descriptor behind the standard three.
const First = 3

// Become replaces this program by another one, which keeps the process and its
// standard descriptors, and has the files as First and those after it. It
// returns only if that fails; the descriptors are then not what they were.
func Become(path, name string, env []string, files ...*os.File) error {
	const above = 64 // out of the way of those that are put below
	for i, f := range files {
		fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_DUPFD_CLOEXEC, above)
		if errno != 0 {
			return fmt.Errorf("hand on descriptor %d: %w", First+i, errno)
		}
		files[i] = os.NewFile(fd, f.Name())
	}
	for i, f := range files {
		if err := syscall.Dup3(int(f.Fd()), First+i, 0); err != nil {
			return fmt.Errorf("hand on descriptor %d: %w", First+i, err)
		}
	}
	if err := syscall.Exec(path, []string{name}, env); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}
