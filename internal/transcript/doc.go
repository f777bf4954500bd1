// Package transcript reads what coding agents print about their work when they
// run without a terminal: Claude Code's stream-json, codex exec --json, gemini
// -o stream-json, opencode run --format json and pi --mode json. A [Reader]
// takes the bytes as they come and makes [Event]s of them, the same for every
// agent, and a [Summary] of the whole.
//
// All of it is the agent's word, and the agent may be hostile: bytes are
// bounded by line, events by number, texts by length; a line that is torn, too
// long, too deep or of no known form is counted and left out. What comes out is
// for people and planners to look at, and is valid UTF-8. Nothing is to be
// decided by it but when to stop an agent that says it has had its turns, and
// which words its end is told in.
//
// The package does no I/O and knows nothing of tasks.
package transcript
