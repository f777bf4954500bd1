package harden

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// oomScore is where bailey's roles that hold what strangers send stand, of 1000,
// when the machine has no memory left: before what the user runs beside them.
const oomScore = 500

// FirstToGo has the kernel end this process before others when the machine has
// no memory left (proc_pid_oom_score_adj(5)), unless it would already. A process
// may do that to itself, as long as it is dumpable; where /proc is not to be
// written the kernel chooses as it does.
func FirstToGo() error {
	const file = "/proc/self/oom_score_adj"
	b, err := os.ReadFile(file)
	if err == nil {
		now, bad := strconv.Atoi(strings.TrimSpace(string(b)))
		if bad == nil && now >= oomScore {
			return nil
		}
		err = os.WriteFile(file, []byte(strconv.Itoa(oomScore)), 0)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("raise the score at which this process is ended: %w", err)
	}
	return nil
}

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
