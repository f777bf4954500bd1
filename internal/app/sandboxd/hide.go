package sandboxd

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/hide"
	"github.com/bailey-dev/bailey/internal/wire"
)

// hideFiles has the sandbox's kernel hide files of a mount (hide.Call).
func hideFiles(h wire.Hide) error {
	path, rules := []byte(h.Path), h.Rules
	_, _, errno := unix.RawSyscall6(unix.SYS_PRCTL, hide.Call, address(path), uintptr(len(path)), address(rules), uintptr(len(rules)), 0)
	runtime.KeepAlive(path)
	runtime.KeepAlive(rules)
	switch {
	case errors.Is(errno, unix.EBUSY):
		return errors.New("hide files: something runs already")
	case errno != 0:
		return fmt.Errorf("hide files of %s: %w", h.Path, errno)
	}
	return nil
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
