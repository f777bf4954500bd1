package runner

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

// TestBounded_TakesAndForgets: behind the bound nothing is written, and nobody
// is held up.
func TestBounded_TakesAndForgets(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	b := bound(f)
	b.left = 5
	for _, part := range []string{"abc", "", "defg", "h"} {
		if n, err := b.Write([]byte(part)); err != nil || n != len(part) {
			t.Errorf("%q: %d %v", part, n, err)
		}
	}
	got, err := os.ReadFile(f.Name())
	if err != nil || string(got) != "abcde" || !b.over() {
		t.Errorf("%q %v, over %t", got, err, b.over())
	}
	exact := bound(f)
	exact.left = 2
	if _, err := exact.Write([]byte("xy")); err != nil || exact.over() {
		t.Errorf("what fits is over: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := bound(f).Write([]byte("x")); err == nil {
		t.Error("a file that is closed takes something")
	}
}

// TestRequest_IsClosed: whatever the settings say, a task's run has no network,
// reads no policy and passes no variable, and its limits are bailey's.
func TestRequest_IsClosed(t *testing.T) {
	t.Parallel()
	s := taskrun.Settings{
		Kind: taskrun.Agent, ID: "t1", Dir: "/tasks/t1", Limit: time.Minute, Harness: "claude", Model: "small", Prompt: "do it", MaxTurns: 3, Budget: []string{"2M"},
	}
	r := request(&s, run.Host{CPUs: 64, Memory: 1 << 40}, []string{"claude"})
	if r.Net != "none" || !r.Bare || len(r.Env)+len(r.EnvFiles)+len(r.Allow)+len(r.Secrets)+len(r.Presets)+len(r.Services)+len(r.Tools) != 0 || r.Ask || r.Record != "" {
		t.Errorf("%+v", r)
	}
	l := r.Limits.Limits(64, 1<<40)
	if l.MemoryBytes != 8<<30 || l.MilliCPUs != 4000 || l.Processes != 512 || l.OpenFiles != 4096 || l.TmpBytes != 2<<30 || l.Timeout != time.Minute {
		t.Errorf("%+v", l)
	}
	small := limits(&s, 2, 4<<30).Limits(2, 4<<30)
	if small.MemoryBytes != 3<<30 || small.MilliCPUs != 2000 {
		t.Errorf("on a small machine: %+v", small)
	}
	check := taskrun.Settings{Kind: taskrun.Check, ID: "c1", Dir: "/tasks/t1", Limit: time.Minute, Command: "x; y"}
	if r := request(&check, run.Host{CPUs: 2, Memory: 8 << 30}, nil); len(r.Models) != 0 || r.Preset {
		t.Errorf("a check has a model: %+v", r)
	}
	if tk := task(&check, io.Discard, io.Discard); tk.Agent != "" || tk.Work.MaxTurns != 0 {
		t.Errorf("a check has an agent: %+v", tk)
	}
}

// TestCommand_IsOneArgument: a check's line is one argument, whatever it holds.
func TestCommand_IsOneArgument(t *testing.T) {
	t.Parallel()
	const line = `echo "$1" '; rm -rf /`
	r := &runner{settings: &taskrun.Settings{Kind: taskrun.Check, Command: line}}
	argv := r.command()
	if len(argv) != 5 || argv[4] != line || strings.Contains(strings.Join(argv[:4], " "), "rm") {
		t.Errorf("%q", argv)
	}
	r = &runner{settings: &taskrun.Settings{Kind: taskrun.Agent, Harness: "pi", Prompt: "--help"}}
	if argv := r.command(); !slices.Equal(argv, []string{"pi"}) {
		t.Errorf("%q", argv)
	}
}

// TestPrompt_IsTheInput: the whole of it, whoever reads it and however slowly.
func TestPrompt_IsTheInput(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "do it", strings.Repeat("x", 512<<10)} {
		f, err := prompt(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil || string(got) != text {
			t.Errorf("%d bytes of %d: %v", len(got), len(text), err)
		}
	}
}

// TestEnded_SaysWhy: an error is bailey's, with what mends it, and never without
// a code; what is too long is cut.
func TestEnded_SaysWhy(t *testing.T) {
	t.Parallel()
	e := ended(run.Outcome{Code: 3, Limit: "memory", Lacks: []string{"a"}}, []string{"b"}, nil)
	if e.ExitCode != 3 || e.Limit != "memory" || e.Error != "" || !slices.Equal(e.Notes, []string{"a", "b"}) || e.Ended.IsZero() {
		t.Errorf("%+v", e)
	}
	e = ended(run.Outcome{Code: 3}, nil, bailey.NewError(bailey.Invalid, strings.Repeat("x", 100<<10), "mend it"))
	if e.ExitCode != bailey.ExitBailey || len(e.Error) != 8<<10 || e.Hint != "mend it" {
		t.Errorf("%d %d %q", e.ExitCode, len(e.Error), e.Hint)
	}
}
