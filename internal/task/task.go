package task

import (
	"context"
	"time"
)

// ID names a task and all that belongs to it: its branch is "agent/" and the
// id. It matches ^[0-9a-z][0-9a-z-]{0,63}$, so no path or ref made from it can
// look like anything else.
type ID string

// Valid reports whether an id has the one form that is let through.
func (id ID) Valid() bool {
	if id == "" || len(id) > 64 || id[0] == '-' {
		return false
	}
	for i := range len(id) {
		if c := id[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// BranchPrefix begins the name of every branch that bailey makes or deletes.
const BranchPrefix = "agent/"

// Branch is the name of the branch that holds the result, without refs/heads/.
func (id ID) Branch() string { return BranchPrefix + string(id) }

// Request is what a planner asks for. The zero value of a field means its
// default, which the comment gives.
type Request struct {
	Task           string   `json:"task"`                      // what to do; at most MaxTask bytes
	RepoPath       string   `json:"repo_path"`                 // absolute: a folder in the repository
	Model          string   `json:"model,omitempty"`           // of models.yaml; default: its default
	Harness        string   `json:"harness,omitempty"`         // claude, codex, gemini, opencode, pi; default: the first installed one that speaks the model's dialect
	MaxTurns       int      `json:"max_turns,omitempty"`       // default 60
	TimeoutMinutes int      `json:"timeout_minutes,omitempty"` // wall clock of the agent; default 30, at most 240
	TimeoutSeconds int      `json:"timeout_seconds,omitempty"` // the same to the second; one of the two
	Budget         []string `json:"budget,omitempty"`          // as of `bailey run --budget`: "2M", "5usd"
	Environment    string   `json:"environment,omitempty"`     // name or path of what `bailey env build` made
	Ref            string   `json:"ref,omitempty"`             // commit to start from; default HEAD
	IncludeDirty   bool     `json:"include_dirty,omitempty"`   // uncommitted work becomes a base commit of its own
	Guide          *bool    `json:"guide,omitempty"`           // default true: the executor guide is the agent's own instruction file
	Preamble       *bool    `json:"preamble,omitempty"`        // default true: the task has a preamble; false sends it as it is
	ThinkingTokens int      `json:"thinking_tokens,omitempty"` // default: the agent's own
	Checks         string   `json:"checks,omitempty"`          // a command to run on the branch afterwards
	Environ        []string `json:"-"`                         // nothing of the caller's environment enters
	IdempotencyKey string   `json:"idempotency_key,omitempty"` // the same key and request is the same task; at most 128 bytes
	Name           string   `json:"name,omitempty"`            // for people, in lists; at most 64 bytes
	Group          string   `json:"group,omitempty"`           // tasks of one `--n`, to be compared
}

// How many sandboxes of one service run at once, whatever its settings and
// models.yaml say: each may take the memory of a machine.
const (
	MostAgents = 28
	MostChecks = 4
)

// Bounds of a request.
const (
	MaxTask           = 512 << 10
	DefaultMaxTurns   = 60
	MostTurns         = 1000
	MostThinking      = 1_000_000
	DefaultTimeout    = 30 * time.Minute
	MostTimeout       = 240 * time.Minute
	DefaultCheckLimit = 15 * time.Minute
	MostCheckLimit    = time.Hour
)

// State is where a task is in its life.
type State string

// The states, in their order. A task that has ended stays in Done.
const (
	Queued     State = "queued"     // it waits for a place among max_agents of its model
	Preparing  State = "preparing"  // snapshot, clone, start of the sandbox
	Running    State = "running"    // the agent works
	Collecting State = "collecting" // the work is read as data and delivered
	Done       State = "done"       // Result is whole
)

// Status is how a task ended.
type Status string

// The ends.
const (
	Success      Status = "success"
	MaxTurns     Status = "error_max_turns"
	Timeout      Status = "timeout"
	Budget       Status = "budget"
	Cancelled    Status = "cancelled"
	OutOfMemory  Status = "oom"
	DiskFull     Status = "disk"
	HarnessError Status = "harness_error" // the agent ended with an error, or something of bailey's did: Warnings say what
)

// Usage is what the model was asked and said, as the gateway counted it.
type Usage struct {
	Calls            int64 `json:"calls"`
	InputTokens      int64 `json:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
}

// Result is what a planner gets back. Report, Diff and DiffStat are the
// agent's words: they come inside a fence (Fence) that they cannot forge.
type Result struct {
	ID              ID           `json:"id"`
	Branch          string       `json:"branch,omitempty"` // empty if nothing was changed
	Base            string       `json:"base"`             // object id of the commit that the work began from
	Commit          string       `json:"commit,omitempty"` // object id that Branch had when it was delivered
	Status          Status       `json:"status"`
	ExitCode        int          `json:"exit_code"`
	Turns           int          `json:"turns"`
	Usage           Usage        `json:"usage"`
	CostUSD         *float64     `json:"cost_usd"` // null for a model without a price
	WaitSeconds     float64      `json:"wait_seconds"`
	RunSeconds      float64      `json:"run_seconds"`
	Report          string       `json:"report"`            // fenced; at most MaxReport bytes
	Diff            string       `json:"diff"`              // fenced; at most MaxDiff bytes
	DiffStat        string       `json:"diffstat"`          // fenced
	Planted         []Planted    `json:"planted,omitempty"` // what would act on the host later (RES-06)
	Kept            bool         `json:"kept,omitempty"`    // bailey's copy has work that is not in Branch: it is lost with the task
	Warnings        []string     `json:"warnings"`
	Truncated       []string     `json:"truncated"` // parts that are longer: task_result gives the rest
	UntrustedNotice string       `json:"untrusted_notice"`
	Checks          *CheckResult `json:"checks,omitempty"`
}

// Bounds of the parts of a result.
const (
	MaxReport = 32 << 10
	MaxDiff   = 64 << 10
)

// Planted is a file of the branch that would run something for the host's
// user later, or change what an agent there does.
type Planted struct {
	Path string `json:"path"` // of the tree; the agent's word
	Kind string `json:"kind"` // git-hook, editor-task, direnv, agent-settings, ci, package-script, …
	Why  string `json:"why"`  // who acts by it, and when
}

// Part names what task_result hands out piecemeal.
type Part string

// The parts.
const (
	PartReport Part = "report"
	PartDiff   Part = "diff"
	PartLog    Part = "log" // the agent's own event stream
	PartChecks Part = "checks"
)

// Piece is some bytes of a part, in a fence.
type Piece struct {
	ID              ID     `json:"id"`
	Part            Part   `json:"part"`
	Offset          int64  `json:"offset"`
	Text            string `json:"text"` // fenced
	Next            int64  `json:"next"` // offset of what follows; 0 at the end
	Total           int64  `json:"total"`
	UntrustedNotice string `json:"untrusted_notice"`
}

// Task is a task as lists show it.
type Task struct {
	ID      ID        `json:"id"`
	Name    string    `json:"name,omitempty"`
	Group   string    `json:"group,omitempty"`
	State   State     `json:"state"`
	Status  Status    `json:"status,omitempty"` // of one that is done
	Place   int       `json:"place,omitempty"`  // in the queue of its model, from 1
	Repo    string    `json:"repo"`             // root of the repository, once it is known
	Model   string    `json:"model"`
	Harness string    `json:"harness"`
	Branch  string    `json:"branch,omitempty"`
	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"` // of the agent
	Ended   time.Time `json:"ended,omitzero"`
	Turns   int       `json:"turns"`
	Usage   Usage     `json:"usage"`
	CostUSD *float64  `json:"cost_usd"`
	Trouble string    `json:"trouble,omitempty"` // of one that runs: why its model's provider does not answer just now
	Result  *Result   `json:"result,omitempty"`  // of one that is done, where one task is asked for
	Request *Request  `json:"request,omitempty"`
}

// Progress is one thing that happened to a task, for who follows it.
type Progress struct {
	Time    time.Time `json:"time"`
	Task    ID        `json:"task"`
	Kind    string    `json:"kind"` // state, queue, turn, tool, text, plan, usage, warning, done
	State   State     `json:"state,omitempty"`
	Place   int       `json:"place,omitempty"`
	Turn    int       `json:"turn,omitempty"`
	Tool    string    `json:"tool,omitempty"`    // name of a tool that the agent calls
	Message string    `json:"message,omitempty"` // one line of printable text; the agent's word for turn, tool and text
	Plan    []Step    `json:"plan,omitempty"`    // the agent's list of what is to be done, whole
	Usage   *Usage    `json:"usage,omitempty"`
	CostUSD *float64  `json:"cost_usd,omitempty"`
}

// Step is a part of an agent's plan, in the agent's words.
type Step struct {
	Text  string `json:"text"`  // one line of printable text
	State string `json:"state"` // pending, active, done, dropped
}

// CheckRequest runs a command on a branch, in a sandbox without any way out.
type CheckRequest struct {
	RepoPath       string `json:"repo_path"`
	Branch         string `json:"branch"` // agent/<id> or any branch of the repository
	Command        string `json:"command"`
	Environment    string `json:"environment,omitempty"`
	TimeoutMinutes int    `json:"timeout_minutes,omitempty"` // default 15, at most 60
	TimeoutSeconds int    `json:"timeout_seconds,omitempty"` // the same to the second; one of the two
}

// CheckResult is what a check printed and how it ended.
type CheckResult struct {
	ID              ID       `json:"id"`
	Branch          string   `json:"branch"`
	Commit          string   `json:"commit"`
	Passed          bool     `json:"passed"` // exit code 0
	ExitCode        int      `json:"exit_code"`
	Status          Status   `json:"status"` // success (it ran), timeout, cancelled, oom, disk, harness_error
	RunSeconds      float64  `json:"run_seconds"`
	Output          string   `json:"output"` // fenced, the end of it where it is too long
	Truncated       bool     `json:"truncated"`
	Warnings        []string `json:"warnings"`
	UntrustedNotice string   `json:"untrusted_notice"`
}

// Model is a model that tasks can have.
type Model struct {
	ID          string   `json:"id"`
	Provider    string   `json:"provider"`
	Dialect     string   `json:"dialect"`
	Description string   `json:"description,omitempty"`
	Default     bool     `json:"default"`
	MaxAgents   int      `json:"max_agents"`
	Busy        int      `json:"busy"`   // agents that run with it
	Queued      int      `json:"queued"` // tasks that wait for it
	Budget      []string `json:"budget"`
	Price       *Price   `json:"price"`
	Harnesses   []string `json:"harnesses"` // installed ones that speak its dialect

	Installable []Installable `json:"installable,omitempty"` // agents that speak its dialect and are not installed
}

// Installable is an agent that is not installed.
type Installable struct {
	Harness string `json:"harness"`
	Install string `json:"install"` // the command that installs it
}

// Price is in USD per million tokens.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
}

// Cleaned says what a clean-up took away.
type Cleaned struct {
	Branch  string   `json:"branch"`
	Deleted bool     `json:"deleted"`          // the branch was there
	Commit  string   `json:"commit,omitempty"` // object id that it had: `git branch` with it brings the branch back
	Clones  int      `json:"clones"`           // copies of the work that were removed
	Notes   []string `json:"notes"`
}

// Service is delegation itself. All methods return errors that are
// *bailey.Error with a kind where a person or planner caused them.
type Service interface { //nolint:interfacebloat // it is the one door, and closed
	// Delegate takes a task and returns at once; the task is queued. With an
	// idempotency key that is known it returns the task that has it.
	Delegate(ctx context.Context, r Request) (Task, error)
	// Follow calls progress for all that happened to a task and happens until
	// it is done, and returns it as it is then. The end of ctx ends the
	// following and not the task.
	Follow(ctx context.Context, id ID, progress func(Progress)) (Task, error)
	Get(ctx context.Context, id ID) (Task, error)
	List(ctx context.Context) ([]Task, error)
	// Result hands out a part of a result from an offset.
	Result(ctx context.Context, id ID, part Part, offset int64) (Piece, error)
	// Cancel ends a task; its work so far is kept. It returns when that is so.
	Cancel(ctx context.Context, id ID) (Task, error)
	// Check returns when the command has ended; the end of ctx ends it.
	Check(ctx context.Context, r CheckRequest, progress func(Progress)) (CheckResult, error)
	Models(ctx context.Context) ([]Model, error)
	// Cleanup deletes an agent/ branch of a repository and the clones of its
	// task. It deletes no other branch.
	Cleanup(ctx context.Context, repoPath, branch string) (Cleaned, error)
	// Forget removes a task that is done, its clones and its record. The
	// branch in the repository stays.
	Forget(ctx context.Context, id ID) error
}
