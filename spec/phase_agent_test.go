package spec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestRES08_ClaudeCodeDoesAPlan: the real agent, by name, with a model of
// models.yaml and no key, does a plan of two units, of which the first fails its
// validation once. What it used is counted over all tries, and a budget for the
// whole plan ends it.
func TestRES08_ClaudeCodeDoesAPlan(t *testing.T) {
	t.Attr("claim", "RES-08")
	t.Parallel()
	l := newModelLab(t, func(*modelLab) []provider.Turn {
		return []provider.Turn{
			provider.Do(provider.Shell("echo line >> made.txt")),
			provider.Say("the unit is done"),
		}
	})
	y := l.yard
	repository(t, y, y.Dir)
	owned(t, y, y.Dir+"/.agents/validate.sh", "[ $(wc -l < made.txt) -ge 2 ] || { echo one line is not enough; exit 4; }\n", 0o644)
	git(t, y, y.Dir, "add", ".")
	git(t, y, y.Dir, "commit", "-q", "-m", "validation")
	plan := y.WriteHome(t, "plan.md", "---\nagent: claude\nmodel: messages\nbudget: 1M\n---\n# Plan\n- [ ] First\n- [ ] Second\n- [ ] Third\n")
	r := l.phase(t, plan, "--json", "--until", "2").OK(t)
	var report struct {
		Units []struct {
			Title, Stage string
			Try          int
			Tokens       int64
		}
	}
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || len(report.Units) != 3 {
		t.Fatalf("%v\n%s", err, r.Stdout)
	}
	for i, u := range report.Units[:2] {
		if u.Stage != "done" || u.Try != 2-i || u.Tokens < 36 {
			t.Errorf("%+v\n%s", u, r.Stderr)
		}
	}
	if got := git(t, y, y.Dir, "log", "-2", "--format=%an %s", "--name-only"); got != "Ada Second\n\nmade.txt\nAda First\n\nmade.txt\n" {
		t.Errorf("committed:\n%s", got)
	}
	told := false
	for _, q := range l.model.Requests() {
		told = told || strings.Contains(string(q.Body), "one line is not enough") && strings.Contains(string(q.Body), "untrusted-")
	}
	if !told {
		t.Error("the second try was not told what the validation printed")
	}
	for _, p := range l.model.Problems() {
		t.Errorf("provider: %s", p)
	}
	if r := l.phase(t, plan, "--budget", "60").Exit(t, 1); !strings.Contains(r.Stdout, "budget") {
		t.Errorf("the budget is spent, and it goes on:\n%s%s", r.Stdout, r.Stderr)
	}
}

// phase runs a plan with the agents that are installed for tests. It has the
// time of three of them.
func (l *modelLab) phase(t *testing.T, plan string, flags ...string) yard.Result {
	t.Helper()
	return l.yard.RunFor(t, 3*agentTime, withAgents(t), append([]string{"phase", "run", plan}, flags...)...)
}
