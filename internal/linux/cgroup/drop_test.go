package cgroup_test

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// lockAndDrop gives the calling goroutine's thread, which then ends with it,
// the rights of an ordinary user.
func lockAndDrop() {
	runtime.LockOSThread()
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, 65533, 65533, 65533); e != 0 {
		panic(e)
	}
}
