package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"
	"unsafe"
)

// Joins opens the files by which processes move themselves into the group: see
// Join. It returns none where they have to be moved by another, which is so in
// version 2.
func (g *Group) Joins() ([]*os.File, error) {
	if g.version != 1 {
		return nil, nil
	}
	var out []*os.File
	for _, p := range g.parts {
		f, err := os.OpenFile(path.Join(p.dir, "tasks"), os.O_WRONLY, 0)
		if err != nil {
			for _, o := range out {
				_ = o.Close()
			}
			return nil, fmt.Errorf("open cgroup: %w", err)
		}
		out = append(out, f)
	}
	return out, nil
}

// Join moves every thread of the calling process into the group of which these
// are the descriptors of Joins, by the rights of whoever opened them. Unlike a
// process that is moved by another, a thread that moves itself waits for no
// lock of the whole machine: for the first such move in a while that lock takes
// an RCU grace period, some 10 ms (cgroup_procs_write_start and percpu_down_write
// in Linux 6.18). The error wraps syscall.ENOTSUP in a program with cgo.
func Join(fds []int) error {
	self := []byte("0")
	for _, fd := range fds {
		n, _, e := syscall.AllThreadsSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&self[0])), uintptr(len(self)))
		if e != 0 {
			return fmt.Errorf("join cgroup: %w", e)
		}
		if int(n) != len(self) {
			return errors.New("join cgroup: short write")
		}
	}
	return nil
}
