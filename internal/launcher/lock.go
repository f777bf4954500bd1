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
// it ends with the process, however that ends. Beside is what a look at the lock
// says of the service: the other folder that it has one in. A lock that another
// service has is a *HeldError. The caller keeps the file open for as long as it
// serves.
func Claim(dir, beside string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "lock the service", err, "")
	}
	err = lock(f)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		held := &HeldError{readHeld(f)}
		_ = f.Close()
		return nil, held
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"+beside+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the service: %w", err), f.Close())
	}
	return f, nil
}

// lock takes a lock. Who only looks whether somebody has it has it for a moment
// too: that is not a service, and is waited for.
func lock(f *os.File) (err error) {
	const tries, pause = 10, 10 * time.Millisecond
	for range tries {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		<-time.After(pause)
	}
	return err
}

// Held says who has the lock of a folder.
type Held struct {
	PID    int    // 0: nobody
	Beside string // the other folder that the service has a lock in; "" where it is not said
}

// HeldError is a lock that another service has.
type HeldError struct{ By Held }

// Error names the process.
func (e *HeldError) Error() string {
	return fmt.Sprintf("a bailey service runs already: process %d", e.By.PID)
}

// readHeld reads what a service wrote into its lock.
func readHeld(f *os.File) Held {
	const most = 2 * MaxPath
	b, err := io.ReadAll(io.NewSectionReader(f, 0, most))
	if err != nil {
		return Held{}
	}
	first, rest, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid < 0 {
		return Held{}
	}
	beside, _, whole := strings.Cut(rest, "\n")
	if !whole || !filepath.IsAbs(beside) {
		beside = ""
	}
	return Held{PID: pid, Beside: beside}
}

// Holder returns the service that has the lock of a folder.
func Holder(dir string) (Held, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Held{}, nil
	}
	if err != nil {
		return Held{}, fmt.Errorf("look for the service: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return readHeld(f), nil
	}
	if err != nil {
		return Held{}, fmt.Errorf("look for the service: %w", err)
	}
	return Held{}, nil
}

// Found is a service that runs.
type Found struct {
	PID     int
	Runtime string // where its socket is
	Data    string // where its tasks are; "" where it is not said
	Lock    string // the folder whose lock it was found by
}

// Find looks for the service of a runtime folder, and then for the one that has
// the same tasks in a data folder, and its socket elsewhere. Nil: there is none.
func Find(runtime, data string) (*Found, error) {
	h, err := Holder(runtime)
	if err != nil {
		return nil, err
	}
	if h.PID > 0 {
		return &Found{PID: h.PID, Runtime: runtime, Data: h.Beside, Lock: runtime}, nil
	}
	if h, err = Holder(data); err != nil || h.PID == 0 {
		return nil, err
	}
	if h.Beside == "" {
		h.Beside = runtime
	}
	return &Found{PID: h.PID, Runtime: h.Beside, Data: data, Lock: data}, nil
}

// Socket is where it listens.
func (f *Found) Socket() string { return filepath.Join(f.Runtime, SocketName) }

// AwaitEnd waits until no service has the lock of a folder.
func AwaitEnd(ctx context.Context, dir string) error {
	const poll = 20 * time.Millisecond
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		held, err := Holder(dir)
		if err != nil || held.PID == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
