package userns

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
)

// DropAll takes every capability from every thread of the calling process and
// sets no-new-privs. It cannot be undone. Capabilities belong to threads, so
// the runtime is asked to apply each call to all of them, which it can only
// do in a program without cgo (syscall.AllThreadsSyscall). The small program,
// which plays the roles that drop any, is built without; only where that
// cannot be executed does the rest of the build matter.
func DropAll() error {
	return leave(0)
}

// DropThread takes every capability in every set from the calling thread, the
// bounding set included, before it executes a program.
func DropThread() error {
	for _, c := range AllCaps() {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{}
	if err := unix.Capset(hdr, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// CanDrop reports why this program could not keep a promise to drop anything
// later, before anything is started that relies on it.
func CanDrop() error { return prctl("read no-new-privs", unix.PR_GET_NO_NEW_PRIVS, 0) }

// Keep takes every capability but those of the mask from every thread of the
// calling process, and sets no-new-privs. Of the mask it keeps what the
// process has: root in a container, or under setpriv(1), lacks some. It cannot
// be undone.
func Keep(mask uint64) error {
	have, err := permitted()
	if err != nil {
		return err
	}
	return leave(mask & have)
}

// leave leaves the mask alone. The ambient set goes with the other two
// (capabilities(7)). The bounding set stays as it is: it bounds what an exec
// adds, which after no-new-privs is nothing, and to empty it takes a pass over
// all threads for each capability, together some 10 ms of each start.
func leave(mask uint64) error {
	if err := prctl("set no-new-privs", unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return err
	}
	return capset(mask)
}

// Lacks names what a root caller's sandbox cannot be made without and the
// calling process has not: SETUID and SETGID map ids that are not its own,
// SETFCAP maps the id 0 for a mount (user_namespaces(7)), SYS_ADMIN opens the
// mounts.
func Lacks() []string {
	have, err := permitted()
	if err != nil {
		return nil // then they are missed where they are needed
	}
	var list []string
	for _, c := range []struct {
		name string
		bit  uint
	}{
		{"CAP_SETUID", unix.CAP_SETUID},
		{"CAP_SETGID", unix.CAP_SETGID},
		{"CAP_SETFCAP", unix.CAP_SETFCAP},
		{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN},
	} {
		if have&(1<<c.bit) == 0 {
			list = append(list, c.name)
		}
	}
	return list
}

// permitted is the set of the calling thread, which every thread of a process
// that has changed nothing yet has too.
func permitted() (uint64, error) {
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{}
	if err := unix.Capget(hdr, &data[0]); err != nil {
		return 0, fmt.Errorf("read capabilities: %w", err)
	}
	return uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32, nil
}

func capset(mask uint64) error {
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{}
	for i := range data {
		half := uint32(mask >> (32 * i))
		data[i] = unix.CapUserData{Effective: half, Permitted: half}
	}
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(hdr)), uintptr(unsafe.Pointer(data)), 0)
	return onThreads("drop capabilities", e)
}

// prctl makes one call on all threads of the process.
func prctl(what string, option, a uintptr) error {
	_, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, option, a, 0, 0, 0, 0)
	return onThreads(what, e)
}

// onThreads says what became of a call on all threads.
func onThreads(what string, e syscall.Errno) error {
	switch e {
	case 0:
		return nil
	case syscall.ENOTSUP:
		return bailey.WrapError(bailey.Unsupported, what+" on every thread", e, "this bailey was built with cgo: build it with CGO_ENABLED=0, as make does")
	}
	return fmt.Errorf("%s: %w", what, e)
}

// AllCaps lists every capability the running kernel knows, for the ambient
// set of the helper. A caller that lacks some has them in a user namespace of
// its own all the same, where its bounding set begins anew.
func AllCaps() []uintptr {
	var caps []uintptr
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil {
			caps = append(caps, c)
		}
	}
	return caps
}
