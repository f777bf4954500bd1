package harden

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process makes the process undumpable (no ptrace, no /proc/PID/mem for
// others of the same user, prctl(2)), bars every thread of it from gaining
// privileges by exec, and sets its core size limit to zero for good.
func Process() error {
	if err := Undumpable(); err != nil {
		return err
	}
	if err := noNewPrivileges(); err != nil {
		return fmt.Errorf("set no-new-privileges: %w", err)
	}
	return NoCore()
}

// NoCore sets the core size limit to zero for good, for the process and what
// it starts: a core file holds what memory held.
func NoCore() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0}); err != nil {
		return fmt.Errorf("limit core size: %w", err)
	}
	return nil
}

// NoDump is NoCore for a program that the host's kernel runs for strangers. Where
// the kernel hands core dumps to a program (a core_pattern that begins with "|"),
// it does so whatever the limit, and as root; but for a limit of one byte, which
// it takes as a request for none (core(5), do_coredump in fs/coredump.c), and
// which no file of a core fits in either. Whoever starts a sandbox calls it, and
// not NoCore: what was given up cannot be had again. Where that was given up
// before, it is NoCore, and CoresLeave tells.
func NoDump() error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if errors.Is(err, unix.EPERM) {
		return NoCore()
	}
	if err != nil {
		return fmt.Errorf("limit core size: %w", err)
	}
	return nil
}

// MakeRoom raises a hard limit of 0 to what NoDump needs, where the process may.
func MakeRoom() {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &lim); err == nil && lim.Max == 0 {
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 1}) // CoresLeave tells
	}
}

// CoresLeave reports whether NoDump would not keep core dumps from a program of
// the host's: its limit cannot be had, and there is such a program.
func CoresLeave() (bool, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &lim); err != nil || lim.Max > 0 {
		return false, err //nolint:wrapcheck // the caller says what it was for
	}
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	return bytes.HasPrefix(pattern, []byte("|")), err //nolint:wrapcheck // likewise
}

// Undumpable is the first part of Process alone, for a role that has set
// no-new-privileges itself.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make process undumpable: %w", err)
	}
	return nil
}

// KeepDescriptors marks every descriptor above the standard three so that no
// program the process starts inherits it: what a shell or a supervisor left
// open is nobody's business in a sandbox. Descriptors that are passed on
// deliberately are passed as copies.
func KeepDescriptors() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep descriptors from children: %w", err)
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

// OwnKeyring gives the calling thread, and what it starts, an empty session
// keyring in place of the caller's (session-keyring(7)). Where the kernel has no
// keys, or its quota is used up, it stays: a filter has to refuse the calls.
func OwnKeyring() {
	_, _, _ = unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
}

// Limit lowers a limit of the process and what it starts to n, or to what it
// may have at most, for good.
func Limit(resource int, n int64) error {
	var l unix.Rlimit
	err := unix.Getrlimit(resource, &l)
	if err == nil {
		most := min(uint64(max(n, 0)), l.Max)
		err = unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most})
	}
	if err != nil {
		return fmt.Errorf("set resource limit %d: %w", resource, err)
	}
	return nil
}
