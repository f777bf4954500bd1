package main

import (
	"fmt"
	"io"

	"github.com/bailey-dev/bailey/bench/figures"
)

// Beginnings of contenders' names, before the agent's.
const (
	byTask = "bailey task run: "
	byHand = "git clone --local and: "
)

// report is everything that one run found.
type report struct {
	Machine string            `json:"machine"`
	Rounds  int               `json:"rounds"`
	Files   int               `json:"files"`
	Firsts  []first           `json:"first_request"`
	AtOnce  []atOnce          `json:"at_once"`
	Goals   []figures.Goal    `json:"goals"`
	Missing map[string]string `json:"missing"` // what could not be measured, and why
}

// first is the time from the command to the agent's first request for a model,
// of one contender.
type first struct {
	Name    string    `json:"name"`
	Seconds []float64 `json:"seconds"`
}

// atOnce are tasks of one agent handed over at the same time.
type atOnce struct {
	Name    string  `json:"name"`
	Tasks   int     `json:"tasks"`
	Right   int     `json:"right"` // whose branch holds what the agent made
	Seconds float64 `json:"seconds"`
}

// seconds are those of a contender; none where it is missing.
func (r report) seconds(name string) []float64 {
	for _, f := range r.Firsts {
		if f.Name == name {
			return f.Seconds
		}
	}
	return nil
}

// goals compares what was measured with what is wanted.
func goals(r report) (out []figures.Goal) {
	for _, agent := range []string{agentShell, agentClaude} {
		if s := r.seconds(byTask + agent); len(s) > 0 {
			out = append(out, figures.AtMost(fmt.Sprintf("to the first request, %d files, %s, seconds", r.Files, agent), figures.Median(s), 1.5))
		}
	}
	for _, m := range r.AtOnce {
		out = append(out, figures.AtLeast(fmt.Sprintf("right results of %d tasks at once, %s", m.Tasks, m.Name), float64(m.Right), float64(m.Tasks)))
	}
	return out
}

func (r report) tell(out io.Writer, asJSON bool) error {
	return figures.Tell(out, r, asJSON, r.print, r.Missing)
}

func (r report) print(out io.Writer) {
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	line("%s\n%d rounds, contenders take turns; a repository of %d files", r.Machine, r.Rounds, r.Files)
	line("\n%-48s %8s %8s", "to the first request for a model, seconds", "median", "most")
	for _, f := range r.Firsts {
		line("%-48s %8.2f %8.2f", f.Name, figures.Median(f.Seconds), figures.Percentile(f.Seconds, 100))
	}
	for _, agent := range []string{agentShell, agentClaude} {
		line("%-48s %8.2f", "ratio, "+agent, figures.Paired(r.seconds(byTask+agent), r.seconds(byHand+agent)))
	}
	line("")
	for _, m := range r.AtOnce {
		line("%-48s %8.1f s, %d of %d right", fmt.Sprintf("%d tasks at once, %s", m.Tasks, m.Name), m.Seconds, m.Right, m.Tasks)
	}
	figures.PrintEnd(out, r.Goals, r.Missing)
}
