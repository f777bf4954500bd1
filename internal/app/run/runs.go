package run

import (
	"fmt"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// Limits of what a person reads of the files that would run on the host.
// Events name each.
const (
	mostRunLines = 20
	mostRunNames = 6
)

// reportRuns lists what the host's own tools would run, a line for each of
// them: an agent that sets up a project writes hundreds of such files.
func (u *running) reportRuns(found []workspace.Finding) {
	if len(found) == 0 {
		return
	}
	for _, f := range found {
		u.out.event(bailey.Event{Type: bailey.EventFileRuns, Path: f.Path, By: f.By, Message: f.What})
	}
	u.out.say("would run on the host:")
	lines := runLines(found, u.plan.workspace)
	for _, line := range lines[:min(len(lines), mostRunLines)] {
		u.out.say("  %s", line)
	}
	if more := len(lines) - mostRunLines; more > 0 {
		u.out.say("  and %d lines more (--json has each file)", more)
	}
}

// runLines groups findings by what would run them and what was found, those
// about which nobody knows, as what was not looked at, first.
func runLines(found []workspace.Finding, root string) []string {
	type group struct{ by, what string }
	names := make(map[group][]string)
	var order []group
	for _, f := range found {
		g := group{f.By, f.What}
		if _, ok := names[g]; !ok {
			order = append(order, g)
		}
		names[g] = append(names[g], strings.TrimPrefix(f.Path, root+"/"))
	}
	var lines, last []string
	for _, by := range workspace.Runners() {
		for _, g := range order {
			switch {
			case g.by != by:
			case by == "":
				last = append(last, fmt.Sprintf("%s: %s", firstNames(names[g]), g.what))
			default:
				lines = append(lines, fmt.Sprintf("%s: %s (%s)", by, firstNames(names[g]), strings.TrimPrefix(g.what, "runs on the host: ")))
			}
		}
	}
	return append(last, lines...)
}

func firstNames(names []string) string {
	text := strings.Join(names[:min(len(names), mostRunNames)], ", ")
	if more := len(names) - mostRunNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
