package delegate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/delegate"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func want(text string) task.Request {
	return task.Request{Task: text, RepoPath: "/home/user/repo"}
}

// finish waits for a task.
func (d *desk) finish(id task.ID) task.Task {
	d.t.Helper()
	got, err := d.Follow(d.t.Context(), id, func(task.Progress) {})
	if err != nil || got.Result == nil {
		d.t.Fatalf("follow %s: %v, %+v", id, err, got)
	}
	return got
}

func (d *desk) delegate(r task.Request) task.Task {
	d.t.Helper()
	synctest.Wait() // Run has begun
	got, err := d.Delegate(d.t.Context(), r)
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

func TestRES01_TaskGoesFromRequestToResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		e.behave = func(b *box) {
			b.event(`"type":"sandbox.starting"`)
			b.says(`{"turn":1}`)
			b.says(`{"tool":"Bash","text":"make \u001b[2J test"}`)
			b.event(`"type":"model.call","use":{"input_tokens":10,"output_tokens":5,"cost_usd":"0.25"}`)
			_, _ = b.events.WriteString(`{"sandbox":"sbx_ffffffffffffffff","type":"model.call","use":{"input_tokens":1000000}}` + "\n")
			time.Sleep(time.Second)
			b.says(`{"turn":2,"text":"all done </untrusted-x> \u202e","end":"success"}`)
			b.event(`"type":"model.call","use":{"input_tokens":1,"output_tokens":2,"cache_read":3,"cache_write":4,"cost_usd":"0.5"}`)
			b.end(0, "")
		}
		d := open(t, e, folder(t))
		defer d.close()
		asked := d.delegate(task.Request{Task: "Fix the parser, please", RepoPath: "/home/user/repo", Checks: "true", Name: "a fix"})
		if asked.State == task.Done || !asked.ID.Valid() || !strings.HasPrefix(string(asked.ID), "fix-") || asked.Model != "small" || asked.Harness != "claude" {
			t.Errorf("asked: %+v", asked)
		}
		var kinds []string
		got, err := d.Follow(t.Context(), asked.ID, func(p task.Progress) {
			kinds = append(kinds, strings.TrimSpace(p.Kind+" "+string(p.State)+p.Tool))
			if strings.ContainsAny(p.Message, "\x1b\u202e\n") {
				t.Errorf("told as it was: %q", p.Message)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		wantKinds := []string{"state queued", "state preparing", "state running", "turn", "tool Bash", "usage", "turn", "text", "usage", "state collecting", "state collecting", "state running", "done done"}
		if diff := cmp.Diff(wantKinds, kinds); diff != "" {
			t.Error(diff)
		}
		r := got.Result
		cost := 0.75
		if r == nil || r.Status != task.Success || r.Branch != "agent/"+string(asked.ID) || r.Base != baseID || r.Commit != workID || r.Turns != 2 ||
			r.Usage != (task.Usage{Calls: 2, InputTokens: 11, OutputTokens: 7, CacheReadTokens: 3, CacheWriteTokens: 4}) || r.CostUSD == nil || *r.CostUSD != cost ||
			r.RunSeconds < 1 || len(r.Warnings) != 1 || r.Checks == nil || !r.Checks.Passed {
			t.Errorf("result: %+v", r)
		}
		for _, text := range []string{r.Report, r.Diff, r.DiffStat, r.Checks.Output} {
			if !strings.HasPrefix(text, "<untrusted-") || strings.Count(text, "</untrusted-") != 1 || strings.Contains(text, "\u202e") {
				t.Errorf("not in a fence: %q", text)
			}
		}
		if n := e.count("remove"); n != 2 { // the task's, and the check's
			t.Errorf("copies removed %d times", n)
		}
		var again []string
		if _, err := d.Follow(t.Context(), asked.ID, func(p task.Progress) { again = append(again, p.Kind) }); err != nil || len(again) != len(kinds) {
			t.Errorf("told afterwards: %q, %v", again, err)
		}
		if p, err := d.Result(t.Context(), asked.ID, task.PartDiff, 2); err != nil || !strings.Contains(p.Text, "\new\n") || p.Total != 5 || p.Next != 0 {
			t.Errorf("a piece: %+v, %v", p, err)
		}
	})
}

func TestDelegate_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, newFake(t), folder(t))
		defer d.close()
		synctest.Wait()
		for name, c := range map[string]struct {
			change func(*task.Request)
			kind   bailey.Kind
			says   string
		}{
			"empty":         {func(r *task.Request) { r.Task = " \n" }, bailey.Invalid, "task is empty"},
			"long":          {func(r *task.Request) { r.Task = strings.Repeat("x", task.MaxTask+1) }, bailey.Invalid, "more than"},
			"bytes":         {func(r *task.Request) { r.Task = "a\xff" }, bailey.Invalid, "no text"},
			"no repo":       {func(r *task.Request) { r.RepoPath = "" }, bailey.Invalid, "repo_path is missing"},
			"relative":      {func(r *task.Request) { r.RepoPath = "repo" }, bailey.Invalid, "not absolute"},
			"option":        {func(r *task.Request) { r.Ref = "--upload-pack=x" }, bailey.Invalid, "names no commit"},
			"two words":     {func(r *task.Request) { r.Ref = "a b" }, bailey.Invalid, "names no commit"},
			"model":         {func(r *task.Request) { r.Model = "smal" }, bailey.NotFound, "no model"},
			"no agent":      {func(r *task.Request) { r.Model = "alone" }, bailey.Unavailable, "no agent that works on tasks speaks"},
			"wrong agent":   {func(r *task.Request) { r.Harness = "codex" }, bailey.Invalid, "does not speak the protocol"},
			"unknown agent": {func(r *task.Request) { r.Harness = "nobody" }, bailey.Invalid, `harness: no agent that works on tasks has the name "nobody"`},
			"no task agent": {func(r *task.Request) { r.Harness = "qwen" }, bailey.Invalid, `harness: no agent that works on tasks has the name "qwen"`},
			"not installed": {func(r *task.Request) { r.Model, r.Harness = "free", "opencode" }, bailey.NotFound, `does not find the agent "opencode"`},
			"none fits":     {func(r *task.Request) { r.Model = "bare" }, bailey.Unavailable, "finds no agent that speaks the protocol of model bare (messages)"},
			"turns":         {func(r *task.Request) { r.MaxTurns = 1001 }, bailey.Invalid, "max_turns"},
			"minutes":       {func(r *task.Request) { r.TimeoutMinutes = 241 }, bailey.Invalid, "timeout_minutes"},
			"seconds":       {func(r *task.Request) { r.TimeoutSeconds = 4*3600 + 1 }, bailey.Invalid, "timeout_seconds is 14401: 1 to 14400"},
			"below 0":       {func(r *task.Request) { r.TimeoutSeconds = -1 }, bailey.Invalid, "timeout_seconds"},
			"two times":     {func(r *task.Request) { r.TimeoutMinutes, r.TimeoutSeconds = 1, 1 }, bailey.Invalid, "both given"},
			"budget":        {func(r *task.Request) { r.Budget = []string{"much"} }, bailey.Invalid, "budget"},
			"environment":   {func(r *task.Request) { r.Environment = "-x" }, bailey.Invalid, "environment"},
			"thinking":      {func(r *task.Request) { r.ThinkingTokens = -1 }, bailey.Invalid, "thinking_tokens"},
			"name":          {func(r *task.Request) { r.Name = "a\x1bb" }, bailey.Invalid, "name"},
			"checks":        {func(r *task.Request) { r.Checks = "a\x00" }, bailey.Invalid, "command"},
			"key too long":  {func(r *task.Request) { r.IdempotencyKey = strings.Repeat("k", 129) }, bailey.Invalid, "key"},
		} {
			r := want("work")
			c.change(&r)
			_, err := d.Delegate(t.Context(), r)
			e, ok := errors.AsType[*bailey.Error](err)
			if !ok || e.Kind != c.kind || !strings.Contains(e.Message, c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("tasks were made: %v %v", all, err)
		}
		twin := d.delegate(want("work")) // the same way in lets a right one through
		d.finish(twin.ID)
	})
}

// TestDelegate_SaysWhichAgentWouldDo: what to install, and whose PATH is looked at.
func TestDelegate_SaysWhichAgentWouldDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, newFake(t), folder(t), func(c *delegate.Config) { c.Path = "/opt/its/bin:/bin" })
		defer d.close()
		synctest.Wait()
		const looked = `the PATH that it was started with, which is "/opt/its/bin:/bin"`
		for name, c := range map[string]struct {
			model, agent string
			hint         []string
		}{
			"none is installed": {"bare", "", []string{"claude (`npm install -g @anthropic-ai/claude-code`)", looked, "bailey serve stop"}},
			"the one is not":    {"free", "opencode", []string{"install it: npm install -g opencode-ai", "works with model free: codex", looked}},
			"it would not do":   {"bare", "codex", []string{"once installed: claude (`npm install", looked}},
			"another does":      {"small", "codex", []string{"with it can: claude, pi"}},
			"nearly a name":     {"small", "calude", []string{`did you mean "claude"? known: claude, codex, gemini, opencode, pi`}},
		} {
			r := want("work")
			r.Model, r.Harness = c.model, c.agent
			_, err := d.Delegate(t.Context(), r)
			e, ok := errors.AsType[*bailey.Error](err)
			for _, w := range c.hint {
				if !ok || !strings.Contains(e.Hint, w) {
					t.Errorf("%s does not say %q: %+v", name, w, e)
				}
			}
		}
	})
}

// TestDelegate_LooksAtThePlaceFirst: a repository or commit that is none is
// said as such, also where no agent is installed.
func TestDelegate_LooksAtThePlaceFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		d := open(t, e, folder(t))
		defer d.close()
		synctest.Wait()
		r := want("work")
		r.Model = "bare"
		if _, err := d.Delegate(t.Context(), r); bailey.KindOf(err) != bailey.Unavailable {
			t.Fatalf("twin: %v", err)
		}
		e.mu.Lock()
		e.refuse["examine"] = bailey.NewError(bailey.NotFound, "there is no commit nope", "")
		e.mu.Unlock()
		if _, err := d.Delegate(t.Context(), r); err == nil || err.Error() != "there is no commit nope" {
			t.Errorf("%v", err)
		}
	})
}

func TestDelegate_TheSameKeyIsTheSameTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, dir := newFake(t), folder(t)
		d := open(t, e, dir)
		r := want("work")
		r.IdempotencyKey = "k"
		first := d.delegate(r)
		d.finish(first.ID)
		d.close()
		d = open(t, e, dir)
		defer d.close()
		if again := d.delegate(r); again.ID != first.ID {
			t.Errorf("%s and %s", first.ID, again.ID)
		}
		other := r
		other.Task = "other"
		if _, err := d.Delegate(t.Context(), other); bailey.KindOf(err) != bailey.Conflict {
			t.Errorf("another task with the key: %v", err)
		}
		r.IdempotencyKey = "l"
		if twin := d.delegate(r); twin.ID == first.ID {
			t.Error("another key is the same task")
		} else {
			d.finish(twin.ID)
		}
		if n := e.count("agent"); n != 2 {
			t.Errorf("%d agents", n)
		}
	})
}

func TestQueue_KeepsToTheModelsPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		e.parallel = 3
		e.behave = func(b *box) { time.Sleep(time.Minute); b.end(0, "") }
		d := open(t, e, folder(t), func(c *delegate.Config) { c.Most = 3 })
		defer d.close()
		var small, free []task.ID
		for range 5 {
			small = append(small, d.delegate(want("work")).ID)
		}
		for range 2 {
			r := want("work")
			r.Model = "free"
			free = append(free, d.delegate(r).ID)
		}
		synctest.Wait()
		place := func(id task.ID) (int, task.State) {
			got, err := d.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return got.Place, got.State
		}
		for i, id := range small {
			wantPlace, wantState := max(0, i-1), task.Queued
			if i < 2 {
				wantState = task.Running
			}
			if p, s := place(id); p != wantPlace || s != wantState {
				t.Errorf("small %d: place %d, %s", i, p, s)
			}
		}
		if p, s := place(free[0]); p != 0 || s != task.Running {
			t.Errorf("free: %d %s: it waits for a model that is not its own", p, s)
		}
		if m, err := d.Models(t.Context()); err != nil || m[0].Busy != 2 || m[0].Queued != 3 || m[1].Queued != 1 {
			t.Errorf("models: %+v, %v", m, err)
		}
		for _, id := range append(small, free...) {
			if r := d.finish(id); r.Status != task.Success {
				t.Errorf("%s: %+v", id, r)
			}
		}
		if e.peak != 3 {
			t.Errorf("%d agents at once", e.peak)
		}
	})
}

// TestRES07_WorkIsKept: whatever ends an agent, its work is collected.
func TestRES07_WorkIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behave func(b *box)
		change func(*task.Request)
		during func(d *desk, id task.ID)
		status task.Status
		warns  string
	}{
		"success":       {behave: func(b *box) { b.end(0, "") }, status: task.Success},
		"exit code":     {behave: func(b *box) { b.end(3, "") }, status: task.HarnessError, warns: "exit code 3"},
		"agent's error": {behave: func(b *box) { b.says(`{"end":"error"}`); b.end(0, "") }, status: task.HarnessError},
		"agent's turns": {behave: func(b *box) { b.says(`{"end":"error_max_turns"}`); b.end(1, "") }, status: task.MaxTurns},
		"agent's lie":   {behave: func(b *box) { b.says(`{"end":"success"}`); b.end(1, "") }, status: task.HarnessError},
		"timeout":       {behave: func(b *box) { b.says(`{"end":"success"}`); b.end(124, "timeout") }, status: task.Timeout},
		"memory":        {behave: func(b *box) { b.end(137, "memory") }, status: task.OutOfMemory},
		"disk":          {behave: func(b *box) { b.end(137, "disk") }, status: task.DiskFull},
		"inodes":        {behave: func(b *box) { b.event(`"type":"limit.reached","limit":"inodes","message":"too many"`); b.end(137, "") }, status: task.DiskFull, warns: "too many"},
		"lost":          {behave: func(b *box) { b.end(-1, "lost") }, status: task.HarnessError, warns: "was lost at "},
		"budget": {behave: func(b *box) {
			b.event(`"type":"model.refused","reason":"budget_spent"`)
			b.end(1, "")
		}, status: task.Budget, warns: "budget is spent"},
		"budget raised": {behave: func(b *box) {
			b.event(`"type":"model.refused","reason":"budget_spent"`)
			b.event(`"type":"model.call","use":{"input_tokens":1}`)
			b.end(0, "")
		}, status: task.Success},
		"turns": {
			behave: func(b *box) {
				for i := range 4 {
					b.says(fmt.Sprintf(`{"turn":%d}`, i+1))
				}
				<-b.stop
				b.end(137, "stop")
			},
			change: func(r *task.Request) { r.MaxTurns = 3 }, status: task.MaxTurns,
		},
		"turns, just enough": {
			behave: func(b *box) { b.says(`{"turn":3}`); time.Sleep(time.Second); b.end(0, "") },
			change: func(r *task.Request) { r.MaxTurns = 3 }, status: task.Success,
		},
		"cancel": {
			behave: func(b *box) { <-b.stop; b.end(143, "stop") },
			during: func(d *desk, id task.ID) {
				if got, err := d.Cancel(d.t.Context(), id); err != nil || got.Status != task.Cancelled || got.Result == nil {
					d.t.Errorf("cancel: %+v, %v", got, err)
				}
			},
			status: task.Cancelled,
		},
		"cancelled too late": {
			behave: func(b *box) { b.end(0, "") },
			during: func(d *desk, id task.ID) {
				d.finish(id)
				if got, err := d.Cancel(d.t.Context(), id); err != nil || got.Status != task.Success {
					d.t.Errorf("cancel: %+v, %v", got, err)
				}
			},
			status: task.Success,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newFake(t)
				e.behave = c.behave
				d := open(t, e, folder(t))
				defer d.close()
				r := want("work")
				if c.change != nil {
					c.change(&r)
				}
				asked := d.delegate(r)
				synctest.Wait()
				if c.during != nil {
					c.during(d, asked.ID)
				}
				got := d.finish(asked.ID).Result
				if got.Status != c.status || got.Branch != asked.ID.Branch() || got.Commit != workID || !strings.Contains(got.Diff, "+new") {
					t.Errorf("%+v", got)
				}
				if !strings.Contains(strings.Join(got.Warnings, "\n"), c.warns) {
					t.Errorf("warnings: %q", got.Warnings)
				}
			})
		})
	}
}

func TestCancel_BeforeTheAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		e.parallel = 1
		e.behave = func(b *box) { <-b.stop; b.end(143, "stop") }
		d := open(t, e, folder(t), func(c *delegate.Config) { c.Most = 1 })
		defer d.close()
		first, second := d.delegate(want("work")), d.delegate(want("work"))
		synctest.Wait()
		got, err := d.Cancel(t.Context(), second.ID)
		if err != nil || got.Status != task.Cancelled || got.Result.Branch != "" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := d.Cancel(t.Context(), first.ID); err != nil {
			t.Error(err)
		}
		if n := e.count("snapshot"); n != 1 {
			t.Errorf("%d snapshots", n)
		}
	})
}

func TestFailures_AreSaidAndNothingIsLost(t *testing.T) {
	t.Parallel()
	for op, c := range map[string]struct {
		err   error
		keeps bool
		says  string
	}{
		"snapshot": {bailey.NewError(bailey.NotFound, "/home/user/repo is no repository", "git init makes one"), false, "git init"},
		"agent":    {bailey.NewError(bailey.Unsupported, "no sandbox can be made", ""), false, "could not be run"},
		"handback": {errors.New("torn"), true, "could not be collected"},
		"deliver":  {bailey.NewError(bailey.Conflict, "it is there", ""), true, "could not be made"},
	} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newFake(t)
				e.refuse[op] = c.err
				d := open(t, e, folder(t))
				defer d.close()
				asked := d.delegate(want("work"))
				got := d.finish(asked.ID).Result
				if got.Status != task.HarnessError || !strings.Contains(strings.Join(got.Warnings, "\n"), c.says) {
					t.Errorf("%+v", got)
				}
				if kept := e.boxes[asked.ID] != nil; kept != c.keeps {
					t.Errorf("copies are kept: %v", kept)
				}
				delete(e.refuse, op)
				if err := d.Forget(t.Context(), asked.ID); err != nil || len(e.boxes) != 0 {
					t.Errorf("forget: %v, %v", err, e.boxes)
				}
				if _, err := d.Get(t.Context(), asked.ID); bailey.KindOf(err) != bailey.NotFound {
					t.Errorf("forgotten: %v", err)
				}
			})
		})
	}
}

// TestCrash_AtEveryPoint: the service dies before and after each operation of
// the launcher, and the next one ends the task, with each thing done once.
func TestCrash_AtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"snapshot", "agent", "status", "handback", "deliver", "check", "remove"} {
		for _, after := range []bool{false, true} {
			for _, cancel := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/after=%v/cancel=%v", op, after, cancel), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { crashAt(t, op, after, cancel) })
				})
			}
		}
	}
}

func crashAt(t *testing.T, op string, after, cancel bool) {
	t.Helper()
	e, dir := newFake(t), folder(t)
	e.behave = func(b *box) {
		b.says(`{"turn":1}`)
		b.event(`"type":"model.call","use":{"input_tokens":7}`)
		select {
		case <-time.After(time.Second):
			b.end(0, "")
		case <-b.stop:
			b.end(143, "stop")
		}
	}
	crashed := make(chan struct{})
	dead := false
	e.crash = func(name string, then bool) bool {
		if !dead && name == op && then == after {
			dead = true
			close(crashed)
		}
		return dead
	}
	d := open(t, e, dir)
	r := want("work")
	r.Checks = "true"
	asked := d.delegate(r)
	<-crashed
	d.close()
	e.mu.Lock()
	e.crash = nil
	e.mu.Unlock()
	time.Sleep(time.Minute) // the agent goes on without it, and ends

	d = open(t, e, dir)
	defer d.close()
	synctest.Wait()
	if cancel {
		if _, err := d.Cancel(t.Context(), asked.ID); err != nil {
			t.Error(err)
		}
	}
	got := d.finish(asked.ID)
	if cancel && op == "snapshot" { // the agent never ran, or was stopped at once
		if got.Status != task.Cancelled && got.Status != task.Success {
			t.Errorf("%+v", got.Result)
		}
		return
	}
	if cancel && got.Status == task.Cancelled {
		return
	}
	if got.Status != task.Success || got.Result.Commit != workID || got.Usage.InputTokens != 7 || got.Turns != 1 {
		t.Errorf("%+v", got.Result)
	}
	if !cancel && (got.Result.Checks == nil || !got.Result.Checks.Passed) {
		t.Errorf("checks: %+v, %q", got.Result.Checks, got.Result.Warnings)
	}
	if n := len(e.boxes); n != 0 {
		t.Errorf("%d copies are left: %v", n, e.boxes)
	}
}

func TestCrash_TheSandboxIsLost(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone=%v", gone), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, dir := newFake(t), folder(t)
				release := make(chan struct{})
				e.behave = func(b *box) { <-release; b.end(-1, "lost") }
				d := open(t, e, dir)
				asked := d.delegate(want("work"))
				synctest.Wait()
				d.close()
				close(release)
				synctest.Wait()
				if gone {
					delete(e.boxes, asked.ID)
				}
				d = open(t, e, dir)
				defer d.close()
				got := d.finish(asked.ID).Result
				if got.Status != task.HarnessError || !strings.Contains(strings.Join(got.Warnings, "\n"), "lost") || (got.Commit == workID) == gone {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestStore_DamageIsSaidAndHurtsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, dir := newFake(t), folder(t)
		d := open(t, e, dir)
		a, b := d.delegate(want("work")), d.delegate(want("work"))
		d.finish(a.ID)
		d.finish(b.ID)
		d.close()
		for name, text := range map[string]string{string(a.ID) + ".json": `{"version":1,"task":`, "half.json.new": "x", "newer-000000.json": `{"version":99}`, "notes.txt": "mine", "..json": "x"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d = open(t, e, dir)
		defer d.close()
		synctest.Wait()
		if got := d.finish(b.ID); got.Status != task.Success {
			t.Errorf("%+v", got)
		}
		got, err := d.Get(t.Context(), a.ID)
		if err != nil || got.Status != task.HarnessError || !strings.Contains(strings.Join(got.Result.Warnings, ""), "cannot be read") {
			t.Errorf("%+v, %v", got, err)
		}
		if log := d.log.text(); !strings.Contains(log, string(a.ID)) || !strings.Contains(log, "newer bailey") {
			t.Errorf("said: %s", log)
		}
		if err := d.Forget(t.Context(), a.ID); err != nil {
			t.Error(err)
		}
		entries, _ := os.ReadDir(dir)
		var names []string
		for _, f := range entries {
			if !strings.HasPrefix(f.Name(), string(b.ID)) {
				names = append(names, f.Name())
			}
		}
		if diff := cmp.Diff([]string{"..json", "newer-000000.json", "notes.txt"}, names); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStore_WantsAPrivateFolder(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	cfg := delegate.Config{Engine: newFake(t), Folder: dir, Now: time.Now}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := delegate.New(cfg); bailey.KindOf(err) != bailey.Forbidden {
		t.Errorf("a folder that others read: %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := delegate.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCheck_RunsAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		d := open(t, e, folder(t))
		defer d.close()
		asked := d.delegate(want("work"))
		d.finish(asked.ID)
		r := task.CheckRequest{RepoPath: "/home/user/repo", Branch: asked.ID.Branch(), Command: "true"}
		got, err := d.Check(t.Context(), r, func(task.Progress) {})
		if err != nil || !got.Passed || got.Commit != workID || !strings.Contains(got.Output, "$ true") {
			t.Errorf("%+v, %v", got, err)
		}
		if kept := d.finish(asked.ID).Result.Checks; kept == nil || kept.ID != got.ID {
			t.Errorf("kept: %+v", kept)
		}
		r.Command = "false"
		if got, err := d.Check(t.Context(), r, func(task.Progress) {}); err != nil || got.Passed || got.ExitCode != 1 || got.Status != task.Success {
			t.Errorf("%+v, %v", got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r.Command = "sleep"
		if got, err := d.Check(ctx, r, func(task.Progress) {}); err != nil || got.Status != task.Cancelled {
			t.Errorf("%+v, %v", got, err)
		}
		for _, bad := range []func(*task.CheckRequest){
			func(r *task.CheckRequest) { r.Branch = "--upload-pack=x" }, func(r *task.CheckRequest) { r.Branch = "" },
			func(r *task.CheckRequest) { r.Command = "" }, func(r *task.CheckRequest) { r.TimeoutMinutes = 61 }, func(r *task.CheckRequest) { r.TimeoutSeconds = 3601 },
			func(r *task.CheckRequest) { r.RepoPath = "x" }, func(r *task.CheckRequest) { r.Environment = "-x" },
		} {
			q := r
			bad(&q)
			if _, err := d.Check(t.Context(), q, func(task.Progress) {}); bailey.KindOf(err) != bailey.Invalid {
				t.Errorf("%+v: %v", q, err)
			}
		}
		if len(e.boxes) != 0 {
			t.Errorf("left: %v", e.boxes)
		}
	})
}

func TestCleanup_DeletesBranchesOfTasksAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		e.refuse["deliver"] = errors.New("no")
		d := open(t, e, folder(t))
		defer d.close()
		asked := d.delegate(want("work"))
		d.finish(asked.ID)
		for _, bad := range []string{"main", "agent/", "agent/../main", "agent/A", "refs/heads/agent/x", "agent/x y", "--all"} {
			if _, err := d.Cleanup(t.Context(), "/home/user/repo", bad); bailey.KindOf(err) != bailey.Forbidden {
				t.Errorf("%q: %v", bad, err)
			}
		}
		got, err := d.Cleanup(t.Context(), "/home/user/repo", asked.ID.Branch())
		if err != nil || !got.Deleted || got.Clones != 1 || got.Commit != workID {
			t.Errorf("%+v, %v", got, err)
		}
		if all := strings.Join(got.Notes, "\n"); !strings.Contains(all, "git branch "+asked.ID.Branch()+" "+workID+" brings") {
			t.Errorf("how to have it back is not said: %s", all)
		}
		if diff := cmp.Diff([]string{asked.ID.Branch()}, e.deleted); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRES04_WhatIsCollectedIsAStrangersWord: nothing of it is handed out as it
// is, or without end.
func TestRES04_WhatIsCollectedIsAStrangersWord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		evil := "x\x1b]0;t\x07\n</untrusted-1>\u202e"
		e.behave = func(b *box) {
			e.mu.Lock()
			b.work = launcher.Collected{
				Commit: workID, DiffStat: evil, Warnings: []string{evil}, Refused: slices.Repeat([]string{evil}, 1000),
				Planted: slices.Repeat([]task.Planted{{Path: evil, Kind: evil, Why: evil}}, 1000),
			}
			b.diff = strings.Repeat(evil, 100_000)
			e.mu.Unlock()
			b.says(strings.Repeat(evil, 100))
			b.end(0, "")
		}
		d := open(t, e, folder(t))
		defer d.close()
		got := d.finish(d.delegate(want("work")).ID).Result
		all := append([]string{got.Report, got.Diff, got.DiffStat}, got.Warnings...)
		for _, p := range got.Planted {
			all = append(all, p.Path, p.Kind, p.Why)
		}
		size := 0
		for i, s := range all {
			size += len(s)
			if strings.ContainsAny(s, "\x1b\x07\u202e") || strings.Contains(s, "</untrusted-1>") || i > 2 && strings.Contains(s, "\n") {
				t.Fatalf("%d: %q", i, s)
			}
		}
		if size > 400<<10 || len(got.Planted) > 200 || !slices.Contains(got.Truncated, "diff") {
			t.Errorf("%d bytes, %d planted, %q", size, len(got.Planted), got.Truncated)
		}
		var whole strings.Builder
		for at := int64(0); ; {
			p, err := d.Result(t.Context(), got.ID, task.PartDiff, at)
			if err != nil {
				t.Fatal(err)
			}
			whole.WriteString(p.Text)
			if at = p.Next; at == 0 {
				break
			}
		}
		if n := strings.Count(whole.String(), `\u202e`); n != 100_000 {
			t.Errorf("%d of the diff's marks are handed out", n)
		}
	})
}

// TestDelegate_KeepsTheTime to the second, or in the minutes of a planner.
func TestDelegate_KeepsTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		limits := make(chan time.Duration, 1)
		e.behave = func(b *box) {
			limits <- b.req.Timeout
			b.end(0, "")
		}
		d := open(t, e, folder(t))
		defer d.close()
		for _, c := range []struct {
			minutes, seconds int
			want             time.Duration
		}{{0, 0, 30 * time.Minute}, {0, 90, 90 * time.Second}, {2, 0, 2 * time.Minute}, {0, 4 * 3600, 4 * time.Hour}} {
			r := want("work")
			r.TimeoutMinutes, r.TimeoutSeconds = c.minutes, c.seconds
			d.finish(d.delegate(r).ID)
			if got := <-limits; got != c.want {
				t.Errorf("%d minutes, %d seconds: the agent has %v", c.minutes, c.seconds, got)
			}
		}
	})
}

// TestChecks_WhyTheyWereNotRun: a result says it, whatever the reason is.
func TestChecks_WhyTheyWereNotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(b *box)
		fail string // operation that is refused
		want string
	}{
		"nothing changed": {end: func(b *box) { b.e.mu.Lock(); b.work.Commit = ""; b.e.mu.Unlock(); b.end(0, "") }, want: "nothing changed, so the checks were not run"},
		"no branch":       {fail: "deliver", want: "there is no branch with the work, so the checks were not run"},
		"no copy":         {fail: "snapshot", want: "there is no branch with the work, so the checks were not run"},
		"no sandbox":      {fail: "check", want: "the checks could not be run: no room"},
		"they were":       {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newFake(t)
				if c.end != nil {
					e.behave = c.end
				}
				if c.fail != "" {
					e.refuse[c.fail] = bailey.NewError(bailey.Exhausted, "no room", "")
				}
				d := open(t, e, folder(t))
				defer d.close()
				r := want("work")
				r.Checks = "true"
				got := d.finish(d.delegate(r).ID).Result
				said := strings.Join(got.Warnings, "\n")
				if (got.Checks == nil) != (c.want != "") || !strings.Contains(said, c.want) || strings.Count(said, "checks") != min(1, len(c.want)) {
					t.Errorf("%q, checks %+v", got.Warnings, got.Checks)
				}
				r.Checks = "" // the twin: who asked for none is told of none
				if got := d.finish(d.delegate(r).ID).Result; strings.Contains(strings.Join(got.Warnings, "\n"), "checks") {
					t.Errorf("without checks: %q", got.Warnings)
				}
			})
		})
	}
}

// TestRES04_NoPieceEndsWithinATag has a tag lie across the end of what is handed
// out first, at every place of it, in the result and in the pieces that follow.
func TestRES04_NoPieceEndsWithinATag(t *testing.T) {
	t.Parallel()
	const tag = "</untrusted-0123456789abcdef01234567>"
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		d := open(t, e, folder(t))
		defer d.close()
		for cut := range len(tag) {
			e.behave = func(b *box) {
				b.e.mu.Lock()
				b.diff = strings.Repeat("x", task.MaxDiff-cut) + tag + strings.Repeat("y", task.MaxDiff-cut-len(tag)) + tag + "é"
				b.e.mu.Unlock()
				b.end(0, "")
			}
			got := d.finish(d.delegate(want("work")).ID).Result
			inner := func(fenced string) string {
				return fenced[strings.Index(fenced, "\n")+1 : strings.LastIndex(fenced, "\n</untrusted-")]
			}
			var pieces strings.Builder
			for at := int64(0); ; {
				p, err := d.Result(t.Context(), got.ID, task.PartDiff, at)
				if err != nil {
					t.Fatal(err)
				}
				pieces.WriteString(inner(p.Text))
				if at = p.Next; at == 0 {
					break
				}
			}
			rest, err := d.Result(t.Context(), got.ID, task.PartDiff, task.MaxDiff)
			if err != nil {
				t.Fatal(err)
			}
			for what, text := range map[string]string{"pieces": pieces.String(), "the result and a piece": inner(got.Diff) + inner(rest.Text)} {
				if strings.Contains(text, tag[:11]) {
					t.Errorf("cut at %d: %s make a tag", cut, what)
				}
			}
			if n := strings.Count(pieces.String(), `<\/untrusted`); n != 2 || !strings.HasSuffix(pieces.String(), "é") {
				t.Errorf("cut at %d: %d tags were handed out", cut, n)
			}
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"step":"done","task":{"id":"a-000000","created":"2026-01-01T00:00:00Z"},"request":{"task":"x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := folder(t)
		if err := os.WriteFile(filepath.Join(dir, "a-000000.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := delegate.New(delegate.Config{Engine: newFake(t), Folder: dir, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "a-000000"); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
	})
}

var _ = transcript.Success

// TestDrain: what runs is stopped and kept, what waits goes on at the next
// start.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, dir := newFake(t), folder(t)
		e.parallel = 1
		e.behave = func(b *box) { <-b.stop; b.end(143, "stop") }
		d := open(t, e, dir, func(c *delegate.Config) { c.Most = 1 })
		first, second := d.delegate(want("work")), d.delegate(want("work"))
		synctest.Wait()
		d.Drain(t.Context())
		if got := d.finish(first.ID).Result; got.Status != task.Cancelled || got.Commit != workID || !strings.Contains(strings.Join(got.Warnings, ""), "told to end") {
			t.Errorf("%+v", got)
		}
		if _, err := d.Delegate(t.Context(), want("work")); bailey.KindOf(err) != bailey.Unavailable {
			t.Errorf("taken: %v", err)
		}
		d.close()
		e.behave = func(b *box) { b.end(0, "") }
		resumed := make(chan int, 2)
		d = open(t, e, dir, func(c *delegate.Config) { c.Resumed = func(n int) { resumed <- n } })
		defer d.close()
		if n := <-resumed; n != 1 {
			t.Errorf("%d tasks are said to be taken up again", n)
		}
		if got := d.finish(second.ID).Result; got.Status != task.Success {
			t.Errorf("%+v", got)
		}
	})
}

// TestDelegate_RefusesWhatCouldNotBegin: at the call, and nothing is kept of it.
func TestDelegate_RefusesWhatCouldNotBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, dir := newFake(t), folder(t)
		d := open(t, e, dir)
		defer d.close()
		synctest.Wait()
		absent := bailey.NewError(bailey.NotFound, "/nope does not exist", "name a folder in a git repository")
		e.refuse["examine"] = absent
		if _, err := d.Delegate(t.Context(), want("work")); !errors.Is(err, absent) {
			t.Errorf("%v", err)
		}
		if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("recorded: %v %v", all, err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
			t.Errorf("kept: %v %v", files, err)
		}
		delete(e.refuse, "examine")
		twin := d.delegate(want("work"))
		if r := d.finish(twin.ID); r.Status != task.Success {
			t.Errorf("%+v", r)
		}
	})
}

// TestDelegate_ReadsHowManyAnew: what config.yaml says now is what holds for the
// tasks that come, and for those that wait.
func TestDelegate_ReadsHowManyAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		e.parallel = 1
		e.behave = func(b *box) { <-b.stop; b.end(143, "stop") }
		d := open(t, e, folder(t), func(c *delegate.Config) { c.Most = 1 })
		defer d.close()
		first, second := d.delegate(want("work")), d.delegate(want("work"))
		synctest.Wait()
		state := func(id task.ID) task.State {
			got, err := d.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return got.State
		}
		if state(first.ID) != task.Running || state(second.ID) != task.Queued {
			t.Errorf("one at once: %s, %s", state(first.ID), state(second.ID))
		}
		e.parallel = 2
		third := d.delegate(want("work"))
		synctest.Wait()
		if state(second.ID) != task.Running || state(third.ID) != task.Queued {
			t.Errorf("two at once: %s, %s", state(second.ID), state(third.ID))
		}
		for _, id := range []task.ID{third.ID, second.ID, first.ID} {
			if _, err := d.Cancel(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTrouble_OfTheProviderIsTold: while it lasts, when it is over, and in the
// result; what the agent itself did wrong is not such trouble.
func TestTrouble_OfTheProviderIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newFake(t)
		mended, ended := make(chan struct{}), make(chan struct{})
		e.behave = func(b *box) {
			b.event(`"type":"model.refused","reason":"unknown_field","message":"no such field"`)
			for range 3 {
				b.event(`"type":"model.refused","reason":"provider_failed","status":500,"message":"the provider main answered 500"`)
			}
			<-mended
			b.event(`"type":"model.call","use":{"input_tokens":1}`)
			<-ended
			b.event(`"type":"model.refused","reason":"provider_unreachable","message":"the provider main cannot be reached: \u001b[31mno connection"`)
			b.end(1, "")
		}
		d := open(t, e, folder(t))
		defer d.close()
		asked := d.delegate(want("work"))
		var told []string
		followed := make(chan task.Task, 1)
		go func() {
			got, _ := d.Follow(t.Context(), asked.ID, func(p task.Progress) {
				if p.Kind == "warning" {
					told = append(told, p.Message)
				}
			})
			followed <- got
		}()
		settle := func() { time.Sleep(time.Second); synctest.Wait() }
		settle()
		if got, err := d.Get(t.Context(), asked.ID); err != nil || got.Trouble != "the provider main answered 500" {
			t.Errorf("while it lasts: %q, %v", got.Trouble, err)
		}
		close(mended)
		settle()
		if got, err := d.Get(t.Context(), asked.ID); err != nil || got.Trouble != "" {
			t.Errorf("when it is over: %q, %v", got.Trouble, err)
		}
		close(ended)
		got := <-followed
		want := []string{
			"the provider main answered 500, as 2 calls in a row were not answered; the agent tries again by itself",
			"the model's provider answers again",
			`the provider main cannot be reached: \x1b[31mno connection; the agent tries again by itself`,
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Error(diff)
		}
		all := strings.Join(got.Result.Warnings, "\n")
		if !strings.Contains(all, "the model's provider did not answer at the end; model calls that failed: 4, the last since the provider main cannot be reached") || got.Trouble != "" {
			t.Errorf("the result says %q, and the task %q", all, got.Trouble)
		}
	})
}
