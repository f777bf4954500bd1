package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/delegate"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/transcript"
)

const (
	baseID = "1111111111111111111111111111111111111111"
	workID = "2222222222222222222222222222222222222222"
	runID  = "sbx_0123456789abcdef"
)

// errCrash is what an operation returns when the service dies in it.
var errCrash = bailey.NewError(bailey.Unavailable, "the launcher is gone", "")

// fakeEngine is a launcher whose sandboxes are told by the test what they do.
// It lasts over the services that use it, as the launcher's folders do.
type fakeEngine struct {
	t   *testing.T
	dir string

	mu      sync.Mutex
	boxes   map[task.ID]*box
	calls   []string // op and id
	crash   func(op string, after bool) bool
	refuse  map[string]error // by op
	behave  func(b *box)     // what an agent does, in its own goroutine
	models  []task.Model
	running int
	peak    int
	deleted []string

	parallel int // as config.yaml has it
}

type box struct {
	e      *fakeEngine
	req    launcher.AgentRequest
	snap   launcher.SnapshotRequest
	st     launcher.Status
	stop   chan struct{}
	once   sync.Once
	ended  chan struct{}
	out    *os.File
	errs   *os.File
	events *os.File
	starts int
	work   launcher.Collected
	diff   string
	sent   int
}

func newFake(t *testing.T) *fakeEngine {
	t.Helper()
	return &fakeEngine{
		t: t, dir: t.TempDir(), boxes: map[task.ID]*box{}, refuse: map[string]error{},
		behave: func(b *box) { b.says(`{"turn":1}`); b.end(0, "") },
		models: []task.Model{{ID: "small", Default: true, Dialect: "messages", MaxAgents: 2, Harnesses: []string{"claude", "pi"}, Price: &task.Price{}}, {ID: "free", MaxAgents: 1, Harnesses: []string{"codex"}, Installable: []task.Installable{{Harness: "opencode", Install: "npm install -g opencode-ai"}}}, {ID: "alone"}, {ID: "bare", Dialect: "messages", Installable: []task.Installable{{Harness: "claude", Install: "npm install -g @anthropic-ai/claude-code"}}}},
	}
}

func (e *fakeEngine) op(name string, id task.ID, do func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.crash != nil && e.crash(name, false) {
		return errCrash
	}
	e.calls = append(e.calls, name+" "+string(id))
	if err := e.refuse[name]; err != nil {
		return err
	}
	err := do()
	if e.crash != nil && e.crash(name, true) {
		return errCrash
	}
	return err
}

var errGone = bailey.NewError(bailey.NotFound, "nothing of it is kept", "")

func (e *fakeEngine) box(id task.ID) (*box, error) {
	if b := e.boxes[id]; b != nil {
		return b, nil
	}
	return nil, errGone
}

func (e *fakeEngine) Examine(_ context.Context, r launcher.ExamineRequest) (launcher.Examined, error) {
	return launcher.Examined{Repo: r.Path, MaxParallel: e.parallel}, e.op("examine", r.ID, func() error { return nil })
}

func (e *fakeEngine) Snapshot(_ context.Context, r launcher.SnapshotRequest) (s launcher.Snapshot, err error) {
	err = e.op("snapshot", r.ID, func() error {
		if e.boxes[r.ID] == nil {
			e.boxes[r.ID] = &box{e: e, snap: r, st: launcher.Status{ID: r.ID, Phase: launcher.Prepared}, stop: make(chan struct{}), ended: make(chan struct{}), work: launcher.Collected{Commit: workID, DiffStat: " a | 1 +\n"}, diff: "+new\n"}
		}
		s = launcher.Snapshot{Repo: r.Path, Base: baseID, Warnings: []string{"uncommitted work is not seen"}}
		return nil
	})
	return s, err
}

func (e *fakeEngine) file(name string) *os.File {
	f, err := os.OpenFile(filepath.Join(e.dir, name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		e.t.Error(err)
	}
	return f
}

func (e *fakeEngine) start(b *box) {
	b.starts++
	b.st.Phase, b.st.Started = launcher.Live, time.Now()
	id := string(b.st.ID)
	b.out, b.errs, b.events = e.file(id+".out"), e.file(id+".err"), e.file(id+".events")
	e.running++
	e.peak = max(e.peak, e.running)
	go e.behave(b)
}

func (e *fakeEngine) streams(id task.ID) launcher.Streams {
	return launcher.Streams{Output: e.file(string(id) + ".out"), Errors: e.file(string(id) + ".err"), Events: e.file(string(id) + ".events")}
}

func (e *fakeEngine) StartAgent(_ context.Context, r launcher.AgentRequest) (s launcher.Streams, err error) {
	err = e.op("agent", r.ID, func() error {
		b, err := e.box(r.ID)
		if err != nil {
			return err
		}
		if b.starts == 0 {
			b.req = r
			e.start(b)
		}
		s = e.streams(r.ID)
		return nil
	})
	return s, err
}

func (e *fakeEngine) StartCheck(_ context.Context, r launcher.CheckRequest) (s launcher.Streams, err error) {
	err = e.op("check", r.ID, func() error {
		b := &box{e: e, st: launcher.Status{ID: r.ID, Check: true}, stop: make(chan struct{}), ended: make(chan struct{})}
		e.boxes[r.ID] = b
		b.starts, b.st.Phase, b.st.Started = 1, launcher.Live, time.Now()
		b.out, b.events = e.file(string(r.ID)+".out"), e.file(string(r.ID)+".events")
		go func() {
			b.says("$ " + r.Command)
			if r.Command == "sleep" {
				<-b.stop
				b.end(137, "stop")
				return
			}
			b.end(len(r.Command)%2, "")
		}()
		s = e.streams(r.ID)
		s.Errors, s.Commit = nil, workID
		return nil
	})
	return s, err
}

func (e *fakeEngine) Status(ctx context.Context, id task.ID, wait bool) (st launcher.Status, err error) {
	var b *box
	if err := e.op("status", id, func() (err error) { b, err = e.box(id); return err }); err != nil {
		return st, err
	}
	if wait {
		select {
		case <-b.ended:
		case <-ctx.Done():
			return st, ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return b.st, nil
}

func (e *fakeEngine) Stop(_ context.Context, id task.ID) error {
	var b *box
	if err := e.op("stop", id, func() (err error) { b, err = e.box(id); return err }); err != nil {
		return err
	}
	b.once.Do(func() { close(b.stop) })
	<-b.ended
	return nil
}

func (e *fakeEngine) HandBack(_ context.Context, id task.ID) (c launcher.Collection, err error) {
	err = e.op("handback", id, func() error {
		b, err := e.box(id)
		if err != nil {
			return err
		}
		if b.st.Phase == launcher.Live {
			return errors.New("it runs")
		}
		b.st.Phase = launcher.Gathered
		head, _ := json.Marshal(b.work)
		f, err := os.CreateTemp(e.dir, "diff")
		if err != nil {
			return err
		}
		_, err = f.WriteString(string(head) + "\n" + b.diff)
		c.File = f
		return err
	})
	return c, err
}

func (e *fakeEngine) Deliver(_ context.Context, id task.ID) (d launcher.Delivered, err error) {
	err = e.op("deliver", id, func() error {
		b, err := e.box(id)
		if err != nil {
			return err
		}
		b.sent++
		b.st.Phase = launcher.Sent
		d = launcher.Delivered{Branch: id.Branch(), Commit: b.work.Commit}
		return nil
	})
	return d, err
}

func (e *fakeEngine) DeleteBranch(_ context.Context, _, branch string) (launcher.Deleted, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deleted = append(e.deleted, branch)
	return launcher.Deleted{Deleted: true, Commit: workID}, nil
}

func (e *fakeEngine) Remove(_ context.Context, id task.ID) error {
	return e.op("remove", id, func() error {
		b, err := e.box(id)
		if err == nil && b.st.Phase == launcher.Live {
			return errors.New("it runs")
		}
		delete(e.boxes, id)
		return err
	})
}

func (e *fakeEngine) Known(context.Context) (out []launcher.Status, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.boxes {
		out = append(out, b.st)
	}
	return out, nil
}

func (e *fakeEngine) Models(context.Context) ([]task.Model, error) {
	return append([]task.Model(nil), e.models...), nil
}

// says prints a line as the agent.
func (b *box) says(line string) { _, _ = b.out.WriteString(line + "\n") }

func (b *box) event(format string, args ...any) {
	_, _ = fmt.Fprintf(b.events, `{"time":"2026-01-01T00:00:00Z","sandbox":"`+runID+`",`+format+"}\n", args...)
}

// end ends the sandbox.
func (b *box) end(code int, limit string) {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	b.st.Phase, b.st.ExitCode, b.st.Limit, b.st.Ended = launcher.Ended, code, limit, time.Now()
	for _, f := range []*os.File{b.out, b.errs, b.events} {
		if f != nil {
			_ = f.Close()
		}
	}
	if !b.st.Check {
		b.e.running--
	}
	close(b.ended)
}

func (e *fakeEngine) count(call string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		if strings.HasPrefix(c, call+" ") {
			n++
		}
	}
	return n
}

// script is a transcript of lines {"turn":N}, {"text":""}, {"end":""}.
type script struct {
	event func(transcript.Event)
	sum   transcript.Summary
	rest  string
}

func (s *script) Write(p []byte) (int, error) {
	s.rest += string(p)
	for {
		l, rest, ok := strings.Cut(s.rest, "\n")
		if !ok {
			return len(p), nil
		}
		s.rest = rest
		var v struct {
			Turn int
			Text string
			End  string
			Tool string
		}
		if json.Unmarshal([]byte(l), &v) != nil {
			s.sum.Report = l
			continue
		}
		if v.Turn > 0 {
			s.sum.Turns = v.Turn
			s.event(transcript.Event{Kind: transcript.Turn, Turn: v.Turn})
		}
		if v.Tool != "" {
			s.event(transcript.Event{Kind: transcript.Call, Tool: v.Tool, Line: v.Text})
		} else if v.Text != "" {
			s.sum.Report = v.Text
			s.event(transcript.Event{Kind: transcript.Text, Line: v.Text})
		}
		if v.End != "" {
			s.sum.Ended, s.sum.Reason = true, v.End
		}
	}
}
func (*script) Close() error                  { return nil }
func (s *script) Summary() transcript.Summary { return s.sum }

// desk is a running service.
type desk struct {
	*delegate.Service
	t    *testing.T
	stop context.CancelFunc
	done chan error
	log  *lines
}

type lines struct {
	mu sync.Mutex
	l  []string
}

func (l *lines) add(s string) { l.mu.Lock(); defer l.mu.Unlock(); l.l = append(l.l, s) }
func (l *lines) text() string { l.mu.Lock(); defer l.mu.Unlock(); return strings.Join(l.l, "\n") }

func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tasks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// open starts a service on a folder.
func open(t *testing.T, e launcher.Engine, dir string, set ...func(*delegate.Config)) *desk {
	t.Helper()
	log := &lines{}
	cfg := delegate.Config{
		Engine: e, Folder: dir, Now: time.Now, Log: log.add, Poll: 10 * time.Millisecond,
		Listen: func(_ string, event func(transcript.Event)) (delegate.Transcript, error) {
			return &script{event: event}, nil
		},
	}
	for _, f := range set {
		f(&cfg)
	}
	s, err := delegate.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	d := &desk{Service: s, t: t, stop: stop, done: make(chan error, 1), log: log}
	go func() { d.done <- s.Run(ctx) }()
	return d
}

func (d *desk) close() {
	d.t.Helper()
	d.stop()
	if err := <-d.done; err != nil && !errors.Is(err, errCrash) {
		d.t.Error(err)
	}
	if err := d.Close(); err != nil {
		d.t.Error(err)
	}
}

var _ io.Writer = (*script)(nil)
