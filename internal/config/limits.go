package config

import (
	"fmt"
	"time"

	"github.com/bailey-dev/bailey"
)

// Defaults of what one sandbox may use. docs/limits.md lists them.
const (
	defaultMemory    = 4 << 30
	defaultProcesses = 512
	defaultOpenFiles = 4096
	defaultTmp       = 2 << 30
	defaultDisk      = 20 << 30
	defaultInodes    = 1_000_000
)

// LimitFlags are the limits as a person set them; zero is unset.
type LimitFlags struct {
	Memory  Bytes
	CPUs    CPUs
	PIDs    Count
	NoFile  Count
	TmpSize Bytes
	Disk    Bytes
	Inodes  Count
	Timeout Duration
}

// Limits fills the defaults in. cpus and memory are what the machine has: a
// default never exceeds three quarters of the memory, so that the host lives.
func (f LimitFlags) Limits(cpus int, memory int64) bailey.Limits {
	pick := func(set, def int64) int64 {
		if set > 0 {
			return set
		}
		return def
	}
	return bailey.Limits{
		MemoryBytes: pick(int64(f.Memory), min(defaultMemory, memory/4*3)),
		MilliCPUs:   pick(int64(f.CPUs), int64(cpus)*1000),
		Processes:   pick(int64(f.PIDs), defaultProcesses),
		OpenFiles:   pick(int64(f.NoFile), defaultOpenFiles),
		TmpBytes:    pick(int64(f.TmpSize), defaultTmp),
		DiskBytes:   pick(int64(f.Disk), defaultDisk),
		Inodes:      pick(int64(f.Inodes), defaultInodes),
		Timeout:     time.Duration(f.Timeout),
	}
}

// The least that a sandbox starts and lives with: its own kernel takes memory,
// its first process threads and descriptors.
const (
	minMemory    = 96 << 20
	minProcesses = 16
	minOpenFiles = 32
	minBytes     = 64 << 10 // of what may be written, in the workspace and in /tmp
)

// The most that gVisor's kernel has: half of its thread numbers (its
// TasksLimit), and the descriptors of a process (fs.nr_open).
const (
	maxProcesses = 1 << 15
	maxOpenFiles = 1 << 20
)

// Check reports a limit that no sandbox can start with.
func Check(l bailey.Limits) error {
	switch {
	case l.MemoryBytes < minMemory:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--memory: %s is too little for a sandbox", Bytes(l.MemoryBytes)),
			fmt.Sprintf("use --memory %s or more, or leave it out", Bytes(minMemory)))
	case l.DiskBytes < minBytes:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--disk: %s is too little for a sandbox", Bytes(l.DiskBytes)),
			fmt.Sprintf("use --disk %s or more, or leave it out", Bytes(minBytes)))
	case l.TmpBytes < minBytes:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--tmp-size: %s is too little for a sandbox", Bytes(l.TmpBytes)),
			fmt.Sprintf("use --tmp-size %s or more, or leave it out", Bytes(minBytes)))
	case l.Processes < minProcesses || l.Processes > maxProcesses:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--pids: %d is not between %d and %d", l.Processes, minProcesses, maxProcesses),
			"leave it out for 512; the first process alone has several threads")
	case l.OpenFiles < minOpenFiles || l.OpenFiles > maxOpenFiles:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--nofile: %d is not between %d and %d", l.OpenFiles, minOpenFiles, maxOpenFiles),
			"leave it out for 4096")
	}
	return nil
}
