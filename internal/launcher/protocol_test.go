package launcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/memfd"
	"github.com/bailey-dev/bailey/internal/task"
)

// fakeEngine remembers what it was asked. What waits does so until its context
// ends.
type fakeEngine struct {
	t       *testing.T
	mu      sync.Mutex
	prompts []string
	active  launcher.Activity
	waiting chan task.ID
	ended   chan task.ID
}

func newEngine(t *testing.T) *fakeEngine {
	t.Helper()
	return &fakeEngine{t: t, waiting: make(chan task.ID, 64), ended: make(chan task.ID, 64)}
}

func (e *fakeEngine) file(text string) *os.File {
	path := filepath.Join(e.t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		e.t.Error(err)
	}
	f, err := os.Open(path)
	if err != nil {
		e.t.Error(err)
	}
	return f
}

func (e *fakeEngine) Examine(_ context.Context, r launcher.ExamineRequest) (launcher.Examined, error) {
	if r.Environment == "none" {
		return launcher.Examined{}, bailey.NewError(bailey.NotFound, "there is no environment none", "bailey env ls lists them")
	}
	return launcher.Examined{Repo: r.Path, MaxParallel: 3}, nil
}

func (e *fakeEngine) Snapshot(_ context.Context, r launcher.SnapshotRequest) (launcher.Snapshot, error) {
	if r.Path == "/nowhere" {
		return launcher.Snapshot{}, bailey.NewError(bailey.NotFound, "there is no folder /nowhere", "name another")
	}
	return launcher.Snapshot{Repo: r.Path, Base: "abc", Warnings: []string{strings.Repeat("w", 100<<10)}}, nil
}

func (e *fakeEngine) StartAgent(_ context.Context, r launcher.AgentRequest) (launcher.Streams, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.prompts = append(e.prompts, r.Prompt)
	return launcher.Streams{Output: e.file("out"), Errors: e.file("err"), Events: e.file("events")}, nil
}

func (e *fakeEngine) StartCheck(context.Context, launcher.CheckRequest) (launcher.Streams, error) {
	return launcher.Streams{Output: e.file("out"), Events: e.file("events"), Commit: "def"}, nil
}

func (e *fakeEngine) Status(ctx context.Context, id task.ID, wait bool) (launcher.Status, error) {
	if wait {
		e.waiting <- id
		<-ctx.Done()
		e.ended <- id
		return launcher.Status{}, ctx.Err()
	}
	return launcher.Status{ID: id, Phase: launcher.Live}, nil
}

func (e *fakeEngine) Stop(context.Context, task.ID) error { return errors.New("plain") }

func (e *fakeEngine) HandBack(context.Context, task.ID) (launcher.Collection, error) {
	return launcher.Collection{File: e.file("{}\ndiff")}, nil
}

func (e *fakeEngine) Deliver(_ context.Context, id task.ID) (launcher.Delivered, error) {
	return launcher.Delivered{Branch: id.Branch(), Commit: "abc"}, nil
}

func (e *fakeEngine) DeleteBranch(context.Context, string, string) (launcher.Deleted, error) {
	return launcher.Deleted{Deleted: true, Commit: "abc"}, nil
}
func (e *fakeEngine) Remove(context.Context, task.ID) error { return nil }

func (e *fakeEngine) Known(context.Context) ([]launcher.Status, error) {
	return []launcher.Status{{ID: "a", Started: time.Unix(1, 0).UTC()}}, nil
}

func (e *fakeEngine) Models(context.Context) ([]task.Model, error) {
	return []task.Model{{ID: "m"}}, nil
}

func (e *fakeEngine) Activity(_ context.Context, a launcher.Activity) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active = a
	return nil
}

// pair serves an engine, and returns the other end of the connection.
func pair(t *testing.T, e launcher.Host) (conn *os.File, served <-chan error) {
	t.Helper()
	ours, theirs, err := fdpass.PacketPair("engine")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- launcher.Serve(t.Context(), ours, e)
		_ = ours.Close()
	}()
	t.Cleanup(func() { _ = theirs.Close() })
	return theirs, done
}

// connect is a client of an engine.
func connect(t *testing.T, e launcher.Host) *launcher.Client {
	t.Helper()
	conn, _ := pair(t, e)
	c := launcher.NewClient(conn)
	ran := make(chan error, 1)
	go func() { ran <- c.Run() }()
	return c
}

func contents(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	return string(b)
}

func agentRequest() launcher.AgentRequest {
	return launcher.AgentRequest{ID: "a", Harness: "claude", Model: "small", Prompt: "work", MaxTurns: 60, Timeout: time.Minute}
}

func TestClient_EachOperation(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	c := connect(t, e)
	ctx := t.Context()

	if got, err := c.Examine(ctx, launcher.ExamineRequest{ID: "x", Path: "/repo"}); err != nil || got.Repo != "/repo" || got.MaxParallel != 3 {
		t.Errorf("examine: %v, %v", got, err)
	}
	if _, err := c.Examine(ctx, launcher.ExamineRequest{ID: "x", Path: "/repo", Environment: "none"}); bailey.KindOf(err) != bailey.NotFound {
		t.Errorf("examine, without an environment: %v", err)
	}
	snap, err := c.Snapshot(ctx, launcher.SnapshotRequest{ID: "a", Path: "/repo"})
	if err != nil || snap.Repo != "/repo" || len(snap.Warnings) != 1 || len(snap.Warnings[0]) != 100<<10 {
		t.Errorf("snapshot: %v, %.60v", err, snap)
	}
	r := agentRequest()
	r.Prompt = strings.Repeat("<long> \u2028 ", 40_000)
	s, err := c.StartAgent(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, s.Output) + contents(t, s.Errors) + contents(t, s.Events); got != "outerrevents" {
		t.Errorf("streams: %q", got)
	}
	e.mu.Lock()
	same := len(e.prompts) == 1 && e.prompts[0] == r.Prompt
	e.mu.Unlock()
	if !same {
		t.Error("the prompt did not come as it was sent")
	}
	s, err = c.StartCheck(ctx, launcher.CheckRequest{ID: "c", Path: "/repo", Branch: "agent/a", Command: "make", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, s.Output) + contents(t, s.Events) + s.Commit; got != "outeventsdef" || s.Errors != nil {
		t.Errorf("streams of a check: %q, %v", got, s.Errors)
	}
	col, err := c.HandBack(ctx, "a")
	if err != nil || contents(t, col.File) != "{}\ndiff" {
		t.Errorf("hand back: %v", err)
	}
	if d, err := c.Deliver(ctx, "a"); err != nil || d.Branch != "agent/a" {
		t.Errorf("deliver: %v, %v", d, err)
	}
	if got, err := c.DeleteBranch(ctx, "/repo", "agent/a"); err != nil || got != (launcher.Deleted{Deleted: true, Commit: "abc"}) {
		t.Errorf("delete: %v, %v", got, err)
	}
	if err := c.Remove(ctx, "a"); err != nil {
		t.Error(err)
	}
	known, err := c.Known(ctx)
	if want, _ := e.Known(ctx); err != nil || !cmp.Equal(known, want) {
		t.Errorf("known: %v, %v", known, err)
	}
	if m, err := c.Models(ctx); err != nil || len(m) != 1 || m[0].ID != "m" {
		t.Errorf("models: %v, %v", m, err)
	}
	err = c.Activity(ctx, launcher.Activity{Clients: 1, Tasks: 2})
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || e.active.Tasks != 2 {
		t.Errorf("activity: %v, %v", e.active, err)
	}
}

func TestClient_ErrorsKeepTheirKind(t *testing.T) {
	t.Parallel()
	c := connect(t, newEngine(t))
	_, err := c.Snapshot(t.Context(), launcher.SnapshotRequest{ID: "a", Path: "/nowhere"})
	want := bailey.NewError(bailey.NotFound, "there is no folder /nowhere", "name another")
	got, ok := errors.AsType[*bailey.Error](err)
	if !ok || *got != *want {
		t.Errorf("got %#v, want %#v", got, want)
	}
	if err := c.Stop(t.Context(), "a"); bailey.KindOf(err) != bailey.Internal || err.Error() != "plain" {
		t.Errorf("an error of no kind: %v", err)
	}
}

// TestClient_ManyAtOnce: requests do not wait for each other, and the end of
// one's context ends it on the other side, and it alone.
func TestClient_ManyAtOnce(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	c := connect(t, e)
	const many = 20
	cancels := map[task.ID]context.CancelFunc{}
	errs := make(chan error, many)
	for i := range many {
		id := task.ID("t-" + string(rune('a'+i)))
		ctx, cancel := context.WithCancel(t.Context())
		cancels[id] = cancel
		go func() {
			_, err := c.Status(ctx, id, true)
			errs <- err
		}()
	}
	for range many {
		<-e.waiting
	}
	if s, err := c.Status(t.Context(), "t-a", false); err != nil || s.Phase != launcher.Live {
		t.Fatalf("behind %d that wait: %v, %v", many, s, err)
	}
	cancels["t-c"]()
	if id := <-e.ended; id != "t-c" {
		t.Errorf("the end of t-c ended %s", id)
	}
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("t-c: %v", err)
	}
	for _, cancel := range cancels {
		cancel()
	}
	for range many - 1 {
		<-e.ended
		<-errs
	}
}

// TestClient_TheOtherSideGoes: what waits is told, and what is asked later.
func TestClient_TheOtherSideGoes(t *testing.T) {
	t.Parallel()
	ours, theirs, err := fdpass.PacketPair("engine")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = theirs.Close() }()
	c := launcher.NewClient(theirs)
	go func() { _ = c.Run() }()
	errs := make(chan error, 1)
	go func() {
		_, err := c.Status(t.Context(), "a", true)
		errs <- err
	}()
	if _, _, err := fdpass.ReceiveFiles(ours, 64<<10); err != nil {
		t.Fatal(err)
	}
	_ = ours.Close()
	if err := <-errs; bailey.KindOf(err) != bailey.Unavailable {
		t.Errorf("it waited: %v", err)
	}
	if _, err := c.Status(t.Context(), "a", true); bailey.KindOf(err) != bailey.Unavailable {
		t.Errorf("asked later: %v", err)
	}
}

// TestServe_EndsWhatIsOpenWithItsConnection: control is killed.
func TestServe_EndsWhatIsOpenWithItsConnection(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	conn, served := pair(t, e)
	c := launcher.NewClient(conn)
	go func() { _, _ = c.Status(t.Context(), "a", true) }()
	<-e.waiting
	_ = conn.Close()
	<-e.ended
	if err := <-served; err != nil {
		t.Errorf("the end of the other side is an error: %v", err)
	}
}

// raw is one packet and what comes back.
func raw(t *testing.T, conn *os.File, packet string, files ...*os.File) {
	t.Helper()
	if err := fdpass.SendFiles(conn, []byte(packet), files); err != nil {
		t.Fatal(err)
	}
}

// TestServe_RefusesRequests: each is answered with Invalid or Forbidden, and
// the connection goes on: the last is the twin.
func TestServe_RefusesRequests(t *testing.T) {
	t.Parallel()
	conn, _ := pair(t, newEngine(t))
	bodies := map[string]string{
		"unknown operation":  `{"n":1,"op":"mount","body":{}}`,
		"unknown field":      `{"n":1,"op":"status","body":{"id":"a","wait":false,"command":"sh"}}`,
		"no body":            `{"n":1,"op":"status"}`,
		"another type":       `{"n":1,"op":"status","body":{"id":["a"],"wait":false}}`,
		"id with a slash":    `{"n":1,"op":"stop","body":{"id":"../a"}}`,
		"id in capitals":     `{"n":1,"op":"stop","body":{"id":"A"}}`,
		"id of an option":    `{"n":1,"op":"remove","body":{"id":"-rf"}}`,
		"empty id":           `{"n":1,"op":"hand-back","body":{"id":""}}`,
		"relative path":      `{"n":1,"op":"snapshot","body":{"id":"a","path":"repo"}}`,
		"ref of an option":   `{"n":1,"op":"snapshot","body":{"id":"a","path":"/repo","ref":"--upload-pack=x"}}`,
		"another's branch":   `{"n":1,"op":"delete-branch","body":{"path":"/repo","branch":"main"}}`,
		"branch upwards":     `{"n":1,"op":"delete-branch","body":{"path":"/repo","branch":"agent/../main"}}`,
		"branch of a check":  `{"n":1,"op":"check","body":{"id":"a","path":"/repo","branch":"-x","command":"true","timeout":1}}`,
		"command of nothing": `{"n":1,"op":"check","body":{"id":"a","path":"/repo","branch":"x","command":"","timeout":1}}`,
		"too long a time":    `{"n":1,"op":"check","body":{"id":"a","path":"/repo","branch":"x","command":"true","timeout":3600000000001}}`,
		"agent by a path":    `{"n":1,"op":"agent","body":{"id":"a","harness":"/bin/sh","model":"m","prompt":"x","max_turns":1,"timeout":1,"guide":true}}`,
	}
	ask := func(packet string) launcherReply {
		raw(t, conn, packet)
		return reply(t, conn)
	}
	for name, packet := range bodies {
		r := ask(packet)
		if r.N != 1 || r.Error == nil || r.Error.Kind != "invalid" && r.Error.Kind != "forbidden" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := ask(`{"n":2,"op":"status","body":{"id":"a","wait":false}}`); r.N != 2 || r.Error != nil {
		t.Errorf("twin: %+v", r)
	}
}

type launcherReply struct {
	N     uint64          `json:"n"`
	Body  json.RawMessage `json:"body"`
	Error *struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
	} `json:"error"`
}

func reply(t *testing.T, conn *os.File) launcherReply {
	t.Helper()
	packet, _, err := fdpass.ReceiveFiles(conn, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	var r launcherReply
	if err := json.Unmarshal(packet, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestServe_EndsAConnectionThatBreaksTheProtocol: whoever says such things is
// not bailey's control any more.
func TestServe_EndsAConnectionThatBreaksTheProtocol(t *testing.T) {
	t.Parallel()
	pipe := func(t *testing.T) *os.File { // reading it would wait for ever
		t.Helper()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
		return r
	}
	text := func(t *testing.T) *os.File {
		t.Helper()
		f, err := memfd.Text("body", []byte(`{"id":"a","wait":false}`))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	for name, c := range map[string]struct {
		packets []string
		file    func(t *testing.T) *os.File
	}{
		"no JSON":               {packets: []string{"status"}},
		"two values":            {packets: []string{`{"n":1,"op":"known","body":{}} {}`}},
		"unknown field":         {packets: []string{`{"n":1,"op":"known","body":{},"uid":0}`}},
		"an answer":             {packets: []string{`{"n":1,"error":{"kind":"internal","message":"x"}}`}},
		"a number twice":        {packets: []string{`{"n":1,"op":"status","body":{"id":"a","wait":true}}`, `{"n":1,"op":"status","body":{"id":"a","wait":true}}`}},
		"a file for nothing":    {packets: []string{`{"n":1,"op":"known","body":{}}`}, file: text},
		"a pipe for a body":     {packets: []string{`{"n":1,"op":"status","long":true}`}, file: pipe},
		"no file for a body":    {packets: []string{`{"n":1,"op":"status","long":true}`}},
		"two bodies":            {packets: []string{`{"n":1,"op":"status","long":true,"body":{}}`}, file: text},
		"too long for a packet": {packets: []string{`{"n":1,"op":"known","body":{}` + strings.Repeat(" ", 64<<10) + `}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, served := pair(t, newEngine(t))
			for _, p := range c.packets {
				if c.file != nil {
					raw(t, conn, p, c.file(t))
				} else {
					raw(t, conn, p)
				}
			}
			if err := <-served; err == nil {
				t.Error("it was no error")
			}
		})
	}
	t.Run("twin", func(t *testing.T) {
		t.Parallel()
		conn, _ := pair(t, newEngine(t))
		raw(t, conn, `{"n":1,"op":"status","long":true}`, text(t))
		if r := reply(t, conn); r.Error != nil {
			t.Errorf("%+v", r)
		}
	})
}

// TestServe_BoundsWhatIsOpen: one more is refused, and the connection lives.
func TestServe_BoundsWhatIsOpen(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.waiting = make(chan task.ID, 2048)
	e.ended = make(chan task.ID, 2048)
	conn, _ := pair(t, e)
	for i := range 1024 {
		raw(t, conn, `{"n":`+itoa(i)+`,"op":"status","body":{"id":"a","wait":true}}`)
	}
	raw(t, conn, `{"n":5000,"op":"status","body":{"id":"a","wait":false}}`)
	if r := reply(t, conn); r.N != 5000 || r.Error == nil || r.Error.Kind != "exhausted" {
		t.Errorf("%+v", r)
	}
	<-e.waiting
	raw(t, conn, `{"n":0,"op":"cancel"}`)
	<-e.ended
	if r := reply(t, conn); r.N != 0 || r.Error == nil {
		t.Errorf("what was cancelled: %+v", r)
	}
	raw(t, conn, `{"n":5001,"op":"status","body":{"id":"a","wait":false}}`)
	if r := reply(t, conn); r.N != 5001 || r.Error != nil {
		t.Errorf("twin: %+v", r)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// FuzzServe: nothing that comes over the connection is a panic, and nothing
// reaches the engine whose id is not valid.
func FuzzServe(f *testing.F) {
	for _, s := range []string{
		`{"n":1,"op":"status","body":{"id":"a","wait":false}}`, `{"n":1,"op":"snapshot","body":{"id":"a","path":"/x","ref":"HEAD"}}`,
		`{"n":1,"op":"agent","body":{"id":"a","harness":"claude","model":"m","prompt":"x","max_turns":1,"timeout":1,"guide":true}}`,
		`{"n":1,"op":"check","body":{"id":"a","path":"/x","branch":"agent/a","command":"true","timeout":1}}`,
		`{"n":1,"op":"delete-branch","body":{"path":"/x","branch":"agent/a"}}`, `{"n":1,"op":"cancel"}`, `{"n":1,"op":"activity","body":{"clients":-1}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) == 0 || len(packet) > 64<<10 {
			return
		}
		ours, theirs, err := fdpass.PacketPair("engine")
		if err != nil {
			t.Fatal(err)
		}
		e := &strictEngine{fakeEngine: newEngine(t)}
		if err := fdpass.SendFiles(theirs, packet, nil); err != nil {
			t.Fatal(err)
		}
		_ = theirs.Close()
		_ = launcher.Serve(t.Context(), ours, e)
		_ = ours.Close()
	})
}

// strictEngine fails the test for what should not have come.
type strictEngine struct{ *fakeEngine }

func (e *strictEngine) Stop(_ context.Context, id task.ID) error { return e.valid(id) }

func (e *strictEngine) Remove(_ context.Context, id task.ID) error { return e.valid(id) }

func (e *strictEngine) Snapshot(_ context.Context, r launcher.SnapshotRequest) (launcher.Snapshot, error) {
	if !filepath.IsAbs(r.Path) || strings.HasPrefix(r.Ref, "-") {
		e.t.Errorf("came through: %q %q", r.Path, r.Ref)
	}
	return launcher.Snapshot{}, e.valid(r.ID)
}

func (e *strictEngine) DeleteBranch(_ context.Context, _, branch string) (launcher.Deleted, error) {
	return launcher.Deleted{}, e.valid(task.ID(strings.TrimPrefix(branch, "agent/")))
}

func (e *strictEngine) valid(id task.ID) error {
	if !id.Valid() {
		e.t.Errorf("id %q came through", id)
	}
	return nil
}

// FuzzAnswer: nothing that comes back is a panic.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"n":1,"body":{"id":"a"}}`, `{"n":1,"error":{"kind":"invalid","message":"m","hint":"h"}}`, `{"n":1,"long":true}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) == 0 || len(packet) > 64<<10 {
			return
		}
		ours, theirs, err := fdpass.PacketPair("engine")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = theirs.Close() }()
		c := launcher.NewClient(theirs)
		ran := make(chan struct{})
		go func() { defer close(ran); _ = c.Run() }()
		said := make(chan struct{})
		go func() { defer close(said); _, _ = c.StartAgent(t.Context(), agentRequest()) }()
		if _, _, err := fdpass.ReceiveFiles(ours, 64<<10); err != nil {
			t.Fatal(err)
		}
		_ = fdpass.SendFiles(ours, packet, nil)
		_ = ours.Close()
		<-said
		<-ran
	})
}
