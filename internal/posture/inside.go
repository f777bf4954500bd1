package posture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Report is what the binary prints about itself inside a sandbox.
type Report struct {
	Self  Posture `json:"self"`
	First Posture `json:"first"` // process 1, as far as this process may see
}

// Inside prints one Report as a line of JSON, then waits until its input ends:
// who compares the whole sandbox needs it alive that long.
func Inside(in io.Reader, out io.Writer) int {
	report, err := inside()
	if err == nil {
		err = json.NewEncoder(out).Encode(report)
	}
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, bufio.NewReader(in))
	return 0
}

func inside() (Report, error) {
	var (
		r    Report
		read Reader
		err  error
	)
	me := os.Getpid()
	if r.Self, err = read.Collect(me, me); err != nil {
		return r, err
	}
	r.Self.Role = Command
	if r.First, err = read.Collect(1, 1); err != nil {
		return r, err
	}
	r.First.Role = First
	return r, nil
}
