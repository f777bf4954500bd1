package run

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/watch"
)

// backstopGrace is how much later than the run itself the watchdog keeps a
// deadline.
const backstopGrace = 3 * time.Second

// limits is the sandbox's cgroup, if there is one, and the watchdog that
// keeps what no cgroup does and cleans up when this process is killed.
type limits struct {
	group    *cgroup.Group
	dog      *watch.Client
	statuses []cgroup.Status
	reports  chan watch.Report // closed when the watchdog is gone
	done     bool
	measuring
	lost atomic.Bool // that the watchdog is gone has been said
}

// findGroup finds where the sandbox's cgroup can be made, and makes nothing.
func (u *running) findGroup() (*cgroup.Group, error) {
	group, err := cgroup.Find(cgroup.Config{
		ID:     string(u.plan.spec.ID),
		Limits: cgroup.Limits{MemoryBytes: u.plan.spec.Limits.MemoryBytes, MilliCPUs: u.cpuQuota(), Tasks: u.backstopTasks()},
	})
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	return group, nil
}

// startLimits starts the watchdog before there is anything to clean up, then
// makes the cgroup.
func (u *running) startLimits() error {
	l := u.plan.spec.Limits
	group, err := u.findGroup()
	if err != nil {
		return err
	}
	s := watch.Settings{
		Cgroup: group.Place(), Timeout: l.Timeout, Grace: backstopGrace,
		Workspace: u.plan.workspace, Also: u.plan.open.writable(), DiskBytes: l.DiskBytes, Inodes: l.Inodes,
		StaleSocket: control.Path(u.host.Dirs.Runtime, u.plan.name),
	}
	switch {
	case u.req.Work != nil:
		s.Workspace = u.req.Work.Output.Source
	case u.req.ReadOnly && !u.plan.open.writes() || u.req.Task.bounded():
		s.DiskBytes, s.Inodes = 0, 0
	}
	if u.plan.spec.Runtime == bailey.RuntimeNative {
		for _, t := range u.plan.spec.Tmpfs {
			s.Memories = append(s.Memories, t.Target)
		}
	}
	if u.guarded() {
		s.Guard, s.Started = u.plan.guards(), u.stamped
	}
	if group.Place().Version == 0 {
		s.MemoryBytes = l.MemoryBytes
	}
	dog, err := u.host.Watchdog.begin(s)
	if err != nil {
		return err
	}
	u.limits = &limits{group: group, dog: dog, reports: make(chan watch.Report, 4), measuring: measuring{came: make(chan watch.Growth, 1)}}
	if err := group.Create(); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	u.limits.statuses = group.Statuses()
	if group.Place().Version != 0 && u.limits.isWatched(cgroup.Memory) {
		if err := dog.WatchMemory(l.MemoryBytes); err != nil {
			return err
		}
	}
	return nil
}

// awaitWatchdog waits until the limits are kept. The helper makes its mounts
// and the airlock meanwhile, and the kernel moves processes into the cgroup.
func (u *running) awaitWatchdog() error {
	counted, err := u.limits.dog.Ready()
	if err != nil {
		u.limits.lost.Store(true) // its end need not be told as well
		return err
	}
	if !counted {
		u.plan.notes = append(u.plan.notes, "the workspace is large: it is still being counted for --disk and --inodes while the command starts")
	}
	go u.limits.listen()
	go u.watchLimits()
	return nil
}

// backstopTasks is above what gVisor needs for the processes inside, each of
// which costs it up to four threads of the host. Without gVisor it is what the
// sandbox may have, and room for the helper.
func (u *running) backstopTasks() int64 {
	processes := u.plan.spec.Limits.Processes
	if u.plan.spec.Runtime == bailey.RuntimeNative {
		return processes + helperTasks
	}
	return max(cgroup.BackstopTasks, 4*processes)
}

// helperTasks is more than the helper has of threads.
const helperTasks = 64

// cpuQuota is zero, for none, when the sandbox may use the whole machine.
func (u *running) cpuQuota() int64 {
	if q := u.plan.spec.Limits.MilliCPUs; q < int64(u.host.CPUs)*1000 {
		return q
	}
	return 0
}

func (l *limits) listen() {
	defer close(l.reports)
	for {
		r, err := l.dog.Next()
		if err != nil {
			return
		}
		l.reports <- r
	}
}

// enroll puts the helper, which is the first of the processes, and what it has
// started under the limits, or returns the files by which they do it themselves,
// which is sooner done.
func (l *limits) enroll(pids []int) ([]*os.File, error) {
	id, err := proc.Identify(pids[0])
	if err != nil {
		return nil, fmt.Errorf("identify helper: %w", err)
	}
	if err := l.dog.Helper(id); err != nil {
		return nil, err
	}
	hint := func(err error) error {
		return bailey.WrapError(bailey.Unsupported, "put the sandbox into its cgroup", err, "see bailey doctor")
	}
	if userns.CanDrop() == nil { // else the program has cgo, and cannot speak for all its threads
		if joins, err := l.group.Joins(); err != nil || len(joins) > 0 {
			if err != nil {
				err = hint(err)
			}
			return joins, err
		}
	}
	for _, pid := range pids {
		if err := l.group.AddProcess(pid); err != nil {
			return nil, hint(err)
		}
	}
	return nil, nil
}

// outOfMemory reports whether the kernel killed something of the sandbox for
// its memory.
func (l *limits) outOfMemory() bool {
	n, err := l.group.OOMKills()
	return err == nil && n > 0
}

// watched lists the limits that no cgroup enforces.
func (l *limits) watched() []cgroup.Status { return watched(l.statuses) }

// watched are those that are not enforced.
func watched(statuses []cgroup.Status) []cgroup.Status {
	return slices.DeleteFunc(slices.Clone(statuses), func(s cgroup.Status) bool { return s.Enforced })
}

func (l *limits) isWatched(name string) bool {
	return slices.ContainsFunc(l.watched(), func(s cgroup.Status) bool { return s.Limit == name })
}

func (l *limits) close() error {
	if l.done {
		return nil
	}
	l.done = true
	err := l.dog.Done()
	if err != nil { // it may have been killed: then what it cleans up is left
		cleaned := errors.Join(l.group.Kill(), l.group.Remove())
		if l.lost.Load() {
			return cleaned
		}
		err = errors.Join(err, cleaned)
	}
	return err
}

// watchLimits turns what the watchdog reports into the end of the run.
func (u *running) watchLimits() {
	for r := range u.limits.reports {
		if r.Growth != nil {
			u.limits.measured(*r.Growth)
			continue
		}
		message := strings.TrimPrefix(r.Message, "out of memory: ")
		if r.Limit != watch.Timeout { // the limit's name is its flag's
			message += "; --" + r.Limit + " raises it"
		}
		u.stop <- ending{reason: r.Limit, message: message, at: time.Now()}
	}
	time.Sleep(proxyPatience)
	u.mu.Lock()
	over := u.over || u.sandbox != nil && closed(u.sandbox.Done())
	u.mu.Unlock()
	if !over { // nobody keeps the limits any more, nor would clean up after this process
		u.limits.lost.Store(true)
		u.stop <- ending{reason: reasonWatchdog, message: "the watchdog ended, and with it the limits"}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
