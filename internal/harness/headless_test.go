package harness_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/harness"
)

// TestForTask_IsTheHeadlessForm: each agent gets its own arguments and nothing
// of the work's text in them, its guide where it reads one, and says which
// bounds it does not keep.
func TestForTask_IsTheHeadlessForm(t *testing.T) {
	t.Parallel()
	want := map[string]struct {
		argv  string
		guide string
		lacks int // of a bound of turns and of thinking
	}{
		"claude":   {"-p --output-format stream-json --verbose --dangerously-skip-permissions --max-turns 7", ".claude/CLAUDE.md", 0},
		"codex":    {"-c x exec --skip-git-repo-check --json -", ".codex/AGENTS.md", 2},
		"gemini":   {"-o stream-json", ".gemini/GEMINI.md", 1},
		"opencode": {"run --format json", ".config/opencode/AGENTS.md", 1},
		"pi":       {"-p --mode json", ".pi/agent/AGENTS.md", 2},
	}
	if got := harness.Executors(); len(got) != len(want) || !slices.IsSorted(got) {
		t.Fatalf("executors: %q", got)
	}
	for name, w := range want {
		p := harness.Preset{Name: name, Argv: []string{"/opt/" + name}, Behind: [2]string{"exec", "--x"}, Env: []string{"GEMINI_MODEL=small"}}
		if name == "codex" {
			p.Argv = append(p.Argv, "-c", "x")
		}
		before := len(p.Files)
		got, lacks, err := p.ForTask(harness.Work{MaxTurns: 7, ThinkingTokens: 2048, Guide: true})
		if err != nil {
			t.Fatal(err)
		}
		if argv := strings.Join(got.Command(nil), " "); argv != "/opt/"+name+" "+w.argv {
			t.Errorf("%s: %s", name, argv)
		}
		if len(lacks) != w.lacks {
			t.Errorf("%s lacks %q", name, lacks)
		}
		if file := fileOf(got, w.guide); !strings.Contains(file, "no network") {
			t.Errorf("%s: no guide at %s", name, w.guide)
		}
		if len(p.Files) != before || len(p.Env) != 1 {
			t.Errorf("%s: the preset itself was changed", name)
		}
		plain, _, err := p.ForTask(harness.Work{MaxTurns: 7})
		if err != nil || fileOf(plain, w.guide) != "" {
			t.Errorf("%s: a guide that was not asked for (%v)", name, err)
		}
	}
	if _, _, err := (harness.Preset{Name: "copilot"}).ForTask(harness.Work{MaxTurns: 1}); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("an agent without a headless form: %v", err)
	}
}

// TestForTask_Bounds: the bounds that an agent keeps by itself are where it
// looks for them.
func TestForTask_Bounds(t *testing.T) {
	t.Parallel()
	work := harness.Work{MaxTurns: 7, ThinkingTokens: 2048}
	p, _, err := (harness.Preset{Name: "claude"}).ForTask(work)
	if err != nil || !slices.Contains(p.Env, "MAX_THINKING_TOKENS=2048") {
		t.Errorf("%q %v", p.Env, err)
	}
	p, _, err = (harness.Preset{Name: "gemini", Env: []string{"GEMINI_MODEL=small"}}).ForTask(work)
	if s := fileOf(p, ".gemini/settings.json"); err != nil || !strings.Contains(s, `"maxSessionTurns": 7`) || !strings.Contains(s, `"name": "small"`) {
		t.Errorf("%s %v", s, err)
	}
	p, _, err = (harness.Preset{Name: "opencode"}).ForTask(work)
	if s := fileOf(p, ".config/opencode/opencode.json"); err != nil || !strings.Contains(s, `"steps": 7`) {
		t.Errorf("%s %v", s, err)
	}
}

func fileOf(p harness.Preset, name string) string {
	for _, f := range p.Files {
		if f.Path == harness.Home+"/"+name {
			return string(f.Data)
		}
	}
	return ""
}
