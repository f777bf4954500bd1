package taskapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/task"
)

// Bounds of messages, in bytes. A task may be six times as long in JSON.
const (
	maxRequest = 6*task.MaxTask + 1<<20
	maxAnswer  = 64 << 20 // of a list
	maxLine    = 8 << 20  // of what is told while something goes on
)

// Hello says who serves.
type Hello struct {
	Version string  `json:"version"` // of bailey
	PID     int     `json:"pid"`     // of control
	Folders Folders `json:"folders"`

	Warnings []string `json:"warnings,omitempty"` // what this machine cannot do to keep control confined
}

// Folders are those that a service works on.
type Folders struct {
	Config string `json:"config"` // bailey's folder of settings
	Data   string `json:"data"`
	State  string `json:"state"`
}

// fault is an error on its way.
type fault struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// told is a line of what goes on: progress, and at the end one of the others.
type told struct {
	Progress *task.Progress    `json:"progress,omitempty"`
	Task     *task.Task        `json:"task,omitempty"`
	Check    *task.CheckResult `json:"check,omitempty"`
	Error    *fault            `json:"error,omitempty"`
}

// failed is the body of an answer that is an error.
type failed struct {
	Error fault `json:"error"`
}

// cleanup asks for the end of a branch.
type cleanup struct {
	RepoPath string `json:"repo_path"`
	Branch   string `json:"branch"`
}

// kinds are all kinds of errors, with the HTTP status of each.
func kinds() map[bailey.Kind]int {
	return map[bailey.Kind]int{
		bailey.Internal:    http.StatusInternalServerError,
		bailey.Invalid:     http.StatusBadRequest,
		bailey.NotFound:    http.StatusNotFound,
		bailey.Forbidden:   http.StatusForbidden,
		bailey.Conflict:    http.StatusConflict,
		bailey.Exhausted:   http.StatusTooManyRequests,
		bailey.Unavailable: http.StatusServiceUnavailable,
		bailey.Unsupported: http.StatusNotImplemented,
	}
}

// faultOf takes an error apart. Its cause is part of the message: who reads it
// is the user whose service it is.
func faultOf(err error) fault {
	f := fault{Kind: bailey.KindOf(err).String(), Message: err.Error()}
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		f.Hint = e.Hint
	}
	return f
}

// err makes the error again.
func (f fault) err() error {
	kind := bailey.Internal
	for k := range kinds() {
		if k.String() == f.Kind {
			kind = k
		}
	}
	return bailey.NewError(kind, f.Message, f.Hint)
}

// decode reads one JSON document of at most limit bytes, whose fields are all
// known, and nothing behind it.
func decode(r io.Reader, limit int64, to any) error {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(data)) > limit {
		return fmt.Errorf("it is longer than %d bytes", limit)
	}
	return strict(data, to)
}

func strict(data []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the document")
	}
	return nil
}
