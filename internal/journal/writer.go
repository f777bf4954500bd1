package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
)

// parts is how many files the output of a run is spread over at least, once it
// has reached its limit: one of them is thrown away at a time.
const parts = 8

// LeastLimit is the least that a run's output can be bounded to.
const LeastLimit = 64 << 10

// Writer keeps the output of one run. Several may write at once.
type Writer struct {
	root  *os.Root
	lock  *os.File
	limit int64 // bytes of output
	now   func() time.Time

	mu     sync.Mutex
	err    error // nothing is kept since
	file   *os.File
	all    []part // oldest first; the last is being written
	kept   int64  // bytes of output in all
	before int64  // bytes of output before those of all
}

// part is one file.
type part struct {
	number int
	output int64
	size   int64
}

// Create begins to keep the output of a run.
func Create(state string, uid int, r Run) (*Writer, error) {
	hint := func(err error) error {
		return bailey.WrapError(bailey.Unavailable, "keep the output in "+Dir(state), err, "set XDG_STATE_HOME to a folder of yours")
	}
	if err := os.MkdirAll(Dir(state), 0o700); err != nil {
		return nil, hint(err)
	}
	root, err := open(state, uid)
	if err != nil {
		return nil, hint(err)
	}
	defer func() { _ = root.Close() }() // the run's own is another
	prune(root, r.Started)
	dir := folder(r.Name, r.ID)
	if err := root.Mkdir(dir, 0o700); err != nil {
		return nil, hint(err)
	}
	w := &Writer{limit: max(r.Limit, LeastLimit), now: time.Now} //nolint:forbidigo // the holder has the clock on the wall
	if w.root, err = root.OpenRoot(dir); err != nil {
		return nil, hint(err)
	}
	w.lock, err = w.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = syscall.Flock(int(w.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = writeJSON(w.root, metaName, r)
	}
	if err == nil {
		err = w.next()
	}
	if err != nil {
		return nil, errors.Join(hint(err), w.discard(state, uid, dir))
	}
	return w, nil
}

func (w *Writer) discard(state string, uid int, dir string) error {
	err := w.close()
	root, oerr := open(state, uid)
	if oerr != nil {
		return errors.Join(err, oerr)
	}
	return errors.Join(err, root.RemoveAll(dir), root.Close())
}

func partName(number int) string { return fmt.Sprintf("%06d.log", number) }

// next begins another file. Its first line says how much output was before it.
func (w *Writer) next() error {
	number := 1
	if len(w.all) > 0 {
		number = w.all[len(w.all)-1].number + 1
	}
	f, err := w.root.OpenFile(partName(number), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if w.file != nil {
		_ = w.file.Close() // all was written to it
	}
	w.file = f
	n, err := fmt.Fprintf(f, "bailey-log 1 %d\n", w.before+w.kept)
	w.all = append(w.all, part{number: number, size: int64(n)})
	return err
}

// Write keeps something. What cannot be kept, on a full disk, is told once, by
// the error; the run goes on without.
func (w *Writer) Write(s Stream, p []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(p) > 0 && w.err == nil {
		most := w.limit / parts
		last := &w.all[len(w.all)-1]
		if last.output >= most || last.size >= 2*most {
			if w.err = w.next(); w.err != nil {
				return w.err
			}
			continue
		}
		n := min(int64(len(p)), most-last.output)
		if w.err = w.append(s, p[:n]); w.err != nil {
			return w.err
		}
		p = p[n:]
	}
	return nil
}

func (w *Writer) append(s Stream, p []byte) error {
	record := fmt.Appendf(nil, "%d %c %d\n", w.now().UnixMilli(), s, len(p))
	record = append(record, p...)
	record = append(record, '\n')
	if _, err := w.file.Write(record); err != nil {
		return err
	}
	last := &w.all[len(w.all)-1]
	last.size += int64(len(record))
	last.output += int64(len(p))
	w.kept += int64(len(p))
	w.shrink()
	return nil
}

// shrink throws the oldest away until the rest is within the limit: of output,
// and where that came in tiny pieces, of the files.
func (w *Writer) shrink() {
	size := int64(0)
	for _, p := range w.all {
		size += p.size
	}
	for len(w.all) > 1 && (w.kept > w.limit || size > 2*w.limit) {
		oldest := w.all[0]
		_ = w.root.Remove(partName(oldest.number)) // what is left is swept with the run
		w.all = w.all[1:]
		w.kept -= oldest.output
		w.before += oldest.output
		size -= oldest.size
	}
}

// End notes how the run ended. Nothing may be written afterwards.
func (w *Writer) End(e End) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := writeJSON(w.root, endName, e)
	w.err = os.ErrClosed
	return errors.Join(err, w.close())
}

// Discard removes what was kept of a run that never began.
func (w *Writer) Discard() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = os.ErrClosed
	path := w.root.Name()
	err := w.close()
	return errors.Join(err, os.RemoveAll(filepath.Clean(path)))
}

func (w *Writer) close() error {
	var errs []error
	if w.file != nil {
		errs = append(errs, w.file.Close())
	}
	if w.lock != nil {
		errs = append(errs, w.lock.Close())
	}
	if w.root != nil {
		errs = append(errs, w.root.Close())
	}
	return errors.Join(errs...)
}
