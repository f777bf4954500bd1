package watch

import (
	"time"

	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// Argv0 is the name under which a program plays the watchdog.
const Argv0 = role.Watchdog

// The descriptors that a watchdog is started with, beside the standard ones.
const (
	SettingsFD = 3 // one Settings as JSON, then EOF
	ControlFD  = 4 // Message lines; EOF means that the starter is dead
	ReportFD   = 5 // Report lines
)

// Settings is what a watchdog is told at its start. Zero in a field means that
// there is nothing to watch or clean up there.
type Settings struct {
	// Cgroup is killed empty and removed at the end. It need not exist yet.
	Cgroup cgroup.Place `json:"cgroup"`

	// Timeout ends the sandbox Grace after it has passed, counted from the
	// watchdog's start: the starter, whose business it is, comes first.
	Timeout time.Duration `json:"timeout"`
	Grace   time.Duration `json:"grace"`

	// MemoryBytes bounds the memory of the helper's descendants, and of the
	// helper itself if CountHelper. Only for a sandbox whose limit no cgroup
	// enforces.
	MemoryBytes int64 `json:"memory_bytes"`
	CountHelper bool  `json:"count_helper"`

	// Memories are the memory file systems of a sandbox without gVisor, as its
	// processes name them: what is in them is in no process's memory.
	Memories []string `json:"memories"`

	// Workspace is an absolute path without symbolic links. DiskBytes and
	// Inodes bound by how much what lies in it grows, on its own file system
	// and on others that are mounted in it.
	Workspace string `json:"workspace"`

	// Also are further folders and files that the sandbox may write to: they
	// count with the workspace.
	Also      []string `json:"also"`
	DiskBytes int64    `json:"disk_bytes"`
	Inodes    int64    `json:"inodes"`

	// Guard is what may not be left behind in the workspace: it is reverted when
	// the starter dies without a Done. What was made since Started counts as the
	// sandbox's, for the guard and for the limits; zero is the watchdog's start.
	// It is by the clock of files' stamps (beneath.Clock).
	Guard   workspace.Guard `json:"guard"`
	Started time.Time       `json:"started"`

	// StaleSocket is the path of the starter's Unix socket: it is removed when
	// the starter dies without a Done, unless somebody listens on it again.
	StaleSocket string `json:"stale_socket"`
}

// Message is one line from the starter. Exactly one of its parts is set.
type Message struct {
	Helper  *proc.Identity `json:"helper,omitempty"`  // the sandbox's first process: who kills it kills all
	Memory  int64          `json:"memory,omitempty"`  // Settings.MemoryBytes, known only now
	Measure bool           `json:"measure,omitempty"` // how much the workspace has grown: one Report answers
	Done    bool           `json:"done,omitempty"`    // the sandbox is over: clean up the cgroup and end
}

// The limits that a Report names.
const (
	Memory  = "memory"
	Disk    = "disk"
	Inodes  = "inodes"
	Timeout = "timeout"
)

// Report is one line to the starter. The first says that the watchdog is Ready,
// or by its Message why it cannot be; each further one that a limit was passed
// and the sandbox was killed for it.
type Report struct {
	Ready   bool `json:"ready,omitempty"`
	Counted bool `json:"counted,omitempty"` // with Ready: the workspace has been counted, or need not be

	Growth *Growth `json:"growth,omitempty"` // by the last walk; the answer to Measure, and no limit

	Limit   string `json:"limit"`   // one of the constants
	Message string `json:"message"` // one sentence for a person
	Value   int64  `json:"value"`   // what was measured: bytes, files, or nanoseconds
}

// Growth is by how much the workspace has grown.
type Growth struct {
	Bytes  int64 `json:"bytes"`
	Inodes int64 `json:"inodes"`
	Known  bool  `json:"known"` // it has been counted
}
