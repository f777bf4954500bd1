package seccomp

import "golang.org/x/sys/unix"

// architecture is what the kernel says of a call of this program's
// (linux/audit.h).
const architecture = unix.AUDIT_ARCH_X86_64

// machineOnly are calls of this architecture alone that reach into the machine.
func machineOnly() []uintptr {
	return []uintptr{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_SYSFS, unix.SYS_MKNOD}
}
