package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// lines hands on every whole line of what passes through it.
type lines struct {
	rest []byte
	line func([]byte)
}

func (l *lines) pass(p []byte) {
	for {
		before, after, found := bytes.Cut(p, []byte("\n"))
		if len(l.rest)+len(before) > requestLimit {
			l.rest, before = nil, nil // whoever reads it refuses it
		}
		if !found {
			l.rest = append(l.rest, before...)
			return
		}
		l.line(append(l.rest, before...))
		l.rest, p = l.rest[:0], after
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

// asking is what a client writes. Its end is told when its questions are
// answered.
type asking struct {
	io.ReadCloser
	ctx   context.Context //nolint:containedctx // of the client
	seen  lines
	talks *dialogue
}

// Read reads.
func (a *asking) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.seen.pass(p[:n])
	if errors.Is(err, io.EOF) {
		a.talks.settle(a.ctx, lastAnswers)
	}
	return n, err
}

// answering is what a client reads.
type answering struct {
	io.WriteCloser
	seen lines
}

// Write writes.
func (a *answering) Write(p []byte) (int, error) {
	n, err := a.WriteCloser.Write(p)
	a.seen.pass(p[:n])
	return n, err
}

// converse has the end of in wait for what out has still to say.
func converse(ctx context.Context, in io.ReadCloser, out io.WriteCloser) (io.ReadCloser, io.WriteCloser) {
	talks := &dialogue{}
	asked := func(line []byte) {
		if kind(line) > 0 {
			talks.add(1)
		}
	}
	answered := func(line []byte) {
		if kind(line) < 0 {
			talks.add(-1)
		}
	}
	return &asking{ReadCloser: in, ctx: ctx, seen: lines{line: asked}, talks: talks}, &answering{WriteCloser: out, seen: lines{line: answered}}
}
