package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/bench/figures"
)

// The contenders. Those inside have a client in a sandbox.
const (
	caseDirect  = "no proxy"
	casePlain   = "plain reverse proxy"
	caseBailey  = "bailey's gateway"
	casePortkey = "Portkey's gateway"

	caseBeside  = "inside: a listener in the sandbox"
	caseAirlock = "inside: plain reverse proxy, by --host-service"
	caseInside  = "inside: bailey's gateway, by --model"
)

// contender is one way from a client to the provider.
type contender struct {
	name  string
	way   way
	ask   func(order) (result, error) // has its client carry out an order
	proxy *process                    // nil: none
	pid   int                         // of the process that is weighed; 0: none

	noStreams bool // it fails them
}

// do has an order carried out.
func (c *contender) do(o order) (result, error) {
	o.Way = c.way
	r, err := c.ask(o)
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	return r, err
}

// lab is the provider and who stands before it.
type lab struct {
	dir            string
	n              int
	bailey, self   string
	portkey        string
	portkeyVersion string
	provider       *provider
	contenders     []*contender
	processes      []*process
	missing        map[string]string
}

func newLab(ctx context.Context, o options) (*lab, error) {
	l := &lab{n: o.n, portkey: o.portkey, missing: map[string]string{}}
	var err error
	if l.bailey, err = figures.Program(o.bailey); err != nil {
		return nil, fmt.Errorf("%w: run make first", err)
	}
	if l.dir, err = os.MkdirTemp("/var/tmp", "bailey-model-"); err != nil {
		return nil, err
	}
	if err := l.prepare(ctx); err != nil {
		l.close()
		return nil, err
	}
	local := &worker{}
	l.contenders = []*contender{{name: caseDirect, way: way{Addr: l.provider.at}, ask: local.ask}}
	for _, start := range []struct {
		name string
		f    func(context.Context) ([]*contender, error)
	}{{casePlain, l.startPlain}, {caseBailey, l.startRole}, {casePortkey, l.startPortkey}, {caseInside, l.startSandbox}} {
		cs, err := start.f(ctx)
		if err != nil {
			l.missing[start.name] = err.Error()
		}
		l.contenders = append(l.contenders, cs...)
	}
	return l, ctx.Err()
}

// ask is for contenders whose client is in this process.
func (w *worker) ask(o order) (result, error) { return w.do(o), nil }

func (l *lab) prepare(ctx context.Context) error {
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return err
	}
	var err error
	if l.self, err = filepath.EvalSymlinks("/proc/self/exe"); err != nil {
		return err
	}
	// On a disk, where everybody may run it: what is mapped of a file that waits
	// to be written would count as its process's own.
	if l.bailey, err = copyProgram(l.bailey, filepath.Join(l.dir, "bailey")); err != nil {
		return err
	}
	l.provider, err = newProvider(ctx)
	return err
}

func copyProgram(from, to string) (string, error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return to, errors.Join(err, f.Sync(), f.Close())
}

func (l *lab) close() {
	for _, p := range l.processes {
		p.stop()
	}
	if l.provider != nil {
		l.provider.close()
	}
	if err := os.RemoveAll(l.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench/model:", err)
	}
}

// among returns the contenders of some names that are there.
func (l *lab) among(names ...string) (out []*contender) {
	for _, c := range l.contenders {
		for _, name := range names {
			if c.name == name {
				out = append(out, c)
			}
		}
	}
	return out
}

// fewest is how many turns there are in any case.
const fewest = 3

// turns has contenders take turns in random order, and once more to warm up; f
// is told which turn it is, from -1. One that fails is left out from then on.
func (l *lab) turns(ctx context.Context, name string, most time.Duration, who []*contender, f func(*contender, int) error) error {
	failed := map[*contender]bool{}
	begun := time.Now()
	for i := -1; i < l.n && (i < fewest || time.Since(begun) < most); i++ {
		for _, j := range rand.Perm(len(who)) {
			c := who[j]
			if failed[c] {
				continue
			}
			if err := f(c, i); err != nil {
				failed[c] = true
				l.missing[name+", "+c.name] = c.why(err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// why is an error, with the last that the contender's process said.
func (c *contender) why(err error) string {
	const most = 300
	if c.proxy == nil {
		return err.Error()
	}
	said := strings.TrimSpace(c.proxy.said.String())
	return strings.TrimSpace(err.Error() + "; " + said[max(0, len(said)-most):])
}

// process is one started program.
type process struct {
	cmd   *exec.Cmd
	said  bytes.Buffer // on standard error
	hold  []io.Closer  // closed at the end
	ended chan struct{}
	once  sync.Once
}

func (l *lab) start(p *process) error {
	p.ended, p.cmd.Stderr = make(chan struct{}), &p.said
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	l.processes = append(l.processes, p)
	return nil
}

func (p *process) stop() {
	p.once.Do(func() {
		for _, c := range p.hold {
			_ = c.Close()
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(5 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
}

// until waits for a condition as long as a program that was started may take.
func (p *process) until(ctx context.Context, ready func() bool) error {
	for deadline := time.Now().Add(30 * time.Second); !ready(); {
		select {
		case <-p.ended:
			return fmt.Errorf("it ended: %s", strings.TrimSpace(p.said.String()))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return errors.New("it does not answer")
		}
	}
	return nil
}

// cpu is what the contender's process has used of a CPU so far, as the
// scheduler counts it (/proc/PID/task/TID/schedstat, in nanoseconds).
func (c *contender) cpu() time.Duration {
	if c.pid == 0 {
		return 0
	}
	files, err := filepath.Glob("/proc/" + strconv.Itoa(c.pid) + "/task/*/schedstat")
	if err != nil {
		return 0
	}
	var sum time.Duration
	for _, f := range files {
		text, err := os.ReadFile(f)
		first, _, _ := strings.Cut(string(text), " ")
		if ns, err2 := strconv.ParseInt(first, 10, 64); err == nil && err2 == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}

// private is what a process has to itself, in KB (proc(5), smaps_rollup).
func private(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) != 3 || fields[0] != "Private_Dirty:" && fields[0] != "Private_Clean:" {
			continue
		}
		n, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return 0, fmt.Errorf("smaps_rollup: %q: %w", line, err)
		}
		sum += n
	}
	if sum == 0 {
		return 0, errors.New("smaps_rollup has no line Private_Dirty")
	}
	return sum, nil
}
