package pty

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Size is the size of a terminal in character cells.
type Size struct {
	Rows, Cols uint16
}

// Open makes a new pseudo terminal. It returns the master, which the
// runtime's poller serves, and the descriptor of the other end: blocking,
// close-on-exec, and nobody's controlling terminal yet. The caller closes
// both.
//
// The other end is opened through the master (TIOCGPTPEER, ioctl_tty(2)), so
// it is the right one whatever is mounted on /dev/pts.
func Open() (*os.File, int, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	other, err := openOther(fd)
	if err != nil {
		_ = unix.Close(fd) // the first error is the one worth telling
		return nil, -1, err
	}
	return os.NewFile(uintptr(fd), "/dev/ptmx"), other, nil
}

func openOther(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, fmt.Errorf("unlock pseudo terminal: %w", err)
	}
	other, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, fmt.Errorf("open other end of pseudo terminal: %w", errno)
	}
	return int(other), nil
}

// IsTerminal reports whether f is a terminal. A nil file is none.
func IsTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	return control(f, func(fd int) error {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	}) == nil
}

// GetSize reads the size of the terminal f.
func GetSize(f *os.File) (Size, error) {
	var size Size
	err := control(f, func(fd int) error {
		ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			size = Size{Rows: ws.Row, Cols: ws.Col}
		}
		return err
	})
	if err != nil {
		return Size{}, fmt.Errorf("read terminal size: %w", err)
	}
	return size, nil
}

// SetSize sets the size of the terminal f. The kernel sends SIGWINCH to the
// foreground process group when the size is another than before.
func SetSize(f *os.File, size Size) error {
	err := control(f, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	if err != nil {
		return fmt.Errorf("set terminal size: %w", err)
	}
	return nil
}

// Foreground returns the foreground process group of the terminal f. Linux
// answers for a master as well; gVisor says ENOTTY there.
func Foreground(f *os.File) (int, error) {
	pgid := 0
	err := control(f, func(fd int) error {
		var err error
		pgid, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read foreground process group: %w", err)
	}
	return pgid, nil
}

// control calls ioctl with f's descriptor and leaves its blocking mode alone,
// which f.Fd() does not.
func control(f *os.File, ioctl func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = ioctl(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// CharSuspend is the character that suspends in a terminal in its usual state
// (termios(3)): Ctrl-Z.
const CharSuspend = 0x1a

// The other characters that make a signal: Ctrl-C and Ctrl-\.
const (
	charInterrupt = 0x03
	charQuit      = 0x1c
)

// SignalChar returns the index of the first byte of p that may make the
// terminal behind master send a signal, or -1. It looks only for the usual
// characters, and asks the kernel nothing when there is none.
func SignalChar(master *os.File, p []byte) int {
	for i, c := range p {
		if c != charInterrupt && c != charQuit && c != CharSuspend {
			continue
		}
		if signals(master, c) {
			return i
		}
	}
	return -1
}

func signals(master *os.File, c byte) bool {
	found := false
	err := control(master, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		cc := t.Cc
		special := c == cc[unix.VINTR] || c == cc[unix.VQUIT] || c == cc[unix.VSUSP]
		found = special && t.Lflag&unix.ISIG != 0 && t.Lflag&unix.NOFLSH == 0
		return nil
	})
	return err == nil && found
}

// DiscardTyped throws away what was written to master and not yet read on the
// other end. gVisor does so; Linux leaves what its line discipline has taken
// already, and discards that itself at a character that makes a signal.
func DiscardTyped(master *os.File) error {
	err := control(master, func(fd int) error {
		return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCOFLUSH)
	})
	if err != nil {
		return fmt.Errorf("discard typed input: %w", err)
	}
	return nil
}

// DiscardOutput throws away what was written to a terminal and not yet shown.
func DiscardOutput(tty *os.File) error {
	err := control(tty, func(fd int) error {
		return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCOFLUSH)
	})
	if err != nil {
		return fmt.Errorf("discard output: %w", err)
	}
	return nil
}

// JobControlled reports whether a shell waits for this process with job
// control, so that stopping it gives the terminal back to somebody: the
// parent must be in the same session and in another process group
// (POSIX: the group is not orphaned).
func JobControlled() bool {
	parent := os.Getppid()
	mine, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	theirs, err := unix.Getsid(parent)
	if err != nil || theirs != mine {
		return false
	}
	group, err := unix.Getpgid(parent)
	return err == nil && group != unix.Getpgrp()
}

// Stop stops this process at once, as Ctrl-Z does, and returns when it is
// continued. The signal is sent to the calling thread, so nothing after the
// call runs before the stop.
func Stop() error {
	if err := unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop own process: %w", err)
	}
	return nil
}
