package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	n        int
	parallel int
	json     bool
	docker   bool
	as       string
	bailey   string
	runsc    string
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 20, "rounds: runs of each contender")
	flag.IntVar(&o.parallel, "parallel", 100, "how many to start at once; 0 for none")
	flag.BoolVar(&o.json, "json", false, "print one JSON object")
	flag.BoolVar(&o.docker, "docker", os.Geteuid() == 0, "compare with docker (wants root)")
	flag.StringVar(&o.as, "as", "", "run the contenders as this user (wants root)")
	flag.StringVar(&o.bailey, "bailey", "bin/bailey", "the program to measure")
	flag.StringVar(&o.runsc, "runsc", ".cache/bin/runsc", "where to build gVisor's own command line")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	lab, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer lab.close()
	report := report{Machine: machineLine(lab), Rounds: o.n, Missing: map[string]string{}}
	if err := lab.series(ctx, &report, lab.contenders(report.Missing)); err != nil {
		return err
	}
	running, err := lab.weigh(ctx, &report)
	if err != nil {
		return err
	}
	defer running.stop()
	if err := lab.series(ctx, &report, lab.files(ctx, report.Missing)); err != nil {
		return err
	}
	exec := contender{name: caseExec, argv: []string{lab.bailey, "exec", running.name, "--", "true"}, dir: lab.work}
	if err := lab.series(ctx, &report, []contender{exec}); err != nil {
		return err
	}
	running.stop()
	if err := lab.series(ctx, &report, lab.beside(ctx, report.Missing)); err != nil {
		return err
	}
	report.Ratios = ratios(report.Cases)
	if o.parallel > 0 {
		report.AtOnce = lab.atOnce(ctx, o.parallel)
	}
	return report.tell(out, o.json)
}

// series has contenders take turns while nothing runs that none of them needs:
// what a daemon still has to do after a container would be somebody else's time.
func (l *lab) series(ctx context.Context, report *report, contenders []contender) error {
	if err := l.rounds(ctx, contenders, report.Rounds); err != nil {
		return err
	}
	for _, c := range contenders {
		if c.err != nil {
			report.Missing[c.name] = c.err.Error()
			continue
		}
		report.Cases = append(report.Cases, summarize(c.name, c.ms))
	}
	return nil
}

// weigh measures the memory of a sandbox without a network and of one with
// one, and returns the latter.
func (l *lab) weigh(ctx context.Context, report *report) (*running, error) {
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{caseNone, []string{"--net", "none"}},
		{caseAirlock, []string{"--allow", "example.com"}},
	} {
		r, err := l.startRunning(ctx, c.flags...)
		if err != nil {
			return nil, err
		}
		m, err := r.memory(l.bailey)
		if err != nil {
			report.Missing["memory of "+c.name] = err.Error()
		} else {
			m.Name = c.name
			report.Memory = append(report.Memory, m)
		}
		if c.name == caseAirlock {
			return r, nil
		}
		r.stop()
	}
	return nil, errors.New("no sandbox was started")
}

// The cases that ratios name.
const (
	caseNative    = "native"
	caseBwrap     = "bubblewrap"
	caseRunsc     = "runsc do, --network=none"
	caseNone      = "bailey run --net none"
	caseAirlock   = "bailey run --allow example.com"
	caseShared    = "bailey run --runtime native"
	caseSharedNet = "bailey run --runtime native --allow example.com"
	caseCheckout  = "bailey run --net none, in a git checkout"
	caseExec      = "bailey exec into a running one"
	caseBeside    = "bailey run --net none, beside dockerd"
	caseDocker    = "docker run --runtime runsc --network none"
	caseDockerRun = "docker run --network none (runc)"
)

// contender is one command that is run n times, and its times so far.
type contender struct {
	name string
	argv []string
	env  []string // added to the lab's
	dir  string
	root bool      // as the caller even with -as
	ms   []float64 // start to exit of each run
	err  error     // of the first run that failed; there is no other after it
}

// lab is the folder, the programs and the identity that all contenders share.
type lab struct {
	dir, work string
	repo      string // a git checkout
	bailey    string
	runsc     string
	cred      *syscall.Credential
	as        string
	env       []string
	docker    *docker
	wantDock  bool
}

func newLab(ctx context.Context, o options) (*lab, error) {
	dir, err := os.MkdirTemp("/var/tmp", "bailey-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, work: filepath.Join(dir, "work"), repo: filepath.Join(dir, "repo"), as: o.as, wantDock: o.docker}
	if err := l.prepare(ctx, o); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) prepare(ctx context.Context, o options) error {
	var err error
	if l.bailey, err = program(o.bailey); err != nil {
		return fmt.Errorf("%w: run make first", err)
	}
	if l.runsc, err = buildRunsc(ctx, o.runsc, l.dir); err != nil {
		return err
	}
	home := filepath.Join(l.dir, "home")
	for _, d := range []string{l.work, l.repo, home} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return err
	}
	l.env = append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR=", "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_DATA_HOME=")
	if o.as != "" {
		if err := l.become(o.as, l.work, l.repo, home); err != nil {
			return err
		}
	}
	_, err = l.output(ctx, contender{name: "git init", argv: []string{"git", "init", "-q", "."}, dir: l.repo})
	return err
}

// become makes the lab fit for another user: the program where they may run
// it, since a checkout may be closed to others, and the folders theirs.
func (l *lab) become(name string, folders ...string) error {
	var err error
	if l.cred, err = credential(name); err != nil {
		return err
	}
	if l.bailey, err = copyProgram(l.bailey, l.dir); err != nil {
		return err
	}
	for _, d := range folders {
		if err := os.Chown(d, int(l.cred.Uid), int(l.cred.Gid)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) close() {
	if l.docker != nil {
		l.docker.stop()
	}
	unmountBelow(l.dir)
	if err := os.RemoveAll(l.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// contenders returns who takes part, and says of those who cannot why not.
func (l *lab) contenders(missing map[string]string) []contender {
	runsc := []string{l.runsc, "--root=" + filepath.Join(l.dir, "state"), "--network=none", "--ignore-cgroups"}
	if os.Geteuid() != 0 || l.cred != nil {
		runsc = append(runsc, "--rootless")
	}
	all := []contender{
		{name: caseNative, argv: []string{"true"}, dir: l.work},
		{name: caseRunsc, argv: append(runsc, "do", "--quiet", "true"), dir: l.work},
		l.run(caseNone, "--net", "none"),
		l.run(caseAirlock, "--allow", "example.com"),
		l.run(caseShared, "--runtime", "native"),
		l.run(caseSharedNet, "--runtime", "native", "--allow", "example.com"),
		{name: caseCheckout, argv: l.run("", "--net", "none").argv, dir: l.repo},
	}
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		all = append(all, contender{name: caseBwrap, argv: bubblewrap(bwrap, l.work, "true"), dir: l.work})
	} else {
		missing[caseBwrap] = "bwrap is not installed"
	}
	return all
}

// bubblewrap is a command in a sandbox of the machine's own kernel that has one
// folder to write to.
func bubblewrap(bwrap, dir string, command ...string) []string {
	return append([]string{
		bwrap, "--unshare-all", "--die-with-parent",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
		"--bind", dir, dir, "--chdir", dir,
	}, command...)
}

// run is `bailey run`.
func (l *lab) run(name string, flags ...string) contender {
	argv := append([]string{l.bailey, "run", "--quiet"}, flags...)
	return contender{name: name, argv: append(argv, "--", "true"), dir: l.work}
}

// beside returns docker's contenders and bailey again, or says why not.
func (l *lab) beside(ctx context.Context, missing map[string]string) []contender {
	if !l.wantDock {
		return nil
	}
	d, err := startDocker(ctx, l.dir, l.runsc)
	if err != nil {
		missing[caseDocker] = err.Error()
		return nil
	}
	l.docker = d
	return []contender{l.run(caseBeside, "--net", "none"), d.contender(caseDocker, "runsc"), d.contender(caseDockerRun, "runc")}
}

// rounds runs each contender once to warm up and then n times, taking turns in
// random order, and keeps the times. One that fails is left out from then on.
// warm has the kernel read the programs of all contenders, so that none is measured with
// parts of its own on disk: machines with little memory, and those whose host
// takes back what was not used for some seconds, drop them between two turns.
// The processors' caches are left alone.
func (l *lab) warm(contenders []contender) {
	paths := []string{l.bailey, l.runsc}
	for _, c := range contenders {
		paths = append(paths, c.argv[0])
	}
	if l.docker != nil {
		paths = append(paths, "dockerd", "containerd", "containerd-shim-runc-v2", "runc")
	}
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		p, err := exec.LookPath(p)
		if err != nil {
			continue
		}
		if f, err := os.Open(p); err == nil {
			const willNeed = 3 // POSIX_FADV_WILLNEED (posix_fadvise(2)): a hint
			_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, willNeed, 0, 0)
			_ = f.Close()
		}
	}
}

// settle is how long the kernel gets after each run to take down what it left:
// namespaces and mounts go after the processes, and whoever comes next would
// pay for them.
const settle = 250 * time.Millisecond

func (l *lab) rounds(ctx context.Context, contenders []contender, n int) error {
	for i := -1; i < n; i++ {
		for _, j := range rand.Perm(len(contenders)) {
			c := &contenders[j]
			if c.err != nil {
				continue
			}
			l.warm(contenders)
			time.Sleep(settle)
			ms, err := l.time(ctx, *c)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if c.err = err; err == nil && i >= 0 {
				c.ms = append(c.ms, ms)
			}
		}
	}
	return nil
}

// command prepares a contender's process: its output goes to a pipe, its
// input is empty.
func (l *lab) command(ctx context.Context, c contender) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(l.env, c.env...)
	if l.cred != nil && !c.root {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: l.cred}
	}
	return cmd
}

func (l *lab) output(ctx context.Context, c contender) (string, error) { //nolint:unparam // what was said is in the error
	out, err := l.command(ctx, c).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", c.name, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// program returns the absolute path of an executable.
func program(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", errors.Unwrap(err)
	}
	return path, nil
}
