package cgroup

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Usage is what the processes of a group use. A part that its controllers do
// not tell is -1.
type Usage struct {
	MemoryBytes int64
	CPU         time.Duration
}

// Usage reads what the group uses. It may be called while others use the Group.
func (g *Group) Usage() Usage { //nolint:gocognit // both versions side by side
	u := Usage{MemoryBytes: -1, CPU: -1}
	for _, p := range g.parts {
		if g.version == 2 { //nolint:nestif // both versions side by side
			if n, err := number(p.dir, "memory.current"); err == nil {
				u.MemoryBytes = n
			}
			if b, err := os.ReadFile(path.Join(p.dir, "cpu.stat")); err == nil {
				if n, err := field(string(b), "usage_usec"); err == nil {
					u.CPU = time.Duration(n) * time.Microsecond
				}
			}
			continue
		}
		if n, err := number(p.dir, "memory.usage_in_bytes"); err == nil {
			u.MemoryBytes = n
		}
		if n, err := number(p.dir, "cpuacct.usage"); err == nil {
			u.CPU = time.Duration(n)
		}
	}
	return u
}

// number reads a file that holds one.
func number(dir, name string) (int64, error) {
	b, err := os.ReadFile(path.Join(dir, name))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}
