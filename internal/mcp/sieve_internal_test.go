package mcp

import "testing"

// TestSieve_Batches: what the SDK would end the connection for is refused, and
// nothing else; a notification has no id to share with another.
func TestSieve_Batches(t *testing.T) {
	t.Parallel()
	const call, note = `{"jsonrpc":"2.0","id":5,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/progress"}`
	for batch, fine := range map[string]bool{
		"[" + call + "]":                    true,
		"[" + note + "," + note + "]":       true,
		"[" + call + "," + note + "]":       true,
		"[" + call + "," + call + "]":       false,
		"[]":                                false,
		"[" + call + "," + `{"id":6}` + "]": false,
	} {
		if err := new(sieve).check([]byte(batch)); (err == nil) != fine {
			t.Errorf("%s: %v", batch, err)
		}
	}
	var later sieve
	later.singles.Store(true)
	if err := later.check([]byte("[" + call + "]")); err == nil {
		t.Error("a batch of a version without them is let through")
	}
}
