package bridge

import (
	"path/filepath"

	"github.com/bailey-dev/bailey/internal/harness"
)

// claude carries the model. Where its API is, Claude Code has in the "env" of
// its settings, which is not carried: it may hold anything.
func (f *finder) claude() {
	t := f.read(filepath.Join(f.folder("CLAUDE_CONFIG_DIR", ".claude"), "settings.json"))
	out := shape{keys: plain("model", "effortLevel", "alwaysThinkingEnabled", "outputStyle", "language")}.tree(f, t)
	f.add(harness.Home+"/.claude/settings.json", out, nil)
}

// gemini carries the model.
func (f *finder) gemini() {
	t := f.read(filepath.Join(f.host.Home, ".gemini", "settings.json"))
	out := shape{keys: map[string]shape{
		"model": {keys: plain("name", "maxSessionTurns", "compressionThreshold")},
	}}.tree(f, t)
	f.add(harness.Home+"/.gemini/settings.json", out, nil)
}
