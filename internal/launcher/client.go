package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/task"
)

// Client is a Host at the other end of a socket pair. Any number of requests
// may be open at once. Its answers are taken while Run runs.
type Client struct {
	line *line
	mu   sync.Mutex
	next uint64
	open map[uint64]chan answer
	gone error // why there will be no answer any more
}

var _ Host = (*Client)(nil)

// answer is what became of a request. Who takes it closes the files.
type answer struct {
	body  []byte
	files []*os.File
	err   error
}

// NewClient returns a client of what Serve answers at the other end of conn.
func NewClient(conn *os.File) *Client {
	return &Client{line: &line{conn: conn}, open: make(map[uint64]chan answer)}
}

// Run takes answers until the other end is closed, which is no error. All that
// is open then, and asked later, is answered with an error of kind Unavailable.
func (c *Client) Run() error {
	err := c.run()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = bailey.NewError(bailey.Unavailable, "the launcher is gone", "bailey serve --local starts it again")
	for n, ch := range c.open {
		ch <- answer{err: c.gone}
		delete(c.open, n)
	}
	return err
}

func (c *Client) run() error {
	for {
		m, files, err := c.line.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c.mu.Lock()
		ch, there := c.open[m.Number]
		delete(c.open, m.Number)
		c.mu.Unlock()
		if !there { // who asked has gone
			closeFiles(files)
			continue
		}
		a := answer{body: m.Body, files: files}
		if m.Error != nil {
			a.err = m.Error.Err()
		}
		ch <- a
	}
}

// ask sends a request and waits for its answer. The end of ctx ends what was
// asked.
func (c *Client) ask(ctx context.Context, o op, request any) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	ch := make(chan answer, 1)
	c.mu.Lock()
	if c.gone != nil {
		c.mu.Unlock()
		return answer{}, c.gone
	}
	c.next++
	n := c.next
	c.open[n] = ch
	c.mu.Unlock()
	if err := c.line.send(message{Number: n, Op: o}, request, nil); err != nil {
		c.forget(n)
		return answer{}, bailey.WrapError(bailey.Unavailable, "ask the launcher", err, "")
	}
	select {
	case a := <-ch:
		if a.err != nil {
			closeFiles(a.files)
			a.files = nil
		}
		return a, a.err
	case <-ctx.Done():
		if c.forget(n) {
			_ = c.line.send(message{Number: n, Op: opCancel}, nil, nil)
		} else { // it came at the same moment
			closeFiles((<-ch).files)
		}
		return answer{}, ctx.Err()
	}
}

// forget lets go of a request, and reports whether it was still open.
func (c *Client) forget(n uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.open[n]
	delete(c.open, n)
	return there
}

// get asks for a value.
func get[A any](ctx context.Context, c *Client, o op, request any) (A, error) {
	var out A
	a, err := c.ask(ctx, o, request)
	if err != nil {
		return out, err
	}
	closeFiles(a.files)
	if err := strict(a.body, &out); err != nil {
		return out, fmt.Errorf("read what the launcher says: %w", err)
	}
	return out, nil
}

// tell asks for what has no value.
func (c *Client) tell(ctx context.Context, o op, request any) error {
	a, err := c.ask(ctx, o, request)
	closeFiles(a.files)
	return err
}

// Examine is Engine's.
func (c *Client) Examine(ctx context.Context, r ExamineRequest) (Examined, error) {
	return get[Examined](ctx, c, opExamine, r)
}

// Snapshot is Engine's.
func (c *Client) Snapshot(ctx context.Context, r SnapshotRequest) (Snapshot, error) {
	return get[Snapshot](ctx, c, opSnapshot, r)
}

// StartAgent is Engine's.
func (c *Client) StartAgent(ctx context.Context, r AgentRequest) (Streams, error) {
	return c.streams(ctx, opAgent, r)
}

// StartCheck is Engine's.
func (c *Client) StartCheck(ctx context.Context, r CheckRequest) (Streams, error) {
	return c.streams(ctx, opCheck, r)
}

func (c *Client) streams(ctx context.Context, o op, request any) (Streams, error) {
	a, err := c.ask(ctx, o, request)
	if err != nil {
		return Streams{}, err
	}
	var said streamsAnswer
	err = strict(a.body, &said)
	want := 2
	if said.Errors {
		want = 3
	}
	if err != nil || len(a.files) != want {
		closeFiles(a.files)
		return Streams{}, fmt.Errorf("read what the launcher says: %d files (%w)", len(a.files), errors.Join(err, errProtocol))
	}
	s := Streams{Output: a.files[0], Events: a.files[want-1], Commit: said.Commit}
	if said.Errors {
		s.Errors = a.files[1]
	}
	return s, nil
}

// Status is Engine's.
func (c *Client) Status(ctx context.Context, id task.ID, wait bool) (Status, error) {
	return get[Status](ctx, c, opStatus, statusRequest{ID: id, Wait: wait})
}

// Stop is Engine's.
func (c *Client) Stop(ctx context.Context, id task.ID) error {
	return c.tell(ctx, opStop, idRequest{ID: id})
}

// HandBack is Engine's.
func (c *Client) HandBack(ctx context.Context, id task.ID) (Collection, error) {
	a, err := c.ask(ctx, opHandBack, idRequest{ID: id})
	if err != nil {
		return Collection{}, err
	}
	if len(a.files) != 1 {
		closeFiles(a.files)
		return Collection{}, fmt.Errorf("read what the launcher says: %d files (%w)", len(a.files), errProtocol)
	}
	return Collection{File: a.files[0]}, nil
}

// Deliver is Engine's.
func (c *Client) Deliver(ctx context.Context, id task.ID) (Delivered, error) {
	return get[Delivered](ctx, c, opDeliver, idRequest{ID: id})
}

// DeleteBranch is Engine's.
func (c *Client) DeleteBranch(ctx context.Context, path, branch string) (Deleted, error) {
	return get[Deleted](ctx, c, opDelete, branchRequest{Path: path, Branch: branch})
}

// Remove is Engine's.
func (c *Client) Remove(ctx context.Context, id task.ID) error {
	return c.tell(ctx, opRemove, idRequest{ID: id})
}

// Known is Engine's.
func (c *Client) Known(ctx context.Context) ([]Status, error) {
	return get[[]Status](ctx, c, opKnown, nothing{})
}

// Models is Engine's.
func (c *Client) Models(ctx context.Context) ([]task.Model, error) {
	return get[[]task.Model](ctx, c, opModels, nothing{})
}

// Activity is Host's.
func (c *Client) Activity(ctx context.Context, a Activity) error {
	return c.tell(ctx, opActivity, a)
}
