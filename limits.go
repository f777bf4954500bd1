package bailey

import "time"

// Limits bounds what one sandbox may use. Zero in a field means the default
// of internal/config has not been applied yet, never "unlimited".
type Limits struct {
	MemoryBytes int64         `json:"memory_bytes"` // RAM of the whole sandbox, its kernel included; no swap
	MilliCPUs   int64         `json:"milli_cpus"`   // 1000 is one CPU
	Processes   int64         `json:"processes"`    // RLIMIT_NPROC inside
	OpenFiles   int64         `json:"open_files"`   // RLIMIT_NOFILE inside
	TmpBytes    int64         `json:"tmp_bytes"`    // each tmpfs of the sandbox
	DiskBytes   int64         `json:"disk_bytes"`   // growth of the workspace
	Inodes      int64         `json:"inodes"`       // growth of the workspace, in files and folders
	Timeout     time.Duration `json:"timeout"`      // wall clock; 0 means no deadline
}
