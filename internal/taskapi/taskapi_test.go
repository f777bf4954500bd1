package taskapi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers what it was asked.
type echo struct {
	mu    sync.Mutex
	asked []string
	err   error
	ended chan struct{}
}

func (e *echo) note(s string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, s)
	return e.err
}

func (e *echo) Delegate(_ context.Context, r task.Request) (task.Task, error) {
	return task.Task{ID: "x-1", Request: &r}, e.note("delegate " + r.RepoPath)
}

func (e *echo) Follow(_ context.Context, id task.ID, progress func(task.Progress)) (task.Task, error) {
	progress(task.Progress{Task: id, Kind: "turn", Turn: 1})
	progress(task.Progress{Task: id, Kind: "turn", Turn: 2, Plan: []task.Step{{Text: "a", State: "done"}}})
	return task.Task{ID: id, State: task.Done}, e.note("follow " + string(id))
}

func (e *echo) Get(_ context.Context, id task.ID) (task.Task, error) {
	return task.Task{ID: id}, e.note("get " + string(id))
}

func (e *echo) List(context.Context) ([]task.Task, error) {
	return []task.Task{{ID: "a"}}, e.note("list")
}

func (e *echo) Result(_ context.Context, id task.ID, p task.Part, offset int64) (task.Piece, error) {
	return task.Piece{ID: id, Part: p, Offset: offset}, e.note("result " + string(p))
}

func (e *echo) Cancel(_ context.Context, id task.ID) (task.Task, error) {
	return task.Task{ID: id}, e.note("cancel " + string(id))
}

func (e *echo) Check(ctx context.Context, r task.CheckRequest, progress func(task.Progress)) (task.CheckResult, error) {
	if r.Command == "wait" {
		progress(task.Progress{Kind: "state"})
		<-ctx.Done()
		close(e.ended)
		return task.CheckResult{}, ctx.Err()
	}
	progress(task.Progress{Kind: "text"})
	return task.CheckResult{Branch: r.Branch}, e.note("check " + r.Command)
}

func (e *echo) Models(context.Context) ([]task.Model, error) { return []task.Model{}, e.note("models") }

func (e *echo) Cleanup(_ context.Context, repo, branch string) (task.Cleaned, error) {
	return task.Cleaned{Branch: branch}, e.note("cleanup " + repo)
}
func (e *echo) Forget(_ context.Context, id task.ID) error { return e.note("forget " + string(id)) }

func serve(t *testing.T, e *echo, uid int) (path string, clients *[]int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "serve.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	clients = &[]int{}
	s := taskapi.NewServer(taskapi.Config{Service: e, UID: uid, Version: "1", Clients: func(n int) { mu.Lock(); defer mu.Unlock(); *clients = append(*clients, n) }})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path, clients
}

func connect(t *testing.T, path string) *taskapi.Client {
	t.Helper()
	c, err := taskapi.Connect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestClient_AsksWhatTheServiceIsAsked(t *testing.T) {
	t.Parallel()
	e := &echo{}
	path, clients := serve(t, e, os.Getuid())
	c := connect(t, path)
	ctx := t.Context()
	var got []int
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	tk, err := c.Delegate(ctx, task.Request{Task: "<x>\u2028", RepoPath: "/r", Budget: []string{"1M"}})
	add(err)
	if tk.Request == nil || tk.Request.Task != "<x>\u2028" {
		t.Errorf("%+v", tk)
	}
	tk, err = c.Follow(ctx, "a-1", func(p task.Progress) { got = append(got, p.Turn) })
	add(err)
	if diff := cmp.Diff([]int{1, 2}, got); diff != "" || tk.State != task.Done {
		t.Errorf("%s %+v", diff, tk)
	}
	_, err = c.Get(ctx, "a-1")
	add(err)
	_, err = c.List(ctx)
	add(err)
	p, err := c.Result(ctx, "a-1", task.PartLog, 7)
	add(err)
	if p.Offset != 7 || p.Part != task.PartLog {
		t.Errorf("%+v", p)
	}
	_, err = c.Cancel(ctx, "a-1")
	add(err)
	r, err := c.Check(ctx, task.CheckRequest{Branch: "main", Command: "make"}, func(task.Progress) {})
	add(err)
	if r.Branch != "main" {
		t.Errorf("%+v", r)
	}
	_, err = c.Models(ctx)
	add(err)
	_, err = c.Cleanup(ctx, "/r", "agent/a-1")
	add(err)
	add(c.Forget(ctx, "a-1"))
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	want := []string{"delegate /r", "get a-1", "follow a-1", "get a-1", "list", "result log", "cancel a-1", "check make", "models", "cleanup /r", "forget a-1"}
	if diff := cmp.Diff(want, e.asked); diff != "" {
		t.Error(diff)
	}
	if (*clients)[0] != 1 {
		t.Errorf("clients: %v", *clients)
	}
}

func TestErrors_KeepKindMessageAndHint(t *testing.T) {
	t.Parallel()
	e := &echo{}
	path, _ := serve(t, e, os.Getuid())
	c := connect(t, path)
	for k := bailey.Internal; k <= bailey.Unsupported; k++ {
		e.mu.Lock()
		e.err = bailey.WrapError(k, "what failed", errors.New("why"), "what to do")
		e.mu.Unlock()
		_, err := c.List(t.Context())
		_, err2 := c.Check(t.Context(), task.CheckRequest{Command: "x"}, func(task.Progress) {})
		for _, err := range []error{err, err2, c.Forget(t.Context(), "a")} {
			got, ok := errors.AsType[*bailey.Error](err)
			if !ok || got.Kind != k || got.Error() != "what failed: why" || got.Hint != "what to do" {
				t.Errorf("%v: %#v", k, err)
			}
		}
	}
}

func TestServer_TakesNothingOdd(t *testing.T) {
	t.Parallel()
	e := &echo{}
	path, _ := serve(t, e, os.Getuid())
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
	}{
		{"POST", "/v1/tasks", "application/json", `{"task":"x","repo_path":"/r"}`, 200},
		{"POST", "/v1/tasks", "application/json; charset=utf-8", `{"task":"x","repo_path":"/r"}` + "\n", 200},
		{"POST", "/v1/tasks", "text/plain", `{"task":"x"}`, 400},
		{"POST", "/v1/tasks", "application/json", `{"task":"x","environ":["A=1"]}`, 400},
		{"POST", "/v1/tasks", "application/json", `{"task":"x"} {}`, 400},
		{"POST", "/v1/tasks", "application/json", `{"task":`, 400},
		{"POST", "/v1/tasks", "application/json", `{"task":"` + strings.Repeat("x", 7<<20) + `"}`, 400},
		{"POST", "/v1/checks", "application/json", `[]`, 400},
		{"GET", "/v1/tasks/..%2f..%2fetc", "", "", 404},
		{"GET", "/v1/tasks/A", "", "", 404},
		{"DELETE", "/v1/tasks/-x", "", "", 404},
		{"GET", "/v1/tasks/a/parts/log?offset=x", "", "", 400},
		{"GET", "/v2/tasks", "", "", 404},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://x"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", c.kind)
		res, err := h.Do(r)
		if errors.Is(err, syscall.EPIPE) && c.status != 200 { // it hung up on a long one
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%s %s %.60q: %d %s, not %d", c.method, c.path, c.body, res.StatusCode, text, c.status)
		}
	}
}

// TestServer_AnswersItsUserAlone: root is answered always, so that only the
// ordinary user can see the refusal.
func TestServer_AnswersItsUserAlone(t *testing.T) {
	t.Parallel()
	path, _ := serve(t, &echo{}, os.Getuid()+1)
	c, err := taskapi.Connect(t.Context(), path)
	if root := os.Getuid() == 0; root != (err == nil) {
		t.Errorf("root is %v: %v", root, err)
	}
	if c != nil {
		c.Close()
	}
}

func TestConnect_SaysThatThereIsNone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "serve.sock")
	if _, err := taskapi.Connect(t.Context(), path); !taskapi.Absent(err) || bailey.KindOf(err) != bailey.Unavailable {
		t.Error(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := taskapi.Connect(t.Context(), path); !taskapi.Absent(err) {
		t.Error(err)
	}
}

// TestCheck_EndsWithItsClient: who goes does not leave a command behind.
func TestCheck_EndsWithItsClient(t *testing.T) {
	t.Parallel()
	e := &echo{ended: make(chan struct{})}
	path, _ := serve(t, e, os.Getuid())
	c := connect(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Check(ctx, task.CheckRequest{Command: "wait"}, func(task.Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-e.ended
}

func FuzzServer(f *testing.F) {
	f.Add("POST", "/v1/tasks", `{"task":"x"}`)
	f.Add("GET", "/v1/tasks/a/parts/log?offset=-1", ``)
	f.Fuzz(func(t *testing.T, method, path, body string) {
		s := taskapi.NewServer(taskapi.Config{Service: &echo{}})
		r, err := http.NewRequestWithContext(t.Context(), method, "http://x/", strings.NewReader(body))
		if err != nil {
			return
		}
		u, err := r.URL.Parse(path)
		if err != nil {
			return
		}
		r.URL = u
		r.Header.Set("Content-Type", "application/json")
		taskapi.Handle(s, r)
	})
}
