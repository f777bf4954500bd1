package control

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Claiming a name takes milliseconds, of each of those that want to.
const (
	lockWait = 30 * time.Second
	lockPoll = 2 * time.Millisecond
)

func ownerOf(fi os.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

func isInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// isGone reports whether a dial's error says that nobody holds the socket. A
// full backlog (EAGAIN) does not.
func isGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// isSilent reports whether an error says that a holder is there and does not
// answer: it accepts nothing, or says nothing.
func isSilent(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, os.ErrDeadlineExceeded)
}

// lock takes the lock of a folder (flock(2)), which ends with the process.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = f.Close() }
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			unlock()
			return nil, err
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}
