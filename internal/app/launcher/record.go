package launcher

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/task"
)

// doing is what was begun with a task. It stands in the ledger from before the
// first thing is made until all of it is there.
type doing string

// What a task's ledger may say was begun.
const (
	idle         doing = ""
	snapshotting doing = "snapshot"
	starting     doing = "start"
	running      doing = "run"
	collecting   doing = "hand-back"
	delivering   doing = "deliver"
	removing     doing = "remove"
)

// record is the ledger of one task or check, as it stands in its folder.
type record struct {
	Format int     `json:"format"`
	ID     task.ID `json:"id"`
	Check  bool    `json:"check,omitempty"`
	Doing  doing   `json:"doing,omitempty"`

	Asked    *launcher.SnapshotRequest `json:"asked,omitempty"`    // of a task
	Snapshot *launcher.Snapshot        `json:"snapshot,omitempty"` // once it is there
	Disk     disk                      `json:"disk,omitzero"`      // the file system that the work is on
	Started  string                    `json:"started,omitempty"`  // digest of the request by which an agent or check was started

	Runner proc.Identity `json:"runner,omitzero"`
	Boot   string        `json:"boot,omitempty"` // in which Runner means something

	Status    launcher.Status     `json:"status"`
	Commit    string              `json:"commit,omitempty"` // of a check: what its branch was
	Delivered *launcher.Delivered `json:"delivered,omitempty"`
}

// recordFormat is the form of a record that this version writes and reads.
const recordFormat = 1

// maxRecord bounds a record, in bytes.
const maxRecord = 1 << 20

func (r *record) encode() ([]byte, error) {
	r.Format = recordFormat
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the ledger of %s: %w", r.ID, err)
	}
	return b, nil
}

// decodeRecord reads a record, which has to be of the task that its folder is
// named after.
func decodeRecord(id task.ID, data []byte) (record, error) {
	var r record
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("read the ledger of %s: %w", id, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return r, fmt.Errorf("read the ledger of %s: something follows", id)
	}
	if r.Format != recordFormat || r.ID != id || !id.Valid() {
		return r, fmt.Errorf("read the ledger of %s: it is of format %d and of %q", id, r.Format, r.ID)
	}
	return r, nil
}

// digest tells one request from another.
func digest(request any) (string, error) {
	b, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("encode request: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// lost is the limit of a task whose runner was killed and could not say how it
// ended.
const lost = "lost"

// notKnown is the exit code of such a task.
const notKnown = -1

// recovered is what a record says after everything that it speaks of has died:
// whatever was begun is undone or can be begun again. again reports whether the
// folder is to be removed.
func (r record) recovered(now time.Time) (out record, gone bool) {
	was := r.Doing
	r.Doing = idle
	switch was {
	case snapshotting:
		return r, true // half of a copy: it is made anew
	case removing:
		return r, true
	case starting, running:
		r.Status.Phase, r.Status.ExitCode, r.Status.Limit, r.Status.Ended = launcher.Ended, notKnown, lost, now
		r.Status.Error = "bailey was killed while it ran"
	case idle, collecting, delivering: // reading and handing on are done again as if for the first time
	}
	r.Runner = proc.Identity{}
	return r, false
}
