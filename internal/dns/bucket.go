package dns

import (
	"sync"
	"time"
)

// bucket is a token bucket: perSecond tokens flow in, at most burst are kept.
type bucket struct {
	perSecond, burst float64

	mu     sync.Mutex
	tokens float64
	last   time.Time // zero until first use, when the bucket is full
}

// take reports whether there was a token left.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last.IsZero() {
		b.tokens = b.burst
	} else if d := now.Sub(b.last).Seconds(); d > 0 {
		b.tokens = min(b.burst, b.tokens+d*b.perSecond)
	}
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
