package proc

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// userHertz is the unit of times in /proc/PID/stat: it is 100 on every Linux
// whose ABI a program can see (sysconf(3), _SC_CLK_TCK).
const userHertz = 100

// CPU returns how long a process and those of its children that it has waited
// for had a processor.
func CPU(pid int) (time.Duration, error) {
	b, err := readFile(pid, "stat")
	if err != nil {
		return 0, err
	}
	end := bytes.LastIndexByte(b, ')') // proc_pid_stat(5): the name may hold anything
	f := bytes.Fields(b[end+1:])
	const first, last = 11, 14 // utime, stime, cutime, cstime
	if end < 0 || len(f) <= last {
		return 0, fmt.Errorf("read stat of process %d: too short", pid)
	}
	ticks := int64(0)
	for _, field := range f[first : last+1] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read stat of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHertz, nil
}
