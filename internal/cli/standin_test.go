package cli_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	root "github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskapi"
)

// standIn is a service of tasks whose agents are done at once. What they say is
// hostile, and comes unchanged, as if control had been taken over.
type standIn struct {
	mu    sync.Mutex
	tasks map[task.ID]*task.Task
	order []task.ID
}

const hostile = "\x1b]0;owned\x07\x1b[2J\u202egnp \u009b31m"

// serveStandIn listens where the commands of a test look whose home folder and
// runtime folder it is.
func serveStandIn(home string) (stop func(), err error) {
	dir := filepath.Join(home, "bailey")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", filepath.Join(dir, "serve.sock"))
	if err != nil {
		return nil, err
	}
	dirs := config.FindDirs(func(string) (string, bool) { return "", false }, os.Getuid(), home)
	s := taskapi.NewServer(taskapi.Config{
		Service: &standIn{tasks: map[task.ID]*task.Task{}}, UID: os.Getuid(), Version: "test",
		Folders: taskapi.Folders{Config: dirs.Config, Data: dirs.Data, State: dirs.State},
	})
	go func() { _ = s.Serve(l) }()
	return func() { _ = s.Close() }, nil
}

func (s *standIn) Delegate(_ context.Context, r task.Request) (task.Task, error) {
	if r.Model == "none" {
		return task.Task{}, root.NewError(root.NotFound, `there is no model "none"`, "known: small")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	word, _, _ := strings.Cut(r.Task, " ")
	id := task.ID(fmt.Sprintf("%s-%d", strings.TrimSpace(word), len(s.order)+1))
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cost := 0.1234
	t := &task.Task{
		ID: id, Name: r.Name, Group: r.Group, State: task.Done, Status: task.Success, Repo: r.RepoPath, Model: "small", Harness: "claude",
		Created: began, Started: began.Add(2 * time.Second), Ended: began.Add(65 * time.Second), Turns: 3, Usage: task.Usage{Calls: 3, InputTokens: 45_678}, CostUSD: &cost, Request: &r,
	}
	t.Result = &task.Result{
		ID: id, Status: task.Success, Turns: 3, RunSeconds: 63, WaitSeconds: 2, Report: "<untrusted-1>\nsays " + hostile + "\n</untrusted-1>\n",
		DiffStat: "<untrusted-1>\n a.txt | 1 +\n 1 file changed" + hostile + "\n create mode 100644 b.txt\n create mode 100644 5 files changed\n mode change 100644 => 100755 a.txt\n</untrusted-1>\n", Warnings: []string{"odd " + hostile},
	}
	switch word {
	case "fail":
		t.Status, t.Result.Status, t.Result.ExitCode = task.HarnessError, task.HarnessError, 3
	case "plant":
		t.Result.Planted = []task.Planted{{Path: ".vscode/" + hostile, Kind: "editor-task", Why: "VS Code runs it"}}
	case "kept":
		t.Result.Kept = true
	case "live":
		t.State, t.Status, t.Result, t.Ended = task.Running, "", nil, time.Time{}
	}
	if word == "idle" {
		t.Result.DiffStat, t.Result.Warnings = "<untrusted-1>\n</untrusted-1>\n", []string{"nothing changed, so the checks were not run"}
		s.tasks[id], s.order = t, append(s.order, id)
		return *t, nil
	}
	base := "main"
	if r.IncludeDirty {
		base, _ = commitOn(r.RepoPath, "main", "carried")
	}
	if commit, err := s.work(r.RepoPath, base, id); err == nil && t.Result != nil {
		t.Branch, t.Result.Branch, t.Result.Commit, t.Result.Base = id.Branch(), id.Branch(), commit, base
	}
	if r.Checks != "" && t.Result != nil {
		t.Result.Checks = check(id, r.Checks)
	}
	s.tasks[id], s.order = t, append(s.order, id)
	return *t, nil
}

// work makes a commit of its own of the tree of "work".
func (s *standIn) work(repo, base string, id task.ID) (string, error) {
	commit, err := commitOn(repo, base, string(id))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(repo, ".git/refs/heads/agent")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return commit, os.WriteFile(filepath.Join(dir, string(id)), []byte(commit+"\n"), 0o644)
}

func commitOn(repo, base, message string) (string, error) {
	cmd := exec.Command("git", "commit-tree", "refs/tags/work^{tree}", "-p", base, "-m", message)
	cmd.Dir = repo
	b, err := cmd.Output()
	return strings.TrimSpace(string(b)), err
}

func check(id task.ID, command string) *task.CheckResult {
	c := &task.CheckResult{ID: "check-1", Branch: id.Branch(), Commit: strings.Repeat("a", 40), Passed: command == "true", Status: task.Success, RunSeconds: 1, Output: "<untrusted-2>\n$ " + command + hostile + "\n</untrusted-2>\n"}
	if !c.Passed {
		c.ExitCode = 1
	}
	return c
}

func (s *standIn) find(id task.ID) (*task.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[id]; t != nil {
		return t, nil
	}
	return nil, root.NewError(root.NotFound, fmt.Sprintf("there is no task %q", id), "bailey task ls lists them")
}

func (s *standIn) Follow(ctx context.Context, id task.ID, progress func(task.Progress)) (task.Task, error) {
	t, err := s.find(id)
	if err != nil {
		return task.Task{}, err
	}
	for _, p := range []task.Progress{
		{Kind: "queue", State: task.Queued, Place: 2, Message: "place 2 of 3"},
		{Kind: "state", State: task.Running},
		{Kind: "usage", Usage: &t.Usage, CostUSD: t.CostUSD},
		{Kind: "turn", Turn: 1},
		{Kind: "plan", Plan: []task.Step{{Text: "look " + hostile, State: "done"}, {Text: "mend", State: "active"}}},
		{Kind: "tool", Tool: "Bash" + hostile, Message: "make " + hostile},
		{Kind: "text", Message: "hm " + hostile},
		{Kind: "warning", Message: hostile},
	} {
		p.Task, p.Time = id, t.Created
		progress(p)
	}
	if t.Result == nil {
		<-ctx.Done()
		return *t, ctx.Err()
	}
	progress(task.Progress{Task: id, Time: t.Created, Kind: "done", State: task.Done, Message: string(t.Status), Usage: &t.Usage, CostUSD: t.CostUSD})
	return *t, nil
}

func (s *standIn) Get(_ context.Context, id task.ID) (task.Task, error) {
	t, err := s.find(id)
	if err != nil {
		return task.Task{}, err
	}
	return *t, nil
}

func (s *standIn) List(context.Context) ([]task.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []task.Task
	for _, id := range slices.Backward(s.order) {
		if t := s.tasks[id]; t != nil {
			listed := *t
			listed.Result, listed.Request = nil, nil
			out = append(out, listed)
		}
	}
	return out, nil
}

func (s *standIn) Result(_ context.Context, id task.ID, p task.Part, offset int64) (task.Piece, error) {
	_, err := s.find(id)
	piece := task.Piece{ID: id, Part: p, Offset: offset, Text: fmt.Sprintf("<untrusted-3>\n%s at %d %s\n</untrusted-3>\n", p, offset, hostile), Total: 20}
	if offset < 10 {
		piece.Next = offset + 10
	}
	return piece, err
}

func (s *standIn) Cancel(_ context.Context, id task.ID) (task.Task, error) {
	t, err := s.find(id)
	if err != nil {
		return task.Task{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Result == nil {
		t.State, t.Status, t.Result = task.Done, task.Cancelled, &task.Result{ID: id, Status: task.Cancelled}
	}
	return *t, nil
}

func (s *standIn) Check(_ context.Context, r task.CheckRequest, _ func(task.Progress)) (task.CheckResult, error) {
	return *check(task.ID(strings.TrimPrefix(r.Branch, "agent/")), r.Command), nil
}
func (s *standIn) Models(context.Context) ([]task.Model, error) { return nil, nil }

func (s *standIn) Cleanup(_ context.Context, repo, branch string) (task.Cleaned, error) {
	path := filepath.Join(repo, ".git/refs/heads", branch)
	commit, _ := os.ReadFile(path)
	err := os.Remove(path)
	return task.Cleaned{Branch: branch, Deleted: err == nil, Commit: strings.TrimSpace(string(commit))}, nil
}

func (s *standIn) Forget(_ context.Context, id task.ID) error {
	_, err := s.find(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, id)
	return err
}
