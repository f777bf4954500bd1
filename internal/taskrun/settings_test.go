package taskrun_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

func agent() taskrun.Settings {
	return taskrun.Settings{
		Kind: taskrun.Agent, ID: "t1", Dir: "/tasks/t1", Subdir: "a/b", Limit: time.Minute,
		Harness: "claude", Model: "small", Prompt: "do it", MaxTurns: 3,
	}
}

func check() taskrun.Settings {
	return taskrun.Settings{Kind: taskrun.Check, ID: "c1", Dir: "/tasks/c1", Limit: time.Minute, Command: "make test"}
}

// TestSettings_Validate: each thing that no runner may accept is refused by
// itself, and what is right is not.
func TestSettings_Validate(t *testing.T) {
	t.Parallel()
	for _, good := range []taskrun.Settings{agent(), check()} {
		if err := good.Validate(); err != nil {
			t.Error(err)
		}
	}
	for what, change := range map[string]func(*taskrun.Settings){
		"zero":           func(s *taskrun.Settings) { *s = taskrun.Settings{} },
		"kind":           func(s *taskrun.Settings) { s.Kind = "other" },
		"id":             func(s *taskrun.Settings) { s.ID = "../x" },
		"relative":       func(s *taskrun.Settings) { s.Dir = "work" },
		"unclean":        func(s *taskrun.Settings) { s.Dir = "/tasks/../etc" },
		"top":            func(s *taskrun.Settings) { s.Dir = "/" },
		"up":             func(s *taskrun.Settings) { s.Subdir = "../x" },
		"absolute":       func(s *taskrun.Settings) { s.Subdir = "/etc" },
		"up alone":       func(s *taskrun.Settings) { s.Subdir = ".." },
		"control":        func(s *taskrun.Settings) { s.Subdir = "a\nb" },
		"environment":    func(s *taskrun.Settings) { s.Environment = "a\x00b" },
		"no limit":       func(s *taskrun.Settings) { s.Limit = 0 },
		"negative limit": func(s *taskrun.Settings) { s.Limit = -1 },
	} {
		for _, s := range []taskrun.Settings{agent(), check()} {
			change(&s)
			if bailey.KindOf(s.Validate()) != bailey.Invalid {
				t.Errorf("%s of %s is let through", what, s.Kind)
			}
		}
	}
	for what, change := range map[string]func(*taskrun.Settings){
		"limit":    func(s *taskrun.Settings) { s.Limit = task.MostTimeout + 1 },
		"command":  func(s *taskrun.Settings) { s.Command = "x" },
		"model":    func(s *taskrun.Settings) { s.Model = "" },
		"prompt":   func(s *taskrun.Settings) { s.Prompt = "" },
		"NUL":      func(s *taskrun.Settings) { s.Prompt = "a\x00" },
		"text":     func(s *taskrun.Settings) { s.Prompt = "\xff" },
		"long":     func(s *taskrun.Settings) { s.Prompt = strings.Repeat("x", taskrun.MaxPrompt+1) },
		"turns":    func(s *taskrun.Settings) { s.MaxTurns = 0 },
		"many":     func(s *taskrun.Settings) { s.MaxTurns = task.MostTurns + 1 },
		"thinking": func(s *taskrun.Settings) { s.ThinkingTokens = -1 },
	} {
		s := agent()
		if change(&s); bailey.KindOf(s.Validate()) != bailey.Invalid {
			t.Errorf("an agent's %s is let through", what)
		}
	}
	for what, change := range map[string]func(*taskrun.Settings){
		"limit":    func(s *taskrun.Settings) { s.Limit = task.MostCheckLimit + 1 },
		"command":  func(s *taskrun.Settings) { s.Command = "" },
		"NUL":      func(s *taskrun.Settings) { s.Command = "a\x00" },
		"long":     func(s *taskrun.Settings) { s.Command = strings.Repeat("x", taskrun.MaxCommand+1) },
		"model":    func(s *taskrun.Settings) { s.Model = "small" },
		"harness":  func(s *taskrun.Settings) { s.Harness = "claude" },
		"prompt":   func(s *taskrun.Settings) { s.Prompt = "x" },
		"budget":   func(s *taskrun.Settings) { s.Budget = []string{"2M"} },
		"guide":    func(s *taskrun.Settings) { s.Guide = true },
		"thinking": func(s *taskrun.Settings) { s.ThinkingTokens = 1 },
		"turns":    func(s *taskrun.Settings) { s.MaxTurns = 1 },
	} {
		s := check()
		if change(&s); bailey.KindOf(s.Validate()) != bailey.Invalid {
			t.Errorf("a check's %s is let through", what)
		}
	}
}

// TestSettings_LongestFits: the longest task that is let through fits into what
// a runner reads, whatever JSON makes of it.
func TestSettings_LongestFits(t *testing.T) {
	t.Parallel()
	s := agent()
	s.Prompt = strings.Repeat("\x01", taskrun.MaxPrompt)
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back taskrun.Settings
	if err := inherit.Document(bytes.NewReader(b), taskrun.MaxSettings, &back); err != nil || back.Prompt != s.Prompt {
		t.Error(err)
	}
}

// TestSandboxName_IsOneAndItsOwn: every id gives a name, and no two the same.
func TestSandboxName_IsOneAndItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]task.ID{}
	for _, id := range []task.ID{"a", "a-", "a--", "t1", task.ID(strings.Repeat("x", 27)), task.ID(strings.Repeat("x", 28)), task.ID(strings.Repeat("x", 64)), task.ID(strings.Repeat("x", 63) + "y"), task.ID("a" + strings.Repeat("-", 63))} {
		name := taskrun.SandboxName(id)
		if !bailey.ValidSandboxName(name) || !strings.HasPrefix(name, "task-") {
			t.Errorf("%s: %q", id, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both %s", id, other, name)
		}
		seen[name] = id
	}
}

// FuzzSettings: whatever comes on the descriptor, what is let through is what a
// runner expects.
func FuzzSettings(f *testing.F) {
	for _, s := range []taskrun.Settings{agent(), check()} {
		b, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"kind":"check","id":"a","dir":"//","limit":1e9,"command":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s taskrun.Settings
		if inherit.Document(bytes.NewReader(b), taskrun.MaxSettings, &s) != nil || s.Validate() != nil {
			return
		}
		if !s.ID.Valid() || !strings.HasPrefix(s.Dir, "/") || strings.Contains(s.Dir, "..") && strings.Contains(s.Dir, "/../") || s.Limit <= 0 || !bailey.ValidSandboxName(taskrun.SandboxName(s.ID)) {
			t.Errorf("%+v", s)
		}
		if s.Kind == taskrun.Check && (s.Model != "" || s.Prompt != "") {
			t.Errorf("a check with a model: %+v", s)
		}
	})
}
