package sandboxd

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/wire"
)

// command is one started command: its process and our ends of its
// descriptors.
type command struct {
	reap *reaper
	pid  int // of its first process, which leads its session and group

	tty    *os.File // master of its terminal, or nil
	stdin  *os.File // where its input is written: tty, or a pipe
	stdout *os.File // where its output is read: tty, or a pipe
	stderr *os.File // a pipe, or nil with a terminal

	halted bool // the first process has stopped; guarded by reap.mu

	exit  chan unix.WaitStatus // one: how the first process ended
	stops chan syscall.Signal  // one slot: it was stopped
}

// ends are the descriptors that the child gets as 0, 1 and 2.
type ends [3]int

// start starts the command that x asks for.
func (d *daemon) start(x *wire.Exec) (*command, *failure) {
	file, fail := lookUp(x)
	if fail != nil {
		return nil, fail
	}
	c := &command{reap: d.reap, exit: make(chan unix.WaitStatus, 1), stops: make(chan syscall.Signal, 1)}
	child, err := c.open(x)
	if err != nil {
		return nil, &failure{wire.FailOther, err.Error()}
	}
	attr := &syscall.ProcAttr{
		Dir:   x.Dir,
		Env:   x.Env,
		Files: []uintptr{uintptr(child[0]), uintptr(child[1]), uintptr(child[2])},
		// A session of its own: with a terminal that becomes the controlling
		// one, and without one /dev/tty is nobody's.
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: x.TTY, Ctty: 0},
	}
	err = d.reap.start(c, func() (int, error) {
		unix.Umask(int(x.Umask)) // sandboxd sets the mode of its files itself, so it is the child's alone
		pid, err := syscall.ForkExec(file, x.Argv, attr)
		if err == nil {
			limit(pid, x.Limits)
		}
		return pid, err
	})
	child.close()
	if err != nil {
		c.close()
		return nil, explain(err, file, x.Dir)
	}
	return c, nil
}

// limit lowers the limits of a process that has just started. What it starts
// in the instant before is held by sandboxd's own, which it inherited.
func limit(pid int, lower []wire.Limit) {
	for _, l := range lower {
		var now unix.Rlimit
		if unix.Prlimit(pid, int(l.Resource), nil, &now) != nil || l.Value > now.Max {
			continue
		}
		now = unix.Rlimit{Cur: l.Value, Max: l.Value}
		_ = unix.Prlimit(pid, int(l.Resource), &now, nil) // ESRCH: it has ended already
	}
}

// open makes the command's descriptors and returns the child's ends.
func (c *command) open(x *wire.Exec) (ends, error) {
	if x.TTY {
		return c.openTerminal(pty.Size{Rows: x.Rows, Cols: x.Cols})
	}
	return c.openPipes()
}

func (c *command) openTerminal(size pty.Size) (ends, error) {
	master, other, err := pty.Open()
	if err != nil {
		return ends{}, err
	}
	child := ends{other, other, other}
	if err := pty.SetSize(master, size); err != nil {
		child.close()
		return ends{}, errors.Join(err, master.Close())
	}
	c.tty, c.stdin, c.stdout = master, master, master
	return child, nil
}

func (c *command) openPipes() (ends, error) {
	var fds [3][2]int
	for i := range fds {
		if err := unix.Pipe2(fds[i][:], unix.O_CLOEXEC); err != nil {
			for _, made := range fds[:i] {
				_ = unix.Close(made[0]) // fresh and empty
				_ = unix.Close(made[1])
			}
			return ends{}, fmt.Errorf("make pipe: %w", err)
		}
	}
	c.stdin = pollable(fds[0][1], "stdin")
	c.stdout = pollable(fds[1][0], "stdout")
	c.stderr = pollable(fds[2][0], "stderr")
	return ends{fds[0][0], fds[1][1], fds[2][1]}, nil
}

// pollable makes a file whose reads and writes wait in the runtime's poller.
// The child's end is another file description and stays blocking.
func pollable(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true) // cannot fail on a pipe
	return os.NewFile(uintptr(fd), name)
}

func (e ends) close() {
	for i, fd := range e {
		if i == 0 || fd != e[0] { // with a terminal all three are one
			_ = unix.Close(fd)
		}
	}
}

// close closes our ends. With a terminal the kernel hangs it up.
func (c *command) close() {
	for _, f := range []*os.File{c.stdin, c.stdout, c.stderr} {
		if f != nil {
			_ = f.Close() // closed twice with a terminal
		}
	}
}

// ended is called by the reaper, once.
func (c *command) ended(status unix.WaitStatus) { c.exit <- status }

// stopped is called by the reaper.
func (c *command) stopped(s syscall.Signal) {
	if c.tty == nil {
		return // nobody could continue it but who stopped it
	}
	select {
	case c.stops <- s:
	default:
	}
}

// signal sends s to the foreground process group of the command's terminal,
// or to the command's own group.
func (c *command) signal(s syscall.Signal) {
	group := 0
	if c.tty != nil {
		group, _ = pty.Foreground(c.tty) // gVisor does not tell: 0, its own group
	}
	c.reap.signal(c, group, s)
}
