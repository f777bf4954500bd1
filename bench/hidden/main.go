// Command hidden measures what hidden files cost: the same sandbox with the
// rules and with none (--show '*'), in a small tree and in a large one, for its
// start, `git status`, `find`, and single calls.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/bench/figures"
)

// calls times the same calls of the file system over and over, in microseconds
// each.
const calls = `
import os, time
def each(name, f, n=4000):
    f()
    t = time.perf_counter()
    for _ in range(n): f()
    print(name, (time.perf_counter() - t) / n * 1e6)
def opened():
    os.close(os.open("d0/d0/f0", os.O_RDONLY))
def made():
    os.close(os.open("made", os.O_RDWR | os.O_CREAT | os.O_TRUNC)); os.unlink("made")
each("stat", lambda: os.stat("d0/d0/f0"))
each("stat nothing", lambda: os.path.exists("d0/d0/none"))
each("open and close", opened)
each("make and remove", made, 1000)
each("list a folder of 100", lambda: os.listdir("d0/d0"), 1000)
`

// work is what is timed, by the command in the sandbox.
type work struct{ name, script string }

func works() []work {
	return []work{
		{"start of true", "true"},
		{"git status", "git status --porcelain >/dev/null"},
		{"find", "find . -type f | wc -l >/dev/null"},
	}
}

// report is what is printed. Numbers are milliseconds, and microseconds for
// calls; ratios are those of the same round.
type report struct {
	Machine string            `json:"machine"`
	Rounds  int               `json:"rounds"`
	Rows    []row             `json:"rows"`
	Missing map[string]string `json:"missing"`
	Goals   []figures.Goal    `json:"goals"`
	values  map[string][]float64
}

type row struct {
	Files  int     `json:"files"`
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Hiding float64 `json:"hiding"`
	Plain  float64 `json:"plain"`
	Ratio  float64 `json:"ratio"`
}

func main() {
	rounds := flag.Int("n", 5, "rounds")
	files := flag.Int("files", 300_000, "files of the large tree")
	asJSON := flag.Bool("json", false, "print one JSON object")
	program := flag.String("bailey", "bin/bailey", "the program to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *program, *rounds, *files, *asJSON)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/hidden:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program string, rounds, files int, asJSON bool) error {
	program, err := figures.Program(program)
	if err != nil {
		return err
	}
	r := report{Machine: figures.Line(fmt.Sprintf("uid %d", os.Geteuid())), Rounds: rounds, Missing: map[string]string{}, values: map[string][]float64{}}
	for _, n := range []int{3000, files} {
		if err := r.tree(ctx, program, n); err != nil {
			return err
		}
	}
	large, small := r.find("start of true", files), r.find("start of true", 3000)
	r.Goals = []figures.Goal{
		figures.AtMost("start with rules over without, large tree", large.Ratio, 1.1),
		figures.AtMost("start with rules, large tree over small", large.Hiding/small.Hiding, 1.1),
		figures.AtMost("git status with rules over without, large tree", r.find("git status", files).Ratio, 1.1),
	}
	return figures.Tell(os.Stdout, r, asJSON, r.print, r.Missing)
}

func (r *report) find(what string, files int) row {
	for _, x := range r.Rows {
		if x.What == what && x.Files == files {
			return x
		}
	}
	return row{}
}

// tree measures in a repository of n files, a hundred in a folder, three of
// whose names are hidden and tracked.
func (r *report) tree(ctx context.Context, program string, n int) error { //nolint:gocognit // a benchmark is a list of steps
	dir, err := os.MkdirTemp("", "hidden-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
	for i := range n {
		name := filepath.Join(dir, fmt.Sprintf("d%d/d%d/f%d", i/10_000, i/100%100, i%100))
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(name, []byte(strconv.Itoa(i)), 0o600); err != nil {
			return err
		}
	}
	for _, name := range []string{"d0/.env", "d0/d1/.env.test", "d0/d2/server.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("A=b\n"), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-q", "-m", "all"}} {
		if out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	for round := -1; round < r.Rounds; round++ {
		if err := r.round(ctx, program, dir, n, round); err != nil {
			return err
		}
	}
	r.sum(n)
	return nil
}

// round measures each once with rules and once without, in turn; the first, of
// number -1, is to warm up.
func (r *report) round(ctx context.Context, program, dir string, n, round int) error {
	ways := [][]string{nil, {"--show", "*"}}
	if round%2 == 0 {
		ways[0], ways[1] = ways[1], ways[0]
	}
	for _, way := range ways {
		for _, w := range works() {
			began := time.Now()
			if _, err := inside(ctx, program, dir, way, "sh", "-c", w.script); err != nil {
				return err
			}
			r.add(round, n, w.name, "ms", way, float64(time.Since(began).Microseconds())/1000)
		}
		out, err := inside(ctx, program, dir, way, "/usr/bin/python3", "-c", calls)
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			at := strings.LastIndexByte(line, ' ')
			v, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
			if err != nil {
				return err
			}
			r.add(round, n, line[:at], "µs", way, v)
		}
	}
	return nil
}

func inside(ctx context.Context, program, dir string, flags []string, command ...string) (string, error) {
	args := append(append([]string{"run", "--quiet"}, flags...), "--")
	cmd := exec.CommandContext(ctx, program, append(args, command...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

func key(n int, what, unit string, hiding bool) string {
	return fmt.Sprintf("%d|%s|%s|%v", n, what, unit, hiding)
}

func (r *report) add(round, n int, what, unit string, way []string, v float64) { //nolint:revive // a benchmark is a list of steps
	if round < 0 {
		return
	}
	hiding := len(way) == 0
	k := key(n, what, unit, hiding)
	if hiding && len(r.values[k]) == 0 && len(r.values[key(n, what, unit, false)]) <= 1 {
		r.Rows = append(r.Rows, row{Files: n, What: what, Unit: unit})
	}
	r.values[k] = append(r.values[k], v)
}

func (r *report) sum(n int) {
	for i, x := range r.Rows {
		if x.Files != n {
			continue
		}
		hiding, plain := r.values[key(n, x.What, x.Unit, true)], r.values[key(n, x.What, x.Unit, false)]
		r.Rows[i].Hiding, r.Rows[i].Plain, r.Rows[i].Ratio = figures.Median(hiding), figures.Median(plain), figures.Paired(hiding, plain)
	}
}

func (r *report) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "%s, %d rounds\n\n%8s  %-22s %10s %10s %7s\n", r.Machine, r.Rounds, "files", "what", "with rules", "without", "ratio")
	for _, x := range r.Rows {
		_, _ = fmt.Fprintf(out, "%8d  %-22s %7.1f %s %7.1f %s %7.2f\n", x.Files, x.What, x.Hiding, x.Unit, x.Plain, x.Unit, x.Ratio)
	}
	figures.PrintEnd(out, r.Goals, r.Missing)
}
