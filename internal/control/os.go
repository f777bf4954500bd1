package control

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Claiming a name takes milliseconds, of each of those that want to.
const lockWait = 30 * time.Second

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
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return await(ctx, f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// await sleeps in the kernel until the lock is free. However many wait, they
// take no time from who has it, as they would by looking again and again.
func await(ctx context.Context, f *os.File) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	taken := make(chan error)
	go func() {
		select {
		case taken <- flock(f, syscall.LOCK_EX):
		case <-ctx.Done(): // nobody waits for it any more
			_ = f.Close()
		}
	}()
	select {
	case err := <-taken:
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return func() { _ = f.Close() }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
