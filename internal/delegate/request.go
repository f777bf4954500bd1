package delegate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/transcript"
)

// Bounds of what a request names.
const (
	mostPath    = 4096
	mostRef     = 255
	mostName    = 64
	mostKey     = 128
	mostCommand = 64 << 10
	mostBudgets = 8
)

func invalid(message, hint string) error { return bailey.NewError(bailey.Invalid, message, hint) }

// check returns what is wrong with a request, one thing at a time.
func check(r *task.Request) error {
	for _, c := range []func(*task.Request) error{checkTask, checkPlace, checkNumbers, checkNames} {
		if err := c(r); err != nil {
			return err
		}
	}
	return nil
}

func checkTask(r *task.Request) error {
	switch {
	case strings.TrimSpace(r.Task) == "":
		return invalid("the task is empty", "say what is to be done, and how it can be seen that it is")
	case len(r.Task) > task.MaxTask:
		return invalid(fmt.Sprintf("the task has %d bytes, more than %d", len(r.Task), task.MaxTask), "put long material into the repository and name the file")
	case !utf8.ValidString(r.Task) || strings.ContainsRune(r.Task, 0):
		return invalid("the task is no text: it holds bytes that are no UTF-8", "")
	}
	return nil
}

func checkPlace(r *task.Request) error {
	if err := checkRepo(r.RepoPath); err != nil {
		return err
	}
	if err := checkRef(r.Ref); err != nil {
		return err
	}
	return checkEnvironment(r.Environment)
}

func checkRepo(p string) error {
	switch {
	case p == "":
		return invalid("repo_path is missing", "name the folder of the repository, by an absolute path")
	case !path.IsAbs(p):
		return invalid(fmt.Sprintf("repo_path %q is not absolute", line(p, mostName)), "write the whole path of the folder")
	case len(p) > mostPath || strings.ContainsRune(p, 0):
		return invalid("repo_path is no path", "")
	}
	return nil
}

// checkRef keeps what could be an option, or more than one word, from git.
func checkRef(ref string) error {
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }
	if strings.HasPrefix(ref, "-") || len(ref) > mostRef || strings.ContainsFunc(ref, bad) {
		return invalid(fmt.Sprintf("ref %q names no commit", line(ref, mostName)), "name a branch, a tag or the id of a commit")
	}
	return nil
}

func checkEnvironment(e string) error {
	if strings.HasPrefix(e, "-") || len(e) > mostPath || strings.ContainsFunc(e, unicode.IsControl) {
		return invalid(fmt.Sprintf("%q names no environment", line(e, mostName)), "bailey env ls lists them")
	}
	return nil
}

func checkNumbers(r *task.Request) error {
	if err := checkTimeout(r.TimeoutMinutes, r.TimeoutSeconds, task.MostTimeout, "split the task, or leave it out for 30 minutes"); err != nil {
		return err
	}
	switch {
	case r.MaxTurns < 0 || r.MaxTurns > task.MostTurns:
		return invalid(fmt.Sprintf("max_turns is %d: 1 to %d", r.MaxTurns, task.MostTurns), fmt.Sprintf("leave it out for %d", task.DefaultMaxTurns))
	case r.ThinkingTokens < 0 || r.ThinkingTokens > task.MostThinking:
		return invalid(fmt.Sprintf("thinking_tokens is %d: 0 to %d", r.ThinkingTokens, task.MostThinking), "")
	case len(r.Budget) > mostBudgets:
		return invalid(fmt.Sprintf("%d budgets, more than %d", len(r.Budget), mostBudgets), "one of tokens and one of money do")
	}
	for _, b := range r.Budget {
		if _, err := budget.ParseLimit(b); err != nil {
			return err
		}
	}
	return nil
}

func checkNames(r *task.Request) error {
	odd := func(s string) bool { return line(s, len(s)+1) != s }
	switch {
	case r.Harness != "" && !slices.Contains(transcript.Agents(), r.Harness):
		return invalid(fmt.Sprintf("harness: no agent that works on tasks has the name %q", line(r.Harness, mostName)), spell.DidYouMean(r.Harness, transcript.Agents()))
	case len(r.Name) > mostName || odd(r.Name):
		return invalid(fmt.Sprintf("the name %q is too long or not printable", line(r.Name, mostName)), fmt.Sprintf("at most %d bytes on one line", mostName))
	case len(r.Group) > mostName || odd(r.Group):
		return invalid(fmt.Sprintf("the group %q is too long or not printable", line(r.Group, mostName)), "")
	case len(r.IdempotencyKey) > mostKey:
		return invalid(fmt.Sprintf("the idempotency key has %d bytes, more than %d", len(r.IdempotencyKey), mostKey), "")
	}
	return checkCommand(r.Checks)
}

func checkCommand(c string) error {
	if len(c) > mostCommand || strings.ContainsRune(c, 0) || !utf8.ValidString(c) {
		return invalid("the command of the checks is too long, or no text", fmt.Sprintf("at most %d bytes; put more into a script in the repository", mostCommand))
	}
	return nil
}

// choose fills in the model and the agent of a request and returns the model.
func (s *Service) choose(r *task.Request, models []task.Model) (task.Model, error) {
	if len(models) == 0 {
		return task.Model{}, bailey.NewError(bailey.NotFound, "there are no models", "bailey models example --write writes a models.yaml to begin with")
	}
	i := slices.IndexFunc(models, func(m task.Model) bool { return m.ID == r.Model || r.Model == "" && m.Default })
	if i < 0 && r.Model == "" {
		return task.Model{}, invalid("no model is named, and models.yaml has no default", "name one of "+strings.Join(idsOf(models), ", "))
	}
	if i < 0 {
		return task.Model{}, bailey.NewError(bailey.NotFound, fmt.Sprintf("there is no model %q", line(r.Model, mostName)), spell.DidYouMean(r.Model, idsOf(models)))
	}
	m := models[i]
	r.Model = m.ID
	return m, s.chooseAgent(r, &m)
}

// chooseAgent fills in the agent of a request, or says why it has none that
// works with its model, and which one would.
func (s *Service) chooseAgent(r *task.Request, m *task.Model) error {
	wanted := func(x task.Installable) bool { return x.Harness == r.Harness }
	switch {
	case slices.Contains(m.Harnesses, r.Harness):
		return nil
	case r.Harness == "" && len(m.Harnesses) > 0:
		r.Harness = m.Harnesses[0]
		return nil
	case r.Harness == "" && len(m.Installable) == 0:
		return bailey.NewError(bailey.Unavailable, fmt.Sprintf("no agent that works on tasks speaks the protocol of model %s (%s)", m.ID, m.Dialect), "name another model")
	case r.Harness == "":
		return bailey.NewError(bailey.Unavailable, fmt.Sprintf("the running service finds no agent that speaks the protocol of model %s (%s)", m.ID, m.Dialect),
			"install one that does: "+installs(m.Installable)+"; "+s.looked())
	case slices.ContainsFunc(m.Installable, wanted):
		return bailey.NewError(bailey.NotFound, fmt.Sprintf("the running service does not find the agent %q", r.Harness), s.whereFrom(r.Harness, m))
	}
	return invalid(fmt.Sprintf("agent %q does not speak the protocol of model %s (%s)", line(r.Harness, mostName), m.ID, m.Dialect), s.fitting(m))
}

// whereFrom says how to have an agent that is not installed, and what there is
// in its place.
func (s *Service) whereFrom(agent string, m *task.Model) string {
	i := slices.IndexFunc(m.Installable, func(x task.Installable) bool { return x.Harness == agent })
	hint := "install it: " + m.Installable[i].Install
	if len(m.Harnesses) > 0 {
		hint += "; or name one that it finds and that works with model " + m.ID + ": " + strings.Join(m.Harnesses, ", ")
	}
	return hint + "; " + s.looked()
}

// fitting names the agents that work with a model.
func (s *Service) fitting(m *task.Model) string {
	switch {
	case len(m.Harnesses) > 0:
		return "with it can: " + strings.Join(m.Harnesses, ", ") + "; or name another model"
	case len(m.Installable) > 0:
		return "with it can, once installed: " + installs(m.Installable) + "; or name another model; " + s.looked()
	}
	return "name another model"
}

// installs lists agents with the commands that install them.
func installs(list []task.Installable) string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		out = append(out, x.Harness+" (`"+x.Install+"`)")
	}
	return strings.Join(out, ", ")
}

// looked says where agents are looked for, and how to have that be another
// place.
func (s *Service) looked() string {
	const most = 2048
	return fmt.Sprintf("the service looks on the PATH that it was started with, which is %q; where yours has the agent and this one has not, `bailey serve stop`, and your next command starts it with yours", line(s.cfg.Path, most))
}

func idsOf(models []task.Model) []string {
	out := make([]string, 0, len(models))
	for i := range models {
		out = append(out, models[i].ID)
	}
	return out
}

// digest tells requests apart, of which a key may name only one.
func digest(r *task.Request) string {
	b, err := json.Marshal(r)
	if err != nil {
		return "" // unreachable: a Request is text and numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// checkTimeout is for a time in minutes or in seconds; 0 of both is the default.
func checkTimeout(minutes, seconds int, most time.Duration, hint string) error {
	switch inMinutes, inSeconds := int(most/time.Minute), int(most/time.Second); {
	case minutes != 0 && seconds != 0:
		return invalid("timeout_minutes and timeout_seconds are both given", "leave one out")
	case minutes < 0 || minutes > inMinutes:
		return invalid(fmt.Sprintf("timeout_minutes is %d: 1 to %d", minutes, inMinutes), hint)
	case seconds < 0 || seconds > inSeconds:
		return invalid(fmt.Sprintf("timeout_seconds is %d: 1 to %d", seconds, inSeconds), hint)
	}
	return nil
}

// timeoutOf is the time that was asked for.
func timeoutOf(minutes, seconds int, otherwise time.Duration) time.Duration {
	if asked := time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second; asked > 0 {
		return asked
	}
	return otherwise
}

func turnsOf(r *task.Request) int {
	if r.MaxTurns == 0 {
		return task.DefaultMaxTurns
	}
	return r.MaxTurns
}

func yes(b *bool) bool { return b == nil || *b }
