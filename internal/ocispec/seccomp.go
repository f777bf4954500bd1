package ocispec

import (
	"io/fs"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Seccomp returns the filter of every sandbox. gVisor already implements the
// agent's calls in user space; the filter takes away what an agent has no
// business with even there, so that a bug in a rarely used corner of the
// user-space kernel cannot be reached.
//
// gVisor answers every "errno" action with EPERM whatever number is asked for
// (runsc/specutils/seccomp). Calls that programs probe for must answer ENOSYS,
// or they give up instead of falling back; a "trace" action does that as long
// as no tracer has asked for seccomp stops, so the filter also forbids asking.
// Debuggers work all the same; what stops at every call (strace) does not.
//
// With namespaces programs may make some of their own, as bubblewrap and
// Chromium do: all that is gVisor's, and what is mounted for the sandbox is
// locked in them as Linux locks it (mount_namespaces(7)).
func Seccomp(namespaces bool) *specs.LinuxSeccomp {
	calls := []specs.LinuxSyscall{
		{Action: specs.ActTrace, Names: []string{
			// clone3 hides its flags behind a pointer, where no filter can look.
			"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register",
			"memfd_secret", "fanotify_init", "fanotify_mark",
			"openat2", // hides a file's mode the same way
		}},
		{Action: specs.ActErrno, Names: []string{
			"acct", "add_key", "bpf", "clock_settime", "delete_module", "finit_module",
			"init_module", "ioperm", "iopl",
			"kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie",
			"move_pages", "name_to_handle_at", "open_by_handle_at",
			"perf_event_open", "process_vm_readv", "process_vm_writev", "quotactl",
			"quotactl_fd", "reboot", "request_key",
			"settimeofday", "swapoff", "swapon", "syslog", "userfaultfd",
			"vhangup",
		}},
	}
	if !namespaces {
		calls = append(calls,
			deny(nil, "chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree", "pivot_root",
				"setdomainname", "sethostname", "setns", "umount2", "unshare"),
			deny(anyOf(0, masked, newCgroup, newUTS, newIPC, newUser, newPID, newNet, newNS), "clone"))
	}
	calls = append(calls,
		deny(anyOf(0, equal, afKey, afPacket, afTIPC, afBluetooth, afALG, afVSOCK, afXDP), "socket", "socketpair"),
		// Typing into the terminal one is attached to, and the console's paste.
		deny(anyOf(1, equal, tiocsti, tioclinux), "ioctl"),
		// gVisor looks at a call before its tracer does and not again afterwards
		// (pkg/sentry/kernel/task_syscall.go), so a tracer that stops at calls could
		// put any other in the place of the one that was looked at.
		deny(anyOf(0, equal, ptraceSyscall, ptraceSysemu, ptraceSysemuStep), "ptrace"),
		deny(allOf(equal(0, ptraceSetOptions), masked(3, ptraceOTraceSeccomp)), "ptrace"),
		deny(allOf(equal(0, ptraceSeize), masked(3, ptraceOTraceSeccomp)), "ptrace"),
	)
	calls = append(calls, setID()...)
	return &specs.LinuxSeccomp{
		DefaultAction: specs.ActAllow,
		Architectures: []specs.Arch{specs.ArchX86_64, specs.ArchAARCH64},
		Syscalls:      calls,
	}
}

// setID refuses every way to give a file the set-user-ID or set-group-ID bit.
// Inside it would have no effect, but files of the workspace belong to the
// caller: on the host such a file lends the caller's identity (root's, for a
// root caller) to whoever can reach it.
func setID() []specs.LinuxSyscall {
	calls := []specs.LinuxSyscall{
		deny(anyOf(1, masked, setUserID, setGroupID), "chmod", "fchmod", "creat", "mknod"),
		deny(anyOf(2, masked, setUserID, setGroupID), "fchmodat", "fchmodat2", "mknodat"),
	}
	// Without one of these flags the mode is not an argument at all.
	for _, flag := range []uint64{openCreate, openTmpfile} {
		for _, bit := range []uint64{setUserID, setGroupID} {
			calls = append(calls,
				deny(allOf(masked(1, flag), masked(2, bit)), "open"),
				deny(allOf(masked(2, flag), masked(3, bit)), "openat"))
		}
	}
	return calls
}

// Numbers of inode(7) and open(2), the same on both architectures.
const (
	setUserID   = 0o4000
	setGroupID  = 0o2000
	openCreate  = 0o100
	openTmpfile = 0o20000000
)

// Numbers of clone(2), socket(2), ioctl_tty(2) and ptrace(2).
const (
	newNS     = 0x00020000
	newCgroup = 0x02000000
	newUTS    = 0x04000000
	newIPC    = 0x08000000
	newUser   = 0x10000000
	newPID    = 0x20000000
	newNet    = 0x40000000

	afKey       = 15
	afPacket    = 17
	afTIPC      = 30
	afBluetooth = 31
	afALG       = 38
	afVSOCK     = 40
	afXDP       = 44

	tiocsti   = 0x5412
	tioclinux = 0x541c

	ptraceSyscall       = 24
	ptraceSysemu        = 31
	ptraceSysemuStep    = 32
	ptraceSetOptions    = 0x4200
	ptraceSeize         = 0x4206
	ptraceOTraceSeccomp = 0x80
)

func deny(args []specs.LinuxSeccompArg, names ...string) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: names, Action: specs.ActErrno, Args: args}
}

// anyOf is one rule that matches if any of the values does. Rules of one
// argument are alternatives to each other, as in runc
// (gVisor's runsc/specutils/seccomp, convertArgs). gVisor compiles the filter
// at every start, and a rule fewer is a shorter start.
func anyOf(arg uint, match func(arg uint, value uint64) specs.LinuxSeccompArg, values ...uint64) []specs.LinuxSeccompArg {
	var args []specs.LinuxSeccompArg
	for _, v := range values {
		args = append(args, match(arg, v))
	}
	return args
}

// allOf is a rule that matches if all of its parts do, each of which has an
// argument of its own.
func allOf(args ...specs.LinuxSeccompArg) []specs.LinuxSeccompArg { return args }

func equal(arg uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: arg, Value: value, Op: specs.OpEqualTo}
}

// masked matches when all bits of mask are set in the argument.
func masked(arg uint, mask uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: arg, Value: mask, ValueTwo: mask, Op: specs.OpMaskedEqual}
}

func sticky(mode fs.FileMode) fs.FileMode {
	if mode&fs.ModeSticky != 0 {
		return 0o1000
	}
	return 0
}
