package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// sandbox is the filter of ConfineSandbox: docker's default profile
// (profiles/seccomp/default.json of moby), without what a program in a sandbox
// has no business with. Calls that are looked at come first: the others the
// kernel finds in a table, without running the filter (seccomp_cache_prepare in
// kernel/seccomp.c).
func sandbox() filter {
	return filter{deadly: true, rules: slices.Concat(
		modes(), judged(),
		always(anyFile()...), always(anyMemory()...), always(anyProcess()...), always(anyIPC()...), always(anyOther()...), always(older()...),
		absent( // programs try these and have another way where the kernel lacks them
			unix.SYS_CLONE3, unix.SYS_OPENAT2, // what they do stands behind a pointer, where no filter can look
			unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
			unix.SYS_MEMFD_SECRET, unix.SYS_FANOTIFY_INIT, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_OPEN_TREE_ATTR,
		),
	)}
}

// setID are the set-user-ID and set-group-ID bits of a file (inode(7)). Inside
// they have no effect, but files of the workspace belong to the caller: on the
// host such a file lends the caller's identity to whoever can reach it.
const setID = unix.S_ISUID | unix.S_ISGID

// plain holds for a mode without such a bit.
func plain(mode uint32) condition { return condition{{index: mode, mask: setID, value: 0}} }

// creating is for open(2): without one of its flags the mode is not an argument
// at all.
func creating(flags, mode uint32) []condition {
	const makes = unix.O_CREAT | (unix.O_TMPFILE &^ unix.O_DIRECTORY)
	return []condition{{{index: flags, mask: makes, value: 0}}, plain(mode)}
}

// modes are the calls that give a file its mode.
func modes() []rule {
	return append([]rule{
		only(unix.SYS_OPENAT, creating(2, 3)...),
		only(unix.SYS_FCHMOD, plain(1)),
		only(unix.SYS_FCHMODAT, plain(2)),
		only(unix.SYS_FCHMODAT2, plain(2)),
		only(unix.SYS_MKNODAT, plain(2)),
	}, olderModes()...)
}

// judged are the other calls that depend on what is asked for.
func judged() []rule {
	const query = 0xffffffff
	return []rule{
		only(unix.SYS_CLONE, condition{{index: 0, mask: namespaces, value: 0}}),
		// Typing into the terminal one is attached to, the console's paste, and the
		// protocols that a terminal can be made to speak.
		unless(unix.SYS_IOCTL, condition{is(1, unix.TIOCSTI)}, condition{is(1, tioclinux)}, condition{is(1, unix.TIOCSETD)}),
		// A lease on a file makes whoever else opens it wait, for 45 seconds each
		// time, on the host too.
		unless(unix.SYS_FCNTL, condition{is(1, unix.F_SETLEASE)}),
		{call: unix.SYS_SOCKET, when: families(), errno: unix.EAFNOSUPPORT},
		{call: unix.SYS_SOCKETPAIR, when: []condition{{is(0, unix.AF_UNIX)}}, errno: unix.EAFNOSUPPORT},
		only(unix.SYS_PERSONALITY, condition{is(0, 0)}, condition{is(0, query)}),
	}
}

// tioclinux is of ioctl_console(2).
const tioclinux = 0x541c

// families are the sockets that can be made: of the machine itself, TCP, UDP,
// and what asks for links and routes.
func families() []condition {
	const kind, family, protocol = 0xf, 0, 2
	list := []condition{
		{is(family, unix.AF_UNIX)},
		{is(family, unix.AF_NETLINK), is(protocol, unix.NETLINK_ROUTE)},
	}
	for _, f := range []uint32{unix.AF_INET, unix.AF_INET6} {
		stream, packets := argument{1, kind, unix.SOCK_STREAM}, argument{1, kind, unix.SOCK_DGRAM}
		list = append(
			list,
			condition{is(family, f), stream, is(protocol, 0)},
			condition{is(family, f), stream, is(protocol, unix.IPPROTO_TCP)},
			condition{is(family, f), packets, is(protocol, 0)},
			condition{is(family, f), packets, is(protocol, unix.IPPROTO_UDP)},
		)
	}
	return list
}

// anyFile are calls on files and descriptors.
func anyFile() []uintptr {
	return []uintptr{
		unix.SYS_CHDIR, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_COPY_FILE_RANGE, unix.SYS_DUP, unix.SYS_DUP3,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2,
		unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_FADVISE64, unix.SYS_FALLOCATE, unix.SYS_FCHDIR, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_FDATASYNC, unix.SYS_FGETXATTR, unix.SYS_FLISTXATTR, unix.SYS_FLOCK, unix.SYS_FREMOVEXATTR,
		unix.SYS_FSETXATTR, unix.SYS_FSTAT, unix.SYS_FSTATFS, unix.SYS_FSYNC, unix.SYS_FTRUNCATE, unix.SYS_GETCWD, unix.SYS_GETDENTS64,
		unix.SYS_GETXATTR, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_RM_WATCH,
		unix.SYS_LGETXATTR, unix.SYS_LINKAT, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_LSEEK, unix.SYS_LSETXATTR,
		unix.SYS_MEMFD_CREATE, unix.SYS_MKDIRAT, unix.SYS_NEWFSTATAT, unix.SYS_PIPE2, unix.SYS_PPOLL, unix.SYS_PREAD64, unix.SYS_PREADV,
		unix.SYS_PREADV2, unix.SYS_PSELECT6, unix.SYS_PWRITE64, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_READ, unix.SYS_READAHEAD,
		unix.SYS_READLINKAT, unix.SYS_READV, unix.SYS_REMOVEXATTR, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_SENDFILE, unix.SYS_SETXATTR,
		unix.SYS_SIGNALFD4, unix.SYS_SPLICE, unix.SYS_STATFS, unix.SYS_STATX, unix.SYS_SYMLINKAT, unix.SYS_SYNC, unix.SYS_SYNC_FILE_RANGE,
		unix.SYS_SYNCFS, unix.SYS_TEE, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_GETTIME, unix.SYS_TIMERFD_SETTIME, unix.SYS_TRUNCATE,
		unix.SYS_UMASK, unix.SYS_UNLINKAT, unix.SYS_UTIMENSAT, unix.SYS_WRITE, unix.SYS_WRITEV,
		unix.SYS_IO_CANCEL, unix.SYS_IO_DESTROY, unix.SYS_IO_GETEVENTS, unix.SYS_IO_PGETEVENTS, unix.SYS_IO_SETUP, unix.SYS_IO_SUBMIT,
		unix.SYS_CACHESTAT,
	}
}

// anyMemory are calls on the caller's own memory.
func anyMemory() []uintptr {
	return []uintptr{
		unix.SYS_BRK, unix.SYS_MADVISE, unix.SYS_MEMBARRIER, unix.SYS_MINCORE, unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MLOCKALL,
		unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MSEAL, unix.SYS_MSYNC, unix.SYS_MUNLOCK, unix.SYS_MUNLOCKALL, unix.SYS_MUNMAP,
		unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT,
	}
}

// anyProcess are calls on processes and threads, all of which are of the same
// sandbox. A tracer cannot have its child make a call that is refused: the
// kernel asks the filter after the tracer.
func anyProcess() []uintptr {
	return []uintptr{
		unix.SYS_CAPGET, unix.SYS_CAPSET, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
		unix.SYS_FUTEX, unix.SYS_FUTEX_REQUEUE, unix.SYS_FUTEX_WAIT, unix.SYS_FUTEX_WAITV, unix.SYS_FUTEX_WAKE,
		unix.SYS_GET_ROBUST_LIST, unix.SYS_GETEGID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETGROUPS, unix.SYS_GETPGID, unix.SYS_GETPID,
		unix.SYS_GETPPID, unix.SYS_GETPRIORITY, unix.SYS_GETRESGID, unix.SYS_GETRESUID, unix.SYS_GETRUSAGE, unix.SYS_GETSID, unix.SYS_GETTID,
		unix.SYS_GETUID, unix.SYS_IOPRIO_GET, unix.SYS_IOPRIO_SET, unix.SYS_KILL,
		unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_RESTRICT_SELF,
		unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PRCTL, unix.SYS_PRLIMIT64, unix.SYS_PTRACE, unix.SYS_RESTART_SYSCALL,
		unix.SYS_RSEQ, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_SIGRETURN,
		unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_TGSIGQUEUEINFO,
		unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_GETATTR,
		unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_RR_GET_INTERVAL, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_YIELD,
		unix.SYS_SECCOMP, unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_SETFSGID, unix.SYS_SETFSUID, unix.SYS_SETGID,
		unix.SYS_SETGROUPS, unix.SYS_SETPGID, unix.SYS_SETPRIORITY, unix.SYS_SETREGID, unix.SYS_SETRESGID, unix.SYS_SETRESUID,
		unix.SYS_SETREUID, unix.SYS_SETSID, unix.SYS_SETUID, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL, unix.SYS_TKILL, unix.SYS_WAIT4, unix.SYS_WAITID,
	}
}

// anyIPC are sockets that are there, and what processes share. System V's
// memory and messages are not among it: they belong to no process, so that
// nobody but a cgroup counts them.
func anyIPC() []uintptr {
	return []uintptr{
		unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKNAME, unix.SYS_GETSOCKOPT,
		unix.SYS_LISTEN, unix.SYS_RECVFROM, unix.SYS_RECVMMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_SENDMSG, unix.SYS_SENDTO,
		unix.SYS_SETSOCKOPT, unix.SYS_SHUTDOWN,
		unix.SYS_MQ_GETSETATTR, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_OPEN, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_UNLINK,
		unix.SYS_SEMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
	}
}

// anyOther are time, and what is asked about the machine.
func anyOther() []uintptr {
	return []uintptr{
		unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_GETCPU, unix.SYS_GETITIMER, unix.SYS_GETRANDOM,
		unix.SYS_GETTIMEOFDAY, unix.SYS_NANOSLEEP, unix.SYS_SETITIMER, unix.SYS_SYSINFO,
		unix.SYS_TIMER_CREATE, unix.SYS_TIMER_DELETE, unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_SETTIME,
		unix.SYS_TIMES, unix.SYS_UNAME,
	}
}
