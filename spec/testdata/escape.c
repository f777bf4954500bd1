// The system calls that escapes are made of, each tried in a process of its
// own. Prints name=ok, name=ERRNO or name=signal. Built and run by
// isolation_test.go, inside a sandbox and, as the twin, on the host.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MORE(nr, def) static const long nr = def;
MORE(NR_clone3, 435) MORE(NR_open_tree, 428) MORE(NR_move_mount, 429) MORE(NR_fsopen, 430) MORE(NR_io_uring_setup, 425)
MORE(NR_memfd_secret, 447) MORE(NR_mount_setattr, 442)

struct clone3_args { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; };

static long raw_clone(unsigned long flags) {
	long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) _exit(0);
	if (pid > 0) waitpid(pid, NULL, 0);
	return pid < 0 ? -1 : 0;
}

static long raw_clone3(unsigned long flags) {
	struct clone3_args a = { .flags = flags, .exit_signal = SIGCHLD };
	long pid = syscall(NR_clone3, &a, sizeof a);
	if (pid == 0) _exit(0);
	if (pid > 0) waitpid(pid, NULL, 0);
	return pid < 0 ? -1 : 0;
}

static long t_unshare_user(void) { return unshare(CLONE_NEWUSER); }
static long t_unshare_mnt(void) { return unshare(CLONE_NEWNS); }
static long t_unshare_net(void) { return unshare(CLONE_NEWNET); }
static long t_clone_user(void) { return raw_clone(CLONE_NEWUSER); }
static long t_clone_mnt(void) { return raw_clone(CLONE_NEWNS); }
static long t_clone_pid(void) { return raw_clone(CLONE_NEWPID); }
static long t_clone_net(void) { return raw_clone(CLONE_NEWNET); }
static long t_clone_ipc(void) { return raw_clone(CLONE_NEWIPC); }
static long t_clone_uts(void) { return raw_clone(CLONE_NEWUTS); }
static long t_clone_cgroup(void) { return raw_clone(0x02000000); }
static long t_clone3(void) { return raw_clone3(0); }
static long t_clone3_user(void) { return raw_clone3(CLONE_NEWUSER); }
static long t_setns(void) {
	int fd = open("/proc/self/ns/net", O_RDONLY);
	return fd < 0 ? -1 : setns(fd, 0);
}
static long t_mount(void) { return mount("tmpfs", "/tmp", "tmpfs", 0, ""); }
static long t_mount_proc(void) { return mount("proc", "/tmp", "proc", 0, ""); }
static long t_mount_bind(void) { return mount("/", "/tmp", "", MS_BIND, ""); }
static long t_remount(void) { return mount("", "/tmp", "", MS_REMOUNT | MS_BIND, ""); }
static long t_umount(void) { return umount2("/tmp", MNT_DETACH); }
static long t_fsopen(void) { return syscall(NR_fsopen, "tmpfs", 0); }
static long t_open_tree(void) { return syscall(NR_open_tree, AT_FDCWD, "/", 1); }
static long t_chroot(void) { return chroot("/"); }
static long t_pivot(void) {
	long r = syscall(SYS_pivot_root, "/", "/");
	return r < 0 && errno != EPERM && errno != ENOSYS ? 0 : r;
}
static long t_ptrace_first(void) {
	long r = ptrace(PTRACE_ATTACH, 1, 0, 0);
	if (r == 0) { // on the host: do not leave it stopped
		waitpid(1, NULL, __WALL);
		ptrace(PTRACE_DETACH, 1, 0, 0);
	}
	return r;
}
static long t_ptrace_seize_first(void) { return ptrace(PTRACE_SEIZE, 1, 0, 0); }
static long t_mem_first(void) { return open("/proc/1/mem", O_RDONLY); }
static long t_environ_first(void) {
	char b[16];
	int fd = open("/proc/1/environ", O_RDONLY);
	return fd < 0 ? -1 : read(fd, b, sizeof b);
}
static long t_vm_readv(void) {
	char b[8];
	struct iovec l = { b, sizeof b }, r = { (void *)b, sizeof b };
	return process_vm_readv(getppid(), &l, 1, &r, 1, 0);
}
static long t_pidfd_getfd(void) {
	int fd = syscall(434, getppid(), 0); // pidfd_open
	return fd < 0 ? -1 : syscall(438, fd, 0, 0);
}
static long t_io_uring(void) {
	char p[256] = { 0 };
	return syscall(NR_io_uring_setup, 1, p);
}
static long t_af_alg(void) { return socket(AF_ALG, SOCK_SEQPACKET, 0); }
static long t_af_vsock(void) { return socket(AF_VSOCK, SOCK_STREAM, 0); }
static long t_af_packet(void) { return socket(AF_PACKET, SOCK_RAW, 0); }
static long t_af_xdp(void) { return socket(44, SOCK_RAW, 0); }
static long t_raw_ip(void) { return socket(AF_INET, SOCK_RAW, 1); }
static long t_bpf(void) {
	struct { uint32_t type, key, value, max, flags; } a = { 2, 4, 4, 1, 0 };
	return syscall(SYS_bpf, 0, &a, sizeof a);
}
static long t_userfaultfd(void) { return syscall(SYS_userfaultfd, 0); }
static long t_keyctl(void) { return syscall(SYS_keyctl, 0, -3, 1); }
static long t_add_key(void) { return syscall(SYS_add_key, "user", "bailey-test", "x", 1, -2); }
static long t_request_key(void) {
	long r = syscall(SYS_request_key, "user", "bailey-none", 0, -2);
	return r < 0 && errno == ENOKEY ? 0 : r;
}
static long t_perf(void) {
	char a[128] = { 0 };
	a[0] = 1; // PERF_TYPE_SOFTWARE
	a[4] = 112;
	return syscall(SYS_perf_event_open, a, 0, -1, -1, 0);
}
static long t_kexec(void) { // too many segments: natively EINVAL, never more
	long r = syscall(SYS_kexec_load, 0, 1000, 0, 0);
	return r < 0 && errno == EINVAL ? 0 : r;
}
static long t_init_module(void) { // natively a fault, never more
	long r = syscall(SYS_init_module, 0, 4096, "");
	return r < 0 && errno != EPERM && errno != ENOSYS ? 0 : r;
}
static long t_reboot(void) { // natively the wrong magic, never more
	long r = syscall(SYS_reboot, 1, 2, 3, 0);
	return r < 0 && errno == EINVAL ? 0 : r;
}
static long t_iopl(void) { return syscall(SYS_iopl, 3); }
static long t_syslog(void) { return syscall(SYS_syslog, 10, 0, 0); }
static long t_sethostname(void) { return sethostname("x", 1); }
static long t_acct(void) {
	long r = syscall(SYS_acct, "/");
	return r < 0 && errno != EPERM && errno != ENOSYS ? 0 : r;
}
static long t_swapon(void) {
	long r = syscall(SYS_swapon, "/", 0);
	return r < 0 && errno != EPERM && errno != ENOSYS ? 0 : r;
}
static long t_fanotify(void) { return syscall(SYS_fanotify_init, 0, 0); }
static long t_memfd_secret(void) { return syscall(NR_memfd_secret, 0); }
static long t_handle(void) {
	struct { unsigned n; int type; char b[128]; } h = { 128, 0, { 0 } };
	int id;
	if (syscall(SYS_name_to_handle_at, AT_FDCWD, "/var/tmp", &h, &id, 0) < 0) return -1;
	int at = open("/var/tmp", O_RDONLY);
	return syscall(SYS_open_by_handle_at, at, &h, O_RDONLY);
}
static long t_mknod(void) {
	unlink("/var/tmp/escape-node");
	long r = mknod("/var/tmp/escape-node", S_IFBLK | 0600, 0x100);
	if (r == 0) unlink("/var/tmp/escape-node");
	return r;
}
static long t_setuid(void) { return setresuid(0, 0, 0); }
static long t_setgid(void) { return setresgid(0, 0, 0); }
static long t_setgroups(void) { return syscall(SYS_setgroups, 0, 0); }
static long t_capset(void) {
	struct { uint32_t version; int pid; } h = { 0x20080522, 0 };
	struct { uint32_t e, p, i; } d[2] = { { 1 << 21, 1 << 21, 0 }, { 0, 0, 0 } };
	return syscall(SYS_capset, &h, d);
}
static long t_nnp_off(void) { // it cannot be taken back: EINVAL everywhere
	return prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
}
static long t_tiocsti(void) {
	int m = posix_openpt(O_RDWR | O_NOCTTY);
	if (m < 0 || grantpt(m) < 0 || unlockpt(m) < 0) return -1;
	setsid();
	int s = open(ptsname(m), O_RDWR);
	if (s < 0 || ioctl(s, TIOCSCTTY, 1) < 0) return -1;
	char c = 'x';
	return ioctl(s, TIOCSTI, &c);
}
static long t_x32(void) { return syscall(0x40000000 | SYS_unshare, CLONE_NEWUSER); }
static long t_int80(void) {
#ifdef __x86_64__
	long r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(310L), "b"((long)CLONE_NEWUSER) : "memory", "r8", "r9", "r10", "r11");
	if (r < 0) { errno = -r; return -1; }
	return r;
#else
	errno = ENOSYS;
	return -1;
#endif
}

// A tracer asks for seccomp stops; with them it would let a filtered call pass.
static long t_trace_seccomp(void) {
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	long r = ptrace(PTRACE_SETOPTIONS, pid, 0, 0x80);
	int e = errno;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	errno = e;
	return r;
}
static long t_seize_seccomp(void) {
	pid_t pid = fork();
	if (pid == 0) { pause(); _exit(0); }
	long r = ptrace(PTRACE_SEIZE, pid, 0, 0x80);
	int e = errno;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	errno = e;
	return r;
}

// A tracer rewrites the number of a harmless call after the filter saw it.
static long t_trace_rewrite(void) {
#ifdef __x86_64__
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		long r = syscall(SYS_getpgid, CLONE_NEWUSER);
		_exit(r < 0 ? 1 : 0);
	}
	int status;
	waitpid(pid, &status, 0);
	for (int i = 0; i < 50; i++) {
		if (ptrace(PTRACE_SYSCALL, pid, 0, 0) < 0) break;
		if (waitpid(pid, &status, 0) < 0 || WIFEXITED(status) || WIFSIGNALED(status)) break;
		struct user_regs_struct regs;
		if (ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0) break;
		if (regs.orig_rax == SYS_getpgid) {
			regs.orig_rax = SYS_unshare;
			regs.rdi = CLONE_NEWUSER;
			ptrace(PTRACE_SETREGS, pid, 0, &regs);
			ptrace(PTRACE_CONT, pid, 0, 0);
			waitpid(pid, &status, 0);
			if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
			break;
		}
	}
	kill(pid, SIGKILL);
	errno = EPERM;
	return -1;
#else
	errno = ENOSYS;
	return -1;
#endif
}

// What must work: a tracer of its own child, as debuggers are.
static long t_debug_child(void) {
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(7);
	}
	int status;
	waitpid(pid, &status, 0);
	if (ptrace(PTRACE_SETOPTIONS, pid, 0, 1) < 0) return -1;
	if (ptrace(PTRACE_CONT, pid, 0, 0) < 0) return -1;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : -1;
}
static long t_fork(void) { return raw_clone(0); }
static long t_tcp(void) { return socket(AF_INET, SOCK_STREAM, 0); }

static struct { const char *name; long (*try)(void); } tests[] = {
#define T(n) { #n, t_##n },
	T(unshare_user) T(unshare_mnt) T(unshare_net) T(clone_user) T(clone_mnt) T(clone_pid) T(clone_net) T(clone_ipc)
	T(clone_uts) T(clone_cgroup) T(clone3) T(clone3_user) T(setns) T(mount) T(mount_proc) T(mount_bind) T(remount) T(umount)
	T(fsopen) T(open_tree) T(chroot) T(pivot) T(ptrace_first) T(ptrace_seize_first) T(mem_first) T(environ_first) T(vm_readv)
	T(pidfd_getfd) T(io_uring) T(af_alg) T(af_vsock) T(af_packet) T(af_xdp) T(raw_ip) T(bpf) T(userfaultfd) T(keyctl)
	T(add_key) T(request_key) T(perf) T(kexec) T(init_module) T(reboot) T(iopl) T(syslog) T(sethostname) T(acct) T(swapon)
	T(fanotify) T(memfd_secret) T(handle) T(mknod) T(setuid) T(setgid) T(setgroups) T(capset) T(nnp_off) T(tiocsti) T(x32)
	T(int80) T(trace_seccomp) T(seize_seccomp) T(trace_rewrite) T(debug_child) T(fork) T(tcp)
};

int main(void) {
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			errno = 0;
			alarm(10);
			long r = tests[i].try();
			int e = errno;
			if (r >= 0) dprintf(1, "%s=ok\n", tests[i].name);
			else dprintf(1, "%s=%s\n", tests[i].name, strerrorname_np(e) ? strerrorname_np(e) : "?");
			_exit(0);
		}
		int status;
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status)) dprintf(1, "%s=signal\n", tests[i].name);
	}
	return 0;
}
