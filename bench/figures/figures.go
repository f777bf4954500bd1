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
