package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/bailey-dev/bailey/bench/figures"
)

// writer prints lines of tables; what cannot be written is the reader's loss.
type writer struct{ io.Writer }

func (w writer) line(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }

func (r report) print(out io.Writer) {
	w := writer{out}
	w.line("%s\nup to %d rounds, contenders take turns; Portkey's gateway is version %s", r.Machine, r.Rounds, r.Portkey)
	for i, x := range r.Calls {
		if i == 0 || r.Calls[i-1].Kind != x.Kind {
			w.line("\n%-48s %26s   %26s", "one call after another, "+x.Kind+", ms", "first: p50    p99   added", "whole: p50    p99   added  CPU µs")
		}
		w.line("%-48s %10.3f %7.3f %7.3f   %10.3f %7.3f %7.3f %7.0f", x.Name, x.First.P50, x.First.P99, x.First.Added, x.Whole.P50, x.Whole.P99, x.Whole.Added, x.CPU)
	}
	for _, x := range r.Rates {
		w.line("\ncalls a second, %d connections, %s (proxy's CPU, µs each)", atOnce, x.Kind)
		for _, name := range slices.Sorted(maps.Keys(x.PerSecond)) {
			w.line("    %-48s %8.0f  (%.0f)", name, x.PerSecond[name], x.CPU[name])
		}
		w.line("    %-48s %8.2f", "bailey / plain", x.OverPlain)
		w.line("    %-48s %8.2f", "bailey / Portkey", x.OverPortkey)
	}
	if len(r.Streams) > 0 {
		w.line("\n%-60s %6s %6s %8s %8s %8s", "streams at once", "began", "ended", "MB", "MB then", "KB each")
	}
	for _, x := range r.Streams {
		w.line("%-60s %6d %6d %8.1f %8.1f %8.1f", x.Name+", "+x.Kind, x.Began, x.Ended, x.BeforeMB, x.AfterMB, x.EachKB)
	}
	figures.PrintEnd(w, r.Goals, r.Missing)
}
