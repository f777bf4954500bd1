package delegate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

// step is what is to be done next for a task. Each can be done again: a crash
// in the middle of one, or before its end was written down, is mended by it.
type step string

// The steps, in their order.
const (
	stepQueue   step = "queue"   // wait for a place
	stepCopy    step = "copy"    // the snapshot
	stepAgent   step = "agent"   // the agent, from its start to its end
	stepGather  step = "gather"  // its work is read as data
	stepDeliver step = "deliver" // and put into the user's repository
	stepCheck   step = "check"   // the command that was asked for
	stepClear   step = "clear"   // the copies go
	stepDone    step = "done"
)

// cause is why bailey ended an agent.
type cause string

// The causes.
const (
	causeNone   cause = ""
	causeCancel cause = "cancel"
	causeTurns  cause = "turns"
)

// recordVersion is the form of the file. One that is newer is not touched.
const recordVersion = 1

// record is all that is kept of a task, but for its parts. It is a file.
type record struct {
	Version int          `json:"version"`
	Step    step         `json:"step"`
	Task    task.Task    `json:"task"` // without Request and Result
	Request task.Request `json:"request"`
	Digest  string       `json:"digest"`            // of the request as it was asked
	Limit   int          `json:"limit,omitempty"`   // max_agents of its model
	Cancel  bool         `json:"cancel,omitempty"`  // somebody asked for the end
	Cause   cause        `json:"cause,omitempty"`   // why bailey ended the agent
	Begun   bool         `json:"begun,omitempty"`   // the start of the agent was asked for
	Keep    bool         `json:"keep,omitempty"`    // the copies hold what is nowhere else
	Failure string       `json:"failure,omitempty"` // of bailey's, which makes the end a harness_error

	Snapshot launcher.Snapshot `json:"snapshot"`
	End      *launcher.Status  `json:"end,omitempty"` // of the agent
	Heard    heard             `json:"heard"`
	Commit   string            `json:"commit,omitempty"` // the work
	DiffStat string            `json:"diffstat,omitempty"`
	Planted  []task.Planted    `json:"planted,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Check    *checked          `json:"check,omitempty"`
}

// heard is what the event streams came to.
type heard struct {
	Turns    int      `json:"turns"`
	Calls    int      `json:"calls"`
	Reason   string   `json:"reason,omitempty"`  // of the agent's end, in its word
	Error    string   `json:"error,omitempty"`   // the agent's last fault
	Spent    bool     `json:"spent,omitempty"`   // the budget stopped it
	Limit    string   `json:"limit,omitempty"`   // that ended the sandbox, by bailey's events
	Failed   int      `json:"failed,omitempty"`  // model calls that the provider did not answer
	Trouble  string   `json:"trouble,omitempty"` // why the last of them
	Last     bool     `json:"last,omitempty"`    // no call after it was answered
	Warnings []string `json:"warnings,omitempty"`
}

// checked is a check's result without its output, which is a part.
type checked struct {
	ID         task.ID     `json:"id"`
	Branch     string      `json:"branch"`
	Commit     string      `json:"commit"`
	Command    string      `json:"command"`
	ExitCode   int         `json:"exit_code"`
	Status     task.Status `json:"status"`
	RunSeconds float64     `json:"run_seconds"`
	Truncated  bool        `json:"truncated"`
	Warnings   []string    `json:"warnings,omitempty"`
}

const mostWarnings = 64

// warn notes a sentence for the result, once.
func (r *record) warn(s string) {
	if !slices.Contains(r.Warnings, s) && len(r.Warnings) < mostWarnings {
		r.Warnings = append(r.Warnings, s)
	}
}

// fail makes the end a harness_error, and says why.
func (r *record) fail(s string) {
	if r.Failure == "" {
		r.Failure = s
	}
	r.warn(s)
}

func (r *record) done() bool { return r.Step == stepDone }

// parseRecord reads the file of a task.
func parseRecord(id task.ID, data []byte) (*record, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	steps := []step{stepQueue, stepCopy, stepAgent, stepGather, stepDeliver, stepCheck, stepClear, stepDone}
	switch {
	case r.Version > recordVersion:
		return nil, errors.New("a newer bailey wrote it")
	case r.Version != recordVersion || r.Task.ID != id || !id.Valid():
		return nil, errors.New("it is damaged: it is not of this task")
	case !slices.Contains(steps, r.Step):
		return nil, errors.New("it is damaged: it has no step that there is")
	case r.Task.Created.IsZero() || r.Request.Task == "":
		return nil, errors.New("it is damaged: parts are missing")
	}
	return &r, nil
}

// seconds between two instants, not less than 0; 0 where one is not known.
func seconds(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() || to.Before(from) {
		return 0
	}
	return to.Sub(from).Round(time.Millisecond).Seconds()
}
