package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/transcript"
)

// Bounds of a service.
const (
	mostTasks   = 10_000 // that are kept
	mostWaiting = 1000   // that are not done
)

// Transcript reads an agent's event stream (internal/transcript).
type Transcript interface {
	io.WriteCloser
	Summary() transcript.Summary
}

// Config is what a Service needs.
type Config struct {
	Engine launcher.Engine
	Folder string           // its own, 0700, of the process's user
	Now    func() time.Time // the clock
	Log    func(string)     // operators' text, a line each; may be nil

	Path    string      // the PATH that agents are looked for on, for messages
	Resumed func(n int) // told once how many tasks a service before this one left; may be nil

	Most   int                                                                  // agents at once, over all models; 0: task.MostAgents
	Active func(tasks int)                                                      // told how many tasks and checks are not done, at each change; must not block; may be nil
	Listen func(agent string, event func(transcript.Event)) (Transcript, error) // default: transcript.New
	Poll   time.Duration                                                        // how often streams are looked at; default 100 ms
	Retry  time.Duration                                                        // between tries of what is not available; default 1 s

	Warnings []string // what each result says too: of the machine, and not of the task
}

func (c *Config) fill() {
	if c.Log == nil {
		c.Log = func(string) {}
	}
	if c.Active == nil {
		c.Active = func(int) {}
	}
	if c.Resumed == nil {
		c.Resumed = func(int) {}
	}
	if c.Listen == nil {
		c.Listen = func(agent string, event func(transcript.Event)) (Transcript, error) {
			return transcript.New(agent, event)
		}
	}
	if c.Poll <= 0 {
		c.Poll = defaultPoll
	}
	if c.Retry <= 0 {
		c.Retry = time.Second
	}
}

// Service is task.Service over an Engine. It is safe for concurrent use.
type Service struct {
	cfg      Config
	store    *store
	queue    *queue
	checking chan struct{}
	ending   chan struct{} // closed by Drain

	mu     sync.Mutex
	tasks  map[task.ID]*entry
	others map[task.ID]struct{} // ids that the launcher keeps something of, at the start
	active int
	run    context.Context //nolint:containedctx // the life of Run, which the tasks have
	lives  sync.WaitGroup
}

var _ task.Service = (*Service)(nil)

// New opens the folder and reads what is in it. Nothing is done before Run.
func New(cfg Config) (*Service, error) {
	cfg.fill()
	st, err := openStore(cfg.Folder)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, store: st, checking: make(chan struct{}, task.MostChecks), ending: make(chan struct{}), tasks: make(map[task.ID]*entry), others: make(map[task.ID]struct{})}
	s.queue = newQueue()
	s.queue.bound(cfg.Most)
	records, damaged, err := st.load()
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	for _, r := range records {
		if r.Step == stepCopy || r.Step == stepAgent && !r.Begun {
			r.Step, r.Task.State = stepQueue, task.Queued // its place is gone
		}
		e := newEntry(r)
		e.old = true
		s.tasks[e.id] = e
		if r.done() {
			close(e.over)
		}
	}
	for _, d := range damaged {
		cfg.Log(fmt.Sprintf("the record of task %s: %v; it is left as it is, and the other tasks are not touched", d.id, d.err))
		e := newEntry(&record{Step: stepDone, Task: task.Task{ID: d.id, State: task.Done, Status: task.HarnessError}})
		e.broken = d.err
		close(e.over)
		s.tasks[d.id] = e
	}
	return s, nil
}

// Run goes on with the tasks that are not done, and serves until ctx ends. It
// returns when nothing of it works any more. What was not done goes on at the
// next start.
func (s *Service) Run(ctx context.Context) error {
	defer s.lives.Wait()
	known, err := again(ctx, s, func() ([]launcher.Status, error) { return s.cfg.Engine.Known(ctx) })
	if err != nil {
		return fmt.Errorf("ask what the launcher keeps: %w", err)
	}
	s.mu.Lock()
	s.run = ctx
	var old []*entry
	byID := make(map[task.ID]*launcher.Status)
	for i := range known {
		byID[known[i].ID] = &known[i]
		s.others[known[i].ID] = struct{}{}
	}
	for _, e := range s.tasks {
		if e.step() != stepDone {
			old = append(old, e)
		}
	}
	slices.SortFunc(old, func(a, b *entry) int { return a.task().Created.Compare(b.task().Created) })
	for _, e := range old {
		s.begins(e, byID[e.id]) //nolint:contextcheck // s.run is the context
	}
	s.mu.Unlock()
	if len(old) > 0 {
		s.cfg.Resumed(len(old))
	}
	s.sweep(ctx, known)
	<-ctx.Done()
	s.mu.Lock()
	s.run = nil
	s.mu.Unlock()
	return nil
}

// Close lets go of the folder. Run has returned then.
func (s *Service) Close() error { return s.store.close() }

// Drain ends what runs, since the service is told to end: agents are stopped
// and their work is collected and delivered, and tasks whose agent was not
// started wait for the next start. It returns when that is done, or ctx ends:
// what was not done then is gone on with at the next start. Nothing new is
// taken from now on. It may be called once.
func (s *Service) Drain(ctx context.Context) {
	s.mu.Lock()
	close(s.ending)
	var open []*entry
	for _, e := range s.tasks {
		if e.step() != stepDone && e.begun() {
			open = append(open, e)
		}
	}
	s.mu.Unlock()
	for _, e := range open {
		if e.step() == stepAgent {
			e.edit(func(r *record) { r.warn("the service was told to end while the agent worked") })
		}
		e.askEnd()
		s.save(e)
	}
	for _, e := range open {
		select {
		case <-e.over:
		case <-ctx.Done():
			return
		}
	}
}

// drained reports that Drain was called.
func (s *Service) drained() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// sweep takes away what a crash left of checks, which nobody waits for any
// more.
func (s *Service) sweep(ctx context.Context, known []launcher.Status) {
	for _, k := range known {
		if k.Check {
			if k.Phase == launcher.Live {
				s.stop(ctx, k.ID)
			}
			s.tidy(ctx, k.ID)
		}
	}
}

// begins starts the life of a task. It wants mu.
func (s *Service) begins(e *entry, known *launcher.Status) {
	r := e.copied()
	works := r.Step == stepAgent
	if e.old && r.Cancel {
		e.askEnd()
	}
	switch {
	case e.old && works:
		s.tell(e, task.Progress{Kind: "warning", Message: "the service was started anew; the task goes on"})
	case e.old && r.Step == stepQueue:
		s.tell(e, task.Progress{Kind: "warning", Message: "the service was started anew; the task waits for a place again"})
	}
	if works || r.Step == stepQueue {
		e.ticket = s.queue.enter(r.Request.Model, r.Limit, works, func(place, of int) {
			s.tell(e, task.Progress{Kind: "queue", State: task.Queued, Place: place, Message: fmt.Sprintf("place %d of %d", place, of)})
		})
	} else {
		e.ticket = &ticket{gone: true}
	}
	s.active++
	s.cfg.Active(s.active)
	ctx := s.run
	s.lives.Go(func() {
		defer func() {
			s.queue.leave(e.ticket)
			s.idle()
		}()
		s.life(ctx, e, known)
	})
}

// busy counts something that is not done; what it returns takes it back.
func (s *Service) busy() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
	s.cfg.Active(s.active)
	return s.idle
}

func (s *Service) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	s.cfg.Active(s.active)
}

// Delegate takes a task. One that could not begin as things are is refused, and
// nothing is kept of it.
func (s *Service) Delegate(ctx context.Context, r task.Request) (task.Task, error) {
	if err := check(&r); err != nil {
		return task.Task{}, err
	}
	asked := digest(&r)
	if t, found, err := s.same(r.IdempotencyKey, asked); found || err != nil {
		return t, err
	}
	// The place first: what is wrong with it is so whatever is installed.
	found, err := s.cfg.Engine.Examine(ctx, launcher.ExamineRequest{ID: newID("look", s.taken), Path: r.RepoPath, Ref: r.Ref, Environment: r.Environment})
	if err != nil {
		return task.Task{}, err
	}
	models, err := s.cfg.Engine.Models(ctx)
	if err != nil {
		return task.Task{}, err
	}
	m, err := s.choose(&r, models)
	if err != nil {
		return task.Task{}, err
	}
	s.queue.bound(found.MaxParallel)
	e, fresh, err := s.add(r, m, asked) //nolint:contextcheck // a task outlives who asked for it
	if err != nil {
		return task.Task{}, err
	}
	if !fresh {
		return e.task(), nil
	}
	return s.shown(e), nil
}

// same finds the task that has a key.
func (s *Service) same(key, asked string) (t task.Task, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.keyed(key, asked)
	if e == nil {
		return task.Task{}, false, err
	}
	return s.shown(e), true, nil
}

// keyed finds the task that has a key, if it is of the same request. It wants
// mu.
func (s *Service) keyed(key, asked string) (*entry, error) {
	if key == "" {
		return nil, nil //nolint:nilnil // there is none, and that is right
	}
	for _, e := range s.tasks {
		r := e.copied()
		if r.Request.IdempotencyKey != key {
			continue
		}
		if r.Digest != asked {
			return nil, bailey.NewError(bailey.Conflict, fmt.Sprintf("the idempotency key is that of task %s, which is another", e.id), "use a key of its own for each task")
		}
		return e, nil
	}
	return nil, nil //nolint:nilnil // there is none, and that is right
}

// add makes the record of a task, and begins its life.
func (s *Service) add(r task.Request, m task.Model, asked string) (e *entry, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, err := s.keyed(r.IdempotencyKey, asked); e != nil || err != nil {
		return e, false, err
	}
	switch {
	case s.run == nil || s.run.Err() != nil || s.drained():
		return nil, false, bailey.NewError(bailey.Unavailable, "the service is ending, or has not begun", "try again")
	case s.active >= mostWaiting:
		return nil, false, bailey.NewError(bailey.Exhausted, fmt.Sprintf("%d tasks are not done", s.active), "wait for some, or cancel them")
	case len(s.tasks) >= mostTasks:
		return nil, false, bailey.NewError(bailey.Exhausted, fmt.Sprintf("%d tasks are kept", len(s.tasks)), "bailey task clean --older-than 7d removes old ones")
	}
	word := r.Name
	if word == "" {
		word = r.Task
	}
	id := newID(word, s.has)
	rec := &record{
		Version: recordVersion, Step: stepQueue, Request: r, Digest: asked, Limit: m.MaxAgents,
		Task: task.Task{ID: id, Name: r.Name, Group: r.Group, State: task.Queued, Repo: r.RepoPath, Model: r.Model, Harness: r.Harness, Created: s.cfg.Now().UTC()},
	}
	if m.Price != nil {
		rec.Task.CostUSD = new(float64)
	}
	if err := s.store.save(rec); err != nil {
		return nil, false, bailey.WrapError(bailey.Unavailable, "keep the task", err, "is the disk full?")
	}
	e = newEntry(rec)
	s.tasks[id] = e
	s.tell(e, task.Progress{Kind: "state", State: task.Queued})
	s.begins(e, nil)
	return e, true, nil
}

// has reports an id that is in use. It wants mu.
func (s *Service) has(id task.ID) bool {
	_, ours := s.tasks[id]
	_, theirs := s.others[id]
	return ours || theirs
}

func (s *Service) taken(id task.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has(id)
}

func (s *Service) find(id task.ID) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.tasks[id]
	if e == nil {
		return nil, bailey.NewError(bailey.NotFound, fmt.Sprintf("there is no task %q", line(string(id), mostName)), "bailey task ls lists them")
	}
	return e, nil
}

// shown is a task as lists show it.
func (s *Service) shown(e *entry) task.Task {
	t := e.task()
	if e.broken != nil {
		t.Name = "its record cannot be read"
	}
	if e.ticket != nil && t.State == task.Queued {
		t.Place = s.queue.placeOf(e.ticket)
	}
	return t
}

// Get returns a task, its request, and its result if it is done.
func (s *Service) Get(_ context.Context, id task.ID) (task.Task, error) {
	e, err := s.find(id)
	if err != nil {
		return task.Task{}, err
	}
	return s.whole(e)
}

func (s *Service) whole(e *entry) (task.Task, error) {
	t := s.shown(e)
	if r := e.unread(); r != nil {
		t.Result = r
		return t, nil
	}
	t.Request = e.request()
	r := e.copied()
	if !r.done() {
		return t, nil
	}
	var err error
	if t.Result, err = s.resultOf(&r); err != nil {
		return t, fmt.Errorf("read the result of %s: %w", e.id, err)
	}
	return t, nil
}

// List returns all tasks, the newest first.
func (s *Service) List(context.Context) ([]task.Task, error) {
	s.mu.Lock()
	entries := make([]*entry, 0, len(s.tasks))
	for _, e := range s.tasks {
		entries = append(entries, e)
	}
	s.mu.Unlock()
	out := make([]task.Task, 0, len(entries))
	for _, e := range entries {
		out = append(out, s.shown(e))
	}
	slices.SortFunc(out, func(a, b task.Task) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return bytes.Compare([]byte(a.ID), []byte(b.ID))
	})
	return out, nil
}

// Follow tells what happened to a task and what happens, until it is done.
func (s *Service) Follow(ctx context.Context, id task.ID, progress func(task.Progress)) (task.Task, error) {
	e, err := s.find(id)
	if err != nil {
		return task.Task{}, err
	}
	feed := e.feeds()
	if e.step() == stepDone {
		select {
		case <-e.over: // what happened is written down
		case <-ctx.Done():
			return s.shown(e), ctx.Err()
		}
		s.retell(e, progress)
		return s.whole(e)
	}
	for n := 0; ; {
		items, next, ended, change := feed.from(n)
		for _, p := range items {
			progress(p)
		}
		n = next
		switch {
		case len(items) > 0:
			continue
		case ended:
			return s.whole(e)
		}
		select {
		case <-change:
		case <-ctx.Done():
			return s.shown(e), ctx.Err()
		}
	}
}

// retell tells what was kept of what happened to a task that is done.
func (s *Service) retell(e *entry, progress func(task.Progress)) {
	data, _, err := s.store.piece(e.id, partTold, 0, mostPart)
	if err != nil {
		return
	}
	for l := range bytes.Lines(data) {
		var p task.Progress
		if json.Unmarshal(l, &p) == nil && p.Task == e.id {
			progress(p)
		}
	}
}

// Models lists the models, with what waits for each.
func (s *Service) Models(ctx context.Context) ([]task.Model, error) {
	models, err := s.cfg.Engine.Models(ctx)
	for i := range models {
		busy, queued := s.queue.load(models[i].ID)
		models[i].Busy, models[i].Queued = max(models[i].Busy, busy), queued
	}
	return models, err
}
