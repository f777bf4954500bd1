package gateway

import (
	"bytes"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"
)

// Bounds of what is held of answers, in bytes: no part of one is passed on
// before an event is whole, or an answer that is no stream, and hundreds may come
// at a time.
const (
	maxRoom  = 96 << 20 // of all answers
	ownRoom  = 64 << 10 // that each has besides
	roomStep = 64 << 10
)

// errRoom ends an answer that there is no room for.
var errRoom = errors.New("more of large answers is held than there is room for")

// room is what one answer may hold in memory.
type room struct {
	all  *semaphore.Weighted
	have int64
}

// need makes it at least n bytes, and reports whether it could. It never waits:
// those that have some would wait for each other.
func (r *room) need(n int) bool {
	for int64(n) > ownRoom+r.have {
		if !r.all.TryAcquire(roomStep) {
			return false
		}
		r.have += roomStep
	}
	return true
}

// leave gives all of it back.
func (r *room) leave() {
	if r.have > 0 {
		r.all.Release(r.have)
		r.have = 0
	}
}

// roomed is a reader of what is held whole.
type roomed struct {
	from io.Reader
	room *room
	n    int
}

// Read reads.
func (r *roomed) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if r.n += n; !r.room.need(r.n) {
		return n, errRoom
	}
	return n, err //nolint:wrapcheck // a reader
}

// A value of JSON may have two bytes, and takes a hundred times that in memory,
// whatever is read of it.
const (
	nodeBytes = 96        // of one value in a tree
	mostNodes = 250_000   // document.Limits
	mostRead  = 1_000_000 // values in an answer, or in one event of one
)

// errCrowded is about what the provider says.
var errCrowded = errors.New("a part of the provider's answer has more than a million values")

// values is how many values b may hold as JSON: each begins a container or
// follows a comma.
func values(b []byte) int {
	n := 1
	for _, c := range []string{",", "{", "["} {
		n += bytes.Count(b, []byte(c))
	}
	return n
}

// crowded reports whether something that a provider says would take much more
// memory than it has bytes.
func crowded(b []byte) bool { return len(b) > mostRead && values(b) > mostRead }

// treeBytes is what a request may take as a tree.
func treeBytes(b []byte) int64 { return nodeBytes * int64(min(values(b), mostNodes)) }
