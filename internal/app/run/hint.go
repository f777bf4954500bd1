package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/models"
)

// ownFlags are those that a person means for bailey wherever they stand: what
// they keep from the sandbox, or give to it, is not so when the command gets
// them. What many programs have as well (--env, --name, --timeout, --quiet …)
// is not among them.
func ownFlags() []string {
	return []string{
		"--net", "--allow", "--deny", "--preset", "--host-service", "--budget", "--env-file", "--tool", "--mount", "--read-only", "--detachable",
		"--memory", "--cpus", "--pids", "--nofile", "--tmp-size", "--disk", "--inodes",
	}
}

// doubts are sentences for the header about a command that may not be what was
// meant. isModel reports whether a name is that of a model of models.yaml.
func (r *Request) doubts(isModel func(string) bool) []string {
	name := r.Command[0]
	if !r.Preset {
		if !harness.Known(name) || len(r.Models) > 0 && slices.Contains(r.Tools, name) {
			return nil
		}
		return []string{fmt.Sprintf("%s runs as any command does; as an agent, with its settings and its API host: bailey run %s%s", name, modelWords(r.Models), name)}
	}
	stray := strayFlags(r.Command[1:], isModel)
	if len(stray) == 0 {
		return nil
	}
	kind := "command"
	if harness.Known(name) {
		kind = "agent"
	}
	return []string{fmt.Sprintf("%s goes to %s; bailey's own flags stand before the %s: bailey run %s … %s", strings.Join(stray, ", "), name, kind, stray[0], name)}
}

// modelWords is how a command line names the model of a run.
func modelWords(models []string) string {
	if len(models) == 0 {
		return ""
	}
	return "--model " + models[0] + " "
}

// strayFlags are flags of bailey's among the arguments of a command. Agents have
// a --model of their own: it is one of these where it names a model of ours.
func strayFlags(args []string, isModel func(string) bool) []string {
	var stray []string
	for i, arg := range args {
		if arg == "--" {
			break
		}
		flag, value, joined := strings.Cut(arg, "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		own := slices.Contains(ownFlags(), flag) || flag == "--model" && value != "" && isModel(value)
		if own && !slices.Contains(stray, flag) {
			stray = append(stray, flag)
		}
	}
	return stray
}

// isModel reports whether the user's models.yaml has a model of that name.
func (h Host) isModel(workspace string) func(string) bool {
	return func(name string) bool {
		c, err := models.Load(h.Dirs.Config, workspace)
		if err != nil {
			return false // who asks for a model is told what is wrong with the file
		}
		_, err = c.Find(name)
		return err == nil
	}
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
func startHint(argv []string, code int, agents bool, models ...string) string {
	name := argv[0]
	first, _, line := strings.Cut(strings.TrimSpace(name), " ")
	switch {
	case code == bailey.ExitNotFound && line && len(argv) == 1 && !strings.Contains(first, "/"):
		return "that is one word; a line for a shell is run with: sh -c '…', and a command is written as words of its own: " + first + " …"
	case code == bailey.ExitNotFound && agents && LikeAgent(name) != "":
		return "if the agent " + LikeAgent(name) + " is meant: bailey run " + modelWords(models) + LikeAgent(name)
	case code == bailey.ExitCannotRun && strings.Contains(name, "/"):
		return "if it is a script: chmod +x, and a first line such as #!/bin/sh"
	}
	return ""
}

// LikeAgent returns the agent whose name may have been meant, or "".
func LikeAgent(word string) string {
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
