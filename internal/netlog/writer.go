package netlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// keptParts is how many files of a class a run keeps; the oldest goes.
const keptParts = 2

// Writer writes the records of one run. It is safe for concurrent use.
//
// A record is one write(2), in the kernel's hands when Write returns: the end
// of this process, however it ends, does not take it back.
type Writer struct {
	dir  string
	uid  int
	run  file // its start and id
	now  func() time.Time
	fail func(error)

	mu    sync.Mutex
	root  *os.Root // nil before the first record
	parts [classes]part
	lost  int // records since writing began to fail
	cause error
	told  bool
}

// part is the file that a class is written to.
type part struct {
	f     *os.File
	n     int   // its number, from 1
	size  int64 // bytes
	dirty bool  // the last write was not whole
}

// NewWriter returns a writer for the run of a sandbox that began at now().
// Nothing is made before the first record. fail is told the first error, once:
// the records are lost then, until one can be written again.
func NewWriter(state string, uid int, id bailey.SandboxID, now func() time.Time, fail func(error)) *Writer {
	return &Writer{dir: Dir(state), uid: uid, run: file{began: now(), id: id}, now: now, fail: fail}
}

// Write keeps a record. That it could not is told by fail.
func (w *Writer) Write(r Record) {
	w.mu.Lock()
	err := w.write(r)
	if err == nil && w.lost > 0 {
		missing := Record{
			Time: w.now().UTC(), Sandbox: r.Sandbox, ID: r.ID, Reason: policy.ReasonNotRecorded,
			Message: fmt.Sprintf("%d decisions before this one could not be recorded: %v", w.lost, w.cause),
		}
		w.lost, w.cause = 0, nil
		err = w.write(missing)
	}
	tell := false
	if err != nil {
		w.lost++
		w.cause = err
		tell = !w.told
		w.told = true
	}
	w.mu.Unlock()
	if tell {
		w.fail(err)
	}
}

func (w *Writer) write(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("bug: a record cannot be written: %w", err)
	}
	line = append(line, '\n')
	c := classOf(r)
	p, err := w.part(c, int64(len(line)))
	if err != nil {
		return err
	}
	if p.dirty { // a line of its own, whatever is before
		line = append([]byte{'\n'}, line...)
	}
	n, err := p.f.Write(line)
	p.size += int64(n)
	if n > 0 {
		p.dirty = n < len(line)
	}
	return err
}

// part returns the file for so many more bytes of a class.
func (w *Writer) part(c class, more int64) (*part, error) {
	p := &w.parts[c]
	if p.f != nil && p.size+more <= c.limit() {
		return p, nil
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	name := w.run
	name.class, name.part = c.String(), p.n+1
	f, err := w.root.OpenFile(name.name(), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_ = lock(f) // one that is not locked is only removed sooner
	if p.f != nil {
		_ = p.f.Close()
	}
	*p = part{f: f, n: name.part}
	if name.part -= keptParts; name.part > 0 {
		_ = w.root.Remove(name.name())
	}
	return p, nil
}

// open opens the folder, and makes room in it.
func (w *Writer) open() error {
	if w.root != nil {
		return nil
	}
	root, err := prepare(w.dir, w.uid)
	if err != nil {
		return err
	}
	w.root = root
	prune(root, w.now())
	return nil
}

// Close says what is still to be said, and ends the writing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for i := range w.parts {
		if f := w.parts[i].f; f != nil {
			errs = append(errs, f.Close())
		}
	}
	if w.root != nil {
		errs = append(errs, w.root.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the record of decisions: %w", err)
	}
	return nil
}
