package yamlfile

import (
	"errors"
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

// Unwrap gives each problem as an error.
func (e *InvalidError) Unwrap() []error {
	list := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		list[i] = errors.New(p.String())
	}
	return list
}

// Short is the error for a command that needs the file for something else: its
// first problem. check is the command that tells all of them.
func (e *InvalidError) Short(check string) *bailey.Error {
	hint := ""
	if n := len(e.Problems); n > 1 {
		hint = fmt.Sprintf("%d more: %s %s", n-1, check, e.Problems[0].File)
	}
	return bailey.NewError(bailey.Invalid, e.Problems[0].String(), hint)
}
