package launcher

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/task"
)

// Bounds of what a request may hold, in bytes where nothing else is said.
const (
	MaxPath    = 4096
	MaxRef     = 255
	MaxPrompt  = task.MaxTask + 64<<10 // a task and its preamble
	MaxCommand = 64 << 10
	maxName    = 64
	maxBudgets = 8 // entries
	maxThought = 1 << 20
)

// invalid is the error of a request that is not let through.
func invalid(format string, args ...any) error {
	return bailey.NewError(bailey.Invalid, fmt.Sprintf(format, args...), "")
}

// first returns the first error that there is.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkID(id task.ID) error {
	if !id.Valid() {
		return invalid("%q is not the id of a task", clip(string(id)))
	}
	return nil
}

func checkPath(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("the path %q is not absolute", clip(path)), "give the whole path of a folder in the repository")
	case len(path) > MaxPath, strings.ContainsRune(path, 0):
		return invalid("the path %q is none of a folder", clip(path))
	}
	return nil
}

// checkRef lets through what could name a commit and not be read as an option
// of a program, nor as anything that has no place in a name (git-check-ref-format(1)).
func checkRef(what, ref string) error {
	bad := len(ref) > MaxRef || !utf8.ValidString(ref) || strings.HasPrefix(ref, "-")
	for _, r := range ref {
		bad = bad || r == ':' || r == '?' || r == '*' || r == '[' || r == '\\' || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}
	if bad {
		return invalid("%q is not the name of a %s", clip(ref), what)
	}
	return nil
}

func checkBranch(branch string) error {
	bad := branch == "" || strings.Contains(branch, "..") || strings.Contains(branch, "//") || strings.Contains(branch, "@{")
	bad = bad || strings.ContainsAny(branch, "~^") || strings.HasSuffix(branch, "/") || strings.HasSuffix(branch, ".") || branch == "@"
	for part := range strings.SplitSeq(branch, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return invalid("%q is not the name of a branch", clip(branch))
	}
	return checkRef("branch", branch)
}

// checkOurs lets the one form of a branch through that bailey makes.
func checkOurs(branch string) error {
	id, ok := strings.CutPrefix(branch, task.BranchPrefix)
	if !ok || !task.ID(id).Valid() {
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("%q is not a branch of a task", clip(branch)), "only branches agent/ID are deleted")
	}
	return nil
}

// checkName is for names of models and agents.
func checkName(what, name string) error {
	bad := name == "" || len(name) > maxName
	for i := range len(name) {
		c := name[i]
		word := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		bad = bad || !word && (i == 0 || c != '-' && c != '.' && c != '_')
	}
	if bad {
		return invalid("%q is not the name of %s", clip(name), what)
	}
	return nil
}

// checkText is for what is handed on as it is.
func checkText(what, text string, least, most int) error {
	if len(text) < least || len(text) > most || strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
		return invalid("%s is empty, longer than %d bytes, or no text", what, most)
	}
	return nil
}

func checkTime(d, most time.Duration) error {
	if d <= 0 || d > most {
		return invalid("a time of %v is not between 0 and %v", d, most)
	}
	return nil
}

func checkBudgets(list []string) error {
	if len(list) > maxBudgets {
		return invalid("%d budgets, and %d are allowed", len(list), maxBudgets)
	}
	for _, b := range list {
		if err := checkText("a budget", b, 1, maxName); err != nil {
			return err
		}
	}
	return nil
}

func checkNumber(what string, n, least, most int) error {
	if n < least || n > most {
		return invalid("%s: %d is not between %d and %d", what, n, least, most)
	}
	return nil
}

// Check reports what an Engine must not be asked.
func (r ExamineRequest) Check() error {
	return first(checkID(r.ID), checkPath(r.Path), checkRef("commit", r.Ref), checkText("the environment's name", r.Environment, 0, MaxPath))
}

// Check reports what an Engine must not be asked.
func (r SnapshotRequest) Check() error {
	return first(checkID(r.ID), checkPath(r.Path), checkRef("commit", r.Ref))
}

// Check reports what an Engine must not be asked.
func (r AgentRequest) Check() error {
	return first(
		checkID(r.ID), checkName("an agent", r.Harness), checkName("a model", r.Model),
		checkText("the task", r.Prompt, 1, MaxPrompt),
		checkNumber("turns", r.MaxTurns, 1, task.MostTurns), checkTime(r.Timeout, task.MostTimeout),
		checkBudgets(r.Budget), checkText("the environment's name", r.Environment, 0, MaxPath),
		checkNumber("tokens to think with", r.ThinkingTokens, 0, maxThought),
	)
}

// Check reports what an Engine must not be asked.
func (r CheckRequest) Check() error {
	return first(
		checkID(r.ID), checkPath(r.Path), checkBranch(r.Branch), checkText("the command", r.Command, 1, MaxCommand),
		checkText("the environment's name", r.Environment, 0, MaxPath), checkTime(r.Timeout, task.MostCheckLimit),
	)
}

// clip is a word of a caller's, short enough for a message.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}
