package seccomp_test

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/seccomp"
)

// TestISO05_SandboxFilter asks the filter of a sandbox with the host's kernel
// about calls that depend on their arguments: what escapes are made of, and
// beside each what programs need. The kernel is asked in
// TestFilters_RefuseWhatTheySay and in spec.
func TestISO05_SandboxFilter(t *testing.T) {
	t.Parallel()
	const tiocsti, tioclinux, fionread = 0x5412, 0x541c, 0x541b
	f := seccomp.Boxed()
	for _, c := range []struct {
		name string
		call uintptr
		args []uint64
		want syscall.Errno
	}{
		{"fork", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, 0},
		{"a thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, 0},
		{"a user namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, unix.EPERM},
		{"a mount namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS}, unix.EPERM},
		{"a cgroup namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWCGROUP}, unix.EPERM},
		{"a namespace by clone3", unix.SYS_CLONE3, nil, unix.ENOSYS},
		{"unshare", unix.SYS_UNSHARE, nil, unix.EPERM},
		{"TIOCSTI", unix.SYS_IOCTL, []uint64{0, tiocsti}, unix.EPERM},
		{"TIOCSTI with high bits", unix.SYS_IOCTL, []uint64{0, 1<<32 | tiocsti}, unix.EPERM},
		{"TIOCLINUX", unix.SYS_IOCTL, []uint64{0, tioclinux}, unix.EPERM},
		{"a line discipline", unix.SYS_IOCTL, []uint64{0, unix.TIOCSETD}, unix.EPERM},
		{"another ioctl", unix.SYS_IOCTL, []uint64{0, fionread}, 0},
		{"a Unix socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, 0},
		{"a pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, 0},
		{"a pair of another family", unix.SYS_SOCKETPAIR, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT},
		{"TCP", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, 0},
		{"UDP", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, 0}, 0},
		{"routes", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, 0},
		{"netfilter", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, unix.EAFNOSUPPORT},
		{"IPsec", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM}, unix.EAFNOSUPPORT},
		{"raw IP", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, unix.EAFNOSUPPORT},
		{"SCTP", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, unix.EAFNOSUPPORT},
		{"multipath TCP", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, unix.EAFNOSUPPORT},
		{"AF_ALG", unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, unix.EAFNOSUPPORT},
		{"AF_VSOCK", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT},
		{"AF_PACKET", unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, unix.EAFNOSUPPORT},
		{"chmod", unix.SYS_FCHMODAT, []uint64{0, 0, 0o755}, 0},
		{"chmod set-user-ID", unix.SYS_FCHMODAT, []uint64{0, 0, 0o4755}, unix.EPERM},
		{"chmod set-group-ID", unix.SYS_FCHMOD, []uint64{0, 0o2755}, unix.EPERM},
		{"chmod by flags", unix.SYS_FCHMODAT2, []uint64{0, 0, 0o6755}, unix.EPERM},
		{"open", unix.SYS_OPENAT, []uint64{0, 0, unix.O_RDWR, 0xffff}, 0},
		{"make", unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT | unix.O_RDWR, 0o666}, 0},
		{"make set-user-ID", unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT | unix.O_RDWR, 0o4755}, unix.EPERM},
		{"make without a name, set-user-ID", unix.SYS_OPENAT, []uint64{0, 0, unix.O_TMPFILE | unix.O_RDWR, 0o4755}, unix.EPERM},
		{"open by a struct", unix.SYS_OPENAT2, nil, unix.ENOSYS},
		{"a FIFO", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFIFO | 0o600}, 0},
		{"a FIFO, set-user-ID", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFIFO | 0o4600}, unix.EPERM},
		{"ask for the personality", unix.SYS_PERSONALITY, []uint64{0xffffffff}, 0},
		{"READ_IMPLIES_EXEC", unix.SYS_PERSONALITY, []uint64{0x0400000}, unix.EPERM},
		{"ADDR_NO_RANDOMIZE", unix.SYS_PERSONALITY, []uint64{0x0040000}, unix.EPERM},
		{"trace", unix.SYS_PTRACE, nil, 0},
		{"read another's memory", unix.SYS_PROCESS_VM_READV, nil, unix.EPERM},
		{"take another's descriptor", unix.SYS_PIDFD_GETFD, nil, unix.EPERM},
		{"io_uring", unix.SYS_IO_URING_SETUP, nil, unix.ENOSYS},
		{"duplicate a descriptor", unix.SYS_FCNTL, []uint64{0, unix.F_DUPFD_CLOEXEC}, 0},
		{"lock a file", unix.SYS_FCNTL, []uint64{0, unix.F_SETLK}, 0},
		{"lease a file", unix.SYS_FCNTL, []uint64{0, unix.F_SETLEASE}, unix.EPERM},
		{"a semaphore", unix.SYS_SEMGET, nil, 0},
		{"System V memory", unix.SYS_SHMGET, nil, unix.EPERM},
		{"System V messages", unix.SYS_MSGGET, nil, unix.EPERM},
		{"keys", unix.SYS_KEYCTL, nil, unix.EPERM},
		{"bpf", unix.SYS_BPF, nil, unix.EPERM},
		{"userfaultfd", unix.SYS_USERFAULTFD, nil, unix.EPERM},
		{"a filter of its own", unix.SYS_SECCOMP, nil, 0},
		{"Landlock of its own", unix.SYS_LANDLOCK_RESTRICT_SELF, nil, 0},
		{"newer than the list", seccomp.Newest + 1, nil, unix.ENOSYS},
	} {
		var args [6]uint64
		copy(args[:], c.args)
		if got, err := f.Errno(seccomp.Architecture, c.call, args); err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		arch uint32
		call uintptr
	}{
		"of 32 bits": {unix.AUDIT_ARCH_I386, unix.SYS_READ},
		"of x32":     {seccomp.Architecture, 0x40000000 | unix.SYS_READ},
	} {
		if _, err := f.Errno(c.arch, c.call, [6]uint64{}); !errors.Is(err, seccomp.ErrKilled) {
			t.Errorf("a call %s: %v", name, err)
		}
	}
	// The twin: without rules everything fails.
	if got, _ := seccomp.None().Errno(seccomp.Architecture, unix.SYS_READ, [6]uint64{}); got != unix.EPERM {
		t.Errorf("no rules: %d", got)
	}
}
