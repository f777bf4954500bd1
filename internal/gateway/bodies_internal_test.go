package gateway

import (
	"testing"
)

// TestBodies_AreOfTheirSize: a buffer has the room that is asked for, and at most
// twice that; one that is put back is not handed to who asks for much less.
func TestBodies_AreOfTheirSize(t *testing.T) {
	t.Parallel()
	var all bodies
	for _, n := range []int{0, 1, 512, 1 << 14, 1<<14 + 1, 1 << 15, 1<<15 + 1, 100 << 10, 1 << 20, 1<<20 + 1, 5 << 20} {
		for range 3 { // with what was put back before
			b := all.take(n)
			if len(b) != 0 || cap(b) < n || cap(b) > 2*n {
				t.Errorf("for %d bytes: %d of %d", n, len(b), cap(b))
			}
			all.put(append(b, "leavings"...))
			all.put(make([]byte, 3, n+3)) // that is of no use is no harm
			all.put(nil)
		}
	}
}
