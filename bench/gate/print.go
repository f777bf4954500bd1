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
	w.line("%s\nup to %d rounds, contenders take turns", r.Machine, r.Rounds)
	if len(r.Latency) > 0 {
		w.line("\n%-36s %8s %8s %8s %8s %8s", fmt.Sprintf("new connections, %d/s, TLS, ms", perSecond), "p50", "p99", "+p50", "+p99", "CPU µs")
		for _, x := range r.Latency {
			w.line("%-36s %8.2f %8.2f %8.2f %8.2f %8.0f", x.Name, x.P50, x.P99, x.AddedP50, x.AddedP99, x.CPU)
		}
	}
	var rows []table
	for _, x := range r.Throughput {
		rows = append(rows, table{x.Name, x.MBs, x.CPU})
	}
	w.table("one long connection, MB/s (proxy's CPU, ms a GB)", rows)
	rows = nil
	for _, x := range r.Requests {
		rows = append(rows, table{x.Name, x.PerSecond, x.CPU})
	}
	w.table(fmt.Sprintf("requests a second, TLS opened, %d connections (proxy's CPU, µs each)", keepAlive), rows)
	if len(r.Lending) > 0 {
		w.line("\n%-44s %8s %8s", "one request after another, TLS opened, p50, ms", "secret", "none")
		for _, x := range r.Lending {
			w.line("%-44s %8.3f %8.3f", x.Name, x.With, x.Without)
		}
	}
	if len(r.Streams) > 0 {
		w.line("\n%-44s %8s %8s", "first event after the upstream's, ms", "p50", "p99")
		for _, x := range r.Streams {
			w.line("%-44s %8.2f %8.2f", x.Name, x.P50, x.P99)
		}
	}
	r.printRest(w)
}

func (r report) printRest(w writer) {
	if len(r.Memory) > 0 {
		w.line("\n%-44s %8s %8s %8s %8s", "memory, MB", "private", "dirty", "clean", "PSS")
		for _, x := range r.Memory {
			w.line("%-44s %8.2f %8.2f %8.2f %8.2f", x.Name, x.USSMB, x.DirtyMB, x.CleanMB, x.PSSMB)
		}
	}
	figures.PrintEnd(w, r.Goals, r.Missing)
}

// table is a row of numbers by contender, with the CPU time that each took.
type table struct {
	name       string
	value, cpu map[string]float64
}

func (w writer) table(title string, rows []table) {
	if len(rows) == 0 {
		return
	}
	w.line("\n%s", title)
	for _, row := range rows {
		w.line("  %s", row.name)
		for _, name := range slices.Sorted(maps.Keys(row.value)) {
			w.line("    %-36s %8.0f  (%.0f)", name, row.value[name], row.cpu[name])
		}
	}
}
