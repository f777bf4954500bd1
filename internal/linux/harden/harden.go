package harden

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process makes the process undumpable (no ptrace, no /proc/PID/mem for
// others of the same user, prctl(2)), bars every thread of it from gaining
// privileges by exec, and sets its core size limit to zero for good.
func Process() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make process undumpable: %w", err)
	}
	if err := noNewPrivileges(); err != nil {
		return fmt.Errorf("set no-new-privileges: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0}); err != nil {
		return fmt.Errorf("limit core size: %w", err)
	}
	return nil
}

// noNewPrivileges acts on all threads. A binary with cgo cannot do that
// (syscall.AllThreadsSyscall); there the calling thread and those it starts
// have to do, as threads inherit it.
func noNewPrivileges() error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	switch errno {
	case 0:
		return nil
	case syscall.ENOTSUP:
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	return errno
}
