package run

import "testing"

// Each change of a file has two readings: what both find is said once, and said
// again when it was mended in between.
func TestTold_SaysWhatStaysOnce(t *testing.T) {
	t.Parallel()
	var told told
	for i, step := range []struct {
		warnings []string
		said     int
	}{
		{[]string{"a", "b"}, 2},
		{[]string{"a", "b"}, 0},
		{[]string{"b", "c", "c"}, 1},
		{nil, 0},
		{[]string{"a"}, 1},
	} {
		told.reads()
		said := 0
		for _, w := range step.warnings {
			if told.warns(w) {
				said++
			}
		}
		if said != step.said {
			t.Errorf("reading %d: %d of %q were said, want %d", i, said, step.warnings, step.said)
		}
	}
}
