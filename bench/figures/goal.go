package figures

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
)

// Goal is a number with what we want it to be at most or at least.
type Goal struct {
	What    string  `json:"what"`
	Is      float64 `json:"is"`
	Goal    float64 `json:"goal"`
	AtLeast bool    `json:"at_least"`
}

// AtMost is a goal that a number should not be above, and AtLeast one that it
// should not be below.
func AtMost(what string, is, most float64) Goal { return Goal{What: what, Is: is, Goal: most} }

// AtLeast is AtMost's other side.
func AtLeast(what string, is, least float64) Goal {
	return Goal{What: what, Is: is, Goal: least, AtLeast: true}
}

// Met reports whether the number is as wanted.
func (g Goal) Met() bool {
	if g.AtLeast {
		return g.Is >= g.Goal
	}
	return g.Is <= g.Goal
}

// Paired is the median of one contender's values over another's of the same
// round: what changes on the machine from round to round has no part in it.
// It is 0 where one lacks a round.
func Paired(a, b []float64) float64 {
	if len(a) != len(b) {
		return 0
	}
	var ratios []float64
	for i := range a {
		ratios = append(ratios, a[i]/b[i])
	}
	return Median(ratios)
}

// Percentile returns the smallest value that p percent of all are not above.
func Percentile(values []float64, p int) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// Program returns the absolute path of an executable.
func Program(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", errors.Unwrap(err)
	}
	return path, nil
}
