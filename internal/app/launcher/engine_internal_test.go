package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/task"
)

// No two of these tests run at once: a household takes every child of the
// process that it does not know for an orphan.

// TestEngine_TheLifeOfATask goes through it, and asks for everything twice: the
// second time it is answered as before, and nothing is done again.
func TestEngine_TheLifeOfATask(t *testing.T) {
	e, h := mustEngine(t, t.TempDir())
	ctx := t.Context()
	for range 2 {
		if s, err := e.Snapshot(ctx, snapshotOf("a")); err != nil || s.Base != "base" {
			t.Fatalf("snapshot: %v, %v", s, err)
		}
	}
	if s, err := e.Status(ctx, "a", true); err != nil || s.Phase != launcher.Prepared {
		t.Errorf("prepared: %+v, %v", s, err)
	}
	if _, err := e.HandBack(ctx, "a"); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("handed back before it began: %v", err)
	}
	for range 2 {
		s, err := e.StartAgent(ctx, agentOf("a", "wait"))
		if err != nil {
			t.Fatal(err)
		}
		closeAll(s.Output, s.Errors, s.Events)
	}
	if s, err := e.Status(ctx, "a", false); err != nil || s.Phase != launcher.Live {
		t.Errorf("live: %+v, %v", s, err)
	}
	if err := e.Remove(ctx, "a"); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("removed while it ran: %v", err)
	}
	eventually(t, func() bool { return strings.Contains(read(t, e, "a", outputName), "does") })
	for range 2 {
		if err := e.Stop(ctx, "a"); err != nil {
			t.Fatal(err)
		}
	}
	s, err := e.Status(ctx, "a", true)
	if err != nil || s.Phase != launcher.Ended || s.ExitCode != 3 || s.Limit != "stop" || s.HostID != 4711 || !slices.Equal(s.Notes, []string{"a note"}) {
		t.Errorf("ended: %+v, %v", s, err)
	}
	streams, err := e.StartAgent(ctx, agentOf("a", "wait"))
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, streams.Output) + text(t, streams.Errors) + text(t, streams.Events); got != "does wait\nan error\n{\"type\":\"event\"}\n" {
		t.Errorf("streams: %q", got)
	}
	for range 2 {
		c, err := e.HandBack(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, c.File); got != "{}\na" {
			t.Errorf("handed back: %q", got)
		}
	}
	for range 2 {
		if d, err := e.Deliver(ctx, "a"); err != nil || d.Branch != "agent/a" {
			t.Errorf("delivered: %v, %v", d, err)
		}
	}
	if known, err := e.Known(ctx); err != nil || len(known) != 1 || known[0].Phase != launcher.Sent {
		t.Errorf("known: %+v, %v", known, err)
	}
	for range 2 {
		if err := e.Remove(ctx, "a"); err != nil {
			t.Error(err)
		}
	}
	if known, _ := e.Known(ctx); len(known) != 0 {
		t.Errorf("known after it was removed: %+v", known)
	}
	if want := []string{"snapshot", "collect", "deliver"}; !slices.Equal(h.calls, want) {
		t.Errorf("was done: %v, want %v", h.calls, want)
	}
}

func read(t *testing.T, e *engine, id task.ID, name string) string {
	t.Helper()
	b, err := os.ReadFile(e.store.pathOf(id, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			t.Fatal("it did not come to be")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestEngine_AnIdIsOneTasks: another request with it is refused.
func TestEngine_AnIdIsOneTasks(t *testing.T) {
	e, _ := mustEngine(t, t.TempDir())
	ctx := t.Context()
	begin(t, e, "a", "wait")
	other := snapshotOf("a")
	other.Ref = "main"
	if _, err := e.Snapshot(ctx, other); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("another snapshot: %v", err)
	}
	if _, err := e.StartAgent(ctx, agentOf("a", "end")); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("another agent: %v", err)
	}
	if _, err := e.StartCheck(ctx, checkOf("a", "end")); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("a check: %v", err)
	}
	if _, err := e.StartAgent(ctx, agentOf("b", "end")); bailey.KindOf(err) != bailey.NotFound {
		t.Errorf("an agent without a snapshot: %v", err)
	}
}

// TestEngine_ExaminesAndKeepsNothing: what is asked for a task that is not there
// yet leaves nothing, whatever the answer is.
func TestEngine_ExaminesAndKeepsNothing(t *testing.T) {
	e, h := mustEngine(t, t.TempDir())
	ctx := t.Context()
	file := launcher.Tasks{Roots: []string{"/repo"}, MaxParallel: 5}
	var wrong error
	e.reads = func(context.Context, bool) (launcher.Catalog, error) { return launcher.Catalog{Tasks: file}, wrong }
	ask := launcher.ExamineRequest{ID: "x", Path: "/repo"}
	if got, err := e.Examine(ctx, ask); err != nil || got.Repo != "/repo" || got.MaxParallel != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	refused := bailey.NewError(bailey.NotFound, "no such commit", "")
	h.fail = refused
	if _, err := e.Examine(ctx, ask); !errors.Is(err, refused) {
		t.Errorf("a commit that is not there: %v", err)
	}
	h.fail = nil
	ask.Environment = "none"
	if _, err := e.Examine(ctx, ask); bailey.KindOf(err) != bailey.NotFound {
		t.Errorf("an environment that is not there: %v", err)
	}
	ask.Environment = ""
	if known, err := e.Known(ctx); err != nil || len(known) != 0 {
		t.Errorf("kept: %v, %v", known, err)
	}
	if ids, err := e.store.ids(); err != nil || len(ids) != 0 {
		t.Errorf("folders: %v, %v", ids, err)
	}
	// What the file says now holds, and where it is wrong nothing new begins.
	file.Roots = []string{"/other"}
	if _, err := e.Examine(ctx, ask); err != nil || !slices.Equal(e.allowed().Roots, file.Roots) {
		t.Errorf("%v, %v", e.allowed(), err)
	}
	wrong = bailey.NewError(bailey.Invalid, "config.yaml:1:1: wrong", "")
	for name, do := range map[string]func() error{
		"examine":  func() error { _, err := e.Examine(ctx, ask); return err },
		"snapshot": func() error { _, err := e.Snapshot(ctx, snapshotOf("s")); return err },
		"check":    func() error { _, err := e.StartCheck(ctx, checkOf("c", "end")); return err },
		"delete":   func() error { _, err := e.DeleteBranch(ctx, "/repo", "agent/a"); return err },
	} {
		if err := do(); !errors.Is(err, wrong) {
			t.Errorf("%s, with a file that is wrong: %v", name, err)
		}
	}
	wrong = nil
	if got, err := e.DeleteBranch(ctx, "/repo", "agent/a"); err != nil || !got.Deleted || got.Commit != "work" {
		t.Errorf("twin: %+v, %v", got, err)
	}
}

func TestEngine_ACheck(t *testing.T) {
	e, _ := mustEngine(t, t.TempDir())
	ctx := t.Context()
	for range 2 {
		s, err := e.StartCheck(ctx, checkOf("c", "end"))
		if err != nil {
			t.Fatal(err)
		}
		if s.Errors != nil || s.Commit != "commit" {
			t.Errorf("streams: %+v", s)
		}
		closeAll(s.Output, s.Events)
	}
	if s, err := e.Status(ctx, "c", true); err != nil || !s.Check || s.Phase != launcher.Ended || s.ExitCode != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := e.HandBack(ctx, "c"); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("a check was handed back: %v", err)
	}
}

// TestEngine_WhatFailsLeavesNothing: a snapshot that is refused, and a runner
// that dies.
func TestEngine_WhatFailsLeavesNothing(t *testing.T) {
	e, h := mustEngine(t, t.TempDir())
	ctx := t.Context()
	h.fail = bailey.NewError(bailey.NotFound, "no such repository", "")
	if _, err := e.Snapshot(ctx, snapshotOf("a")); bailey.KindOf(err) != bailey.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(e.store.pathOf("a", "")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is there: %v", err)
	}
	if known, _ := e.Known(ctx); len(known) != 0 {
		t.Errorf("known: %v", known)
	}
	h.fail = nil
	begin(t, e, "a", "die")
	if s, err := e.Status(ctx, "a", true); err != nil || s.Phase != launcher.Ended || s.Limit != lost || s.ExitCode != notKnown {
		t.Errorf("%+v, %v", s, err)
	}
	c, err := e.HandBack(ctx, "a")
	if err != nil {
		t.Fatalf("the work of one whose runner was killed: %v", err)
	}
	_ = c.File.Close()
}

// TestEngine_TheDeadlineIsItsOwn: a runner that hangs, and does not end when it
// is told to, is ended all the same; and one that is stopped.
func TestEngine_TheDeadlineIsItsOwn(t *testing.T) {
	e, _ := mustEngine(t, t.TempDir())
	e.late = time.Millisecond
	for id, freeze := range map[task.ID]bool{"hangs": false, "frozen": true} {
		if _, err := e.Snapshot(t.Context(), snapshotOf(id)); err != nil {
			t.Fatal(err)
		}
		r := agentOf(id, "hang")
		r.Timeout = 300 * time.Millisecond
		s, err := e.StartAgent(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		closeAll(s.Output, s.Errors, s.Events)
		if freeze {
			_ = e.unit(id, false).record().Runner.Signal(syscall.SIGSTOP) // it may have ended by now
		}
	}
	begin(t, e, "twin", "hang")
	for _, id := range []task.ID{"hangs", "frozen"} {
		if s, err := e.Status(t.Context(), id, true); err != nil || s.Limit != timeout || s.Phase != launcher.Ended {
			t.Errorf("%s: %+v, %v", id, s, err)
		}
	}
	if s, _ := e.Status(t.Context(), "twin", false); s.Phase != launcher.Live {
		t.Errorf("twin: one with a later deadline: %+v", s)
	}
	e.home.killAll()
}

// TestEngine_Places: no more agents run than may.
func TestEngine_Places(t *testing.T) {
	e, _ := mustEngine(t, t.TempDir())
	e.reads = func(context.Context, bool) (launcher.Catalog, error) {
		return launcher.Catalog{Tasks: launcher.Tasks{Roots: []string{"/repo"}, MaxParallel: 1}}, nil
	}
	begin(t, e, "a", "wait")
	if _, err := e.Snapshot(t.Context(), snapshotOf("b")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.StartAgent(t.Context(), agentOf("b", "end")); bailey.KindOf(err) != bailey.Exhausted {
		t.Errorf("a second: %v", err)
	}
	if err := e.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	s, err := e.StartAgent(t.Context(), agentOf("b", "end"))
	if err != nil {
		t.Errorf("twin: after the first: %v", err)
	}
	closeAll(s.Output, s.Errors, s.Events)
}

// TestEngine_CeilingOfSandboxes: whoever asks, no more agents and checks run at
// once than the launcher's own number, whatever the settings allow.
func TestEngine_CeilingOfSandboxes(t *testing.T) {
	e, _ := mustEngine(t, t.TempDir())
	e.reads = func(context.Context, bool) (launcher.Catalog, error) {
		return launcher.Catalog{Tasks: launcher.Tasks{Roots: []string{"/repo"}, MaxParallel: 10 * mostSandboxes}}, nil
	}
	ctx := t.Context()
	for i := range mostSandboxes {
		id := task.ID(fmt.Sprintf("s%d", i))
		if i%2 == 0 {
			begin(t, e, id, "wait")
			continue
		}
		s, err := e.StartCheck(ctx, checkOf(id, "wait"))
		if err != nil {
			t.Fatalf("sandbox %d: %v", i+1, err)
		}
		closeAll(s.Output, s.Events)
	}
	if _, err := e.Snapshot(ctx, snapshotOf("more")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, agent := e.StartAgent(ctx, agentOf("more", "end"))
		_, check := e.StartCheck(ctx, checkOf("more-check", "end"))
		for what, err := range map[string]error{"an agent": agent, "a check": check} {
			if bailey.KindOf(err) != bailey.Exhausted || !strings.Contains(err.Error(), fmt.Sprintf("%d agents and checks run already", mostSandboxes)) {
				t.Errorf("%s more: %v", what, err)
			}
		}
	}
	if n := len(e.live()); n != mostSandboxes {
		t.Errorf("%d run", n)
	}
	if known, _ := e.Known(ctx); len(known) != mostSandboxes+1 {
		t.Errorf("of a check that was refused something is kept: %d", len(known))
	}
	if err := errors.Join(e.Stop(ctx, "s0"), e.Stop(ctx, "s1")); err != nil {
		t.Fatal(err)
	}
	agent, err := e.StartAgent(ctx, agentOf("more", "end"))
	if err != nil {
		t.Errorf("twin: an agent after one has ended: %v", err)
	}
	check, err := e.StartCheck(ctx, checkOf("more-check", "end"))
	if err != nil {
		t.Errorf("twin: a check after one has ended: %v", err)
	}
	closeAll(agent.Output, agent.Errors, agent.Events, check.Output, check.Events)
}

// TestGit_CeilingOfHelpers: so many operations are done at once, and more wait;
// one that is not wanted any more waits no longer.
func TestGit_CeilingOfHelpers(t *testing.T) {
	home, err := newHousehold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(home.killAll)
	dir := t.TempDir()
	g := &git{home: home, settings: launcher.Settings{Env: []string{"PATH=" + os.Getenv("PATH")}}, allowed: func() launcher.Tasks { return launcher.Tasks{} }}
	const asked = 3 * mostHelpers
	done := make(chan error, asked)
	for range asked {
		go func() {
			_, err := g.deleteBranch(t.Context(), dir, "agent/x")
			done <- err
		}()
	}
	count := func(pattern string) int {
		all, err := filepath.Glob(dir + "/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	eventually(t, func() bool { return count("works-*") >= mostHelpers })
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := g.deleteBranch(gone, dir, "agent/x"); !errors.Is(err, context.Canceled) {
		t.Errorf("one that is not wanted any more: %v", err)
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range asked {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	saw, _ := filepath.Glob(dir + "/saw-*")
	for _, path := range saw {
		b, err := os.ReadFile(path)
		if n, _ := strconv.Atoi(string(b)); err != nil || n > mostHelpers {
			t.Errorf("%s at once, %v", b, err)
		}
	}
	if len(saw) != asked {
		t.Errorf("%d of %d were done", len(saw), asked)
	}
}

// TestEngine_FollowsNoLink: somebody has put one in the place of a task's
// folder, or of its ledger.
func TestEngine_FollowsNoLink(t *testing.T) {
	aside := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(aside, "engine")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := newEngine(aside); err == nil {
		t.Error("the folder of tasks was a link")
	}
	e, _ := mustEngine(t, t.TempDir())
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, e.store.pathOf("a", "")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Snapshot(t.Context(), snapshotOf("a")); err == nil {
		t.Error("a snapshot was made through a link")
	}
	if list, err := os.ReadDir(elsewhere); err != nil || len(list) > 0 {
		t.Errorf("there is now %v (%v)", list, err)
	}
	begin(t, e, "b", "end")
	if s, err := e.Status(t.Context(), "b", true); err != nil || s.Phase != launcher.Ended {
		t.Errorf("twin: %+v, %v", s, err)
	}
	victim := filepath.Join(elsewhere, "victim")
	if err := os.WriteFile(victim, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{collectedName, outputName} {
		at := e.store.pathOf("b", name)
		_ = os.Remove(at)
		if err := os.Symlink(victim, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.store.read("b", outputName); err == nil {
		t.Error("output was read through a link")
	}
	c, err := e.HandBack(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	_ = c.File.Close()
	if b, _ := os.ReadFile(victim); string(b) != "whole" {
		t.Errorf("written through a link: %q", b)
	}
}

// TestHousehold_Orphans: what a runner leaves is gone before its end is told.
func TestHousehold_Orphans(t *testing.T) {
	e, _ := mustEngine(t, t.TempDir())
	e.home.grace = 100 * time.Millisecond
	begin(t, e, "a", "linger")
	s, err := e.Status(t.Context(), "a", true)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(s.Error)
	if err != nil {
		t.Fatalf("twin: no process was left: %+v", s)
	}
	if _, err := proc.ReadStat(pid); !errors.Is(err, proc.ErrGone) {
		t.Errorf("process %d is there yet: %v", pid, err)
	}
}

// TestEngine_KilledAtEveryPoint kills the launcher wherever it can be in the
// life of a task. The next one knows what there is: nothing of it runs, what
// was made is kept, and the rest of the task's life goes on from there.
func TestEngine_KilledAtEveryPoint(t *testing.T) {
	points, _ := crash(t, t.TempDir(), "")
	want := []string{
		"before snapshot", "in snapshot", "done snapshot", "after snapshot",
		"before start", "in start", "done start", "in run", "before end",
		"before hand-back", "in hand-back", "done hand-back", "after hand-back",
		"before deliver", "in deliver", "done deliver", "after deliver",
		"before remove", "in remove",
	}
	for _, p := range want {
		if !slices.Contains(points, p) {
			t.Errorf("a task does not come by %q", p)
		}
	}
	for _, p := range points {
		if !slices.Contains(want, p) {
			t.Errorf("the point %q is not listed here", p)
		}
	}
	for _, p := range want {
		t.Run(p, func(t *testing.T) {
			data := t.TempDir()
			_, children := crash(t, data, p)
			if begun := slices.Contains([]string{"done start", "in run"}, p); begun == (len(children) == 0) {
				t.Errorf("there were the runners %v", children)
			}
			for _, c := range children {
				eventually(t, func() bool { return !c.Alive() })
			}
			afterCrash(t, data, p)
		})
	}
}

// crash runs a launcher through the life of a task, and returns the points that
// it came by, and the children that it had at the last of them.
func crash(t *testing.T, data, point string) (points []string, children []proc.Identity) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = []string{crashName}
	cmd.Env = []string{crashPoint + "=" + point, crashFolder + "=" + data}
	out, err := cmd.Output()
	killed := cmd.ProcessState != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if point == "" && err != nil || point != "" && !killed {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch kind {
		case "point":
			points, children = append(points, rest), nil
		case "child":
			var c proc.Identity
			if _, err := fmt.Sscan(rest, &c.PID, &c.Start); err != nil {
				t.Fatal(err)
			}
			children = append(children, c)
		}
	}
	return points, children
}

func afterCrash(t *testing.T, data, point string) {
	t.Helper()
	e, _ := mustEngine(t, data)
	ctx := t.Context()
	known, err := e.Known(ctx)
	if err != nil {
		t.Fatal(err)
	}
	switch point {
	case "before snapshot", "in snapshot", "done snapshot", "before remove", "in remove":
		if point != "before remove" && len(known) != 0 {
			t.Errorf("known: %+v", known)
		}
		if point != "before remove" {
			begin(t, e, "a", "end") // as if for the first time
		}
	default:
		if len(known) != 1 {
			t.Fatalf("known: %+v", known)
		}
	}
	s, err := e.Status(ctx, "a", true)
	if err != nil {
		t.Fatal(err)
	}
	if s.Phase == launcher.Prepared {
		begin(t, e, "a", "end")
		s, _ = e.Status(ctx, "a", true)
	}
	switch point {
	case "in start", "done start", "in run":
		if s.Phase != launcher.Ended || s.Limit != lost {
			t.Errorf("%+v", s)
		}
		if point == "in start" {
			return // nothing had begun, so nothing was made
		}
		// It may have been killed before its first file was.
		if err := os.WriteFile(e.store.pathOf("a", workspaceName+"/made"), []byte("a"), 0o600); err != nil {
			t.Errorf("the work is not there: %v", err)
		}
	}
	c, err := e.HandBack(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, c.File); got != "{}\na" {
		t.Errorf("the work: %q", got)
	}
	if d, err := e.Deliver(ctx, "a"); err != nil || d.Commit != "work" {
		t.Errorf("delivered: %+v, %v", d, err)
	}
	if err := e.Remove(ctx, "a"); err != nil {
		t.Error(err)
	}
}
