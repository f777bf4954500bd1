package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
)

// Claim takes the lock of a folder for the service of this process (flock(2)):
// it ends with the process, however that ends. A lock that another service has
// is an error of kind Conflict that names its process. The caller keeps the
// file open for as long as it serves.
func Claim(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "lock the service", err, "")
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid := readPID(f)
		_ = f.Close()
		return nil, bailey.NewError(bailey.Conflict, fmt.Sprintf("a bailey service runs already: process %d", pid), "bailey serve stop ends it")
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the service: %w", err), f.Close())
	}
	return f, nil
}

func readPID(f *os.File) int {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// Holder returns the process of the service that has the lock of a folder; 0 is
// none.
func Holder(dir string) (int, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for the service: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return readPID(f), nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for the service: %w", err)
	}
	return 0, nil
}

// AwaitEnd waits until no service has the lock of a folder.
func AwaitEnd(ctx context.Context, dir string) error {
	const poll = 20 * time.Millisecond
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		pid, err := Holder(dir)
		if err != nil || pid == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
