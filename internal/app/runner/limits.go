package runner

import (
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

// What a task's sandbox may use. Callers cannot change it.
const (
	mostMemory = 8 << 30 // at most three quarters of the machine's
	mostCPUs   = 4
	processes  = 512
	openFiles  = 4096
	tmpBytes   = 2 << 30
	homeBytes  = 1 << 30
	diskBytes  = taskrun.WorkBytes
	inodes     = taskrun.WorkFiles
)

func limits(s *taskrun.Settings, cpus int, memory int64) config.LimitFlags {
	return config.LimitFlags{
		Memory: config.Bytes(min(mostMemory, memory/4*3)), CPUs: config.CPUs(1000 * min(mostCPUs, cpus)),
		PIDs: processes, NoFile: openFiles, TmpSize: tmpBytes, Disk: diskBytes, Inodes: inodes,
		Timeout: config.Duration(s.Limit),
	}
}
