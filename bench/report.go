package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/bailey-dev/bailey/bench/figures"
)

// report is everything that one run found.
type report struct {
	Machine string            `json:"machine"`
	Rounds  int               `json:"rounds"`
	Cases   []summary         `json:"cases"`
	Ratios  []ratio           `json:"ratios"`
	Memory  []memory          `json:"memory"`
	AtOnce  atOnce            `json:"at_once"`
	Missing map[string]string `json:"missing"` // what could not be measured, and why
}

// tell prints the report, and returns an error when something is missing.
func (r report) tell(out io.Writer, asJSON bool) error {
	problems := []error{figures.Tell(out, r, asJSON, r.print, r.Missing)}
	if r.AtOnce.Failed > 0 {
		problems = append(problems, fmt.Errorf("%d of %d started at once failed: %s", r.AtOnce.Failed, r.AtOnce.Started, r.AtOnce.Error))
	}
	return errors.Join(problems...)
}

// summary is one contender's times, in milliseconds.
type summary struct {
	Name   string  `json:"name"`
	Median float64 `json:"median_ms"`
	Min    float64 `json:"min_ms"`
	P95    float64 `json:"p95_ms"`
	Runs   int     `json:"runs"`
}

// ratio is one median over another, with the most that we want it to be.
type ratio struct {
	What  string  `json:"what"`
	Ratio float64 `json:"ratio"`
	Goal  float64 `json:"goal"`
}

// atOnce is the result of starting many sandboxes together.
type atOnce struct {
	Started int     `json:"started"`
	Failed  int     `json:"failed"`
	Error   string  `json:"error,omitempty"` // of the last that failed
	WallMS  float64 `json:"wall_ms"`
	Each    summary `json:"each"`
}

func summarize(name string, ms []float64) summary {
	s := summary{Name: name, Runs: len(ms)}
	if len(ms) == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(ms))
	s.Min = sorted[0]
	s.P95 = sorted[min(len(sorted)-1, len(sorted)*95/100)]
	s.Median = figures.Median(ms)
	return s
}

func ratios(cases []summary) []ratio {
	median := map[string]float64{}
	for _, c := range cases {
		median[c.Name] = c.Median
	}
	var out []ratio
	for _, r := range []struct {
		over, under string
		goal        float64
	}{
		{caseNone, caseRunsc, 1.35},
		{caseCheckout, caseRunsc, 1.35},
		{caseBeside, caseDocker, 0.5},
		{caseAirlock, caseRunsc, 1.5},
		{caseShared, caseBwrap, 2.5},
		{fileCase("git status", onShared), fileCase("git status", onHost), 1.5},
		{fileCase("grep", onShared), fileCase("grep", onHost), 1.5},
		{fileCase("go build", onShared), fileCase("go build", onHost), 1.5},
	} {
		if median[r.over] > 0 && median[r.under] > 0 {
			out = append(out, ratio{r.over + " / " + r.under, median[r.over] / median[r.under], r.goal})
		}
	}
	return out
}

func (r report) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "%s\n%d rounds, contenders take turns; start to exit of `true`, in ms\n\n", r.Machine, r.Rounds)
	_, _ = fmt.Fprintf(out, "%-44s %8s %8s %8s\n", "", "median", "min", "p95")
	for _, c := range r.Cases {
		_, _ = fmt.Fprintf(out, "%-44s %8.1f %8.1f %8.1f\n", c.Name, c.Median, c.Min, c.P95)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Missing)) {
		_, _ = fmt.Fprintf(out, "%-44s not measured: %s\n", name, r.Missing[name])
	}
	_, _ = fmt.Fprintln(out, "\nratios of medians")
	for _, x := range r.Ratios {
		_, _ = fmt.Fprintf(out, "%-84s %5.2f  (goal: at most %.2f)\n", x.What, x.Ratio, x.Goal)
	}
	for _, m := range r.Memory {
		_, _ = fmt.Fprintf(out, "\nmemory while it runs, %s (PSS): bailey's processes %.1f MB (goal: at most 60), gVisor's %.1f MB\n",
			m.Name, m.OursMB, m.GvisorMB)
		for _, p := range m.Processes {
			if !p.Gvisor {
				_, _ = fmt.Fprintf(out, "  %8.1f MB  %s\n", p.PSSMB, p.Name)
			}
		}
	}
	if r.AtOnce.Started > 0 {
		_, _ = fmt.Fprintf(out, "\n%d at once: %d failed, %.0f ms in all; each: median %.0f ms, p95 %.0f ms\n",
			r.AtOnce.Started, r.AtOnce.Failed, r.AtOnce.WallMS, r.AtOnce.Each.Median, r.AtOnce.Each.P95)
	}
}

// machineLine says in one line where the numbers come from.
func machineLine(l *lab) string {
	if l.cred != nil {
		return figures.Line(fmt.Sprintf("uid %d (%s)", l.cred.Uid, l.as))
	}
	return figures.Line(fmt.Sprintf("uid %d", os.Geteuid()))
}
