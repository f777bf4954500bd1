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

// maxOpen bounds the requests that are open at once: one follower for each of
// many tasks.
const maxOpen = 1024

// Serve answers what comes over conn until its other end is closed, which is
// no error, or says what it should not, or ctx ends. It returns when all that
// was asked has returned: the end of the connection cancels it. The caller
// closes conn, whose other end may be hostile.
func Serve(ctx context.Context, conn *os.File, e Host) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &server{engine: e, line: &line{conn: conn}, open: make(map[uint64]context.CancelFunc)}
	defer s.asked.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // or the next receive would wait on
	defer stop()
	for {
		m, files, err := s.line.receive()
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		closeFiles(files) // no request has any
		if err := s.take(ctx, m, len(files)); err != nil {
			return err
		}
	}
}

// server is one connection.
type server struct {
	engine Host
	line   *line
	asked  sync.WaitGroup
	mu     sync.Mutex
	open   map[uint64]context.CancelFunc
}

// take begins with a request, or ends one.
func (s *server) take(ctx context.Context, m message, files int) error {
	if files > 0 || m.Error != nil || m.Op == "" {
		return fmt.Errorf("%w: no request", errProtocol)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel, there := s.open[m.Number]
	if m.Op == opCancel {
		if there {
			cancel()
		}
		return nil
	}
	if there {
		return fmt.Errorf("%w: a number is used twice", errProtocol)
	}
	if len(s.open) >= maxOpen {
		return s.line.send(message{Number: m.Number, Error: FaultOf(bailey.NewError(bailey.Exhausted, fmt.Sprintf("%d requests are open", maxOpen), "wait for some of them"))}, nil, nil)
	}
	ctx, cancel = context.WithCancel(ctx)
	s.open[m.Number] = cancel
	s.asked.Go(func() {
		defer cancel()
		s.answer(ctx, m)
	})
	return nil
}

// answer does what is asked and says what became of it. An answer that cannot
// be sent has nobody who waits for it.
func (s *server) answer(ctx context.Context, m message) {
	body, files, err := s.do(ctx, m)
	s.mu.Lock()
	delete(s.open, m.Number)
	s.mu.Unlock()
	defer closeFiles(files)
	reply := message{Number: m.Number}
	if err != nil {
		reply.Error, body = FaultOf(err), nil
	}
	if err := s.line.send(reply, body, files); err != nil && !errors.Is(err, os.ErrClosed) {
		_ = s.line.send(message{Number: m.Number, Error: FaultOf(err)}, nil, nil)
	}
}

// do runs one operation.
func (s *server) do(ctx context.Context, m message) (any, []*os.File, error) {
	do, ok := operations()[m.Op]
	if !ok {
		return nil, nil, invalid("there is no operation %q", clip(string(m.Op)))
	}
	return do(ctx, s.engine, m.Body)
}

// operation decodes, checks and does one thing.
type operation func(ctx context.Context, e Host, body []byte) (any, []*os.File, error)

// checked is a request that knows what is wrong with it.
type checked interface{ Check() error }

// operations is the closed list.
func operations() map[op]operation {
	return map[op]operation{ //nolint:exhaustive // cancel is no operation of an Engine
		opExamine: on(func(ctx context.Context, e Host, r ExamineRequest) (any, []*os.File, error) {
			return plain(e.Examine(ctx, r))
		}),
		opSnapshot: on(func(ctx context.Context, e Host, r SnapshotRequest) (any, []*os.File, error) {
			return plain(e.Snapshot(ctx, r))
		}),
		opAgent: on(func(ctx context.Context, e Host, r AgentRequest) (any, []*os.File, error) {
			return streams(e.StartAgent(ctx, r))
		}),
		opCheck: on(func(ctx context.Context, e Host, r CheckRequest) (any, []*os.File, error) {
			return streams(e.StartCheck(ctx, r))
		}),
		opStatus: on(func(ctx context.Context, e Host, r statusRequest) (any, []*os.File, error) {
			return plain(e.Status(ctx, r.ID, r.Wait))
		}),
		opStop: on(func(ctx context.Context, e Host, r idRequest) (any, []*os.File, error) {
			return nil, nil, e.Stop(ctx, r.ID)
		}),
		opHandBack: on(func(ctx context.Context, e Host, r idRequest) (any, []*os.File, error) {
			c, err := e.HandBack(ctx, r.ID)
			return nil, present(c.File), err
		}),
		opDeliver: on(func(ctx context.Context, e Host, r idRequest) (any, []*os.File, error) {
			return plain(e.Deliver(ctx, r.ID))
		}),
		opDelete: on(func(ctx context.Context, e Host, r branchRequest) (any, []*os.File, error) {
			return plain(e.DeleteBranch(ctx, r.Path, r.Branch))
		}),
		opRemove: on(func(ctx context.Context, e Host, r idRequest) (any, []*os.File, error) {
			return nil, nil, e.Remove(ctx, r.ID)
		}),
		opKnown: on(func(ctx context.Context, e Host, _ nothing) (any, []*os.File, error) {
			return plain(e.Known(ctx))
		}),
		opModels: on(func(ctx context.Context, e Host, _ nothing) (any, []*os.File, error) {
			return plain(e.Models(ctx))
		}),
		opActivity: on(func(ctx context.Context, e Host, r Activity) (any, []*os.File, error) {
			return nil, nil, e.Activity(ctx, r)
		}),
	}
}

func on[Q checked](do func(context.Context, Host, Q) (any, []*os.File, error)) operation {
	return func(ctx context.Context, e Host, body []byte) (any, []*os.File, error) {
		var r Q
		if err := strict(body, &r); err != nil {
			return nil, nil, invalid("a request that cannot be read: %v", err)
		}
		if err := r.Check(); err != nil {
			return nil, nil, err
		}
		return do(ctx, e, r)
	}
}

func plain[A any](a A, err error) (any, []*os.File, error) { return a, nil, err }

// streamsAnswer says which files come.
type streamsAnswer struct {
	Commit string `json:"commit,omitempty"`
	Errors bool   `json:"errors"` // the second of three files
}

func streams(s Streams, err error) (any, []*os.File, error) {
	return streamsAnswer{Commit: s.Commit, Errors: s.Errors != nil}, present(s.Output, s.Errors, s.Events), err
}

// present leaves out what is not there.
func present(files ...*os.File) []*os.File {
	var out []*os.File
	for _, f := range files {
		if f != nil {
			out = append(out, f)
		}
	}
	return out
}

// idRequest is about one task or check.
type idRequest struct {
	ID task.ID `json:"id"`
}

// Check is a request's.
func (r idRequest) Check() error { return checkID(r.ID) }

type statusRequest struct {
	ID   task.ID `json:"id"`
	Wait bool    `json:"wait"`
}

// Check is a request's.
func (r statusRequest) Check() error { return checkID(r.ID) }

type branchRequest struct {
	Path   string `json:"path"`
	Branch string `json:"branch"`
}

// Check is a request's.
func (r branchRequest) Check() error { return first(checkPath(r.Path), checkOurs(r.Branch)) }

type nothing struct{}

// Check is a request's.
func (nothing) Check() error { return nil }
