// Package launcher is the closed list of operations by which the role that
// people, planners and agents' output meet (internal/app/control) has the
// privileged one (internal/app/launcher) do its work. Callers name what is to
// be done to which task, and never how: no path but that of the user's
// repository, no command but a check's, no mount, variable or flag.
//
// What an agent wrote crosses as a descriptor to read and is not parsed on the
// privileged side.
package launcher

import (
	"context"
	"os"
	"time"

	"github.com/bailey-dev/bailey/internal/task"
)

// Engine is the list. Ids have been checked where an Engine is implemented,
// whoever calls. All errors that the caller can cause are *bailey.Error.
type Engine interface { //nolint:interfacebloat // it is the whole list, and closed
	// Examine says what would keep a task from its beginning: it reads the
	// user's settings anew, and looks for the commit and the environment. The
	// id is its own, and nothing is kept of it.
	Examine(ctx context.Context, r ExamineRequest) (Examined, error)
	// Snapshot makes the task's folder and copies a commit of the user's
	// repository into its shadow, and that into the scratch clone. Again with
	// the same id and request it returns what is there.
	Snapshot(ctx context.Context, r SnapshotRequest) (Snapshot, error)
	// StartAgent starts the agent of a task whose snapshot is there. Again
	// for a task whose agent was started it returns the same streams.
	StartAgent(ctx context.Context, r AgentRequest) (Streams, error)
	// StartCheck starts a command on a fresh copy of a commit of a
	// repository, without any way out. The id is the check's own.
	StartCheck(ctx context.Context, r CheckRequest) (Streams, error)
	// Status says how a sandbox does; with wait it returns when it has ended.
	Status(ctx context.Context, id task.ID, wait bool) (Status, error)
	// Stop ends a sandbox and returns when it is gone.
	Stop(ctx context.Context, id task.ID) error
	// HandBack takes the scratch clone of an ended task back from the agent's
	// id and reads it as data into one commit of the shadow. What it found is
	// in a file: a Collected as JSON, behind it the diff.
	HandBack(ctx context.Context, id task.ID) (Collection, error)
	// Deliver puts the commit into the user's repository as agent/<id>.
	Deliver(ctx context.Context, id task.ID) (Delivered, error)
	// DeleteBranch deletes an agent/ branch of a repository, and no other.
	DeleteBranch(ctx context.Context, path, branch string) (Deleted, error)
	// Remove takes away all that the launcher keeps of an ended task.
	Remove(ctx context.Context, id task.ID) error
	// Known lists the tasks and checks that the launcher keeps something of.
	Known(ctx context.Context) ([]Status, error)
	// Models lists what models.yaml has, and which agents are installed.
	Models(ctx context.Context) ([]task.Model, error)
}

// ExamineRequest names what a task needs.
type ExamineRequest struct {
	ID          task.ID `json:"id"`
	Path        string  `json:"path"`          // absolute: a folder in the user's repository
	Ref         string  `json:"ref,omitempty"` // default HEAD
	Environment string  `json:"environment,omitempty"`
}

// Examined is what was found.
type Examined struct {
	Repo        string `json:"repo"`         // root of the work tree
	MaxParallel int    `json:"max_parallel"` // as config.yaml has it now; 0: any number
}

// SnapshotRequest names the commit that a task begins from.
type SnapshotRequest struct {
	ID           task.ID `json:"id"`
	Path         string  `json:"path"`          // absolute: a folder in the user's repository
	Ref          string  `json:"ref,omitempty"` // default HEAD
	IncludeDirty bool    `json:"include_dirty,omitempty"`
}

// Snapshot is what a task begins from.
type Snapshot struct {
	Repo     string   `json:"repo"`               // root of the work tree
	Subdir   string   `json:"subdir"`             // of Path below it, slash-separated; empty for the root
	Base     string   `json:"base"`               // object id
	Warnings []string `json:"warnings,omitempty"` // uncommitted work that is not seen, submodules left out, LFS pointers, …
}

// AgentRequest says who works on a task, and how long.
type AgentRequest struct {
	ID             task.ID       `json:"id"`
	Harness        string        `json:"harness"`
	Model          string        `json:"model"`
	Prompt         string        `json:"prompt"` // the task as the agent gets it, preamble and all
	MaxTurns       int           `json:"max_turns"`
	Timeout        time.Duration `json:"timeout"`
	Budget         []string      `json:"budget,omitempty"`
	Environment    string        `json:"environment,omitempty"`
	Guide          bool          `json:"guide"`
	ThinkingTokens int           `json:"thinking_tokens,omitempty"`
}

// CheckRequest says what is to be run on which commit.
type CheckRequest struct {
	ID          task.ID       `json:"id"`
	Path        string        `json:"path"`   // absolute: a folder in the user's repository
	Branch      string        `json:"branch"` // without refs/heads/
	Command     string        `json:"command"`
	Environment string        `json:"environment,omitempty"`
	Timeout     time.Duration `json:"timeout"`
}

// Streams are files that grow while a sandbox lives; who reads them reads on
// until Status says that it has ended. The reader closes them.
type Streams struct {
	Output *os.File // what the agent or the check printed, stdout and stderr of a check together; bounded
	Errors *os.File // an agent's stderr; nil for a check
	Events *os.File // bailey's own events, JSON lines (docs/events.md)
	Commit string   // of a check: what the branch was
}

// Phase is how far a sandbox is.
type Phase string

// The phases.
const (
	Prepared Phase = "prepared" // the snapshot is there and nothing runs
	Live     Phase = "live"
	Ended    Phase = "ended"
	Gathered Phase = "gathered" // the work is in the shadow
	Sent     Phase = "sent"     // and in the user's repository
)

// Status is a sandbox of a task or check.
type Status struct {
	ID       task.ID   `json:"id"`
	Check    bool      `json:"check"`
	Phase    Phase     `json:"phase"`
	ExitCode int       `json:"exit_code"`       // of the agent or command, as of docs/events.md; -1 if bailey died with it
	Limit    string    `json:"limit,omitempty"` // that ended it: timeout, memory, disk, inodes, stop, lost, …
	Error    string    `json:"error,omitempty"` // why it could not run
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	HostID   int       `json:"host_id"`         // uid that the agent has on the host
	Notes    []string  `json:"notes,omitempty"` // what of the promised could not be had on this machine
}

// Collection is a file that begins with a Collected as one line of JSON; the
// rest is the diff.
type Collection struct {
	File *os.File // at its beginning; the reader closes it
}

// Collected is what the work was found to be. Every string but Commit is the
// agent's word.
type Collected struct {
	Commit    string         `json:"commit"` // object id; empty if nothing was changed
	DiffStat  string         `json:"diffstat"`
	Planted   []task.Planted `json:"planted"`
	Refused   []string       `json:"refused"` // paths that were left out, each with the reason
	Warnings  []string       `json:"warnings"`
	DiffBytes int64          `json:"diff_bytes"` // of the whole diff; what follows may be less
}

// Delivered is where the work went.
type Delivered struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}

// Deleted is what became of a branch that was to go.
type Deleted struct {
	Deleted bool   `json:"deleted"`          // it was there
	Commit  string `json:"commit,omitempty"` // that it had
}
