package pty

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// backgroundPoll is how often, in milliseconds, a background process looks
// whether it has become the foreground of its terminal.
const backgroundPoll = 200

// Input reads a file that belongs to others as well (the standard input,
// mostly a terminal) without ever waiting inside read(2): it waits for bytes
// first and reads only those that are there. Close ends a waiting Read, and
// no byte that arrives later is taken: what was typed ahead stays for the
// shell. The file keeps its blocking mode, which is shared with other
// processes.
//
// One goroutine may Read while another calls Close.
type Input struct {
	file *os.File
	wake [2]int // a pipe; a byte or a hang-up in it ends the wait

	mu     sync.Mutex
	closed bool
	busy   bool // a Read uses the descriptors of wake
}

// NewInput makes an Input on file, which stays the caller's.
func NewInput(file *os.File) (*Input, error) {
	in := &Input{file: file}
	if err := unix.Pipe2(in.wake[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make wake-up pipe: %w", err)
	}
	return in, nil
}

// Read waits until bytes are there and returns them, at most len(p). It
// returns io.EOF at the end of the file, when its terminal is gone, and after
// Close.
func (in *Input) Read(p []byte) (int, error) {
	if !in.enter() {
		return 0, io.EOF
	}
	defer in.leave()
	n := 0
	err := control(in.file, func(fd int) error {
		for {
			ready, err := in.wait(fd)
			if err != nil || !ready {
				return err
			}
			n, err = unix.Read(fd, p)
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) { // EAGAIN: another reader was faster
				continue
			}
			return err
		}
	})
	switch {
	case errors.Is(err, unix.EIO): // the terminal was hung up
		return 0, io.EOF
	case err != nil:
		return 0, fmt.Errorf("read standard input: %w", err)
	case n <= 0:
		return 0, io.EOF
	}
	return n, nil
}

// Close ends a waiting Read and every later one. It does not close the file.
func (in *Input) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil
	}
	in.closed = true
	if in.busy {
		_, err := unix.Write(in.wake[1], []byte{0})
		if err != nil {
			return fmt.Errorf("wake reader: %w", err)
		}
		return nil
	}
	return in.release()
}

func (in *Input) enter() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	in.busy = true
	return true
}

func (in *Input) leave() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy = false
	if in.closed {
		_ = in.release() // descriptors of our own pipe; nothing to tell
	}
}

func (in *Input) release() error {
	return errors.Join(unix.Close(in.wake[0]), unix.Close(in.wake[1]))
}

// wait returns true when fd can be read, false when Close was called.
func (in *Input) wait(fd int) (bool, error) {
	for {
		timeout := -1
		set := []unix.PollFd{{Fd: int32(in.wake[0]), Events: unix.POLLIN}, {Fd: int32(fd), Events: unix.POLLIN}}
		if background(fd) {
			// Reading now would stop this process with SIGTTIN.
			set, timeout = set[:1], backgroundPoll
		}
		n, err := unix.Poll(set, timeout)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, fmt.Errorf("wait for input: %w", err)
		case n == 0:
			continue
		case set[0].Revents != 0:
			return false, nil
		}
		if !background(fd) {
			return true, nil
		}
	}
}

// background reports whether fd is the controlling terminal and another
// process group has it.
func background(fd int) bool {
	pgid, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && pgid != unix.Getpgrp()
}
