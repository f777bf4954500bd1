package sandboxd

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/wire"
)

// settle makes this process one that hands nothing of its own to a child and
// shows nothing of its memory.
func settle() error {
	// Same user as the agent: without this the agent could read our memory,
	// where the environment of every command was, by /proc/1/mem or ptrace.
	if err := errors.Join(harden.Undumpable(), harden.KeepDescriptors()); err != nil {
		return err
	}
	if err := unix.SetNonblock(wire.FD, true); err != nil {
		return fmt.Errorf("prepare wire: %w", err)
	}
	if os.Getpid() != 1 {
		// The first process gets the orphans anyway.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become reaper: %w", err)
		}
	}
	return defaultSignals()
}

// sigaction is struct sigaction of the kernel on amd64; arm64 has the same
// fields but for the restorer, which is then part of the mask's room.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	sigDefault = 0
	sigIgnore  = 1
	sigCount   = 64
	sigSetSize = 8
)

// defaultSignals gives every signal that the caller had us ignore its default
// action, since a child would ignore it too (A5: no Ctrl-C). The runtime sees
// to those that it handles.
func defaultSignals() error {
	for s := 1; s <= sigCount; s++ {
		if s == int(syscall.SIGKILL) || s == int(syscall.SIGSTOP) || s == int(syscall.SIGPIPE) {
			continue
		}
		var now sigaction
		if err := rtSigaction(s, nil, &now); err != nil {
			return err
		}
		if now.handler != sigIgnore {
			continue
		}
		now.handler = sigDefault
		if err := rtSigaction(s, &now, nil); err != nil {
			return err
		}
	}
	return nil
}

func rtSigaction(s int, set, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), sigSetSize, 0, 0)
	if errno != 0 && !errors.Is(errno, unix.EINVAL) {
		return fmt.Errorf("read action of signal %d: %w", s, errno)
	}
	return nil
}
