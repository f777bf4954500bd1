package harness

// Memory is where an agent looks for the instructions that its user keeps for
// every project, below the home; empty for one that is not known.
func Memory(agent string) string {
	switch agent {
	case "claude":
		return ".claude/CLAUDE.md"
	case "codex":
		return ".codex/AGENTS.md"
	case "gemini":
		return ".gemini/GEMINI.md"
	case "opencode":
		return ".config/opencode/AGENTS.md"
	case "pi":
		return ".pi/agent/AGENTS.md"
	case "qwen":
		return ".qwen/QWEN.md"
	}
	return ""
}
