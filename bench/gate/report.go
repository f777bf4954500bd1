package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/bench/figures"
)

// report is everything that one run found.
type report struct {
	Machine    string            `json:"machine"`
	Rounds     int               `json:"rounds"`
	Latency    []latency         `json:"latency"`
	Throughput []throughput      `json:"throughput"`
	Requests   []requests        `json:"requests"`
	Lending    []lending         `json:"lending"`
	Streams    []latency         `json:"streams"`
	Decisions  []decisions       `json:"decisions"`
	Memory     []memory          `json:"memory"`
	Further    further           `json:"further"`
	Goals      []figures.Goal    `json:"goals"`
	Missing    map[string]string `json:"missing"` // what could not be measured, and why
}

// latency is a distribution of times in milliseconds.
type latency struct {
	Name     string  `json:"name"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	AddedP50 float64 `json:"added_p50_ms"` // over no proxy; 0 where that was not measured
	AddedP99 float64 `json:"added_p99_ms"`
	Count    int     `json:"count"`
	CPU      float64 `json:"cpu_us"` // of the proxy, for each, in microseconds
}

// throughput is one kind of transfer, by contender.
type throughput struct {
	Name string             `json:"name"`
	MBs  map[string]float64 `json:"mb_per_second"`
	CPU  map[string]float64 `json:"cpu_ms_per_gb"`

	Ratio float64 `json:"bailey_over_plain"` // median of that of each round; 0: one of them is missing
}

// requests is one protocol on connections that stay, by contender.
type requests struct {
	Name      string             `json:"name"`
	PerSecond map[string]float64 `json:"per_second"`
	CPU       map[string]float64 `json:"cpu_us"` // of the proxy, for each, in microseconds
}

// lending is what a request takes on a connection that stays, alone, in
// milliseconds: where a value is put on it and where none is.
type lending struct {
	Name    string  `json:"name"`
	With    float64 `json:"with_p50_ms"`
	Without float64 `json:"without_p50_ms"`
}

// decisions is how often a policy can be asked on one core.
type decisions struct {
	Rules     int     `json:"rules"`
	PerSecond float64 `json:"per_second"`
}

// memory is what one process has to itself, and its share of what it has with
// others.
type memory struct {
	Name    string  `json:"name"`
	USSMB   float64 `json:"uss_mb"`
	DirtyMB float64 `json:"private_dirty_mb"`
	CleanMB float64 `json:"private_clean_mb"`
	PSSMB   float64 `json:"pss_mb"`
}

// further is what idle proxies cost a process that has one already.
type further struct {
	Proxies int     `json:"proxies"`
	EachMB  float64 `json:"each_mb"`
}

func summarize(name string, ms []float64) latency {
	return latency{Name: name, P50: figures.Median(ms), P99: figures.Percentile(ms, 99), Count: len(ms)}
}

// added fills in what each adds to the row without a proxy.
func added(rows []latency) []latency {
	i := slices.IndexFunc(rows, func(r latency) bool { return r.Name == caseDirect })
	if i < 0 {
		return rows
	}
	for j := range rows {
		rows[j].AddedP50, rows[j].AddedP99 = rows[j].P50-rows[i].P50, rows[j].P99-rows[i].P99
	}
	return rows
}

// goals compares what was measured with what is wanted.
func goals(r report) []figures.Goal {
	var out []figures.Goal
	for _, row := range r.Latency {
		if row.Name == caseBailey {
			out = append(out,
				figures.AtMost("added to a new connection, p50, ms", row.AddedP50, 1),
				figures.AtMost("added to a new connection, p99, ms", row.AddedP99, 5))
		}
	}
	for _, row := range r.Throughput {
		if row.Ratio > 0 {
			out = append(out, figures.AtLeast(row.Name+": bailey / plain splice proxy", row.Ratio, 0.85))
		}
	}
	for _, row := range r.Requests {
		if mitm, bailey := row.PerSecond[caseMitm], row.PerSecond[caseBailey]; mitm > 0 && bailey > 0 {
			out = append(out, figures.AtLeast("requests a second, "+row.Name+": bailey / mitmproxy", bailey/mitm, 10))
		}
	}
	for _, row := range r.Streams {
		if kind, ok := strings.CutSuffix(row.Name, ": "+caseBailey); ok {
			out = append(out, figures.AtMost("first event after the upstream's, "+kind+", p50, ms", row.P50, 5))
		}
	}
	for _, row := range r.Decisions {
		out = append(out, figures.AtLeast(fmt.Sprintf("decisions a second on one core, %d rules", row.Rules), row.PerSecond, 200_000))
	}
	return slices.Concat(out, lendingGoals(r), memoryGoals(r))
}

// lendingGoals are those about requests with a secret.
func lendingGoals(r report) []figures.Goal {
	var out []figures.Goal
	for _, row := range r.Requests {
		if us := row.CPU[caseLent]; us > 0 {
			out = append(out, figures.AtLeast("requests with a secret a second and core, "+row.Name, 1e6/us, 5000))
		}
	}
	for _, row := range r.Lending {
		out = append(out, figures.AtMost("added by a secret to a request, "+row.Name+", p50, ms", row.With-row.Without, 0.3))
	}
	return out
}

func memoryGoals(r report) []figures.Goal {
	var out []figures.Goal
	for _, m := range r.Memory {
		if m.Name == idleProxy {
			out = append(out, figures.AtMost("memory of "+m.Name+", private, MB", m.USSMB, 1))
		}
	}
	if r.Further.Proxies > 0 {
		out = append(out, figures.AtMost("memory of each further one in a process, MB", r.Further.EachMB, 1))
	}
	return out
}

// tell prints the report, and returns an error when something is missing.
func (r report) tell(out io.Writer, asJSON bool) error {
	return figures.Tell(out, r, asJSON, r.print, r.Missing)
}
