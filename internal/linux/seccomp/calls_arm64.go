package seccomp

import "golang.org/x/sys/unix"

// architecture is what the kernel says of a call of this program's
// (linux/audit.h).
const architecture = unix.AUDIT_ARCH_AARCH64

// machineOnly are calls of this architecture alone that reach into the machine.
func machineOnly() []uintptr { return nil }

// older are calls that another architecture has for what newer ones do.
func older() []uintptr { return []uintptr{unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT} }

// olderModes are those of them that give a file its mode.
func olderModes() []rule { return nil }
