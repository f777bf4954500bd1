package settings

import (
	"fmt"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File         string
	Line, Column int
	Message      string // one line: what is wrong, and what to write
}

// String is FILE:LINE:COLUMN: message.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// InvalidError says what is wrong with a file; there is at least one problem.
type InvalidError struct{ Problems []Problem }

// Error gives all problems, one a line.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Short is the error for a command that needs the file for something else:
// its first problem.
func (e *InvalidError) Short() *bailey.Error {
	hint := ""
	if n := len(e.Problems); n > 1 {
		hint = fmt.Sprintf("%d more: bailey policy check %s", n-1, e.Problems[0].File)
	}
	return bailey.NewError(bailey.Invalid, e.Problems[0].String(), hint)
}

// nearest returns the known word that a wrong one was most likely meant to be,
// or "" if none is near.
func nearest(word string, known []string) string {
	best, least := "", 2+len(word)/2
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the number of letters to add, drop, change or swap with the next
// to make a of b (optimal string alignment).
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var older []int
	old := make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := old[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, old[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
		older, old = old, row
	}
	return old[len(b)]
}

func didYouMean(word string, known []string) string {
	if n := nearest(word, known); n != "" {
		return fmt.Sprintf("did you mean %q? known: %s", n, strings.Join(known, ", "))
	}
	return "known: " + strings.Join(known, ", ")
}
