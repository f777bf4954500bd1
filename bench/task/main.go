package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/bailey-dev/bailey/bench/figures"
)

// options are the flags.
type options struct {
	n, files, many int
	json           bool
	bailey         string
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 8, "rounds: tasks of each contender")
	flag.IntVar(&o.files, "files", 5000, "files of the repository")
	flag.IntVar(&o.many, "many", 20, "tasks at once; 0 for none")
	flag.BoolVar(&o.json, "json", false, "print one JSON object")
	flag.StringVar(&o.bailey, "bailey", "bin/bailey", "the program to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/task:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer l.close(ctx)
	r := report{Machine: figures.Line(fmt.Sprintf("uid %d", os.Geteuid())), Rounds: o.n, Files: o.files, Missing: l.missing}
	if err := l.firsts(ctx, o.n, &r); err != nil {
		return err
	}
	for _, h := range l.households {
		if o.many == 0 || ctx.Err() != nil {
			break
		}
		m, err := h.atOnce(ctx, o.many)
		if err != nil {
			r.Missing[fmt.Sprintf("%d at once, %s", o.many, h.agent)] = err.Error()
		}
		r.AtOnce = append(r.AtOnce, m)
	}
	r.Goals = goals(r)
	return r.tell(out, o.json)
}

// firsts has the contenders take turns, in random order and once more to warm
// up, and takes the time to each one's first request.
func (l *lab) firsts(ctx context.Context, n int, r *report) error {
	who := l.contenders()
	r.Firsts = make([]first, len(who))
	for i, c := range who {
		r.Firsts[i].Name = c.name
	}
	for round := -1; round < n; round++ {
		for _, i := range rand.Perm(len(who)) {
			took, err := who[i].first(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			switch {
			case err != nil:
				l.missing[who[i].name] = err.Error()
			case round >= 0:
				r.Firsts[i].Seconds = append(r.Firsts[i].Seconds, took.Seconds())
			}
		}
	}
	return nil
}
