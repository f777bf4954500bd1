package pty

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Keys reads single keys from the controlling terminal (tty(4)), while this
// process has it: one in the background waits.
type Keys struct {
	tty   *os.File
	found *Modes
}

// OpenKeys opens the controlling terminal; there may be none.
func OpenKeys() (*Keys, error) {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	return &Keys{tty: os.NewFile(uintptr(fd), "/dev/tty")}, nil
}

// keyPoll is how often a wait looks whether it has become pointless.
const keyPoll = 50 * time.Millisecond

// Mine reports whether this process has the terminal.
func (k *Keys) Mine() bool {
	mine := false
	err := control(k.tty, func(fd int) error {
		mine = !background(fd)
		return nil
	})
	return err == nil && mine
}

// Begin has each key come by itself, unseen; those that send signals still do.
// What was typed before is thrown away.
func (k *Keys) Begin() error { return k.begin(unix.ECHO | unix.ECHONL | unix.ICANON) }

// BeginLine is Begin for Line: the keys that send signals are keys as well, so
// that the terminal is never left as it is now.
func (k *Keys) BeginLine() error {
	return k.begin(unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG)
}

func (k *Keys) begin(off uint32) error {
	found, err := ReadModes(k.tty)
	if err != nil {
		return err
	}
	now := *found
	now.termios.Lflag &^= off
	now.termios.Cc[unix.VMIN], now.termios.Cc[unix.VTIME] = 1, 0
	if err := now.Apply(k.tty); err != nil {
		return err
	}
	k.found = found
	return k.Discard()
}

// Discard throws away what was typed and not read.
func (k *Keys) Discard() error {
	err := control(k.tty, func(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) })
	if err != nil {
		return fmt.Errorf("discard what was typed: %w", err)
	}
	return nil
}

// Key waits for a key, until it is given up, and reports whether there was
// one. What comes as several bytes at once is none: a paste, or an arrow.
func (k *Keys) Key(giveUp func() bool) (key byte, ok bool, err error) {
	err = control(k.tty, func(fd int) error {
		for !ok && !giveUp() {
			came, err := readKeys(fd)
			if err != nil {
				return err
			}
			if len(came) == 1 {
				key, ok = came[0], true
			}
		}
		return nil
	})
	if err != nil {
		return 0, false, fmt.Errorf("read key: %w", err)
	}
	return key, ok, nil
}

// readKeys waits a moment and returns what was typed, if anything. In the
// background it does not read: that would stop this process.
func readKeys(fd int) ([]byte, error) {
	wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(wait, int(keyPoll.Milliseconds()))
	if errors.Is(err, unix.EINTR) || err == nil && (n == 0 || background(fd)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var buf [64]byte
	n, err = unix.Read(fd, buf[:])
	if err == nil && n == 0 {
		err = unix.EIO // it was hung up
	}
	return buf[:max(n, 0)], err
}

// Write shows something.
func (k *Keys) Write(p []byte) (int, error) { return k.tty.Write(p) }

// End puts the terminal back as Begin found it.
func (k *Keys) End() error {
	if k.found == nil {
		return nil
	}
	found := k.found
	k.found = nil
	return errors.Join(k.Discard(), found.Apply(k.tty))
}

// Close is End, and lets go of the terminal.
func (k *Keys) Close() error { return errors.Join(k.End(), k.tty.Close()) }
