package dns

import (
	"sync"
	"time"
)

// Programs ask for A, AAAA and HTTPS at once and try again: one decision a
// name is recorded in this time, not six.
const (
	repeatWindow = 5 * time.Second
	maxRepeats   = 512
)

// repeats remembers what was recorded a moment ago. The zero value is ready.
type repeats struct {
	mu   sync.Mutex
	seen map[repeatKey]time.Time
}

type repeatKey struct{ host, verdict, reason string }

// first reports whether the key has not been seen within the window. When too
// much is remembered it forgets all of it: a decision may be recorded twice,
// never not at all.
func (r *repeats) first(k repeatKey, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.seen[k]; ok && now.Sub(at) < repeatWindow {
		return false
	}
	if r.seen == nil || len(r.seen) >= maxRepeats {
		r.seen = map[repeatKey]time.Time{}
	}
	r.seen[k] = now
	return true
}
