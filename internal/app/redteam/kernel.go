package redteam

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func kernelAttacks() []attack {
	return []attack{
		{"ISO-01", "kernel", "find that system calls are answered by the host's kernel", "", sameKernel, false},
		{"ISO-05", "capabilities", "have a capability in any set", "", capabilities, false},
		{"ISO-05", "new-privileges", "be able to gain privileges", "", newPrivileges, false},
		{"ISO-05", "user-namespace", "make a user namespace", "", unshare(unix.CLONE_NEWUSER), false},
		{"ISO-05", "mount-namespace", "make a mount namespace", "", unshare(unix.CLONE_NEWNS), false},
		{"ISO-05", "network-namespace", "make a network namespace", "", unshare(unix.CLONE_NEWNET), false},
		{"ISO-05", "setns", "join another namespace", "", joinNamespace, false},
		{"ISO-05", "mount", "mount a file system", wouldChange, mountTmpfs, false},
		{"ISO-05", "chroot", "change the root folder", wouldChange, func(_ context.Context, t *Target) took { return by(unix.Chroot(t.Scratch)) }, false},
		{"ISO-05", "io-uring", "use io_uring", "", reached(unix.SYS_IO_URING_SETUP, 0, 0), false},
		{"ISO-05", "bpf", "load programs into the kernel", "", reached(unix.SYS_BPF, ^uintptr(0), 0, 0), false},
		{"ISO-05", "userfaultfd", "handle the kernel's page faults", "", reached(unix.SYS_USERFAULTFD, ^uintptr(0)), false},
		{"ISO-05", "keyctl", "use the kernel's keyrings", "", reached(unix.SYS_KEYCTL, 0, ^uintptr(3), 0), false},
		{"ISO-05", "perf", "use the kernel's performance counters", "", reached(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0), false},
		{"ISO-05", "modules", "load a module", wouldChange, reached(unix.SYS_FINIT_MODULE, ^uintptr(0), 0, 0), false},
		{"ISO-05", "kexec", "load another kernel", wouldChange, reached(unix.SYS_KEXEC_LOAD, 0, ^uintptr(0), 0, ^uintptr(0)), false},
		{"ISO-05", "af-alg", "use the kernel's crypto sockets", "", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), false},
		{"ISO-05", "af-vsock", "use sockets to the hypervisor", "", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0), false},
		{"EGR-02", "raw", "open a raw socket", "", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), false},
		{"EGR-02", "packet", "open a packet socket", "", socket(unix.AF_PACKET, unix.SOCK_RAW, 0), false},
	}
}

const bootID = "/proc/sys/kernel/random/boot_id"

func sameKernel(_ context.Context, t *Target) took {
	if t.Boot == "" {
		return moot("the kernel is shared by choice")
	}
	b, err := os.ReadFile(bootID)
	if err != nil {
		return failed(err)
	}
	return took{Reached: strings.TrimSpace(string(b)) == t.Boot, Said: "boot id compared"}
}

// status returns the fields of /proc/self/status whose names begin with one of
// some prefixes.
func status(prefixes ...string) (map[string]string, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				out[name] = strings.TrimSpace(value)
			}
		}
	}
	return out, nil
}

func capabilities(context.Context, *Target) took {
	sets, err := status("Cap")
	if err != nil {
		return failed(err)
	}
	var held []string
	for name, value := range sets {
		if strings.Trim(value, "0") != "" {
			held = append(held, name+" "+value)
		}
	}
	if len(held) == 0 {
		return took{Said: fmt.Sprintf("%d sets are empty", len(sets))}
	}
	return took{Reached: true, Said: strings.Join(held, ", ")}
}

func newPrivileges(context.Context, *Target) took {
	v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return failed(err)
	}
	return took{Reached: v != 1, Said: fmt.Sprintf("no_new_privs is %d", v)}
}

// onThread runs a function on a thread that ends with it.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is thrown away
		done <- f()
	}()
	return <-done
}

// unshare makes a namespace, for itself or, as one without privilege would,
// within a user namespace of its own.
func unshare(flag uintptr) func(context.Context, *Target) took {
	return func(ctx context.Context, _ *Target) took {
		err := spawn(ctx, flag)
		if err != nil && flag != unix.CLONE_NEWUSER {
			err = spawn(ctx, unix.CLONE_NEWUSER|flag)
		}
		return by(err)
	}
}

// spawn starts a program in new namespaces, which ends at once.
func spawn(ctx context.Context, namespaces uintptr) error {
	c := exec.CommandContext(ctx, "/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	return c.Run()
}

func joinNamespace(_ context.Context, t *Target) took {
	err := errors.New("no process to join")
	for _, pid := range []int{t.Process, os.Getppid(), 1} {
		for _, kind := range []string{"net", "uts", "ipc"} {
			err = onThread(func() error {
				fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind), unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					return err
				}
				defer func() { _ = unix.Close(fd) }()
				return unix.Setns(fd, 0)
			})
			if err == nil {
				return took{Reached: true, Said: fmt.Sprintf("joined the %s namespace of process %d", kind, pid)}
			}
		}
	}
	return failed(err)
}

func mountTmpfs(_ context.Context, t *Target) took {
	return by(unix.Mount("tmpfs", t.Scratch, "tmpfs", 0, ""))
}

// reached makes a system call with arguments that it has to refuse. A refusal
// by the filter, or the lack of the call, is told from the kernel's own.
func reached(call uintptr, args ...uintptr) func(context.Context, *Target) took {
	return func(context.Context, *Target) took {
		var a [6]uintptr
		copy(a[:], args)
		fd, _, errno := unix.Syscall6(call, a[0], a[1], a[2], a[3], a[4], a[5])
		switch errno {
		case 0:
			if call != unix.SYS_KEYCTL {
				_ = unix.Close(int(fd))
			}
			return took{Reached: true, Said: "it worked"}
		case unix.EPERM, unix.ENOSYS, unix.EACCES:
			return failed(errno)
		}
		return took{Reached: true, Said: "the kernel looked at its arguments: " + errno.Error()}
	}
}

func socket(family, kind, proto int) func(context.Context, *Target) took {
	return func(context.Context, *Target) took {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, proto)
		if err == nil {
			_ = unix.Close(fd)
		}
		return by(err)
	}
}
