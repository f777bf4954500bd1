package watchdog

import (
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
	w := runWalk(walkConfig{root: int(dir.Fd()), bornBefore: bornBefore})
	if err := dir.Close(); err != nil {
		tb.Fatal(err)
	}
	return w.size.bytes, w.size.inodes
}
