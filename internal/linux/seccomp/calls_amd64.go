package seccomp

import "golang.org/x/sys/unix"

// architecture is what the kernel says of a call of this program's
// (linux/audit.h).
const architecture = unix.AUDIT_ARCH_X86_64

// machineOnly are calls of this architecture alone that reach into the machine.
func machineOnly() []uintptr {
	return []uintptr{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_SYSFS, unix.SYS_MKNOD}
}

// older are calls that only this architecture still has beside the newer ones
// that do the same.
func older() []uintptr {
	return []uintptr{
		unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_ARCH_PRCTL, unix.SYS_CHOWN, unix.SYS_DUP2, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT,
		unix.SYS_EVENTFD, unix.SYS_FORK, unix.SYS_FUTIMESAT, unix.SYS_GETDENTS, unix.SYS_GETPGRP, unix.SYS_GETRLIMIT,
		unix.SYS_INOTIFY_INIT, unix.SYS_LCHOWN, unix.SYS_LINK, unix.SYS_LSTAT, unix.SYS_MKDIR, unix.SYS_PAUSE, unix.SYS_PIPE,
		unix.SYS_POLL, unix.SYS_READLINK, unix.SYS_RENAME, unix.SYS_RMDIR, unix.SYS_SELECT, unix.SYS_SETRLIMIT, unix.SYS_SIGNALFD,
		unix.SYS_STAT, unix.SYS_SYMLINK, unix.SYS_TIME, unix.SYS_UNLINK, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_VFORK,
		unix.SYS_MAP_SHADOW_STACK,
	}
}

// olderModes are those of them that give a file its mode.
func olderModes() []rule {
	return []rule{
		only(unix.SYS_OPEN, creating(1, 2)...),
		only(unix.SYS_CREAT, plain(1)),
		only(unix.SYS_CHMOD, plain(1)),
		only(unix.SYS_MKNOD, plain(1)),
	}
}
