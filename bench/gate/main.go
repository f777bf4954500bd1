package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/bailey-dev/bailey/bench/figures"
)

// options are the flags.
type options struct {
	n      int
	json   bool
	bailey string
	only   string
}

// Names under which this program starts itself.
const (
	argvEnter = "gate-enter" // becomes a contender
	argvPlain = "gate-plain" // the plain splice proxy
	argvMany  = "gate-many"  // many idle proxies in one process
	argvRoot  = "gate-root"  // itself, as root of a user namespace
)

func main() {
	if err := play(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/gate:", err)
		os.Exit(1)
	}
}

func play() error {
	switch os.Args[0] {
	case argvEnter:
		return become(os.Args[1:])
	case argvPlain:
		return plain()
	case argvMany:
		return weighMany(os.Stdout)
	}
	var o options
	flag.IntVar(&o.n, "n", 8, "rounds: turns of each contender, fewer where the machine is busy")
	flag.BoolVar(&o.json, "json", false, "print one JSON object")
	flag.StringVar(&o.bailey, "bailey", "bin/bailey", "the program to measure")
	flag.StringVar(&o.only, "only", "", "measure one part alone: latency, throughput, requests, lending, stream, decisions, memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Geteuid() != 0 {
		return asRoot(ctx)
	}
	return run(ctx, o, os.Stdout)
}

// asRoot starts the program again as root of a user namespace, which may make
// network namespaces.
func asRoot(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{argvRoot}, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	return cmd.Run()
}

// part is one kind of measurement.
type part struct {
	name    string
	measure func(context.Context, *lab, *report) error
}

func run(ctx context.Context, o options, out io.Writer) error {
	parts := []part{
		{"decisions", measureDecisions},
		{"memory", measureMemory},
		{"latency", measureLatency},
		{"throughput", measureThroughput},
		{"requests", measureRequests},
		{"lending", measureLending},
		{"stream", measureStreams},
		{"loaded", measureLoaded},
	}
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer l.close()
	who := fmt.Sprintf("uid %d", os.Geteuid())
	if os.Args[0] == argvRoot {
		who = "an ordinary user"
	}
	r := &report{Machine: figures.Line(who), Rounds: o.n, Missing: l.missing}
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
