package inotify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Watcher watches folders. It is for one goroutine at a time, apart from Wake.
type Watcher struct {
	fd  int
	buf []byte

	mu   sync.Mutex
	wake int // an eventfd; -1 after Close
}

// Event is a name that was made in, moved into, or written to in a folder.
type Event struct {
	Folder int    // what Add returned
	Name   string // hostile bytes; "" for the folder itself
	Lost   bool   // there were more events than the kernel keeps: anything may have happened
}

// New makes a watcher that watches nothing yet. The kernel bounds their number
// for each user.
func New() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make an inotify watcher: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make an inotify watcher: %w", errors.Join(err, unix.Close(fd)))
	}
	const events = 256
	return &Watcher{fd: fd, wake: wake, buf: make([]byte, events*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))}, nil
}

// Add watches a folder that is held open, wherever it is moved.
func (w *Watcher) Add(dir *os.File) (int, error) {
	const mask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ONLYDIR
	folder, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), mask)
	if err != nil {
		return 0, fmt.Errorf("watch %s: %w", dir.Name(), err)
	}
	return folder, nil
}

// Wake has Wait return now, or at once when it is called next.
func (w *Watcher) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake >= 0 {
		_, _ = unix.Write(w.wake, binary.NativeEndian.AppendUint64(nil, 1)) // one that is full is awake
	}
}

// Wait returns what happened, or nothing after patience or a Wake.
func (w *Watcher) Wait(patience time.Duration) ([]Event, error) {
	poll := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN, Revents: 0}, {Fd: int32(w.wake), Events: unix.POLLIN, Revents: 0}}
	n, err := unix.Poll(poll, int(patience.Milliseconds()))
	if n == 0 || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("wait for file events: %w", err)
	}
	var woken [8]byte
	_, _ = unix.Read(w.wake, woken[:]) // nothing, unless somebody woke it
	size, err := unix.Read(w.fd, w.buf)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read file events: %w", err)
	}
	return decode(w.buf[:size]), nil
}

// decode reads struct inotify_event, one after the other: folder, mask,
// cookie, length of the name, and the name with NULs behind it.
func decode(b []byte) (events []Event) {
	for len(b) >= unix.SizeofInotifyEvent {
		folder, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		name := bytes.TrimRight(b[unix.SizeofInotifyEvent:min(end, len(b))], "\x00")
		events = append(events, Event{Folder: int(folder), Name: string(name), Lost: mask&unix.IN_Q_OVERFLOW != 0})
		b = b[min(end, len(b)):]
	}
	return events
}

// Close ends all watches.
func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake < 0 {
		return nil
	}
	err := errors.Join(unix.Close(w.fd), unix.Close(w.wake))
	w.wake = -1
	if err != nil {
		return fmt.Errorf("close inotify watcher: %w", err)
	}
	return nil
}
