package watchdog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/watch"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// dog is the state of the one loop. All but the walks of the workspace happens
// in it, one thing after the other.
type dog struct {
	set       watch.Settings
	report    *os.File
	workspace *os.File   // held from the start: later its name may mean another folder; or nil
	also      []*os.File // likewise what is watched with it
	held      *workspace.Held

	roots  []*os.File    // the file systems that are counted: the workspace's, and those mounted in it
	helper proc.Identity // zero until told
	memory string        // path of gVisor's memory file, once found
	doomed bool          // a limit was passed: the helper must not live
	walks  chan walk     // results
	growth growth
}

func newDog(s watch.Settings, report *os.File) (*dog, error) {
	d := &dog{set: s, report: report, held: workspace.Hold(s.Guard), walks: make(chan walk, 1)}
	d.held.MarkObjects()
	if s.Workspace == "" {
		return d, nil
	}
	var err error
	if d.workspace, err = beneath.Dir(s.Workspace); err != nil {
		return nil, fmt.Errorf("hold the workspace: %w", err)
	}
	for _, path := range s.Also {
		f, err := beneath.Path(path)
		if err != nil {
			return nil, fmt.Errorf("hold what is mounted: %w", err)
		}
		d.also = append(d.also, f)
	}
	if d.watchesDisk() {
		d.roots = fileSystems(append([]*os.File{d.workspace}, d.also...)...)
	}
	return d, nil
}

// memoryPeriod and diskPeriod are how often is looked.
const (
	memoryPeriod = 250 * time.Millisecond
	diskPeriod   = 500 * time.Millisecond
)

// run is the loop. It ends when the starter says so or is dead.
func (d *dog) run(control <-chan watch.Message) error {
	var deadline, memory, waited <-chan time.Time // nil ones never fire
	var disk <-chan size
	if d.set.Timeout > 0 {
		deadline = time.After(d.set.Timeout + d.set.Grace)
	}
	if d.set.MemoryBytes > 0 {
		memory = time.Tick(memoryPeriod)
	}
	if d.watchesDisk() {
		disk = looks(d.roots)
		waited = time.After(quickBase)
		d.startBaseline(time.Now())
	} else {
		d.ready()
	}
	for {
		select {
		case m, ok := <-control:
			switch {
			case !ok:
				return d.abandoned()
			case m.Done:
				return d.removeCgroup()
			case m.Helper != nil:
				d.meet(*m.Helper)
			case m.Measure:
				d.tellGrowth()
			case m.Memory > 0:
				d.set.MemoryBytes = m.Memory
				memory = time.Tick(memoryPeriod)
			}
		case <-deadline:
			d.condemn(watch.Timeout, int64(d.set.Timeout), fmt.Sprintf("the deadline of %s has passed", d.set.Timeout))
		case <-memory:
			d.checkMemory()
		case room := <-disk:
			d.checkDisk(time.Now(), room)
		case w := <-d.walks:
			d.judge(w)
		case <-waited:
			d.ready()
		}
	}
}

// ready tells the starter, once, that all is watched from now on.
func (d *dog) ready() {
	if d.growth.released.CompareAndSwap(0, time.Now().UnixNano()) {
		counted := d.growth.known || !d.watchesDisk()
		_ = json.NewEncoder(d.report).Encode(watch.Report{Ready: true, Counted: counted})
	}
}

// tellGrowth answers how much the workspace has grown. Who asks waits for it
// before they ask again: the pipe always has room.
func (d *dog) tellGrowth() {
	g := &d.growth
	grown := g.last.minus(g.base)
	_ = json.NewEncoder(d.report).Encode(watch.Report{Growth: &watch.Growth{Bytes: max(grown.bytes, 0), Inodes: max(grown.inodes, 0), Known: g.known}})
}

func (d *dog) meet(id proc.Identity) {
	d.helper = id
	if d.doomed { // the limit was passed before there was anybody to kill
		d.kill()
	}
}

// condemn kills the sandbox for passing a limit and says so, once.
func (d *dog) condemn(limit string, value int64, message string) {
	if d.doomed {
		return
	}
	d.doomed = true
	d.kill()
	// One line, far below what a pipe takes: a starter that is stopped or
	// dead holds nothing up.
	_ = json.NewEncoder(d.report).Encode(watch.Report{Limit: limit, Message: message, Value: value})
}

// kill ends the helper, with whom its pid namespace ends, and what is in the
// cgroup. The kernel kills; there is nobody to tell if it does not.
func (d *dog) kill() {
	_ = d.helper.Signal(syscall.SIGKILL)
	_ = d.set.Cgroup.Kill()
}

// deathTime bounds the wait for the helper's pid namespace to be empty.
const deathTime = time.Second

// abandoned cleans up after a starter that died.
func (d *dog) abandoned() error {
	d.kill()
	// The first process of a pid namespace is dead only when all others are:
	// nobody can make again what is reverted after this.
	for end := time.Now().Add(deathTime); d.helper.Alive() && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	d.revert()
	// The socket first: a cgroup can take the kernel its time.
	return errors.Join(removeStale(d.set.StaleSocket), d.removeCgroup())
}

func (d *dog) removeCgroup() error {
	return errors.Join(d.set.Cgroup.Kill(), d.set.Cgroup.Remove())
}
