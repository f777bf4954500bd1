package runner

import (
	"os"
	"sync"

	"github.com/bailey-dev/bailey/internal/taskrun"
)

// bounded passes on what is written to it as far as the bound, and takes and
// forgets what comes behind it: an agent that prints without end is not held up
// by it, and fills nothing.
type bounded struct {
	file *os.File

	mu   sync.Mutex
	left int64
	more bool
}

func bound(f *os.File) *bounded { return &bounded{file: f, left: taskrun.MaxOutput} }

// Write writes to the file what there is room for.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := int(min(int64(len(p)), b.left))
	if n < len(p) {
		b.more = true
	}
	b.left -= int64(n)
	if n > 0 {
		if done, err := b.file.Write(p[:n]); err != nil {
			return done, err
		}
	}
	return len(p), nil
}

// over reports whether something was left out.
func (b *bounded) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.more
}
