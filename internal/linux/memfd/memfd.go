// Package memfd makes a program out of bytes: a file in memory, without a
// name on any disk (memfd_create(2)).
package memfd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Executable returns a sealed file in memory that holds the image and can be
// executed by Path. It closes on exec; an error means that this machine does
// not allow it (vm.memfd_noexec), or has no memory.
func Executable(name, image string) (*os.File, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 the flag is unknown and the file executable
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("make a program in memory: %w", err)
	}
	// A child's own descriptors are put at 3 and up before it executes Path: a
	// file that lies there would be replaced by one of them.
	if high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, outOfTheWay); err == nil {
		_ = unix.Close(fd)
		fd = high
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = io.WriteString(f, image)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, fmt.Errorf("make a program in memory: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}

// outOfTheWay is above every descriptor that a child of bailey is given, and
// fits into the table that every process is born with, of 64: to enlarge the
// table of a process that has threads, the kernel waits until no other CPU can
// be reading the old one (expand_fdtable in fs/file.c), which takes 5 to 20 ms.
const outOfTheWay = 40

// Path is what to execute, as long as f is open in the process that does.
func Path(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }
