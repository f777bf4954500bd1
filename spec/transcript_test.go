package spec_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/transcript"
)

var updateRecordings = flag.Bool("update-recordings", false, "write what the agents print to internal/transcript/testdata")

// headless is how each agent is asked for work whose events are to be read.
var headless = []struct {
	name, model, command string
	plans                bool   // it has a tool for plans, with the model of the test
	shell, edit          string // what it calls these tools
}{
	{"claude", "messages", `claude -p --output-format stream-json --verbose`, false, "Bash", "Edit"},
	{"codex", "responses", `codex exec --json --skip-git-repo-check`, false, "shell", "edit"},
	{"gemini", "gem", `gemini -o stream-json -p`, false, "run_shell_command", "replace"},
	{"opencode", "chat", `opencode run --format json`, true, "bash", "edit"},
	{"pi", "chat", `pi -p --mode json`, false, "bash", "edit"},
}

// TestAgents_StreamsAreUnderstood: what the real agents print of their work
// comes out as events, with no line left over. A new version that prints
// something else fails here.
func TestAgents_StreamsAreUnderstood(t *testing.T) {
	slots := make(chan struct{}, 2)
	for _, a := range headless {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			l := newModelLab(t, plannedWork)
			out, errOut, err := l.stream(t, a.name, a.model, a.command+` "do the work"`, onThisKernel()...)
			if err != nil || len(l.model.Problems()) > 0 {
				t.Errorf("%v, %q", err, l.model.Problems())
			}
			keepRecording(t, l, a.name+"-work", out)
			events, sum := understood(t, a.name, out)
			if !sum.Ended || sum.Reason != transcript.Success || sum.Error != "" || sum.Report != "all of it is done" || sum.Turns != 6 {
				t.Errorf("it came to %+v", sum)
			}
			hello := filepath.Join(l.yard.Dir, "hello.txt")
			for _, want := range []transcript.Event{
				{Kind: transcript.Call, Tool: a.edit, Line: hello},
				{Kind: transcript.Call, Tool: a.shell, Line: "expr 6 '*' 7 > shell.txt; cat hello.txt"},
				{Kind: transcript.Text, Line: "all of it is done"},
			} {
				if !slices.ContainsFunc(events, func(e transcript.Event) bool {
					return e.Kind == want.Kind && e.Tool == want.Tool && e.Line == want.Line
				}) {
					t.Errorf("no event %+v", want)
				}
			}
			want := []transcript.Item{{Text: "change the file", Step: transcript.Active}, {Text: "look at it", Step: transcript.Pending}}
			if a.plans != slices.Equal(sum.Plan, want) {
				t.Errorf("the plan is %+v", sum.Plan)
			}
			if t.Failed() {
				t.Logf("%+v\n%s\n%s\n%s", events, l.asked(), out, errOut)
			}
		})
	}
}

// TestAgents_StreamsSayWhatWentWrong: the real agents' words for a model that
// refuses come out as a fault and an end, and so does the end of Claude Code's
// turns.
func TestAgents_StreamsSayWhatWentWrong(t *testing.T) {
	slots := make(chan struct{}, 2)
	for _, a := range headless {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			l := newModelLab(t, plannedWork)
			out, errOut, _ := l.stream(t, a.name, a.model, a.command+` "do the work"`, onThisKernel("--budget", "20")...)
			keepRecording(t, l, a.name+"-budget", out)
			events, sum := understood(t, a.name, out)
			if sum.Reason != transcript.Failed || !strings.Contains(strings.ToLower(sum.Error), "budget") {
				t.Errorf("it came to %+v\n%+v\n%s\n%s", sum, events, out, errOut)
			}
		})
	}
	t.Run("claude_turns", func(t *testing.T) {
		t.Parallel()
		slots <- struct{}{}
		defer func() { <-slots }()
		l := newModelLab(t, plannedWork)
		out, errOut, _ := l.stream(t, "claude", "messages", `claude -p --output-format stream-json --verbose --max-turns 2 "do the work"`, onThisKernel()...)
		keepRecording(t, l, "claude-turns", out)
		_, sum := understood(t, "claude", out)
		if sum.Reason != transcript.MaxTurns || sum.Turns < 2 || sum.Turns > 3 {
			t.Errorf("it came to %+v\n%s\n%s", sum, out, errOut)
		}
	})
}

// plannedWork is a task with a plan and each kind of tool.
func plannedWork(l *modelLab) []provider.Turn {
	hello := filepath.Join(l.yard.Dir, "hello.txt")
	return []provider.Turn{
		provider.Do(provider.Plan("change the file", "look at it")),
		provider.Do(provider.Read(hello)),
		provider.Do(provider.Edit(hello, "two", "TWO")),
		provider.Do(provider.Write(filepath.Join(l.yard.Dir, "new.txt"), "made\n")),
		provider.Do(provider.Shell("expr 6 '*' 7 > shell.txt; cat hello.txt")),
		provider.Say("all of it is done"),
	}
}

// understood reads what an agent printed, of which no line may be strange.
func understood(t *testing.T, agent, out string) ([]transcript.Event, transcript.Summary) {
	t.Helper()
	var events []transcript.Event
	r, err := transcript.New(agent, func(e transcript.Event) { events = append(events, e) })
	if err != nil {
		t.Fatal(err)
	}
	_, _ = r.Write([]byte(out))
	_ = r.Close()
	sum := r.Summary()
	if sum.Unknown != 0 || sum.TooLong != 0 || sum.Lines == 0 {
		t.Errorf("of %d lines %d are strange and %d too long", sum.Lines, sum.Unknown, sum.TooLong)
	}
	return events, sum
}

// stream runs an agent as run does, and keeps its output from its errors.
func (l *modelLab) stream(t *testing.T, agent, model, script string, flags ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), agentTime)
	defer cancel()
	args := append([]string{"run", "--quiet", "--model", model, "--tool", agent, "--net", "none"}, flags...)
	cmd := l.yard.Command(ctx, append(args, "--", "sh", "-c", script+" </dev/null")...)
	for i, kv := range cmd.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			cmd.Env[i] = "PATH=" + l.bin + ":" + path
		}
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

var longText = regexp.MustCompile(`"((?:[^"\\]|\\.){200})(?:[^"\\]|\\.)+"`)

// keepRecording writes what an agent printed where the tests of its reader
// find it, long texts cut.
func keepRecording(t *testing.T, l *modelLab, name, out string) {
	t.Helper()
	if !*updateRecordings {
		return
	}
	out = strings.ReplaceAll(out, l.yard.Dir, "/work")
	out = longText.ReplaceAllString(out, `"$1"`)
	if err := os.WriteFile(filepath.Join("../internal/transcript/testdata", name+".jsonl"), []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
