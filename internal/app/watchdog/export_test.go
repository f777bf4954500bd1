package watchdog

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Walk is runWalk for the tests.
func Walk(tb testing.TB, path string, bornBefore time.Time) (bytes, inodes int64) {
	tb.Helper()
	dir, err := beneath.Dir(path)
	if err != nil {
		tb.Fatal(err)
	}
	w := runWalk(walkConfig{roots: []int{int(dir.Fd())}, bornBefore: bornBefore})
	if err := dir.Close(); err != nil {
		tb.Fatal(err)
	}
	return w.old.bytes, w.old.inodes
}

// WalkAll returns what a walk finds that is told that the command runs since
// released, and whether it came to its end before the deadline.
func WalkAll(tb testing.TB, path string, released, deadline time.Time) (all, oldBytes int64, finished bool) {
	tb.Helper()
	dir, err := beneath.Dir(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	var since atomic.Int64
	if !released.IsZero() {
		since.Store(released.UnixNano())
	}
	w := runWalk(walkConfig{roots: []int{int(dir.Fd())}, bornBefore: released, released: &since, deadline: deadline})
	return w.all.inodes, w.old.bytes, w.finished
}
