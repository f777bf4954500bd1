package delegate

import (
	"fmt"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/transcript"
)

// The names of limits that a sandbox ends by (launcher.Status and
// docs/events.md).
const (
	limitTimeout = "timeout"
	limitMemory  = "memory"
	limitDisk    = "disk"
	limitInodes  = "inodes"
	limitLost    = "lost"
)

// statusOf says how a task ended. An agent's own words count only against it:
// nothing that it says makes an end a success.
func statusOf(r *record) task.Status {
	if r.Failure != "" {
		return task.HarnessError
	}
	if r.End == nil { // it was never started
		if r.Cancel {
			return task.Cancelled
		}
		return task.HarnessError
	}
	if s := limited(r.End.Limit); s != "" {
		return s
	}
	if s := limited(r.Heard.Limit); s != "" {
		return s
	}
	switch {
	case r.Cause == causeTurns:
		return task.MaxTurns
	case r.Cause == causeCancel && (r.End.Limit != "" || r.End.ExitCode != 0):
		return task.Cancelled
	case r.End.ExitCode == bailey.ExitDeadline && r.End.Limit != "":
		return task.Timeout
	case r.Heard.Spent:
		return task.Budget
	case r.Heard.Reason == transcript.MaxTurns:
		return task.MaxTurns
	case r.End.ExitCode != 0 || r.End.Error != "" || r.End.Limit != "":
		return task.HarnessError
	case r.Heard.Reason != "" && r.Heard.Reason != transcript.Success:
		return task.HarnessError
	}
	return task.Success
}

func limited(limit string) task.Status {
	switch limit {
	case limitTimeout:
		return task.Timeout
	case limitMemory:
		return task.OutOfMemory
	case limitDisk, limitInodes:
		return task.DiskFull
	case limitLost:
		return task.HarnessError
	}
	return ""
}

// explain warns of how a task ended, where its status does not say it.
func explain(r *record) {
	if r.End == nil {
		return
	}
	switch {
	case r.End.Limit == limitLost || r.End.ExitCode < 0:
		r.warn("the agent's sandbox was lost" + when(r.End.Ended) + ": the machine or the service was ended while it worked. What it had done until then was collected")
	case r.End.Error != "":
		r.warn("the sandbox could not do its work: " + line(r.End.Error, mostSaidBytes))
	}
	if r.Heard.Spent {
		r.warn("the budget is spent: the model refused the agent's last calls")
	}
	switch h := r.Heard; {
	case h.Last:
		r.warn(fmt.Sprintf("the model's provider did not answer at the end; model calls that failed: %d, the last since %s", h.Failed, h.Trouble))
	case h.Failed > 0:
		r.warn(fmt.Sprintf("model calls that the provider did not answer: %d, the last since %s; later ones were answered", h.Failed, h.Trouble))
	}
	if s := statusOf(r); s == task.HarnessError && r.End.Limit != limitLost && r.Failure == "" {
		text := fmt.Sprintf("the agent ended with exit code %d", r.End.ExitCode)
		if r.Heard.Error != "" {
			text += ", and said: " + quoted(r.Heard.Error)
		}
		r.warn(text)
	}
	for _, n := range append(append([]string(nil), r.End.Notes...), r.Heard.Warnings...) {
		r.warn(line(n, mostSaidBytes))
	}
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " at " + t.UTC().Format(time.RFC3339)
}

// quoted is a stranger's line inside a sentence of ours.
func quoted(s string) string { return fmt.Sprintf("%q", line(s, mostSaidBytes)) }

// checkStatus says how a check ended. That its command failed is its result,
// and no error of the check.
func checkStatus(st launcher.Status, heard heard, cancelled bool) task.Status {
	for _, limit := range []string{st.Limit, heard.Limit} {
		if s := limited(limit); s != "" {
			return s
		}
	}
	switch {
	case cancelled:
		return task.Cancelled
	case st.Error != "" || st.ExitCode < 0:
		return task.HarnessError
	}
	return task.Success
}
