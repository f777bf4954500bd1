package cli

import (
	"context"
	"sync"

	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskapi"
)

// summoned is the service of tasks, connected to, and started if need be, when
// it is used: a client of MCP that only lists the tools starts nothing, and one
// that stays for days finds the service again after its end.
type summoned struct {
	connect func() (*taskapi.Client, error)

	mu     sync.Mutex
	client *taskapi.Client // nil before the first use
}

var _ task.Service = (*summoned)(nil)

// get returns the client, another one than that which found nobody.
func (s *summoned) get(not *taskapi.Client) (*taskapi.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && s.client != not {
		return s.client, nil
	}
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	if s.client != nil {
		s.client.Close()
	}
	s.client = c
	return c, nil
}

func (s *summoned) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.Close()
	}
}

// with asks the service, once more if nobody listened.
func with[T any](s *summoned, ask func(task.Service) (T, error)) (T, error) {
	c, err := s.get(nil)
	if err != nil {
		var none T
		return none, err
	}
	v, err := ask(c)
	if err == nil || !taskapi.Absent(err) {
		return v, err
	}
	if c, err = s.get(c); err != nil {
		return v, err
	}
	return ask(c)
}

// Delegate is task.Service's.
func (s *summoned) Delegate(ctx context.Context, r task.Request) (task.Task, error) {
	return with(s, func(t task.Service) (task.Task, error) { return t.Delegate(ctx, r) })
}

// Follow is task.Service's.
func (s *summoned) Follow(ctx context.Context, id task.ID, progress func(task.Progress)) (task.Task, error) {
	return with(s, func(t task.Service) (task.Task, error) { return t.Follow(ctx, id, progress) })
}

// Get is task.Service's.
func (s *summoned) Get(ctx context.Context, id task.ID) (task.Task, error) {
	return with(s, func(t task.Service) (task.Task, error) { return t.Get(ctx, id) })
}

// List is task.Service's.
func (s *summoned) List(ctx context.Context) ([]task.Task, error) {
	return with(s, func(t task.Service) ([]task.Task, error) { return t.List(ctx) })
}

// Result is task.Service's.
func (s *summoned) Result(ctx context.Context, id task.ID, part task.Part, offset int64) (task.Piece, error) {
	return with(s, func(t task.Service) (task.Piece, error) { return t.Result(ctx, id, part, offset) })
}

// Cancel is task.Service's.
func (s *summoned) Cancel(ctx context.Context, id task.ID) (task.Task, error) {
	return with(s, func(t task.Service) (task.Task, error) { return t.Cancel(ctx, id) })
}

// Check is task.Service's.
func (s *summoned) Check(ctx context.Context, r task.CheckRequest, progress func(task.Progress)) (task.CheckResult, error) {
	return with(s, func(t task.Service) (task.CheckResult, error) { return t.Check(ctx, r, progress) })
}

// Models is task.Service's.
func (s *summoned) Models(ctx context.Context) ([]task.Model, error) {
	return with(s, func(t task.Service) ([]task.Model, error) { return t.Models(ctx) })
}

// Cleanup is task.Service's.
func (s *summoned) Cleanup(ctx context.Context, repoPath, branch string) (task.Cleaned, error) {
	return with(s, func(t task.Service) (task.Cleaned, error) { return t.Cleanup(ctx, repoPath, branch) })
}

// Forget is task.Service's.
func (s *summoned) Forget(ctx context.Context, id task.ID) error {
	_, err := with(s, func(t task.Service) (struct{}, error) { return struct{}{}, t.Forget(ctx, id) })
	return err
}
