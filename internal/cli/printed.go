package cli

import (
	"io"
	"sync"

	"github.com/bailey-dev/bailey"
)

// printed is the output of a command of ours. It remembers that something
// could not be written: a command whose output is lost has not done its work,
// whether it looked at the error or not.
type printed struct {
	to io.Writer

	mu  sync.Mutex
	err error // the first
}

// Write writes, and remembers an error.
func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.to.Write(b)
	if err != nil && p.err == nil {
		p.err = bailey.WrapError(bailey.Unavailable, "write the output", err, "")
	}
	return n, err
}

func (p *printed) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
