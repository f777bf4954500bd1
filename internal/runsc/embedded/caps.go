package embedded

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sparePasses lets a process that gVisor starts keep its bounding set, which
// it would narrow in 36 passes over all its threads, 7 to 10 ms of each start.
// The set bounds what an exec can add (capabilities(7)), and after this no
// exec adds anything: no new privileges. What gVisor gives up of the
// capabilities themselves it gives up as before.
func sparePasses() error {
	_, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	switch e {
	case 0:
	case syscall.ENOTSUP: // a build with cgo, where gVisor narrows one thread and executes itself anew
		return nil
	default:
		return fmt.Errorf("set no-new-privs: %w", e)
	}
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{}
	if err := unix.Capget(hdr, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	// Without CAP_SETPCAP gVisor leaves the bounding set alone. Its kernel asks
	// for CAP_SYS_PTRACE and needs it for no program of its own id; as user 0 of
	// its namespace it would get it.
	const needless = 1<<unix.CAP_SETPCAP | 1<<unix.CAP_SYS_PTRACE
	data[0].Effective &^= needless
	data[0].Permitted &^= needless
	data[0].Inheritable &^= needless
	_, _, e = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(hdr)), uintptr(unsafe.Pointer(data)), 0)
	if e != 0 {
		return fmt.Errorf("give up capabilities: %w", e)
	}
	return nil
}
