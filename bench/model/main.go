package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/bailey-dev/bailey/bench/figures"
)

// options are the flags.
type options struct {
	n       int
	json    bool
	bailey  string
	portkey string
	only    string
}

// Names under which this program starts itself.
const (
	argvPlain  = "model-plain"  // the plain reverse proxy
	argvInside = "model-inside" // the client in a sandbox
	argvBeside = "model-beside" // and a provider beside it
)

func main() {
	if err := play(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/model:", err)
		os.Exit(1)
	}
}

func play() error {
	switch filepath.Base(os.Args[0]) {
	case argvPlain:
		return plain(os.Args[1])
	case argvInside:
		return inside(os.Stdin, os.Stdout)
	case argvBeside:
		return beside(os.Stdin, os.Stdout)
	}
	var o options
	flag.IntVar(&o.n, "n", 8, "rounds: turns of each contender, fewer where the machine is busy")
	flag.BoolVar(&o.json, "json", false, "print one JSON object")
	flag.StringVar(&o.bailey, "bailey", "bin/bailey", "the program to measure")
	flag.StringVar(&o.portkey, "portkey", ".cache/portkey", "where Portkey's gateway is installed (.ci/deps bench)")
	flag.StringVar(&o.only, "only", "", "measure one part alone: streams, calls, rates")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, o, os.Stdout)
}

// part is one kind of measurement.
type part struct {
	name    string
	measure func(context.Context, *lab, *report) error
}

func run(ctx context.Context, o options, out io.Writer) error {
	parts := []part{
		{"streams", measureStreams}, // first: what load leaves behind would hide what they take
		{"calls", measureCalls},
		{"rates", measureRates},
	}
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer l.close()
	r := &report{Machine: figures.Line(fmt.Sprintf("uid %d", os.Geteuid())), Rounds: o.n, Portkey: l.portkeyVersion, Missing: l.missing}
	for _, p := range parts {
		if o.only != "" && o.only != p.name {
			continue
		}
		if err := p.measure(ctx, l, r); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.Missing[p.name] = err.Error()
		}
	}
	r.Goals = goals(*r)
	return r.tell(out, o.json)
}
