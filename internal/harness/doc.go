// Package harness knows the coding agents by name: where an installed one
// lies on this machine, what of it a sandbox must see, and which settings let
// it work there quietly and without questions.
//
// It decides and nothing more: it starts no program, opens no connection and
// writes no file. It never reads or mounts an agent's logins (~/.claude,
// ~/.codex, ~/.local/share/opencode); a key reaches the sandbox only when its
// variable was named with --env. The run role may call it.
//
// Settings are put where the agent reads its lowest layer of the user's own
// settings, never in its arguments: what a person types after the agent's
// name, and what a project's files say, is stronger.
package harness
