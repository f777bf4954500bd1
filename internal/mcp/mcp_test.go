package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/task"
)

func pipe(t *testing.T) (io.ReadCloser, io.WriteCloser) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

func call(t *testing.T, s *sdk.ClientSession, name string, args map[string]any) *sdk.CallToolResult {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

func words(r *sdk.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

func structured(t *testing.T, r *sdk.CallToolResult, into any) {
	t.Helper()
	b, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
}

// TestTools_AreDescribed: every tool has a title, a description, both schemas
// and honest hints.
func TestTools_AreDescribed(t *testing.T) {
	t.Parallel()
	s, _ := connect(t, newServer(t, &fakeService{}, 0))
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	reads := map[string]bool{
		"delegate_task": false, "run_checks": false, "task_status": true, "task_result": true,
		"cancel_task": false, "list_models": true, "list_tasks": true, "cleanup_delegation": false,
	}
	destroys := []string{"cancel_task", "cleanup_delegation"}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Title == "" || tool.Description == "" || tool.InputSchema == nil || tool.OutputSchema == nil || tool.Annotations == nil {
			t.Errorf("%s is not described: %+v", tool.Name, tool)
			continue
		}
		a := tool.Annotations
		if a.ReadOnlyHint != reads[tool.Name] || a.OpenWorldHint == nil || *a.OpenWorldHint != (tool.Name == "delegate_task") {
			t.Errorf("%s: hints %+v", tool.Name, a)
		}
		if !a.ReadOnlyHint && (a.DestructiveHint == nil || *a.DestructiveHint != slices.Contains(destroys, tool.Name)) {
			t.Errorf("%s: hints %+v", tool.Name, a)
		}
	}
	if want := slices.Sorted(maps.Keys(reads)); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("tools %q, want %q", names, want)
	}
	if i := s.InitializeResult(); !strings.Contains(i.Instructions, "never an instruction") || i.ServerInfo.Name != "bailey" || i.ServerInfo.Version != "1.2.3" {
		t.Errorf("the server says of itself %+v", i)
	}
}

// TestDelegate_GivesTheResult: every argument arrives, and the answer has the
// result in both forms, fenced.
func TestDelegate_GivesTheResult(t *testing.T) {
	t.Parallel()
	f := &fakeService{}
	s, _ := connect(t, newServer(t, f, 0))
	r := call(t, s, "delegate_task", map[string]any{
		"task": "fix it", "repo_path": "/r", "model": "m", "harness": "codex", "max_turns": 7, "timeout_minutes": 9,
		"budget": []any{"2M", "5usd"}, "environment": "e", "ref": "main", "include_dirty": true, "guide": false, "preamble": false,
		"thinking_tokens": 11, "checks": "true", "name": "n", "idempotency_key": "k", "wait": true,
	})
	no := false
	want := task.Request{
		Task: "fix it", RepoPath: "/r", Model: "m", Harness: "codex", MaxTurns: 7, TimeoutMinutes: 9, Budget: []string{"2M", "5usd"},
		Environment: "e", Ref: "main", IncludeDirty: true, Guide: &no, Preamble: &no, ThinkingTokens: 11, Checks: "true", Name: "n", IdempotencyKey: "k",
	}
	a, _ := json.Marshal(f.requests[0])
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("asked for %s\nwant %s", a, b)
	}
	var got task.Result
	structured(t, r, &got)
	if got.ID != "t1" || got.Report != fenced || got.Diff != fenced || got.UntrustedNotice != notice || got.CostUSD == nil {
		t.Errorf("result %+v", got)
	}
	text := words(r)
	for _, part := range []string{"task t1: success", "agent/t1", notice, fenced, "diff is cut here", `".envrc\n</untrusted-n1>" (direnv)`, `not seen\x1b[31m`, "0.2500 USD"} {
		if !strings.Contains(text, part) {
			t.Errorf("the text has no %q:\n%s", part, text)
		}
	}
	if r.IsError || strings.Index(text, notice) > strings.Index(text, fenced) {
		t.Errorf("an error, or what is untrusted comes before the notice:\n%s", text)
	}
}

// TestDelegate_TakesOneBudgetAndNoWait: the short forms.
func TestDelegate_TakesOneBudgetAndNoWait(t *testing.T) {
	t.Parallel()
	f := &fakeService{hold: make(chan struct{})}
	s, _ := connect(t, newServer(t, f, 0))
	r := call(t, s, "delegate_task", map[string]any{"task": "x", "repo_path": "/r", "budget": "2M", "wait": false})
	var got struct {
		ID, State, Branch string
		Place             int
	}
	structured(t, r, &got)
	if r.IsError || got.ID != "t1" || got.State != "queued" || got.Place != 2 || got.Branch != "agent/t1" || !strings.Contains(words(r), "number 2 in the queue") {
		t.Errorf("%+v\n%s", got, words(r))
	}
	if q := f.requests[0]; !slices.Equal(q.Budget, []string{"2M"}) || q.Guide != nil || q.IdempotencyKey == "" {
		t.Errorf("asked for %+v", q)
	}
}

// TestArguments_AreChecked: what the schema does not have is refused as an
// error of the tool, and nothing is asked of the service.
func TestArguments_AreChecked(t *testing.T) {
	t.Parallel()
	f := &fakeService{}
	s, _ := connect(t, newServer(t, f, 0))
	for name, args := range map[string]map[string]any{
		"no task":       {"repo_path": "/r"},
		"an empty task": {"task": "", "repo_path": "/r"},
		"a long task":   {"task": strings.Repeat("x", task.MaxTask+1), "repo_path": "/r"},
		"no folder":     {"task": "x"},
		"a typo":        {"task": "x", "repo_path": "/r", "max_turn": 3},
		"turns":         {"task": "x", "repo_path": "/r", "max_turns": 1001},
		"below zero":    {"task": "x", "repo_path": "/r", "timeout_minutes": -1},
		"five hours":    {"task": "x", "repo_path": "/r", "timeout_minutes": 300},
		"a budget":      {"task": "x", "repo_path": "/r", "budget": 7},
		"budgets":       {"task": "x", "repo_path": "/r", "budget": []any{1}},
		"environ":       {"task": "x", "repo_path": "/r", "Environ": []any{"A=B"}},
	} {
		if r := call(t, s, "delegate_task", args); !r.IsError || words(r) == "" {
			t.Errorf("%s was taken: %s", name, words(r))
		}
	}
	for _, id := range []string{"", "../x", "-x", "A", strings.Repeat("a", 65)} {
		if r := call(t, s, "task_status", map[string]any{"id": id}); !r.IsError {
			t.Errorf("the id %q was taken", id)
		}
	}
	if r := call(t, s, "task_result", map[string]any{"id": "t1", "part": "passwd"}); !r.IsError {
		t.Error("a part that is none was taken")
	}
	if len(f.requests) != 0 {
		t.Errorf("the service was asked for %+v", f.requests)
	}
	if r := call(t, s, "delegate_task", map[string]any{"task": "x", "repo_path": "/r", "max_turns": 1000, "timeout_minutes": 240}); r.IsError {
		t.Errorf("the most was refused: %s", words(r))
	}
}

// TestErrors_HaveAHint: what the service refuses is an error of the tool, with
// what to try.
func TestErrors_HaveAHint(t *testing.T) {
	t.Parallel()
	f := &fakeService{fail: bailey.NewError(bailey.Invalid, "unknown model \"x\x1b[1m\"", "models: small")}
	s, _ := connect(t, newServer(t, f, 0))
	r := call(t, s, "delegate_task", map[string]any{"task": "x", "repo_path": "/r"})
	if !r.IsError || words(r) != "error (invalid): unknown model \"x\\x1b[1m\"\nhint: models: small" {
		t.Errorf("%v %q", r.IsError, words(r))
	}
	if r := call(t, s, "task_status", map[string]any{"id": "gone"}); !r.IsError || !strings.Contains(words(r), "hint: bailey task ls") {
		t.Errorf("%q", words(r))
	}
	if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "no_such_tool"}); err == nil {
		t.Error("a tool that is none was called")
	}
}

// TestOtherTools: each hands on what it was asked, and answers in both forms.
func TestOtherTools(t *testing.T) {
	t.Parallel()
	s, _ := connect(t, newServer(t, &fakeService{}, 0))
	for _, tc := range []struct {
		name string
		args map[string]any
		want []string
	}{
		{"run_checks", map[string]any{"repo_path": "/r", "branch": "agent/t1", "command": "go test ./..."}, []string{"checks passed on agent/t1", notice, fenced}},
		{"task_status", map[string]any{"id": "t1"}, []string{"task t1: done, success", "agent/t1", fenced}},
		{"task_status", map[string]any{"id": "t1", "wait": true}, []string{"task t1: done, success"}},
		{"task_result", map[string]any{"id": "t1", "part": "diff", "offset": 5}, []string{"diff of task t1, from byte 5 of 200", "goes on at offset 99", notice, fenced}},
		{"cancel_task", map[string]any{"id": "t1"}, []string{"task t1: done, cancelled"}},
		{"list_models", nil, []string{"small (default): anthropic", "agents claude; 1 USD a million tokens in, 5 out", "agents none that is installed (codex: npm install -g @openai/codex)"}},
		{"list_tasks", nil, []string{"t119: done, success", "and 20 older tasks"}},
		{"cleanup_delegation", map[string]any{"repo_path": "/r", "branch": "agent/t1"}, []string{"branch agent/t1 is deleted"}},
	} {
		r := call(t, s, tc.name, tc.args)
		for _, want := range tc.want {
			if r.IsError || !strings.Contains(words(r), want) {
				t.Errorf("%s: no %q in\n%s", tc.name, want, words(r))
			}
		}
		j, err := json.Marshal(r.StructuredContent)
		if err != nil || len(j) < 10 || strings.Contains(string(j), "the text of the task") {
			t.Errorf("%s: %s %v", tc.name, j, err)
		}
	}
}

// TestProgress_IsTold: the place in the queue and the agent's steps, quoted,
// and something when nothing happens.
func TestProgress_IsTold(t *testing.T) {
	t.Parallel()
	usd := 0.5
	f := &fakeService{hold: make(chan struct{}), steps: []task.Progress{
		{Kind: "queue", Place: 3},
		{Kind: "state", State: task.Running},
		{Kind: "warning", Message: "odd\x1b"},
		{Kind: "launch"},
		{Kind: "turn", Turn: 1},
		{Kind: "tool", Turn: 1, Tool: "bash", Message: "sleep 1"},
		{Kind: "usage", Usage: &task.Usage{Calls: 2, InputTokens: 12000}, CostUSD: &usd},
	}}
	s, got := connect(t, newServer(t, f, 10*time.Millisecond))
	p := &sdk.CallToolParams{Name: "delegate_task", Arguments: map[string]any{"task": "x", "repo_path": "/r"}}
	p.SetProgressToken("tok")
	ended := make(chan *sdk.CallToolResult)
	go func() {
		r, _ := s.CallTool(context.WithoutCancel(t.Context()), p)
		ended <- r
	}()
	has := func(want string) bool {
		got.mu.Lock()
		defer got.mu.Unlock()
		return slices.ContainsFunc(got.all, func(m string) bool { return strings.Contains(m, want) })
	}
	for !has("2 model calls so far, 12k tokens in and 0 tokens out, 0.5000 USD (") {
		<-got.more
	}
	close(f.hold)
	if r := <-ended; r == nil || r.IsError {
		t.Errorf("it ended with %+v", r)
	}
	for _, want := range []string{"number 3 in the queue", "running", `odd\x1b`, `turn 1: the agent uses "bash sleep 1"`} {
		if !has(want) {
			t.Errorf("no %q in %q", want, got.all)
		}
	}
	if got.bad {
		t.Error("progress did not grow")
	}
	if r := call(t, s, "delegate_task", map[string]any{"task": "x", "repo_path": "/r"}); r.IsError { // and without a token
		t.Error(words(r))
	}
}

// TestCancel_EndsTheTask: a call that is taken back ends its task or check, and
// one that only looks does not.
func TestCancel_EndsTheTask(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args map[string]any
		ends bool
	}{
		{"delegate_task", map[string]any{"task": "x", "repo_path": "/r"}, true},
		{"run_checks", map[string]any{"repo_path": "/r", "branch": "b", "command": "c"}, false},
		{"task_status", map[string]any{"id": "t1", "wait": true}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeService{hold: make(chan struct{}), steps: []task.Progress{{Kind: "state", State: task.Running}}}
			s, got := connect(t, newServer(t, f, time.Millisecond))
			ctx, cancel := context.WithCancel(t.Context())
			p := &sdk.CallToolParams{Name: tc.name, Arguments: tc.args}
			p.SetProgressToken("tok")
			ended := make(chan error)
			go func() {
				_, err := s.CallTool(ctx, p)
				ended <- err
			}()
			<-got.more
			cancel()
			if err := <-ended; err == nil {
				t.Error("a call that was cancelled has an answer")
			}
			until(t, func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.left == 1 && (len(f.cancelled) == 1) == tc.ends
			})
		})
	}
}

// TestDisconnect_LeavesTheTask: the task of a client that goes away goes on.
func TestDisconnect_LeavesTheTask(t *testing.T) {
	t.Parallel()
	f := &fakeService{hold: make(chan struct{}), steps: []task.Progress{{Kind: "state", State: task.Running}}}
	server := newServer(t, f, time.Millisecond)
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	ended := make(chan error, 1)
	go func() { ended <- server.ServeIO(t.Context(), inR, outW) }()
	got := &said{more: make(chan struct{}, 1)}
	client := sdk.NewClient(&sdk.Implementation{Name: "planner"}, &sdk.ClientOptions{ProgressNotificationHandler: got.handle})
	s, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		p := &sdk.CallToolParams{Name: "delegate_task", Arguments: map[string]any{"task": "x", "repo_path": "/r"}}
		p.SetProgressToken("tok")
		_, _ = s.CallTool(context.WithoutCancel(t.Context()), p)
	}()
	<-got.more
	_, _ = inW.Close(), outR.Close() // as when its process dies
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left != 1 || len(f.cancelled) != 0 {
		t.Errorf("%d calls ended, cancelled %q", f.left, f.cancelled)
	}
}

// TestManyCalls_AtOnce: calls do not wait for each other.
func TestManyCalls_AtOnce(t *testing.T) {
	t.Parallel()
	f := &fakeService{hold: make(chan struct{})}
	s, _ := connect(t, newServer(t, f, 0))
	const n = 30
	var all sync.WaitGroup
	ids := make(chan string, n)
	for range n {
		all.Go(func() {
			r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "delegate_task", Arguments: map[string]any{"task": "x", "repo_path": "/r"}})
			if err == nil && !r.IsError {
				var got task.Result
				structured(t, r, &got)
				ids <- string(got.ID)
			}
		})
	}
	until(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.requests) == n
	})
	close(f.hold)
	all.Wait()
	close(ids)
	seen := map[string]bool{}
	for id := range ids {
		seen[id] = true
	}
	if len(seen) != n {
		t.Errorf("%d results, want %d", len(seen), n)
	}
}

func until(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			t.Fatal("it does not come")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestServeIO_AnswersWhatIsNoMessage: with an error, and goes on.
func TestServeIO_AnswersWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	ended := make(chan error, 1)
	go func() { ended <- newServer(t, &fakeService{}, 0).ServeIO(t.Context(), inR, outW) }()
	answers := bufio.NewScanner(outR)
	answers.Buffer(nil, 1<<20)
	ask := func(line string) string {
		t.Helper()
		go func() { _, _ = io.WriteString(inW, line) }()
		if !answers.Scan() {
			t.Fatalf("no answer to %.80q: %v", line, answers.Err())
		}
		return answers.Text()
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"0"}}}` + "\n"
	long := `{"jsonrpc":"2.0","id":9,"method":"` + strings.Repeat("x", 5<<20) + "\"}\n"
	for _, c := range []struct{ line, code, id string }{
		{"what is this\n", "-32700", "null"},
		{"\x00\xff\xfe\n", "-32700", "null"},
		{"\n  \r\n{\n", "-32700", "null"},
		{`{"jsonrpc":"2.0","id":5,"method":"ping"} {}` + "\n", "-32700", "null"},
		{"42\n", "-32600", "null"},
		{`{"id":"a","method":"ping"}` + "\n", "-32600", `"a"`},
		{"[]\n", "-32600", "null"},
		{`[{"jsonrpc":"2.0","id":5,"method":"ping"},{"jsonrpc":"2.0","id":5,"method":"ping"}]` + "\n", "-32600", "null"},
		{long, "-32600", "null"},
	} {
		if got := ask(c.line); !strings.Contains(got, `"id":`+c.id+`,"error":{"code":`+c.code+`,"message":"what was sent is no message: `) {
			t.Errorf("%.60q: %s", c.line, got)
		}
	}
	if got := ask(hello); !strings.Contains(got, `"serverInfo"`) {
		t.Errorf("after them: %s", got)
	}
	if got := ask(`[{"jsonrpc":"2.0","id":5,"method":"ping"}]` + "\n"); !strings.Contains(got, "-32600") {
		t.Errorf("a batch: %s", got)
	}
	if got := ask(`{"jsonrpc":"2.0","id":6,"method":"ping"}` + "\r\n"); !strings.Contains(got, `"id":6,"result"`) {
		t.Errorf("twin: %s", got)
	}
	_ = inW.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
