package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// RSS returns the bytes of memory that the process has mapped and present,
// each page counted in full however many processes share it. Everybody may
// read it. The kernel keeps the number loosely: it may lag by some megabytes.
func RSS(pid int) (int64, error) {
	b, err := readFile(pid, "statm")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, fmt.Errorf("statm of process %d reads %q", pid, b)
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("statm of process %d: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// PSS returns the process's share of memory in bytes: a page that n processes
// map counts as an nth. Summed over all that share, it counts each page once.
// It needs the right to look into the process (ptrace(2)), and takes about
// 10 ms for each GiB.
func PSS(pid int) (int64, error) {
	b, err := readFile(pid, "smaps_rollup")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		rest, ok := strings.CutPrefix(string(line), "Pss:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("smaps_rollup of process %d: %w", pid, err)
		}
		return kb * 1024, nil
	}
	return 0, fmt.Errorf("smaps_rollup of process %d has no Pss", pid)
}
