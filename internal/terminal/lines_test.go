package terminal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// TestLines gives each of several errors its line, and none to who writes a line
// end into a name.
func TestLines(t *testing.T) {
	t.Parallel()
	hostile := &fs.PathError{Op: "open", Path: "a\nbailey: all is well\x1b[2J", Err: fs.ErrNotExist}
	const escaped = `open a\nbailey: all is well\x1b[2J: file does not exist`
	two := errors.Join(errors.New("one"), errors.New("two"))
	for _, tc := range []struct {
		err  error
		want []string
	}{
		{errors.New("one"), []string{"one"}},
		{two, []string{"one", "two"}},
		{hostile, []string{escaped}},
		{errors.Join(hostile, two), []string{escaped, "one", "two"}},
		{fmt.Errorf("read %w, twice", two), []string{"read one", "two, twice"}},
		{bailey.WrapError(bailey.Invalid, "the plan", two, ""), []string{"the plan: one", "two"}},
		{fmt.Errorf("%w and\n%w", errors.New("one"), errors.New("two")), []string{`one and\ntwo`}},
	} {
		if diff := cmp.Diff(tc.want, terminal.Lines(tc.err)); diff != "" {
			t.Errorf("%q: %s", tc.err, diff)
		}
	}
}
