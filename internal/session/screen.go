package session

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// screen is the user's terminal while a command of the sandbox has it.
type screen struct {
	in, out *os.File
	found   *pty.Modes // its settings before

	mu      sync.Mutex
	isRaw   bool
	ended   bool
	filter  terminal.Filter
	scratch []byte
}

func newScreen(in, out *os.File) (*screen, error) {
	found, err := pty.ReadModes(in)
	if err != nil {
		return nil, err
	}
	return &screen{in: in, out: out, found: found}, nil
}

// size returns the terminal's size, zero when it has none.
func (s *screen) size() pty.Size {
	size, err := pty.GetSize(s.out)
	if err != nil {
		return pty.Size{}
	}
	return size
}

// raw makes each key a byte for the command.
func (s *screen) raw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.isRaw = true
	return s.found.Raw().Apply(s.in)
}

// write writes what may pass of p.
func (s *screen) write(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.scratch = s.filter.Filter(s.scratch[:0], p)
	return s.emit(s.scratch)
}

func (s *screen) emit(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if _, err := s.out.Write(p); err != nil {
		return fmt.Errorf("write to terminal: %w", err)
	}
	return nil
}

// restore gives the terminal back as it was found, and undoes what the
// command left on. A terminal that is gone needs neither.
func (s *screen) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	_ = s.emit(s.filter.Flush(nil))
	_ = s.emit(s.filter.Reset())
	if s.isRaw {
		_ = s.found.Apply(s.in)
	}
}

// suspend gives the terminal back, stops this process, and takes the terminal
// again when it is continued. No output is written meanwhile.
func (s *screen) suspend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.emit(s.filter.Reset())
	if s.isRaw {
		_ = s.found.Apply(s.in)
	}
	// The stop is for the thread that calls it: stay on this one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = pty.Stop() // if we cannot stop, we go on
	s.take()
}

// resume takes the terminal again after a stop that suspend did not make.
func (s *screen) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take()
}

// take makes the terminal as the command had it, unless it is so already. The
// shell may have changed its settings since: what is found now is what will
// be restored.
func (s *screen) take() {
	if s.ended || !s.isRaw {
		return
	}
	now, err := pty.ReadModes(s.in)
	if err != nil || now.Equal(now.Raw()) {
		return
	}
	s.found = now
	_ = now.Raw().Apply(s.in)
	_ = s.emit(s.filter.Reapply())
}

func (s *screen) dropped() terminal.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filter.Dropped()
}
