package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Median is the value in the middle; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Tell prints a report, for a program or by print for a person, and returns an
// error that names what is missing of it, each with why.
func Tell(out io.Writer, report any, asJSON bool, print func(io.Writer), missing map[string]string) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(report); err != nil {
			return err
		}
	} else {
		print(out)
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		problems = append(problems, fmt.Errorf("not measured: %s: %s", name, missing[name]))
	}
	return errors.Join(problems...)
}

// PrintEnd prints what a person's report ends with: what is missing of it, and
// each goal with what was measured.
func PrintEnd(out io.Writer, goals []Goal, missing map[string]string) {
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) } // what cannot be written is the reader's loss
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		line("\n%-44s not measured: %s", name, missing[name])
	}
	line("")
	for _, g := range goals {
		bound, verdict := "at most", ""
		if g.AtLeast {
			bound = "at least"
		}
		if !g.Met() {
			verdict = "  MISSED"
		}
		line("%-88s %10.2f  (goal: %s %g)%s", g.What, g.Is, bound, g.Goal, verdict)
	}
}
