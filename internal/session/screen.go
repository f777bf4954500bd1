package session

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// filtered is a terminal that gets what may pass of a command's output.
//
// A terminal may take no bytes for as long as it likes: nobody who wants its
// settings back waits for a write. Who holds turn may write; mu is never held
// meanwhile.
type filtered struct {
	to      io.Writer
	turn    chan struct{} // holds an element while somebody writes
	scratch []byte        // of who holds turn

	mu     sync.Mutex
	ended  bool
	cut    bool // output ended within a write
	filter terminal.Filter
}

// emitted is how much a terminal gets at once, in bytes: what a terminal holds
// back takes at least that much, so one that was emptied is not waited for.
const emitted = 2048

// endString ends a control string that was cut, and is nothing elsewhere: ST
// (ECMA-48, 8.3.143).
const endString = "\x1b\\"

func newFiltered(to io.Writer) *filtered { return &filtered{to: to, turn: make(chan struct{}, 1)} }

// write writes what may pass of p.
func (f *filtered) write(p []byte) error {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if !f.pass(p) {
		return nil
	}
	for part := range slices.Chunk(f.scratch, emitted) {
		if f.isOver() {
			return nil
		}
		if err := f.emit(part); err != nil {
			return err
		}
	}
	return nil
}

// isOver reports whether output ended, and that some was still to be written.
func (f *filtered) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = f.cut || f.ended
	return f.ended
}

// pass puts what may pass of p into scratch. It reports false after finish.
func (f *filtered) pass(p []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.scratch = f.filter.Filter(f.scratch[:0], p)
	return true
}

func (f *filtered) emit(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if _, err := f.to.Write(p); err != nil {
		return fmt.Errorf("write to terminal: %w", err)
	}
	return nil
}

// say writes sequences of ours behind what is being written, if the terminal
// takes them soon. Errors are not told: a terminal that is gone needs none.
func (f *filtered) say(p []byte) {
	if len(p) > 0 {
		awaitSoon(f.saying(func() []byte { return p }))
	}
}

// saying writes what a function returns then, once it is its turn, and closes
// what it returns.
func (f *filtered) saying(what func() []byte) <-chan struct{} {
	said := make(chan struct{})
	go func() {
		defer close(said)
		f.turn <- struct{}{}
		defer func() { <-f.turn }()
		_ = f.emit(what())
	}()
	return said
}

// finish ends the output, and undoes what the command left on. A terminal that
// is behind with what the command wrote, which discard throws away, is waited
// for no longer than soon is, twice.
func (f *filtered) finish(discard func() error) {
	f.mu.Lock()
	again := f.ended
	f.ended = true
	f.mu.Unlock()
	if again {
		return
	}
	said := f.saying(f.last)
	if awaitSoon(said) || discard == nil {
		return
	}
	f.mu.Lock()
	f.cut = true
	f.mu.Unlock()
	if discard() == nil {
		awaitSoon(said)
	}
}

// last is what undoes what the command left on. What a terminal was emptied of
// or never got may have been the end of a sequence.
func (f *filtered) last() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.filter.Flush(nil)
	if f.cut {
		last = append(last[:0], endString...)
	}
	return append(last, f.filter.Reset()...)
}

func (f *filtered) dropped() terminal.Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.filter.Dropped()
}

// screen is the user's terminal while a command of the sandbox has it: for its
// input, and for all its output.
type screen struct {
	*filtered
	in, out *os.File

	found *pty.Modes // its settings before; mu guards it
	isRaw bool       // mu guards it
}

// newScreen makes one of a terminal that is read from in and written to by to,
// which is out or writes there.
func newScreen(in, out *os.File, to io.Writer) (*screen, error) {
	found, err := pty.ReadModes(in)
	if err != nil {
		return nil, err
	}
	return &screen{filtered: newFiltered(to), in: in, out: out, found: found}, nil
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

// giveBack makes the terminal's settings what they were.
func (s *screen) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isRaw {
		_ = s.found.Apply(s.in)
	}
}

// suspend gives the terminal back, stops this process, and takes the terminal
// again when it is continued. No output is written meanwhile.
func (s *screen) suspend() {
	mine := s.awaitTurn()
	s.mu.Lock()
	undo := s.filter.Reset()
	s.mu.Unlock()
	if mine {
		soon(func() { _ = s.emit(undo) })
	}
	s.giveBack()
	stop()
	again := s.take()
	if !mine {
		s.say(again)
		return
	}
	soon(func() { _ = s.emit(again) })
	<-s.turn
}

// awaitTurn takes the turn, unless what is being written takes too long. Then
// the stop of the process stops that too.
func (s *screen) awaitTurn() bool {
	select {
	case s.turn <- struct{}{}:
		return true
	case <-time.After(stuckAfter):
		return false
	}
}

// stop stops this process. The stop is for the thread that calls it: it stays
// on this one.
func stop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = pty.Stop() // if we cannot stop, we go on
}

// resume takes the terminal again after a stop that suspend did not make.
func (s *screen) resume() { s.say(s.take()) }

// take makes the terminal as the command had it, unless it is so already, and
// returns what then has to be written. The shell may have changed the
// settings since: what is found now is what will be restored.
func (s *screen) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || !s.isRaw {
		return nil
	}
	now, err := pty.ReadModes(s.in)
	if err != nil || now.Equal(now.Raw()) {
		return nil
	}
	s.found = now
	_ = now.Raw().Apply(s.in)
	return s.filter.Reapply()
}
