package delegate

import (
	"strings"

	"github.com/bailey-dev/bailey/internal/task"
)

// preamble is what an executor has to know of where it is, whatever agent it
// is. What it should know of how to work is in the guide.
const preamble = `You carry out one task that was delegated to you, alone and without a person to ask. You work on a copy of the repository in the current folder. There is no network and nothing can be installed.
- Do exactly what the task says, with the smallest change that does it. Leave everything else as it is.
- Where the task is silent, take the simplest reading and say in your report which.
- Run what the task names to verify the change, and what the project has for it. Do not weaken or delete a test to make it pass.
- Do not commit, and do not push: what the folder holds when you end is taken as your work.
- End with a short report: what you changed and where, what you ran and what came of it, what is open. Say plainly what you could not do.

The task:

`

// promptOf is the task as its agent gets it.
func promptOf(r *task.Request, subdir string) string {
	if !yes(r.Preamble) {
		return r.Task
	}
	text := preamble
	if subdir != "" {
		text = strings.Replace(text, "The task:", "The task was given in the folder "+line(subdir, mostPath)+" of it.\n\nThe task:", 1)
	}
	return text + r.Task
}
