package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Group is the group of one sandbox, found by Find. Not for use by several
// goroutines at once.
type Group struct {
	id      string
	version int
	wanted  []limit
	parts   []part
	missing map[string]string // limit → why it is not enforced
	partial map[string]string // limit → what its enforcement lacks
	makeDir func(string) error
	held    []*os.File // the folders, locked against a sweep until this process ends
}

func (g *Group) add(dir string, limits ...limit) {
	for i := range g.parts {
		if g.parts[i].dir == dir { // "cpu,cpuacct" and the like
			g.parts[i].limits = append(g.parts[i].limits, limits...)
			return
		}
	}
	g.parts = append(g.parts, part{dir: dir, limits: slices.Clone(limits)})
}

// Place returns where the group is, or will be after Create.
func (g *Group) Place() Place {
	p := Place{Version: g.version}
	for _, x := range g.parts {
		p.Dirs = append(p.Dirs, x.dir)
	}
	return p
}

// Statuses says, after Create, how each limit that was asked for is kept.
func (g *Group) Statuses() []Status {
	list := make([]Status, 0, len(g.wanted))
	for _, l := range g.wanted {
		why, watched := g.missing[l.name]
		if !watched {
			why = g.partial[l.name]
		}
		list = append(list, Status{Limit: l.name, Enforced: !watched, Why: why})
	}
	return list
}

// ErrExists means that there is a group of that ID already.
var ErrExists = errors.New("cgroup exists already")

// Create makes the group and sets its limits. A limit that cannot be set is
// no error but a Status; a group in which none could be set is not kept.
func (g *Group) Create() error {
	g.partial = map[string]string{}
	kept := g.parts[:0:0]
	for _, p := range g.parts {
		sweep(path.Dir(p.dir))
		err := g.createPart(p)
		if errors.Is(err, ErrExists) {
			g.parts = kept
			return errors.Join(err, g.Place().Remove())
		}
		if err != nil {
			for _, l := range p.limits {
				g.missing[l.name] = err.Error()
			}
		}
		if slices.ContainsFunc(p.limits, func(l limit) bool { return g.missing[l.name] == "" }) {
			kept = append(kept, p)
			continue
		}
		if err := removeDir(p.dir); err != nil {
			return err
		}
	}
	if g.parts = kept; len(kept) == 0 {
		g.version = 0
	}
	return nil
}

func (g *Group) createPart(p part) error {
	if err := g.mkdir(p); err != nil {
		return err
	}
	for _, l := range p.limits {
		set := setV1
		if g.version == 2 {
			set = setV2
		}
		note, err := set(p.dir, l)
		if err != nil {
			g.missing[l.name] = err.Error()
		} else if note != "" {
			g.partial[l.name] = note
		}
	}
	return nil
}

// mkdirTries bounds the race below; each loss needs another sandbox that ends
// in the same instant.
const mkdirTries = 1000

// mkdir makes the folder and the one it lies in. Another bailey may remove the
// latter, empty, between the two steps: then again.
func (g *Group) mkdir(p part) error {
	up := path.Dir(p.dir)
	for range mkdirTries {
		if err := g.makeDir(up); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make cgroup: %w", err)
		}
		if g.version == 2 {
			handDown(path.Dir(up), p.limits)
			handDown(up, p.limits)
		}
		err := g.makeDir(p.dir)
		switch {
		case err == nil:
			f, err := hold(p.dir)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if f != nil {
				g.held = append(g.held, f)
			}
			return err
		case errors.Is(err, fs.ErrExist):
			return fmt.Errorf("%w: %s", ErrExists, p.dir)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("make cgroup: %w", err)
		}
	}
	return fmt.Errorf("make cgroup %s: its folder does not stay", p.dir)
}

// handDown lets a group of version 2 give controllers to those below. What
// does not succeed shows when the limit is set.
func handDown(dir string, limits []limit) {
	for _, l := range limits {
		_ = write(dir, "cgroup.subtree_control", "+"+l.name)
	}
}

// period of the CPU quota in microseconds; the kernel's default.
const period = 100_000

func quota(milliCPUs int64) string { return strconv.FormatInt(max(milliCPUs*period/1000, 1000), 10) }

// setV1 sets a limit by the files of version 1 and returns what it lacks.
func setV1(dir string, l limit) (note string, err error) {
	value := strconv.FormatInt(l.value, 10)
	switch l.name {
	case Memory:
		if err := write(dir, "memory.limit_in_bytes", value); err != nil {
			return "", err
		}
		// memsw counts memory and swap together; with both the same, no swap.
		if write(dir, "memory.memsw.limit_in_bytes", value) == nil {
			return "", nil
		}
		if write(dir, "memory.swappiness", "0") == nil {
			return "swap is avoided but not limited: the kernel was booted without swapaccount=1", nil
		}
		return "swap is not limited", nil
	case CPU:
		return "", errors.Join(write(dir, "cpu.cfs_period_us", strconv.Itoa(period)),
			write(dir, "cpu.cfs_quota_us", quota(l.value)))
	case Tasks:
		return "", write(dir, "pids.max", value)
	}
	return "", fmt.Errorf("unknown limit %q", l.name)
}

// setV2 sets a limit by the files of version 2 and returns what it lacks.
func setV2(dir string, l limit) (note string, err error) {
	has, err := os.ReadFile(path.Join(dir, "cgroup.controllers"))
	if err != nil {
		return "", fmt.Errorf("read controllers: %w", err)
	}
	if !slices.Contains(strings.Fields(string(has)), l.name) {
		return "", fmt.Errorf("the %s controller is not delegated to %s", l.name, path.Dir(path.Dir(dir)))
	}
	value := strconv.FormatInt(l.value, 10)
	switch l.name {
	case Memory:
		if err := write(dir, "memory.max", value); err != nil {
			return "", err
		}
		if err := write(dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "swap is not limited", nil
		}
		return "", nil
	case CPU:
		return "", write(dir, "cpu.max", quota(l.value)+" "+strconv.Itoa(period))
	case Tasks:
		return "", write(dir, "pids.max", value)
	}
	return "", fmt.Errorf("unknown limit %q", l.name)
}

// AddProcess moves the process into the group, with all its threads. What it
// starts from then on is in the group too.
func (g *Group) AddProcess(pid int) error {
	for _, p := range g.parts {
		if err := write(p.dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("move process %d: %w", pid, err)
		}
	}
	return nil
}

// OOMKills returns how many processes the kernel has killed because the group
// was at its memory limit. Without a memory limit it is 0.
func (g *Group) OOMKills() (int64, error) {
	file := "memory.oom_control"
	if g.version == 2 {
		file = "memory.events"
	}
	for _, p := range g.parts {
		if !slices.ContainsFunc(p.limits, func(l limit) bool { return l.name == Memory && g.missing[Memory] == "" }) {
			continue
		}
		b, err := os.ReadFile(path.Join(p.dir, file))
		if err != nil {
			return 0, fmt.Errorf("read out-of-memory kills: %w", err)
		}
		return field(string(b), "oom_kill")
	}
	return 0, nil
}

// field returns a value of a file with a name and a number a line.
func field(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s among %q", name, text)
}

// Kill ends every process of the group; see Place.Kill.
func (g *Group) Kill() error { return g.Place().Kill() }

// Remove removes the group; see Place.Remove.
func (g *Group) Remove() error {
	err := g.Place().Remove()
	for _, f := range g.held {
		_ = f.Close() // read only
	}
	g.held = nil
	return err
}

// write writes a file of a group; it never creates one.
func write(dir, name, value string) error {
	f, err := os.OpenFile(path.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s to %s: %w", value, path.Join(dir, name), unwrapPath(err))
	}
	return nil
}

// unwrapPath takes the repeated path off an error.
func unwrapPath(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// sweep removes the empty groups in a folder that nobody holds: their starter
// and its watchdog were killed together. The age of a group would not tell: a
// folder's time there is that of the kernel's last look at it.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || path.Base(dir) != parent {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			sweepOne(path.Join(dir, e.Name()))
		}
	}
}

func sweepOne(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // read only
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = unix.Rmdir(dir) // fails where processes are in it
	}
}

// holdTries bounds the wait for one that sweeps. Who locks a group for longer
// is none of bailey's, and is not to weaken a limit: then the group goes without.
const holdTries = 100

// hold keeps others from sweeping a group away before processes are in it, as
// long as this process lives. It returns fs.ErrNotExist if one was faster.
func hold(dir string) (*os.File, error) {
	for range holdTries {
		f, err := os.Open(dir)
		if err != nil {
			return nil, fmt.Errorf("hold cgroup: %w", err)
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil && isThere(f, dir) {
			return f, nil
		}
		_ = f.Close() // it is being swept
		<-time.After(pause)
	}
	return nil, nil //nolint:nilnil // there is none, and it is no failure
}

func isThere(f *os.File, dir string) bool {
	held, err := f.Stat()
	named, err2 := os.Stat(dir)
	return err == nil && err2 == nil && os.SameFile(held, named)
}
