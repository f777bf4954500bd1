package taskrun

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/task"
)

// Argv0 is the name of the role.
const Argv0 = role.Runner

// A runner's descriptors. The first three are the agent's own: an input that is
// not read, its output, and its errors. Of a check both streams go to the
// output, as they come.
const (
	SettingsFD = 3 // Settings as one JSON document, and the end of the file
	EventsFD   = 4 // events as JSON lines (docs/events.md)
	EndFD      = 5 // an End as one JSON document, when nothing of the sandbox is left
)

// MaxSettings bounds the document that a runner reads: a task as JSON can be
// six times as long as it is.
const MaxSettings = 6*MaxPrompt + 64<<10

// MaxPrompt bounds a task with its preamble, in bytes.
const MaxPrompt = task.MaxTask + 64<<10

// MaxEnd bounds the document that it leaves.
const MaxEnd = 64 << 10

// MaxOutput bounds each of the streams of an agent or a check. What comes behind
// it is left out, and an End says so.
const MaxOutput = 64 << 20

// How much the scratch clone may grow by. Where Settings.Bounded says so, its
// file system has this size, and nobody watches.
const (
	WorkBytes = 20 << 30
	WorkFiles = 1_000_000
)

// MaxCommand bounds the command of a check.
const MaxCommand = 64 << 10

// Kind is what a sandbox is for.
type Kind string

// The kinds. Any other is refused.
const (
	Agent Kind = "agent" // a coding agent with one model, and no other way out
	Check Kind = "check" // a command, and no way out at all
)

// Settings say what one runner is to run. It is started by whom the sandbox is
// for: the vault, models.yaml and the agents that it finds are those of its own
// user and environment.
type Settings struct {
	Kind   Kind          `json:"kind"`
	ID     task.ID       `json:"id"`               // of the task or check
	Dir    string        `json:"dir"`              // absolute, no link in it: the scratch clone, which is all of the host that the sandbox may write to
	Subdir string        `json:"subdir,omitempty"` // slash-separated, below Dir: where the command starts
	Limit  time.Duration `json:"limit"`            // wall clock, above 0; at most task.MostTimeout, of a check task.MostCheckLimit

	// Environment is the name or path of what `bailey env build` made; empty
	// for none.
	Environment string `json:"environment,omitempty"`

	// Bounded says that Dir is a file system of its own, of the size that the
	// work may have: then nobody need watch how it grows.
	Bounded   bool   `json:"bounded,omitempty"`
	Unbounded string `json:"unbounded,omitempty"` // why it is none: one line, for the result

	Command string `json:"command,omitempty"` // of a check: one line for bash

	Harness        string   `json:"harness,omitempty"` // of an agent, as these: claude, codex, gemini, opencode, pi
	Model          string   `json:"model,omitempty"`   // of models.yaml
	Prompt         string   `json:"prompt,omitempty"`
	MaxTurns       int      `json:"max_turns,omitempty"` // above 0
	Budget         []string `json:"budget,omitempty"`    // as of --budget
	Guide          bool     `json:"guide,omitempty"`     // the executor guide is the agent's own instruction file
	ThinkingTokens int      `json:"thinking_tokens,omitempty"`
}

// End is how a runner ended. Without one it was killed.
type End struct {
	// ExitCode is that of the agent or the command, as `bailey run` returns it:
	// 124 for the deadline, 137 for memory and other limits, 128+N for signal N,
	// 125 where bailey failed (then Error says why).
	ExitCode int       `json:"exit_code"`
	Limit    string    `json:"limit,omitempty"` // what ended it: timeout, memory, disk, inodes, stop, proxy (the gateway), watchdog
	Error    string    `json:"error,omitempty"`
	Hint     string    `json:"hint,omitempty"`
	Started  time.Time `json:"started,omitzero"` // of the agent or command; zero if it did not start
	Ended    time.Time `json:"ended"`
	HostUID  int       `json:"host_uid"`        // of the sandbox's processes
	Notes    []string  `json:"notes,omitempty"` // what of the promised this machine or agent could not give
}

// Validate reports the first thing in s that no runner may accept.
func (s *Settings) Validate() error {
	switch {
	case !s.ID.Valid():
		return invalid("the id %q is not one of a task", s.ID)
	case !cleanAbs(s.Dir) || s.Dir == "/":
		return invalid("the folder %q is not absolute and clean", s.Dir)
	case s.Subdir != "" && (path.IsAbs(s.Subdir) || path.Clean(s.Subdir) != s.Subdir || s.Subdir == ".." || strings.HasPrefix(s.Subdir, "../") || !isText(s.Subdir)):
		return invalid("the folder %q is not one below the clone", s.Subdir)
	case len(s.Unbounded) > maxReason || !isText(s.Unbounded):
		return invalid("the reason for a disk without end is not one line")
	case !isText(s.Environment):
		return invalid("the environment %q is not a name or path", s.Environment)
	case s.Limit <= 0:
		return invalid("there is no deadline")
	}
	switch s.Kind {
	case Agent:
		return s.validAgent()
	case Check:
		return s.validCheck()
	}
	return invalid("the kind %q is unknown", s.Kind)
}

const maxReason = 4 << 10

func (s *Settings) validAgent() error {
	switch {
	case s.Limit > task.MostTimeout:
		return invalid("the deadline %v is later than %v", s.Limit, task.MostTimeout)
	case s.Command != "":
		return invalid("an agent has no command")
	case s.Model == "":
		return invalid("there is no model")
	case s.Prompt == "" || len(s.Prompt) > MaxPrompt || !utf8.ValidString(s.Prompt) || strings.ContainsRune(s.Prompt, 0):
		return invalid("the task is not 1 to %d bytes of text", MaxPrompt)
	case s.MaxTurns <= 0 || s.MaxTurns > task.MostTurns:
		return invalid("%d turns are not 1 to %d", s.MaxTurns, task.MostTurns)
	case s.ThinkingTokens < 0 || s.ThinkingTokens > mostThinking:
		return invalid("%d thinking tokens are not 0 to %d", s.ThinkingTokens, mostThinking)
	}
	return nil
}

// mostThinking is above what any model thinks.
const mostThinking = 1 << 20

func (s *Settings) validCheck() error {
	switch {
	case s.Limit > task.MostCheckLimit:
		return invalid("the deadline %v is later than %v", s.Limit, task.MostCheckLimit)
	case s.Command == "" || len(s.Command) > MaxCommand || strings.ContainsRune(s.Command, 0):
		return invalid("the command is not 1 to %d bytes without a NUL", MaxCommand)
	case s.Harness != "" || s.Model != "" || s.Prompt != "" || s.MaxTurns != 0 || len(s.Budget) > 0 || s.Guide || s.ThinkingTokens != 0:
		return invalid("a check has no agent and no model")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return bailey.NewError(bailey.Invalid, "settings of a task's sandbox: "+fmt.Sprintf(format, args...), "")
}

func cleanAbs(p string) bool { return path.IsAbs(p) && path.Clean(p) == p && isText(p) }

// isText reports whether a path survives JSON, a terminal and a generated file
// unchanged.
func isText(p string) bool {
	return utf8.ValidString(p) && !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// SandboxName is the name of a task's sandbox, for `bailey ps` and `exec`. One
// of a long id ends with a digest of it, so that no two are the same.
func SandboxName(id task.ID) string {
	const prefix, most, digits = "task-", 32, 8
	name := prefix + string(id)
	if len(name) > most || strings.HasSuffix(name, "-") {
		sum := sha256.Sum256([]byte(id))
		name = strings.TrimRight(name[:min(len(name), most-1-digits)], "-") + "-" + hex.EncodeToString(sum[:])[:digits]
	}
	return name
}
