package sandboxd

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper waits for every child, those of its own making and the orphans that
// the kernel hands to the first process, and tells each command how it ended.
//
// It looks at an ended child first (WNOWAIT) and takes it from the kernel
// only under mu. A process is started under mu as well. So a pid in commands
// is that command's until it was told, though pids are used again.
type reaper struct {
	mu       sync.Mutex
	commands map[int]*command
	changed  chan struct{} // one slot: some child was reaped
}

func newReaper() *reaper {
	return &reaper{commands: map[int]*command{}, changed: make(chan struct{}, 1)}
}

// start runs fork, which starts a child and returns its pid, and enters c
// under that pid before the child's end can be seen.
func (r *reaper) start(c *command, fork func() (int, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return err
	}
	c.pid = pid
	r.commands[pid] = c
	return nil
}

// signal sends s to the group of c's processes, or to group when it is not 0,
// unless c has ended: its pid may be another's then.
func (r *reaper) signal(c *command, group int, s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.commands[c.pid] != c {
		return
	}
	if group <= 0 {
		group = c.pid
	}
	if s == syscall.SIGCONT {
		c.halted = false
	}
	_ = unix.Kill(-group, s) // ESRCH: it has just ended
}

// unstick continues c's own group unless its first process has stopped, which
// the host knows and deals with.
func (r *reaper) unstick(c *command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.commands[c.pid] == c && !c.halted {
		_ = unix.Kill(-c.pid, syscall.SIGCONT)
	}
}

// run reaps at each SIGCHLD until children is closed.
func (r *reaper) run(children <-chan os.Signal) {
	for range children {
		for r.one() {
		}
	}
}

// one handles one child that ended or stopped, and reports whether there was
// one.
func (r *reaper) one() bool {
	var info unix.Siginfo
	err := ignoreEINTR(func() error {
		return unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	pid := childOf(&info)
	if err != nil || pid == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var status unix.WaitStatus
	err = ignoreEINTR(func() error {
		got, err := unix.Wait4(pid, &status, unix.WNOHANG|unix.WUNTRACED, nil)
		if err == nil && got != pid {
			return unix.ECHILD
		}
		return err
	})
	if err != nil {
		return errors.Is(err, unix.ECHILD) // a stopped child was continued meanwhile: look again
	}
	c := r.commands[pid]
	if status.Stopped() {
		if c != nil {
			c.halted = true
			c.stopped(status.StopSignal())
		}
		return true
	}
	delete(r.commands, pid)
	if c != nil {
		c.ended(status)
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return true
}

// killAll sends s to every process that sandboxd may end and waits until none
// is left, at most for the given time. It reports whether none is left.
//
// As the first process that is every other one (kill(2), pid -1). Otherwise,
// which is in tests, it is the groups of its own commands.
func (r *reaper) killAll(s syscall.Signal, within time.Duration) bool {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	r.send(s)
	if s != syscall.SIGKILL {
		r.send(syscall.SIGCONT) // a stopped process does not see a SIGTERM
	}
	for !r.alone() {
		select {
		case <-r.changed:
		case <-deadline.C:
			return r.alone()
		}
		if s == syscall.SIGKILL {
			r.send(s) // what was forked meanwhile
		}
	}
	return true
}

func (r *reaper) send(s syscall.Signal) {
	if os.Getpid() == 1 {
		_ = unix.Kill(-1, s) // ESRCH: there is none
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid := range r.commands {
		_ = unix.Kill(-pid, s)
	}
}

// alone reports whether no child is left. Children of children become ours
// when their parent ends, so there is then no descendant either.
func (r *reaper) alone() bool {
	var info unix.Siginfo
	err := ignoreEINTR(func() error {
		return unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	return errors.Is(err, unix.ECHILD)
}

// childOf returns si_pid, which x/sys does not name: on 64-bit Linux it
// follows three ints and their padding.
func childOf(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}

func ignoreEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
