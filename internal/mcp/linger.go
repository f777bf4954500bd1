package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// lastAnswers is how long the end of a client's words is kept back while it has
// answers to come: a script that writes its questions in a row and closes gets
// those that are next to ready.
const lastAnswers = 2 * time.Second

// dialogue counts the requests of a client that have no answer yet. Both sides
// write a message a line.
type dialogue struct {
	mu   sync.Mutex
	open int
	done chan struct{} // closed when open gets to 0; made by who waits
}

// add counts a request, or with -1 an answer.
func (d *dialogue) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open += n
	if d.open <= 0 && d.done != nil {
		close(d.done)
		d.done = nil
	}
}

// settle waits until nothing is open any more, for so long at most.
func (d *dialogue) settle(ctx context.Context, patience time.Duration) {
	d.mu.Lock()
	if d.open <= 0 {
		d.mu.Unlock()
		return
	}
	done := make(chan struct{})
	d.done = done
	d.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// kind tells a request (1) and an answer (-1) from the rest.
func kind(line []byte) int {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	switch {
	case json.Unmarshal(line, &m) != nil || len(m.ID) == 0 || string(m.ID) == "null":
		return 0
	case m.Method != "":
		return 1
	}
	return -1
}

// answering is what a client reads. Each Write is a whole message.
type answering struct {
	io.WriteCloser
	mu        sync.Mutex
	says, had func(line []byte) // before and after it is written
}

// Write writes.
func (a *answering) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.says(p)
	n, err := a.WriteCloser.Write(p)
	a.had(p)
	return n, err
}

// converse has the end of in wait for what out has still to say, and what is no
// message answered and passed over.
func converse(ctx context.Context, in io.ReadCloser, out io.WriteCloser) (io.ReadCloser, io.WriteCloser) {
	talks := &dialogue{}
	s := &sieve{ReadCloser: in, ctx: ctx, from: bufio.NewReader(in), talks: talks, to: &answering{WriteCloser: out}}
	s.to.says = s.agreed
	s.to.had = func(line []byte) {
		if kind(line) < 0 {
			talks.add(-1)
		}
	}
	return s, s.to
}
