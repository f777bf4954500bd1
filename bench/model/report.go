package main

import (
	"io"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/bench/figures"
)

// report is everything that one run found.
type report struct {
	Machine string            `json:"machine"`
	Rounds  int               `json:"rounds"`
	Portkey string            `json:"portkey_version"`
	Calls   []calls           `json:"calls"`
	Rates   []rate            `json:"rates"`
	Streams []stream          `json:"streams"`
	Goals   []figures.Goal    `json:"goals"`
	Missing map[string]string `json:"missing"` // what could not be measured, and why
}

// times are in milliseconds.
type times struct {
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Added float64 `json:"added_p50_ms"` // over the same client's way without a proxy
}

// calls are those of one contender, one after another.
type calls struct {
	Name  string  `json:"name"`
	Kind  string  `json:"kind"`
	First times   `json:"first"` // to the first bytes of the answer's body
	Whole times   `json:"whole"` // to its end
	Count int     `json:"count"`
	CPU   float64 `json:"cpu_us"` // of the proxy, for each, in microseconds
}

// rate is how many calls are answered, by contender.
type rate struct {
	Kind      string             `json:"kind"`
	PerSecond map[string]float64 `json:"per_second"`
	CPU       map[string]float64 `json:"cpu_us"` // of the proxy, for each, in microseconds

	OverPlain   float64 `json:"bailey_over_plain"` // medians of each round's; 0: one of them is missing
	OverPortkey float64 `json:"bailey_over_portkey"`
}

// stream is what streams take that are open at the same time.
type stream struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind"`
	Began    int64   `json:"began"` // and were open together
	Ended    int64   `json:"ended"` // well
	BeforeMB float64 `json:"before_mb"`
	AfterMB  float64 `json:"after_mb"`
	EachKB   float64 `json:"each_kb"` // growth of the proxy's private memory
}

// added fills in what each adds to the same call without a proxy: on the host
// to the provider's own answer, inside to that of a listener in the sandbox.
func added(rows []calls) []calls {
	for i := range rows {
		base := caseDirect
		if strings.HasPrefix(rows[i].Name, "inside:") {
			base = caseBeside
		}
		j := slices.IndexFunc(rows, func(r calls) bool { return r.Name == base && r.Kind == rows[i].Kind })
		if j < 0 {
			continue
		}
		rows[i].First.Added = rows[i].First.P50 - rows[j].First.P50
		rows[i].Whole.Added = rows[i].Whole.P50 - rows[j].Whole.P50
	}
	return rows
}

// goals compares what was measured with what is wanted.
func goals(r report) (out []figures.Goal) {
	for _, row := range r.Calls {
		switch {
		case row.Name != caseInside || row.Whole.Added == 0:
		case strings.HasSuffix(row.Kind, "whole"):
			out = append(out, figures.AtMost("added to a call through the wire, "+row.Kind+", p50, ms", row.Whole.Added, 0.5))
		default:
			out = append(out, figures.AtMost("added to the first event through the wire, "+row.Kind+", p50, ms", row.First.Added, 2))
		}
	}
	for _, row := range r.Rates {
		if n := row.PerSecond[caseBailey]; n > 0 && row.Kind == (kind{}).String() {
			out = append(out, figures.AtLeast("calls a second, "+row.Kind, n, 2000))
		}
		if row.OverPortkey > 0 {
			out = append(out, figures.AtLeast("calls a second, "+row.Kind+": bailey / Portkey", row.OverPortkey, 1))
		}
	}
	for _, row := range r.Streams {
		if row.Name == caseBailey || row.Name == caseInside {
			out = append(out,
				figures.AtLeast("streams at once, "+row.Kind+", "+row.Name, float64(min(row.Began, row.Ended)), 500),
				figures.AtMost("memory of one, private, KB, "+row.Kind+", "+row.Name, row.EachKB, 64))
		}
	}
	return out
}

// tell prints the report, and returns an error when something is missing.
func (r report) tell(out io.Writer, asJSON bool) error {
	return figures.Tell(out, r, asJSON, r.print, r.Missing)
}
