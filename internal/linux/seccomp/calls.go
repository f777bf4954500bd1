package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// confined is the filter of Confine for a process with that id.
func confined(n Needs, pid int) filter {
	rules := slices.Concat(memory(), threads(uint32(pid)), descriptors(), sockets(), files(), own())
	if n.Folder {
		rules = append(rules, always(unix.SYS_MKDIRAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT)...)
	}
	return filter{rules: append(rules, dial(n)...)}
}

// memory is had without code in it: what is executed is what was there.
func memory() []rule {
	data := condition{{index: 2, mask: unix.PROT_EXEC, value: 0}}
	return append(
		always(unix.SYS_BRK, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_MINCORE),
		only(unix.SYS_MMAP, data), only(unix.SYS_MPROTECT, data),
	)
}

// threads are made, wait, and are signalled by their own process: Go's runtime
// interrupts its threads by tgkill, and ends the process by kill. The C library
// tries clone3 first, whose flags a filter cannot see, and clone where that is
// not there.
func threads(pid uint32) []rule {
	return append(
		always(
			unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
			unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
			unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
			unix.SYS_RESTART_SYSCALL, unix.SYS_GETTID, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
		),
		only(unix.SYS_CLONE, condition{{index: 0, mask: namespaces | unix.CLONE_THREAD, value: unix.CLONE_THREAD}}),
		rule{call: unix.SYS_CLONE3, absent: true},
		only(unix.SYS_TGKILL, condition{is(0, pid)}),
		only(unix.SYS_KILL, condition{is(0, pid)}),
	)
}

// namespaces are the flags of clone(2) that make any. That of time has no bit
// there.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// descriptors are read, written, copied, waited for and closed. Whom a
// descriptor signals when it is ready (F_SETOWN, F_SETSIG), and with what, is
// not chosen: that would be another kill.
func descriptors() []rule {
	var commands []condition
	for _, c := range []uint32{
		unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL,
		unix.F_GETPIPE_SZ, unix.F_SETPIPE_SZ, unix.F_ADD_SEALS, unix.F_GET_SEALS,
	} {
		commands = append(commands, condition{is(1, c)})
	}
	return append(
		always(
			unix.SYS_READ, unix.SYS_READV, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_PWRITE64,
			unix.SYS_LSEEK, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FTRUNCATE, unix.SYS_FLOCK,
			unix.SYS_PIPE2, unix.SYS_SPLICE, unix.SYS_SENDFILE, unix.SYS_COPY_FILE_RANGE, unix.SYS_MEMFD_CREATE,
			unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_PPOLL,
			unix.SYS_CLOSE,
		),
		only(unix.SYS_FCNTL, commands...),
	)
}

// sockets that are there are used, and those that listen are accepted from.
func sockets() []rule {
	return always(
		unix.SYS_ACCEPT4, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SHUTDOWN,
		unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT,
	)
}

// files are opened as far as Landlock lets them be, and looked at.
func files() []rule {
	return always(
		unix.SYS_OPENAT, unix.SYS_FSTAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2,
		unix.SYS_READLINKAT, unix.SYS_GETDENTS64, unix.SYS_GETCWD,
	)
}

// own is what a process asks about itself and its machine. Go's runtime names
// its memory where the kernel lets it.
func own() []rule {
	return append(
		always(
			unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID,
			unix.SYS_GETRANDOM, unix.SYS_UNAME,
		),
		only(unix.SYS_PRLIMIT64, condition{is(0, 0)}),
		only(unix.SYS_PRCTL, condition{is(0, unix.PR_SET_VMA)}),
	)
}

// dial is what makes sockets. Of the protocols it has those of TCP and UDP
// alone: Landlock does not see multipath TCP.
func dial(n Needs) []rule {
	const kind, family, protocol = 0xf, 0, 2 // kind: the mask of a socket's type without its flags
	var rules []rule
	var made []condition
	if n.Dial {
		rules = append(rules, always(unix.SYS_CONNECT)...)
		for _, f := range []uint32{unix.AF_INET, unix.AF_INET6} {
			stream, packets := argument{1, kind, unix.SOCK_STREAM}, argument{1, kind, unix.SOCK_DGRAM}
			made = append(
				made,
				condition{is(family, f), stream, is(protocol, 0)},
				condition{is(family, f), stream, is(protocol, unix.IPPROTO_TCP)},
				condition{is(family, f), packets, is(protocol, 0)},
				condition{is(family, f), packets, is(protocol, unix.IPPROTO_UDP)},
			)
		}
	}
	if n.Routes {
		rules = append(rules, always(unix.SYS_BIND)...) // of TCP Landlock refuses it
		made = append(made, condition{is(family, unix.AF_NETLINK), {1, kind, unix.SOCK_RAW}, is(protocol, unix.NETLINK_ROUTE)})
	}
	if len(made) > 0 {
		rules = append(rules, only(unix.SYS_SOCKET, made...))
	}
	return rules
}

// starter is the filter of ConfineStarter.
func starter() filter {
	rules := slices.Concat(
		never( // other processes
			unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
			unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
		),
		never( // sockets: git that works on folders has none
			unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_CONNECT,
		),
		never( // what escapes are made of
			unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_MEMFD_SECRET,
			unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
			unix.SYS_IO_SETUP, unix.SYS_IO_SUBMIT,
			unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
			unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
			unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL, unix.SYS_PERSONALITY, unix.SYS_MKNODAT,
			unix.SYS_MQ_OPEN, unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET,
		),
		never( // mounts and namespaces
			unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
			unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
			unix.SYS_UNSHARE, unix.SYS_SETNS,
		),
		never( // the machine
			unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
			unix.SYS_KEXEC_FILE_LOAD, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
			unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
			unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		),
		never(machineOnly()...),
	)
	rules = append(
		rules,
		only(unix.SYS_CLONE, condition{{index: 0, mask: namespaces, value: 0}}),
		rule{call: unix.SYS_CLONE3, absent: true},
		only(unix.SYS_PRLIMIT64, condition{is(0, 0)}),
	)
	return filter{rules: rules, others: true}
}
