package posture

import "slices"

// Arg is the argument that makes the binary inside a sandbox print its
// posture.
const Arg = "posture"

// Role is what a process is for.
type Role string

// The roles of a run on the host's side, the two kinds of process inside, and
// the roles of a service for tasks.
const (
	CLI      Role = "run"
	Watchdog Role = "watchdog"
	Proxy    Role = "proxy"
	Gateway  Role = "gateway" // of a run with a model
	Signer   Role = "signer"  // of a run with git over SSH
	Key      Role = "key"     // carries that model's key, and ends
	Helper   Role = "helper"
	Runsc    Role = "runsc"
	Gofer    Role = "gofer"
	Sentry   Role = "sentry"
	Stub     Role = "stub"    // a process of gVisor's whose only code is the sandbox's
	Native   Role = "native"  // process 1 of a sandbox with the host's kernel, as the host sees it
	Shared   Role = "shared"  // a command of such a sandbox, likewise
	First    Role = "first"   // process 1 inside
	Command  Role = "command" // a command inside
	Launcher Role = "launcher"
	Control  Role = "control"
	Runner   Role = "runner"  // holds the sandbox of a task or a check
	Git      Role = "git"     // has a repository in its hands, for one operation
	Catalog  Role = "catalog" // lists models and agents, and ends
	Unknown  Role = "unknown"
)

// Seen says whether something is so, or cannot be seen by this reader.
type Seen string

// The values of Seen.
const (
	Yes    Seen = "yes"
	No     Seen = "no"
	Unseen Seen = "unseen"
)

// Caps are the five capability sets of capabilities(7), one bit each.
type Caps struct {
	Inheritable uint64 `json:"inheritable"`
	Permitted   uint64 `json:"permitted"`
	Effective   uint64 `json:"effective"`
	Bounding    uint64 `json:"bounding"`
	Ambient     uint64 `json:"ambient"`
}

// Posture is what a process may do. Every field says by its tag how Diff
// compares it: equal (no tag); "subset": nothing but what is expected; "info":
// not compared. A field without json name would be lost on the way out of a
// sandbox, which a test forbids.
type Posture struct {
	Role Role `json:"role" posture:"info"`
	PID  int  `json:"pid" posture:"info"` // as its reader sees it

	UIDs   []int `json:"uids"`   // real, effective, saved, file system
	GIDs   []int `json:"gids"`   // the same
	Groups []int `json:"groups"` // supplementary

	Caps       Caps `json:"caps"`
	NoNewPrivs bool `json:"no_new_privs"`
	Seccomp    int  `json:"seccomp"`  // 0 none, 2 filter
	Dumpable   Seen `json:"dumpable"` // may others of its user trace it and read its memory

	// Namespaces has "own" or "shared" for each kind, against the reader's.
	Namespaces map[string]string `json:"namespaces"`

	// FDs are the kinds of open descriptors: pipe, socket, anon:KIND,
	// memfd:NAME, sandbox for a file of a mount that the reader's namespace
	// does not have, host:PATH for one that it has.
	FDs []string `json:"fds" posture:"subset"`

	// Mounts are the mounts in sight, each "POINT SOURCE FLAGS". SOURCE is
	// own:PATH on the file system of its root, else DEVICE:PATH; FLAGS are ro
	// or rw, and suid and dev where allowed.
	Mounts []string `json:"mounts" posture:"subset"`

	Root string   `json:"root" posture:"info"`
	Cwd  string   `json:"cwd"`
	Env  []string `json:"env" posture:"subset"` // names

	CoreBytes string            `json:"core_bytes"`             // hard limit of core files
	Limits    map[string]string `json:"limits" posture:"info"`  // soft/hard
	InGroup   bool              `json:"in_group"`               // is in a cgroup of bailey's
	Cgroups   []string          `json:"cgroups" posture:"info"` // as /proc has them

	Uniform bool `json:"uniform"`                // all threads have the same ids, capabilities and filters
	Threads int  `json:"threads" posture:"info"` // how many
	// Hidden are the fields that the reader has no right to read; Diff passes
	// them over. Who cannot be read cannot be traced either.
	Hidden []string `json:"hidden,omitempty" posture:"info"`
}

// hide notes fields that could not be read.
func (p *Posture) hide(fields ...string) {
	for _, f := range fields {
		if !slices.Contains(p.Hidden, f) {
			p.Hidden = append(p.Hidden, f)
		}
	}
}
