package seccomp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/seccomp"
	"github.com/bailey-dev/bailey/internal/testkit/tier"
)

// The filters, by what has them.
const (
	control = "control"
	gateway = "gateway"
	proxy   = "proxy"
	starter = "starter"
	boxed   = "boxed" // a sandbox with the host's kernel
	free    = "free"  // the twin: none
)

func filters() map[string]seccomp.Filter {
	return map[string]seccomp.Filter{
		control: seccomp.Confined(seccomp.Needs{Folder: true}), gateway: seccomp.Confined(seccomp.Needs{Dial: true}),
		proxy: seccomp.Confined(seccomp.Needs{Dial: true, Routes: true}), starter: seccomp.Starter(),
	}
}

func confine(as string) error {
	switch as {
	case control:
		return seccomp.Confine(seccomp.Needs{Folder: true})
	case gateway:
		return seccomp.Confine(seccomp.Needs{Dial: true})
	case proxy:
		return seccomp.Confine(seccomp.Needs{Dial: true, Routes: true})
	case starter:
		return seccomp.ConfineStarter()
	case boxed:
		return seccomp.ConfineSandbox()
	}
	return nil
}

// TestMain doubles as the process that has a filter: it cannot be undone, so it
// cannot be this one.
func TestMain(m *testing.M) {
	as := os.Getenv("FILTER_AS")
	if as == "" {
		os.Exit(m.Run())
	}
	if err := confine(as); err != nil {
		fmt.Println("confine:", err)
		os.Exit(1)
	}
	if b, err := os.ReadFile("/proc/self/status"); err != nil || as != free && !strings.Contains(string(b), "\nSeccomp:\t2\n") {
		fmt.Println("there is no filter", err)
		os.Exit(1)
	}
	switch os.Getenv("FILTER_PART") {
	case "all":
		f, ok := filters()[as]
		if !ok {
			f = seccomp.Boxed()
		}
		everyCall(f)
	case "attacks":
		for _, a := range attacks() {
			fmt.Printf("%s: %d\n", a.name, a.try())
		}
	case "work":
		work(os.Getenv("FILTER_DIR"), os.Getenv("FILTER_TCP"), os.Getenv("FILTER_DNS"))
	}
	os.Exit(0)
}

// play runs the program in a part and returns its lines.
func play(t *testing.T, as, part string, env ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, "FILTER_AS="+as, "FILTER_PART="+part)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", as, err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

const senseless = ^uintptr(0)

// everyCall makes each system call that the filter refuses, with arguments that
// make none of them succeed, and says which was not refused as it should be.
func everyCall(f seccomp.Filter) {
	refused := 0
	for call := range uintptr(seccomp.Newest + 8) {
		want, err := f.Errno(seccomp.Architecture, call, [6]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)})
		if err != nil {
			fmt.Println(call, err)
		}
		if want == 0 || slices.Contains(seccomp.Unfiltered(), call) {
			continue
		}
		refused++
		if _, _, got := unix.RawSyscall6(call, senseless, senseless, senseless, senseless, senseless, senseless); got != want {
			fmt.Printf("call %d: %d, want %d\n", call, got, want)
		}
	}
	fmt.Println("refused", refused)
}

// TestFilters_RefuseWhatTheySay has the kernel asked for every call that a list
// refuses, in its own errno.
func TestFilters_RefuseWhatTheySay(t *testing.T) {
	t.Parallel()
	for as, least := range map[string]int{control: 250, gateway: 250, proxy: 250, starter: 80, boxed: 90} {
		lines := play(t, as, "all")
		var refused int
		if _, err := fmt.Sscanf(lines[len(lines)-1], "refused %d", &refused); err != nil || refused < least {
			t.Errorf("%s: %d calls are refused: %v", as, refused, lines)
		}
		if len(lines) > 1 {
			t.Errorf("%s: %v", as, lines)
		}
	}
}

// attack is a call that must be refused, and to whom it must not be.
type attack struct {
	name string
	call uintptr
	args []uintptr // those that are missing make no sense
	left []string  // the filters that let it through
}

func (a attack) try() syscall.Errno {
	args := [6]uintptr{senseless, senseless, senseless, senseless, senseless, senseless}
	copy(args[:], a.args)
	_, _, errno := unix.RawSyscall6(a.call, args[0], args[1], args[2], args[3], args[4], args[5])
	return errno
}

// attacks succeed without a filter, or fail by what they were given and not by
// a right that root lacks.
func attacks() []attack {
	parent := uintptr(os.Getppid())
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	var limit unix.Rlimit
	const size = 4096
	list := []attack{
		{"a limit of another process", unix.SYS_PRLIMIT64, []uintptr{parent, unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&limit))}, nil},
		{"kill another", unix.SYS_KILL, []uintptr{parent, 0}, []string{starter}},
		{"kill all", unix.SYS_KILL, []uintptr{0, 0}, []string{starter}},
		{"signal another's thread", unix.SYS_TGKILL, []uintptr{parent, parent, 0}, []string{starter}},
		{"signal a thread", unix.SYS_TKILL, []uintptr{parent, 0}, []string{starter}},
		{"signal with a value", unix.SYS_RT_SIGQUEUEINFO, []uintptr{parent, 0, 0}, []string{starter}},
		{"signal by descriptor", unix.SYS_PIDFD_SEND_SIGNAL, nil, []string{starter}},
		{"have a descriptor signal another", unix.SYS_FCNTL, []uintptr{0, unix.F_SETOWN, parent}, []string{starter}},
		{"priority of another", unix.SYS_SETPRIORITY, nil, []string{starter}},
		{"execve", unix.SYS_EXECVE, nil, []string{starter}},
		{"execveat", unix.SYS_EXECVEAT, nil, []string{starter}},
		{"a process", unix.SYS_CLONE, []uintptr{unix.CLONE_SIGHAND | uintptr(unix.SIGCHLD), 0, 0, 0, 0}, []string{starter}}, // EINVAL without CLONE_VM
		{"a namespace", unix.SYS_CLONE, []uintptr{unix.CLONE_NEWUSER | unix.CLONE_FS | uintptr(unix.SIGCHLD), 0, 0, 0, 0}, nil},
		{"a thread in a namespace", unix.SYS_CLONE, []uintptr{unix.CLONE_NEWNS | unix.CLONE_FS | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_VM, 0, 0, 0, 0}, nil},
		{"memory with code", unix.SYS_MMAP, []uintptr{0, size, unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_ANON, senseless, 0}, []string{starter}},
		{"memory made code", unix.SYS_MPROTECT, []uintptr{uintptr(unsafe.Pointer(&page[0])), size, unix.PROT_READ | unix.PROT_EXEC}, []string{starter}},
		{"a Unix socket", unix.SYS_SOCKET, []uintptr{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}, nil},
		{"a pair of sockets", unix.SYS_SOCKETPAIR, nil, nil},
		{"a raw socket", unix.SYS_SOCKET, []uintptr{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW}, nil},
		{"multipath TCP", unix.SYS_SOCKET, []uintptr{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, nil},
		{"a packet socket", unix.SYS_SOCKET, []uintptr{unix.AF_PACKET, unix.SOCK_RAW, 0}, nil},
		{"netfilter by netlink", unix.SYS_SOCKET, []uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, nil},
		{"a TCP socket", unix.SYS_SOCKET, []uintptr{unix.AF_INET, unix.SOCK_STREAM, 0}, []string{gateway, proxy}},
		{"a UDP socket", unix.SYS_SOCKET, []uintptr{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, 0}, []string{gateway, proxy}},
		{"a routing socket", unix.SYS_SOCKET, []uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, []string{proxy}},
		{"connect", unix.SYS_CONNECT, nil, []string{gateway, proxy}},
		{"bind", unix.SYS_BIND, nil, []string{proxy}},
		{"listen", unix.SYS_LISTEN, nil, nil},
		{"ioctl", unix.SYS_IOCTL, nil, []string{starter}},
		{"another security setting", unix.SYS_PRCTL, []uintptr{unix.PR_SET_DUMPABLE, senseless}, []string{starter}},
	}
	for name, call := range refusedAlways() {
		list = append(list, attack{name: name, call: call})
	}
	slices.SortFunc(list, func(a, b attack) int { return strings.Compare(a.name, b.name) })
	return list
}

// refusedAlways are calls that every filter refuses whatever their arguments.
func refusedAlways() map[string]uintptr {
	return map[string]uintptr{
		"ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV,
		"process_madvise": unix.SYS_PROCESS_MADVISE, "pidfd_getfd": unix.SYS_PIDFD_GETFD, "kcmp": unix.SYS_KCMP,
		"bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER, "io_uring_register": unix.SYS_IO_URING_REGISTER,
		"add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "keyctl": unix.SYS_KEYCTL,
		"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "move_mount": unix.SYS_MOVE_MOUNT, "open_tree": unix.SYS_OPEN_TREE,
		"fsopen": unix.SYS_FSOPEN, "fsconfig": unix.SYS_FSCONFIG, "fsmount": unix.SYS_FSMOUNT, "fspick": unix.SYS_FSPICK,
		"mount_setattr": unix.SYS_MOUNT_SETATTR, "pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT,
		"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS,
		"init_module": unix.SYS_INIT_MODULE, "finit_module": unix.SYS_FINIT_MODULE, "delete_module": unix.SYS_DELETE_MODULE,
		"kexec_load": unix.SYS_KEXEC_LOAD, "reboot": unix.SYS_REBOOT, "swapon": unix.SYS_SWAPON, "acct": unix.SYS_ACCT,
		"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT, "fanotify_init": unix.SYS_FANOTIFY_INIT,
		"settimeofday": unix.SYS_SETTIMEOFDAY, "sethostname": unix.SYS_SETHOSTNAME, "syslog": unix.SYS_SYSLOG,
		"personality": unix.SYS_PERSONALITY, "shmget": unix.SYS_SHMGET,
	}
}

// TestPRV04_Attacks tries what each filter is there for. Root's rights are such
// that the twin is refused nothing.
func TestPRV04_Attacks(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	list := attacks()
	for _, as := range []string{control, gateway, proxy, starter, free} {
		lines := play(t, as, "attacks")
		if len(lines) != len(list) {
			t.Fatalf("%s: %d lines of %d: %v", as, len(lines), len(list), lines)
		}
		for i, a := range list {
			refused := lines[i] == fmt.Sprintf("%s: %d", a.name, unix.EPERM)
			if want := as != free && !slices.Contains(a.left, as); refused != want {
				t.Errorf("%s: %s; refused: %v, want %v", as, lines[i], refused, want)
			}
		}
	}
}

// work is what a role does all day, and what it must not.
func work(dir, tcp, dns string) {
	report := func(what string, err error) {
		fmt.Println(what, err == nil, errors.Is(err, unix.EPERM))
		if err != nil && !errors.Is(err, unix.EPERM) {
			fmt.Println(what, err)
		}
	}
	goRuntime()
	report("runtime", nil)
	d := net.Dialer{Timeout: 10 * time.Second}
	ctx := context.Background()
	c, err := d.DialContext(ctx, "tcp", tcp)
	if err == nil {
		_, err = bufio.NewReader(c).ReadString('\n')
	}
	report("connect", err)
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, dns)
	}}
	_, err = resolver.LookupHost(ctx, "absent.test.")
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		err = nil // it was asked
	} else if ok && strings.HasSuffix(e.Err, unix.EPERM.Error()) {
		err = unix.EPERM // a DNSError does not wrap
	}
	report("resolve", err)
	_, err = net.InterfaceAddrs()
	report("addresses", err)
	_, err = net.Dial("unix", filepath.Join(dir, "socket"))
	report("unix", err)
	_, err = net.Listen("tcp4", "127.0.0.1:0")
	report("listen", err)
	_, err = os.ReadFile(filepath.Join(dir, "file"))
	report("read", err)
	at := filepath.Join(dir, fmt.Sprint(os.Getpid()))
	err = os.WriteFile(at, nil, 0o600)
	if err == nil {
		err = errors.Join(os.Rename(at, at+"-2"), os.Remove(at+"-2"), os.Mkdir(at, 0o700))
	}
	report("change", err)
	report("program", exec.CommandContext(ctx, "/bin/true").Run())
	report("signal", unix.Kill(os.Getppid(), 0))
	report("limit", unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, nil, new(unix.Rlimit)))
	report("own limit", unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, new(unix.Rlimit)))
}

// goRuntime has the runtime make threads, interrupt what does not yield, collect
// garbage, grow stacks and wait for timers.
func goRuntime() {
	var all sync.WaitGroup
	var stop atomic.Bool
	all.Go(func() {
		for !stop.Load() { // it does not yield
		}
	})
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
			_ = deep(10_000)
		})
	}
	kept := make([]byte, 8<<20)
	runtime.GC()
	<-time.After(time.Millisecond)
	stop.Store(true)
	all.Wait()
	runtime.KeepAlive(kept)
}

func deep(n int) int {
	var room [64]int
	if n == 0 {
		return room[0]
	}
	return deep(n-1) + room[n%64]
}

// TestConfine_WorkGoesOn: a program of Go lives on under each filter, and does
// what its role does.
func TestConfine_WorkGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	greet(t, "unix", filepath.Join(dir, "socket"))
	env := []string{"FILTER_DIR=" + dir, "FILTER_TCP=" + greet(t, "tcp4", "127.0.0.1:0"), "FILTER_DNS=" + knowsNothing(t)}
	everybody := []string{control, gateway, proxy, starter}
	can := map[string][]string{
		"runtime": everybody, "read": everybody, "own limit": everybody,
		"connect": {gateway, proxy}, "resolve": {gateway, proxy}, "addresses": {proxy},
		"change": {control, starter}, "program": {starter}, "signal": {starter},
		"unix": nil, "listen": nil, "limit": nil,
	}
	for _, as := range append(everybody, free) {
		lines := play(t, as, "work", env...)
		for what, who := range can {
			want := what + " false true"
			if as == free || slices.Contains(who, as) {
				want = what + " true false"
			}
			if !slices.Contains(lines, want) {
				t.Errorf("%s: no %q in:\n%s", as, want, strings.Join(lines, "\n"))
			}
		}
	}
}

// greet listens, and says a line to who connects.
func greet(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// knowsNothing is a server of names that answers that there is none.
func knowsNothing(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		for b := make([]byte, 512); ; {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			const header, answer, noSuchName = 12, 0x80, 3
			if n < header {
				continue
			}
			b[2] |= answer
			b[3] = b[3]&0xf0 | noSuchName
			_, _ = c.WriteTo(b[:n], from)
		}
	}()
	return c.LocalAddr().String()
}

// TestFilter_OtherCalls: what is no call of this architecture, and what is newer
// than the lists.
func TestFilter_OtherCalls(t *testing.T) {
	t.Parallel()
	for as, f := range filters() {
		for _, c := range []struct {
			name string
			arch uint32
			call uintptr
			want syscall.Errno
		}{
			{"of this architecture", seccomp.Architecture, unix.SYS_READ, 0},
			{"of another", unix.AUDIT_ARCH_I386, unix.SYS_READ, unix.EPERM},
			{"of x32", seccomp.Architecture, 0x40000000 | unix.SYS_READ, unix.EPERM},
			{"of x32 and newer", seccomp.Architecture, 0x40000000 | (seccomp.Newest + 1), unix.EPERM},
			{"newer", seccomp.Architecture, seccomp.Newest + 1, unix.ENOSYS},
			{"clone3", seccomp.Architecture, unix.SYS_CLONE3, unix.ENOSYS},
		} {
			if got, err := f.Errno(c.arch, c.call, [6]uint64{}); got != c.want || err != nil {
				t.Errorf("%s: a call %s: %d, %v, want %d", as, c.name, got, err, c.want)
			}
		}
	}
	if got, err := seccomp.None().Errno(seccomp.Architecture, unix.SYS_READ, [6]uint64{}); got != unix.EPERM || err != nil {
		t.Errorf("the zero filter: %d, %v", got, err)
	}
	if seccomp.Twice() == nil {
		t.Error("two rules about one call are taken")
	}
}

// TestFilter_LowerHalf: the kernel takes an id of a process from the lower half
// of an argument, and so does the filter.
func TestFilter_LowerHalf(t *testing.T) {
	t.Parallel()
	f, own := filters()[control], uint64(os.Getpid())
	for pid, want := range map[uint64]syscall.Errno{own: 0, own | 1<<32: 0, own + 1: unix.EPERM, own<<32 | 1: unix.EPERM, 0: unix.EPERM, ^uint64(0): unix.EPERM} {
		if got, err := f.Errno(seccomp.Architecture, unix.SYS_KILL, [6]uint64{pid, 9}); got != want || err != nil {
			t.Errorf("kill %#x: %d, %v, want %d", pid, got, err, want)
		}
	}
}
