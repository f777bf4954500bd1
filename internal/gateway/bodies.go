package gateway

import (
	"math/bits"
	"sync"
)

// bodies are the buffers of large requests. Each serves one request after the
// other: first for the bytes that come, then for those that are sent. One is
// never larger than twice what it is taken for, so that what requests hold in
// memory is what was reckoned for them.
type bodies struct {
	pools [largestBody - smallestBody + 1]sync.Pool // of *[]byte, by size
}

// Sizes of buffers that are used again, as powers of two in bytes. Smaller ones
// cost nothing to make, and larger ones are rare.
const (
	smallestBody = 15
	largestBody  = 20
)

// classOf returns the pool of buffers for n bytes.
func classOf(n int) (class int, ok bool) {
	class = bits.Len(uint(max(n, 1)-1)) - smallestBody
	return class, class >= 0 && class <= largestBody-smallestBody
}

// take returns an empty buffer with room for n bytes. It is put back, or left to
// the collector.
func (b *bodies) take(n int) []byte {
	class, ok := classOf(n)
	if !ok {
		return make([]byte, 0, n)
	}
	if p, ok := b.pools[class].Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return make([]byte, 0, 1<<(class+smallestBody))
}

// put takes a buffer back that nobody uses any more.
func (b *bodies) put(buf []byte) {
	if class, ok := classOf(cap(buf)); ok && cap(buf) == 1<<(class+smallestBody) {
		b.pools[class].Put(&buf)
	}
}
