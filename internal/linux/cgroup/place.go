package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long Kill and Remove wait for the kernel.
const (
	patience = 10 * time.Second // an overloaded machine takes seconds to let go of a group
	pause    = 2 * time.Millisecond
)

// Kill ends every process in the group, also those that fork meanwhile, and
// returns when none is left. A group that does not exist has none.
func (p Place) Kill() error {
	var errs []error
	for _, dir := range p.Dirs {
		_ = write(dir, "pids.max", "0") // no more forks; other hierarchies lack the file
	}
	for _, dir := range p.Dirs {
		errs = append(errs, killDir(dir))
	}
	return errors.Join(errs...)
}

func killDir(dir string) error {
	for range int(patience / pause) {
		pids, err := members(dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		if write(dir, "cgroup.kill", "1") != nil { // Linux 5.14, version 2
			if err := killMembers(dir, pids); err != nil {
				return err
			}
		}
		<-time.After(pause)
	}
	return fmt.Errorf("kill cgroup %s: processes are left after %s", dir, patience)
}

// killMembers kills those of pids that are in the group and no others: a pidfd
// first holds the process that has the pid now; if the pid is in the group
// still, the process held is a member, or has just ended.
func killMembers(dir string, pids []int) error {
	held := make(map[int]int, len(pids))
	defer func() {
		for _, fd := range held {
			_ = unix.Close(fd)
		}
	}()
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			held[pid] = fd
		}
	}
	again, err := members(dir)
	if err != nil {
		return err
	}
	for _, pid := range again {
		fd, ok := held[pid]
		if !ok {
			continue // next round
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return nil
}

// maxHeld bounds the descriptors of one round.
const maxHeld = 256

// members lists up to maxHeld processes of the group; none if there is no group.
func members(dir string) ([]int, error) {
	b, err := os.ReadFile(path.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list processes of cgroup: %w", err)
	}
	var pids []int
	for f := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 && len(pids) < maxHeld {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Remove removes the group, waiting a little for processes that are just
// ending, and the folder around it if no other sandbox uses it. A group that
// does not exist is no error.
func (p Place) Remove() error {
	var errs []error
	for _, dir := range p.Dirs {
		errs = append(errs, removeDir(dir))
	}
	return errors.Join(errs...)
}

func removeDir(dir string) error {
	var err error
	for range int(patience / pause) {
		err = unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			_ = unix.Rmdir(path.Dir(dir)) // refused while another sandbox is in it
			return nil
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EINTR) {
			break
		}
		<-time.After(pause)
	}
	return fmt.Errorf("remove cgroup %s: %w", dir, err)
}
