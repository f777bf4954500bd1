package harden

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// BoundData ends the process when it wants more memory of its own than that, in
// bytes: the kernel then refuses it (RLIMIT_DATA), and Go's runtime gives up.
// What Go reserves and does not use is not counted.
func BoundData(most uint64) error {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_DATA, &l)
	if err == nil {
		most = min(most, l.Max)
		err = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most})
	}
	if err != nil {
		return fmt.Errorf("bound the memory of this process: %w", err)
	}
	return nil
}

// oomScore is where bailey's roles that hold what strangers send stand, of 1000,
// when the machine has no memory left: before what the user runs beside them.
const oomScore = 500

// FirstToGo has the kernel end this process before others when the machine has
// no memory left (proc_pid_oom_score_adj(5)), unless it would already. A process
// may do that to itself, as long as it is dumpable. It is a favour to the
// machine: where /proc does not take it, the kernel chooses as it does.
func FirstToGo() {
	fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd) //nolint:errcheck // it was written, or not
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	var now int
	if _, bad := fmt.Sscan(string(b[:max(n, 0)]), &now); err == nil && bad == nil && now < oomScore {
		_, _ = unix.Pwrite(fd, fmt.Append(nil, oomScore), 0)
	}
}
