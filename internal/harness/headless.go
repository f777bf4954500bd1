package harness

import (
	_ "embed" // for the guide
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
)

// guide is what an agent that works on a task is told about that, as its own
// instruction file.
//
//go:embed guide.md
var guide []byte

// Work is one task that an agent does by itself. Its prompt is the agent's
// standard input, and so in no argument.
type Work struct {
	MaxTurns       int  // above 0
	ThinkingTokens int  // 0: the agent's own
	Guide          bool // the executor guide is the agent's instruction file
}

// Executors lists the agents that can work on a task, sorted: those whose
// headless form is known.
func Executors() []string {
	var names []string
	for _, e := range executors() {
		names = append(names, e.name)
	}
	return names
}

// executor is the headless form of an agent: the arguments that may be given,
// all of them.
type executor struct {
	name  string
	argv  []string // what follows the preset's own arguments
	guide string   // where its user's instruction file is
	// adjust adds what depends on the work, and says what the agent cannot do.
	adjust func(w Work, p *Preset) (lacks []string)
}

func executors() []executor {
	return []executor{
		{
			name: "claude", argv: []string{"-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"},
			guide: Home + "/.claude/CLAUDE.md", adjust: claudeWork,
		},
		{
			name: "codex", argv: []string{"exec", "--skip-git-repo-check", "--json", "-"},
			guide: Home + "/.codex/AGENTS.md", adjust: readerCounts("Codex"),
		},
		{
			name: "gemini", argv: []string{"-o", "stream-json"},
			guide: Home + "/.gemini/GEMINI.md", adjust: geminiWork,
		},
		{
			name: "opencode", argv: []string{"run", "--format", "json"},
			guide: Home + "/.config/opencode/AGENTS.md", adjust: opencodeWork,
		},
		{
			name: "pi", argv: []string{"-p", "--mode", "json"},
			guide: piDir + "AGENTS.md", adjust: readerCounts("pi"),
		},
	}
}

// ForTask turns the preset of an agent into that of unattended work: Argv is
// the whole command, which reads the prompt from its standard input and prints
// events as JSON lines. lacks says, in sentences, what of the work's bounds the
// agent does not keep by itself. An agent without such a form is a
// *bailey.Error of kind Invalid.
func (p Preset) ForTask(w Work) (out Preset, lacks []string, err error) {
	i := slices.IndexFunc(executors(), func(e executor) bool { return e.name == p.Name })
	if i < 0 {
		return p, nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q does not work on tasks", p.Name), "name one that does: "+strings.Join(Executors(), ", "))
	}
	e := executors()[i]
	p.Argv = slices.Concat(p.Argv, e.argv)
	p.Env, p.Files, p.Behind = slices.Clone(p.Env), slices.Clone(p.Files), [2]string{}
	lacks = e.adjust(w, &p)
	if w.ThinkingTokens > 0 && e.name != "claude" {
		lacks = append(lacks, "thinking_tokens is for Claude Code: "+e.name+" thinks as much as its model does by itself")
	}
	if w.Guide {
		p.put(bailey.File{Path: e.guide, Mode: 0o600, Data: guide})
	}
	return p, lacks, nil
}

// put adds a file, in the place of one that is there.
func (p *Preset) put(f bailey.File) {
	p.Files = slices.DeleteFunc(p.Files, func(o bailey.File) bool { return o.Path == f.Path })
	p.Files = append(p.Files, f)
}

func claudeWork(w Work, p *Preset) []string {
	p.Argv = append(p.Argv, "--max-turns", strconv.Itoa(w.MaxTurns))
	if w.ThinkingTokens > 0 {
		p.Env = append(p.Env, "MAX_THINKING_TOKENS="+strconv.Itoa(w.ThinkingTokens))
	}
	return nil
}

// geminiWork puts the bound into the user's settings; there is no flag.
func geminiWork(w Work, p *Preset) []string {
	config := geminiBase()
	model := map[string]any{"maxSessionTurns": w.MaxTurns}
	for _, pair := range p.Env {
		if name, ok := strings.CutPrefix(pair, "GEMINI_MODEL="); ok {
			model["name"] = name
		}
	}
	config["model"] = model
	p.put(jsonFile(geminiDir+"settings.json", config))
	return nil
}

// opencodeWork bounds the one agent that runs, likewise.
func opencodeWork(w Work, p *Preset) []string {
	config := opencodeConfig()
	config["agent"] = map[string]any{"build": map[string]any{"steps": w.MaxTurns}}
	p.put(jsonFile(Home+"/.config/opencode/opencode.json", config))
	return nil
}

// readerCounts is for agents without such a bound.
func readerCounts(title string) func(Work, *Preset) []string {
	return func(Work, *Preset) []string {
		return []string{title + " has no bound of turns of its own: whoever reads its events counts them, and ends it"}
	}
}
