package seccomp

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Needs is what a process keeps beside what every program of Go takes and the
// use of descriptors that it has or is given: threads, memory without code in
// it, waiting, reading files, and what is said on open sockets.
type Needs struct {
	Folder bool // files and folders are made, renamed and removed
	Dial   bool // TCP and UDP sockets of IPv4 and IPv6 are made and connected
	Routes bool // the kernel is asked for links and routes (netlink(7))
}

// Confine leaves the process what it needs, by a list of what is allowed. It
// starts no process, executes no program and no code that it did not begin
// with, makes no other sockets than Needs has, none of the file system's
// above all, binds none to a port, listens on none, and signals and limits no
// process but itself. It cannot be undone.
//
// It also sets no-new-privileges on all threads, which the kernel requires.
func Confine(n Needs) error { return confined(n, os.Getpid()).install() }

// ConfineStarter takes away what no program that works on files needs, by a
// list of what is refused: it is for a process that starts programs of the
// machine's, and those call what they like. It leaves no socket, no mount, no
// namespace, no key, no sight of other processes, and no part of the kernel
// that escapes are made of. Signals are left, and have to be bounded by a PID
// namespace. It cannot be undone, and binds what is started.
func ConfineStarter() error { return starter().install() }

// ConfineSandbox leaves the process, and all that it starts, what programs that
// people work with need, by a list of what is allowed: it is for a sandbox that
// has the host's kernel (docs/adr/0017). It cannot be undone.
func ConfineSandbox() error { return sandbox().install() }

// install has the kernel apply the filter to all threads.
func (f filter) install() error {
	program, err := f.assemble()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no-new-privileges: %w", err)
	}
	// The kernel passes no-new-privileges on to the other threads with the
	// filter; TSYNC_ESRCH says as an errno that one has another filter.
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}
