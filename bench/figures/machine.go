package figures

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// Line names kernel, CPUs, memory, the version of Go and who it was measured
// as.
func Line(who string) string {
	cpu := "unknown CPU"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.SplitSeq(info, []byte("\n")) {
			if name, ok := bytes.CutPrefix(line, []byte("model name")); ok {
				cpu = strings.TrimLeft(string(name), "\t: ")
				break
			}
		}
	}
	kernel := "unknown"
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(release))
	}
	var info syscall.Sysinfo_t
	_ = syscall.Sysinfo(&info)
	gb := (info.Totalram*uint64(info.Unit) + 1<<29) >> 30
	return fmt.Sprintf("Linux %s, %d CPUs (%s), %d GB, %s, as %s", kernel, runtime.NumCPU(), cpu, gb, runtime.Version(), who)
}
