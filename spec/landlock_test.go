package spec_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/testkit/carrying"
)

// lacking is the name of the test's own program when it becomes another one on
// a kernel without Landlock.
const lacking = "without-landlock"

// withoutLandlock has a command of root's run as on a kernel without Landlock.
func withoutLandlock(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Args = append([]string{lacking, cmd.Path}, cmd.Args...)
	cmd.Path = carrying.OwnProgram(t)
}

// becomeWithoutLandlock becomes what its arguments name: the path of a program,
// and the arguments of that, the name among them.
func becomeWithoutLandlock() {
	if os.Args[0] != lacking {
		return
	}
	runtime.LockOSThread()
	const callNumber = 0 // struct seccomp_data (linux/seccomp.h)
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_LANDLOCK_CREATE_RULESET},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	var err error
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p))); errno != 0 {
		err = errno
	} else {
		err = unix.Exec(os.Args[1], os.Args[2:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "run without Landlock:", err)
	os.Exit(1)
}
