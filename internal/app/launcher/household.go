package launcher

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/proc"
)

// household are the processes of the service. Each is killed by the kernel when
// the launcher dies; and as long as it lives, what they leave behind is its own
// to wait for.
type household struct {
	grace   time.Duration // of orphans: orphanGrace
	helping ceiling       // of mostHelpers
	mu      sync.Mutex
	known   map[int]*child
}

// mostHelpers is how many of the children that each do one thing and end, such
// as an operation of git, run at once. More wait.
const mostHelpers = 8

// ceiling bounds how many run at once.
type ceiling chan struct{}

// enter waits for a place.
func (c ceiling) enter(ctx context.Context) error {
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c ceiling) leave() { <-c }

// child is a process that was started.
type child struct {
	id   proc.Identity
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
	err  error         // of the waiting, once it is done
}

func newHousehold() (*household, error) {
	if err := proc.Adopt(); err != nil {
		return nil, err
	}
	return &household{grace: orphanGrace, helping: make(ceiling, mostHelpers), known: make(map[int]*child)}, nil
}

// start starts a command in a session of its own. Its death signal is tied to
// the thread that forks, which therefore lives as long.
func (h *household) start(cmd *exec.Cmd) (*child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	cmd.Dir = "/"
	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		err := h.fork(c)
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		h.mu.Lock()
		if h.known[c.id.PID] == c {
			delete(h.known, c.id.PID)
		}
		h.mu.Unlock()
		close(c.done)
	}()
	return c, <-started
}

// run starts a command and waits for its end.
func (h *household) run(cmd *exec.Cmd) error {
	c, err := h.start(cmd)
	if err != nil {
		return err
	}
	<-c.done
	return c.err
}

// fork starts a child and notes that it is one, in one go: whoever looks for
// orphans must not take it for one.
func (h *household) fork(c *child) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.cmd.Args[0], err)
	}
	pid := c.cmd.Process.Pid
	c.id = proc.Identity{PID: pid}
	if id, err := proc.Identify(pid); err == nil { // it is there until it is waited for
		c.id = id
	}
	h.known[pid] = c
	return nil
}

// signal sends a signal to a child, or to nobody if it has ended.
func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

// end asks a child to end, kills it when it has not after the grace, and
// returns when it is gone.
func (c *child) end(grace time.Duration) {
	c.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
		return
	case <-timer.C:
	}
	c.signal(syscall.SIGKILL)
	<-c.done
}

// orphans are the processes that ended children have left and that are not gone
// yet.
func (h *household) orphans() []proc.Identity {
	h.mu.Lock()
	defer h.mu.Unlock()
	var left []proc.Identity
	for _, pid := range proc.Children() {
		if h.known[pid] != nil {
			continue
		}
		id, err := proc.Identify(pid)
		if !proc.Reap(pid) && err == nil {
			left = append(left, id)
		}
	}
	return left
}

// Orphans have orphanGrace to end: a watchdog undoes what a sandbox left, and
// the kernel takes a namespace down. Then they are killed.
const (
	orphanGrace = 8 * time.Second
	orphanPoll  = 5 * time.Millisecond
)

// settle returns when what ended children have left is gone, or ctx ends.
func (h *household) settle(ctx context.Context) {
	kill := time.NewTimer(h.grace)
	defer kill.Stop()
	tick := time.NewTicker(orphanPoll)
	defer tick.Stop()
	for {
		left := h.orphans()
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-kill.C:
			for _, id := range left {
				_ = id.Signal(syscall.SIGKILL)
			}
			kill.Reset(time.Second)
		case <-tick.C:
		}
	}
}

// killAll kills every child.
func (h *household) killAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.known {
		c.signal(syscall.SIGKILL)
	}
}
