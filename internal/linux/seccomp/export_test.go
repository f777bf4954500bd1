package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Newest is the last system call that the lists know.
const Newest = newest

// Starter is the filter of ConfineStarter.
func Starter() Filter { return Filter{starter()} }

// Boxed is the filter of ConfineSandbox.
func Boxed() Filter { return Filter{sandbox()} }

// Confined is the filter of Confine.
func Confined(n Needs) Filter { return Filter{confined(n, os.Getpid())} }

// Filter can be asked without being installed.
type Filter struct{ f filter }

// Errno is what a call would fail with; 0: it is let through.
func (f Filter) Errno(arch uint32, call uintptr, args [6]uint64) (syscall.Errno, error) {
	vm, err := bpf.NewVM(f.f.program())
	if err != nil {
		return 0, err
	}
	// The machine of this library reads as networks do, the kernel's as its CPU.
	data := binary.BigEndian.AppendUint32(nil, uint32(call))
	data = binary.BigEndian.AppendUint32(data, arch)
	data = append(data, make([]byte, 8)...)
	for _, a := range args {
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	verdict, err := vm.Run(data)
	switch {
	case err != nil:
		return 0, err
	case uint32(verdict) == unix.SECCOMP_RET_ALLOW:
		return 0, nil
	case uint32(verdict)&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO:
		return syscall.Errno(verdict & unix.SECCOMP_RET_DATA), nil
	case uint32(verdict) == unix.SECCOMP_RET_KILL_PROCESS:
		return 0, ErrKilled
	}
	return 0, fmt.Errorf("verdict %#x", verdict)
}

// ErrKilled is what becomes of who makes a call.
var ErrKilled = errors.New("the process is killed")

// Architecture is the one of this program.
const Architecture = architecture

// None is the filter without a rule.
func None() Filter { return Filter{filter{}} }

// Twice has two rules about one call.
func Twice() error {
	_, err := filter{rules: append(never(unix.SYS_READ), always(unix.SYS_READ)...)}.assemble()
	return err
}

// Unfiltered are calls of the kernel's own trampolines, which pass every filter
// by (seccomp_uprobe_exception in kernel/seccomp.c) and end who makes them
// elsewhere: uretprobe and uprobe.
func Unfiltered() []uintptr {
	if runtime.GOARCH == "amd64" {
		return []uintptr{335, 336}
	}
	return nil
}
