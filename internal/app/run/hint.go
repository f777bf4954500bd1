package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/harness"
)

// ownFlags are those that a person means for bailey wherever they stand: what
// they keep from the sandbox is not kept when an agent gets them.
func ownFlags() []string {
	return []string{"--net", "--allow", "--deny", "--memory", "--cpus", "--pids", "--disk", "--inodes", "--tmp-size"}
}

// doubts are sentences for the header about a command that may not be what was
// meant.
func (r *Request) doubts() []string {
	agent := r.Command[0]
	if !harness.Known(agent) {
		return nil
	}
	if !r.Preset && len(r.Models) > 0 && slices.Contains(r.Tools, agent) {
		return nil
	}
	if !r.Preset {
		return []string{fmt.Sprintf("%s runs as any command does; as an agent, with its settings and its API host: bailey run %s", agent, agent)}
	}
	var stray []string
	for _, arg := range r.Command[1:] {
		if arg == "--" {
			break
		}
		if flag, _, _ := strings.Cut(arg, "="); slices.Contains(ownFlags(), flag) && !slices.Contains(stray, flag) {
			stray = append(stray, flag)
		}
	}
	if len(stray) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s goes to %s; bailey's own flags stand before the agent: bailey run %s … %s", strings.Join(stray, ", "), agent, stray[0], agent)}
}

// nested explains the failure of a bailey that is itself in a sandbox, whose
// kernel lacks what another would need.
func nested(h Host, err error) error {
	if name := h.Env.Get("BAILEY_SANDBOX"); name != "" && errors.Is(err, syscall.ENOSYS) {
		return bailey.NewError(bailey.Unsupported, fmt.Sprintf("bailey does not run inside a sandbox, and this is one (%s)", name), "run it outside")
	}
	return err
}

// startHint says what may mend that a command was not found, or could not be
// run; empty if there is nothing to say.
func startHint(argv []string, code int, agents bool) string {
	name := argv[0]
	first, _, line := strings.Cut(strings.TrimSpace(name), " ")
	switch {
	case code == bailey.ExitNotFound && line && len(argv) == 1 && !strings.Contains(first, "/"):
		return "that is one word; a line for a shell is run with: sh -c '…', and a command is written as words of its own: " + first + " …"
	case code == bailey.ExitNotFound && agents && likeAgent(name) != "":
		return "if the agent " + likeAgent(name) + " is meant: bailey run " + likeAgent(name)
	case code == bailey.ExitCannotRun && strings.Contains(name, "/"):
		return "if it is a script: chmod +x, and a first line such as #!/bin/sh"
	}
	return ""
}

// likeAgent returns the agent whose name may have been meant, or "".
func likeAgent(word string) string {
	for _, name := range harness.Names() {
		typo := word != name && word[0] == name[0] && distance(word, name) <= 2
		if typo || strings.HasPrefix(word, name+"-") {
			return name
		}
	}
	return ""
}

// distance is how many letters have to be put in, left out or changed to make
// one word of the other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			above, row[j+1] = row[j+1], min(above+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
