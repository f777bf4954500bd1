package run_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
)

func TestDoubts_TellWhatGoesToAnAgent(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"claude --memory 1G --allow a.com --version": "--memory, --allow goes to claude; bailey's own flags stand before the agent: bailey run --memory … claude",
		"codex --net=open --net=none":                "--net goes to codex; bailey's own flags stand before the agent: bailey run --net … codex",
		"claude":                                     "",
		"claude --version --allowedTools x":          "",
		"claude -- --memory":                         "",
		"curl --allow x":                             "--allow goes to curl; bailey's own flags stand before the command: bailey run --allow … curl",
		"true --memory=1G":                           "--memory goes to true; bailey's own flags stand before the command: bailey run --memory … true",
		"git commit --quiet --name x":                "",
		"claude --model small":                       "--model goes to claude; bailey's own flags stand before the agent: bailey run --model … claude",
		"claude --model=small":                       "--model goes to claude; bailey's own flags stand before the agent: bailey run --model … claude",
		"claude --model opus":                        "",
		"claude --model":                             "",
		"-- claude -p x":                             "claude runs as any command does; as an agent, with its settings and its API host: bailey run claude",
		"-- ls --memory":                             "",
	} {
		words := strings.Fields(line)
		r := run.Request{Command: words, Preset: true}
		if words[0] == "--" {
			r = run.Request{Command: words[1:]}
		}
		if got := strings.Join(run.Doubts(r, func(name string) bool { return name == "small" }), "\n"); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestDoubts_NameTheModelOfTheRun(t *testing.T) {
	t.Parallel()
	r := run.Request{Command: []string{"claude"}, Models: []string{"small"}}
	if got := strings.Join(run.Doubts(r, nil), "\n"); !strings.HasSuffix(got, ": bailey run --model small claude") {
		t.Errorf("the note does not keep the model: %q", got)
	}
	if got := run.StartHint([]string{"claud"}, bailey.ExitNotFound, true, "small"); !strings.HasSuffix(got, "bailey run --model small claude") {
		t.Errorf("the hint does not keep the model: %q", got)
	}
}

func TestStartHint_NamesTheMend(t *testing.T) {
	t.Parallel()
	const notFound, cannot = bailey.ExitNotFound, bailey.ExitCannotRun
	for _, c := range []struct {
		argv   []string
		code   int
		agents bool
		want   string // a part; empty: nothing is said
	}{
		{[]string{"ls -la"}, notFound, true, "sh -c '…'"},
		{[]string{"ls -la"}, notFound, false, "words of its own: ls …"},
		{[]string{"./a file"}, notFound, true, ""},
		{[]string{"ls -la", "x"}, notFound, true, ""},
		{[]string{"claud"}, notFound, true, "bailey run claude"},
		{[]string{"cluade", "-p", "x"}, notFound, true, "bailey run claude"},
		{[]string{"claude-code"}, notFound, true, "bailey run claude"},
		{[]string{"open-code"}, notFound, true, "bailey run opencode"},
		{[]string{"claud"}, notFound, false, ""},
		{[]string{"claude"}, notFound, true, ""},
		{[]string{"node"}, notFound, true, ""},
		{[]string{"cmake"}, notFound, true, ""},
		{[]string{"./s.sh"}, cannot, true, "chmod +x"},
		{[]string{"s"}, cannot, true, ""},
		{[]string{"./s.sh"}, notFound, true, ""},
		{[]string{"ls -la"}, 0, true, ""},
	} {
		got := run.StartHint(c.argv, c.code, c.agents)
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q, code %d, agents %t: %q, want %q", c.argv, c.code, c.agents, got, c.want)
		}
	}
}

func TestNested_SaysThatItIsInASandbox(t *testing.T) {
	t.Parallel()
	env := func(value string) func(string) (string, bool) {
		return func(string) (string, bool) { return value, value != "" }
	}
	lacks := fmt.Errorf("open folder: %w", syscall.ENOSYS)
	if err := run.Nested(env("work-1"), lacks); bailey.KindOf(err) != bailey.Unsupported || !strings.Contains(err.Error(), "inside a sandbox") {
		t.Errorf("in a sandbox: %v", err)
	}
	if err := run.Nested(env(""), lacks); !errors.Is(err, syscall.ENOSYS) {
		t.Errorf("twin: on a machine that lacks it: %v", err)
	}
	if err := run.Nested(env("work-1"), syscall.ENOENT); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("twin: another error: %v", err)
	}
}
