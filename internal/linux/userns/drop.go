package userns

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DropAll takes every capability from every thread of the calling process and
// sets no-new-privs. It cannot be undone. Capabilities belong to threads, so
// the runtime is asked to apply each call to all of them, which it can only
// do in a program without cgo (syscall.AllThreadsSyscall).
func DropAll() error {
	if _, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); e != 0 {
		return fmt.Errorf("clear ambient capabilities: %w", e)
	}
	if _, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return fmt.Errorf("set no-new-privs: %w", e)
	}
	if err := dropBounding(0); err != nil {
		return err
	}
	return capset(0)
}

// Keep takes every capability but those of the mask from every thread of the
// calling process, from all sets. It needs CAP_SETPCAP and cannot be undone.
func Keep(mask uint64) error {
	if err := dropBounding(mask); err != nil {
		return err
	}
	return capset(mask)
}

// dropBounding empties the bounding set but for the mask, which bounds what
// any later exec could give (capabilities(7)).
func dropBounding(mask uint64) error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if mask&(1<<c) != 0 {
			continue
		}
		if v, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil || v == 0 {
			continue // this kernel does not know it, or it is gone already
		}
		if _, _, e := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); e != 0 {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, e)
		}
	}
	return nil
}

func capset(mask uint64) error {
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{}
	for i := range data {
		half := uint32(mask >> (32 * i))
		data[i] = unix.CapUserData{Effective: half, Permitted: half}
	}
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(hdr)), uintptr(unsafe.Pointer(data)), 0)
	if e != 0 {
		return fmt.Errorf("drop capabilities: %w", e)
	}
	return nil
}

// AllCaps lists every capability the running kernel knows, for the ambient
// set of the helper.
func AllCaps() []uintptr {
	var caps []uintptr
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if v, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && v == 1 {
			caps = append(caps, c)
		}
	}
	return caps
}
