package budget

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
)

// Page is the file of a day, open for reading and writing. It is an opening of
// its own (open(2)), which no other process uses: locks are of the opening.
type Page struct {
	Day  Day
	File *os.File
}

// page is a day's file as far as it was read. What it holds is true while the
// file is locked.
type page struct {
	Page

	offset int64 // up to which it was read
	torn   bool  // its last line has no end: whoever wrote it died
	ended  Day   // the day that follows, once nothing more is reserved here
	odd    int   // lines that say nothing

	settled map[callID]struct{}
	open    map[callID]*record
	sums    map[sumKey]amount // of what is settled
	pending []record          // settlements that are not in the file yet
	dirty   bool              // something was written that is not known to be kept
	mine    identity
}

// identity is whose task and run are summed up.
type identity struct{ task, run string }

// sumKey is what something is summed up for; model is empty over all models.
type sumKey struct {
	scope Scope
	model string
}

func newPage(p Page, mine identity) *page {
	return &page{Page: p, settled: map[callID]struct{}{}, open: map[callID]*record{}, sums: map[sumKey]amount{}, mine: mine}
}

func keyOf(s Scope, model string) sumKey {
	if s == OfModelDay || s == OfModelTask {
		return sumKey{s, model}
	}
	return sumKey{s, ""}
}

// counts reports whether a record is of a scope.
func (p *page) counts(s Scope, r *record) bool {
	switch s {
	case OfRun:
		return r.Task == p.mine.task && r.run() == p.mine.run
	case OfModelTask, OfTask:
		return r.Task == p.mine.task
	case OfModelDay, OfDay:
		return true
	}
	return true
}

// apply takes a record in. Of one call only the first of each kind counts.
func (p *page) apply(r record) {
	switch r.Kind {
	case endOfDay:
		p.ended = max(p.ended, r.Next)
	case reserveOne:
		_, settled := p.settled[r.ID]
		if _, known := p.open[r.ID]; !known && !settled {
			p.open[r.ID] = &r
		}
	case settleOne:
		if _, known := p.settled[r.ID]; known {
			return
		}
		p.settled[r.ID] = struct{}{}
		delete(p.open, r.ID)
		for _, s := range scopes() {
			if p.counts(s, &r) {
				key := keyOf(s, r.Model)
				p.sums[key] = p.sums[key].plus(r.amount())
			}
		}
	case dayLine:
	}
}

// held sums up what is open for a scope: alive is what may still be released,
// rest is of calls that began so long ago that nobody waits for their end.
func (p *page) held(s Scope, model string, now time.Time) (alive, rest amount) {
	const patience = 30 * time.Minute
	for _, r := range p.open {
		if !p.counts(s, r) || keyOf(s, r.Model) != keyOf(s, model) {
			continue
		}
		if now.Sub(time.UnixMilli(r.At)) > patience {
			rest = rest.plus(r.amount())
		} else {
			alive = alive.plus(r.amount())
		}
	}
	return alive, rest
}

// read takes in what was added since the last time. The file is locked.
func (p *page) read() error {
	size, err := p.size()
	if err != nil {
		return err
	}
	if size < p.offset {
		return bailey.NewError(bailey.Unavailable, "the record of usage "+p.File.Name()+" is shorter than it was", "nothing may change it but bailey; end the sandboxes that use it")
	}
	if size == p.offset {
		return nil
	}
	const chunk = 256 << 10
	var rest []byte
	buf := make([]byte, min(chunk, size-p.offset))
	for at := p.offset; at < size; {
		n, err := p.File.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && (!errors.Is(err, io.EOF) || n == 0) {
			return p.failed("read", err)
		}
		at += int64(n)
		if rest, err = p.lines(append(rest, buf[:n]...)); err != nil {
			return err
		}
	}
	p.torn = len(rest) > 0
	p.offset = size
	return nil
}

// lines takes in whole lines, and returns what follows the last of them. A line
// that is longer than any of ours is not kept.
func (p *page) lines(b []byte) (rest []byte, err error) {
	for {
		line, more, found := bytes.Cut(b, []byte("\n"))
		if !found {
			if len(b) > longestLine {
				b = b[:longestLine+1]
			}
			return bytes.Clone(b), nil
		}
		if err := p.line(line); err != nil {
			return nil, err
		}
		b = more
	}
}

func (p *page) line(b []byte) error {
	r, ok := glance(b)
	switch {
	case !ok:
		if len(b) > 0 {
			p.odd++
		}
	case r.Kind == dayLine && r.Version > formatVersion:
		return bailey.NewError(bailey.Unsupported, "the record of usage "+p.File.Name()+" was begun by a newer bailey", "use that one")
	case r.Kind == dayLine && r.Day != p.Day:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("the record of usage %s is of the day %.12s, and not of %s", p.File.Name(), r.Day, p.Day), "put it back where it was")
	default:
		p.apply(r)
	}
	return nil
}

// append adds records to the file, all or none. It is locked, and read to its
// end.
func (p *page) append(list ...record) error {
	var out []byte
	if p.torn {
		out = append(out, '\n')
	}
	if p.offset == 0 {
		list = append([]record{{Kind: dayLine, Version: formatVersion, Day: p.Day}}, list...)
	}
	for i := range list {
		line, err := list[i].line()
		if err != nil {
			return err
		}
		out = append(out, line...)
	}
	if _, err := p.File.WriteAt(out, p.offset); err != nil {
		// Nobody has read it: who does holds the lock.
		if short := p.File.Truncate(p.offset); short != nil {
			p.torn = true // as far as is known; an empty line says nothing
			if size, sized := p.size(); sized == nil {
				p.offset = size
			}
		}
		return p.failed("write", err)
	}
	if p.torn {
		p.odd++
	}
	p.torn, p.dirty = false, true
	p.offset += int64(len(out))
	for _, r := range list {
		p.apply(r)
	}
	return nil
}

// settlePending adds the settlements that could not be added when they were
// due. The file is locked, and read to its end.
func (p *page) settlePending() error {
	if len(p.pending) == 0 {
		return nil
	}
	err := p.append(p.pending...)
	if err == nil {
		p.pending = nil
	}
	return err
}

func (p *page) size() (int64, error) {
	fi, err := p.File.Stat()
	if err != nil {
		return 0, p.failed("look at", err)
	}
	return fi.Size(), nil
}

func (p *page) failed(verb string, err error) error {
	return bailey.WrapError(bailey.Unavailable, verb+" the record of usage "+p.File.Name(), err, "while it cannot be kept, no model is called: make room on the disk, or make the file writable")
}

// longestLock is how long the lock of a file is waited for. It is held for some
// microseconds, unless its holder was stopped meanwhile.
const longestLock = 5 * time.Second

// locked calls f while no other process reads or writes the file. It gives up
// when stop is closed.
func (p *page) locked(stop <-chan struct{}, f func() error) error {
	if err := lock(stop, p.File); err != nil {
		return p.failed("lock", err)
	}
	err := f()
	if unlock := flock(p.File, syscall.LOCK_UN); unlock != nil {
		return errors.Join(err, p.failed("unlock", unlock))
	}
	return err
}

// lock takes a file's lock. It asks again and again in place of sleeping in the
// kernel, where a stopped holder would keep it for ever.
func lock(stop <-chan struct{}, f *os.File) error {
	const first, longest = 20 * time.Microsecond, 2 * time.Millisecond
	pause, waited := first, time.Duration(0)
	for {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if waited > longestLock {
			return errors.New("another process does not let go of it")
		}
		if !pauseFor(stop, pause) {
			return errors.New("it is not waited for any longer")
		}
		waited += pause
		pause = min(2*pause, longest)
	}
}

// pauseFor waits, and reports whether it was not stopped.
func pauseFor(stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
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
