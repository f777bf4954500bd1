package userns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey/internal/role"
)

// Argv0 is the name of the process that holds a namespace for MapFD while it
// is opened.
const Argv0 = role.IDMap

// MapFD returns a user namespace whose map, applied to a mount, exchanges two
// ids: files of diskUID are shown as files of seenUID, what seenUID makes is
// diskUID's on disk, and files of seenUID, should there be any, are shown as
// diskUID's. Every other id that exists here is shown as itself: without an
// entry its files could not even be read (EOVERFLOW, mount_setattr(2)). The
// same holds for groups. Only a caller with CAP_SETUID in its own namespace
// (root) may make one.
func MapFD(diskUID, seenUID, diskGID, seenGID int) (*os.File, error) {
	uids, err := exchange("/proc/self/uid_map", diskUID, seenUID)
	if err != nil {
		return nil, err
	}
	gids, err := exchange("/proc/self/gid_map", diskGID, seenGID)
	if err != nil {
		return nil, err
	}
	// The child is stopped by ptrace before its first instruction; it exists
	// to hold the namespace while a descriptor of it is opened.
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		Ptrace:      true,
		Pdeathsig:   syscall.SIGKILL,
		UidMappings: uids,
		GidMappings: gids,
	}
	p, err := os.StartProcess("/proc/self/exe", []string{Argv0}, &os.ProcAttr{Sys: attr})
	if err != nil {
		return nil, fmt.Errorf("make user namespace for an id map: %w", err)
	}
	f, openErr := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	killErr := p.Kill()
	_, waitErr := p.Wait()
	if err := errors.Join(openErr, killErr, waitErr); err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return nil, fmt.Errorf("hold user namespace for an id map: %w", err)
	}
	return f, nil
}

// maxExtents is how many lines the kernel takes for one map
// (user_namespaces(7)).
const maxExtents = 340

// exchange maps a to b and b to a, and every other id of the caller's own
// namespace, whose map is the file own, to itself.
func exchange(own string, a, b int) ([]syscall.SysProcIDMap, error) {
	text, err := os.ReadFile(own)
	if err != nil {
		return nil, fmt.Errorf("read own id map: %w", err)
	}
	swap := []syscall.SysProcIDMap{{ContainerID: a, HostID: b, Size: 1}, {ContainerID: b, HostID: a, Size: 1}}
	maps := swap
	for line := range strings.Lines(string(text)) {
		var first, outside, size int
		if _, err := fmt.Sscan(line, &first, &outside, &size); err != nil {
			return nil, fmt.Errorf("read own id map: %q: %w", line, err)
		}
		maps = append(maps, identity(first, first+size, min(a, b), max(a, b))...)
	}
	if len(maps) > maxExtents { // a namespace of scraps: its other ids are not shown
		return swap, nil
	}
	return maps, nil
}

// identity maps the ids of [from, to) to themselves, but for two of them.
func identity(from, to, low, high int) []syscall.SysProcIDMap {
	var maps []syscall.SysProcIDMap
	for _, end := range []int{low, high, to} {
		if end = min(end, to); from < end {
			maps = append(maps, syscall.SysProcIDMap{ContainerID: from, HostID: from, Size: end - from})
		}
		from = max(from, end+1)
	}
	return maps
}

// Try makes a user namespace with the caller's own id mapped, as a sandbox's
// helper has one, and lets go of it at once. The error says what the kernel
// said.
func Try() error {
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		Ptrace:      true, // stopped before its first instruction
		Pdeathsig:   syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	p, err := os.StartProcess("/proc/self/exe", []string{Argv0}, &os.ProcAttr{Sys: attr})
	if err != nil {
		return fmt.Errorf("make a user namespace: %w", err)
	}
	killErr := p.Kill()
	_, waitErr := p.Wait()
	return errors.Join(killErr, waitErr)
}

// NoMore keeps anybody in the calling process's user namespace, and in those
// that are below it, from making another namespace of any kind
// (namespaces(7)). It needs CAP_SYS_RESOURCE there.
func NoMore() error {
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the kernel has no such kind
			return fmt.Errorf("bound namespaces: %w", err)
		}
	}
	return nil
}
