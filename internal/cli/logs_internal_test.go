package cli

import (
	"bytes"
	"testing"

	"github.com/bailey-dev/bailey/internal/journal"
)

// TestLogPrinter_KeepsTheOrder: a line without an end stands before what bailey
// said after it.
func TestLogPrinter_KeepsTheOrder(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &logPrinter{out: &out, errs: &out, tail: -1}
	for _, r := range []journal.Record{
		{Stream: journal.Stdout, Data: []byte("one\ntwo")},
		{Stream: journal.Said, Data: []byte("bailey: ended\n")},
	} {
		p.record(r)
	}
	p.rest(true)
	if want := "one\ntwo\nbailey: ended\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}
