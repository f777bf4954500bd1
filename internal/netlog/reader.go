package netlog

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
)

// maxLine bounds a line that is read, in bytes; a longer one is passed over.
// None that a Writer writes comes near it.
const maxLine = 128 << 10

// Reader reads the records of a user.
type Reader struct {
	root    *os.Root
	offsets map[string]int64 // up to where a file was read
}

// OpenReader opens the records below a state folder. Where there are none yet
// it makes the folder, so that it can be followed.
func OpenReader(state string, uid int) (*Reader, error) {
	root, err := prepare(Dir(state), uid)
	if err != nil {
		if _, ok := errors.AsType[*bailey.Error](err); ok {
			return nil, err
		}
		return nil, bailey.WrapError(bailey.Unavailable, "open the record of decisions", err, "set XDG_STATE_HOME to a folder of yours")
	}
	return &Reader{root: root, offsets: map[string]int64{}}, nil
}

// Close ends the reading.
func (r *Reader) Close() error { return r.root.Close() }

// Read yields what is on record since an instant, in the order of time, until
// yield returns an error, which it returns. Memory does not grow with the
// record: files are read side by side.
func (r *Reader) Read(since time.Time, yield func(Record) error) error {
	runs, err := r.cursors(since)
	if err != nil {
		return err
	}
	var open cursors
	defer func() {
		for _, c := range open {
			_ = c.close()
		}
	}()
	for {
		runs = open.begin(runs)
		if len(open) == 0 {
			return nil // begin has passed over those that hold nothing
		}
		if rec := open[0].next; !rec.Time.Before(since) {
			if err := yield(rec); err != nil {
				return err
			}
		}
		open.step()
	}
}

// Rewind has the next Read begin again.
func (r *Reader) Rewind() { clear(r.offsets) }

// cursors returns one for each class of each run, the oldest first.
func (r *Reader) cursors(since time.Time) ([]*cursor, error) {
	files, err := list(r.root)
	if err != nil {
		return nil, fmt.Errorf("list the record of decisions: %w", err)
	}
	var out []*cursor
	for _, f := range files {
		fi, err := r.root.Lstat(f.name())
		if err != nil {
			continue // it was pruned
		}
		if fi.ModTime().Before(since) {
			r.offsets[f.name()] = fi.Size()
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].id == f.id && out[last].class == f.class {
			out[last].parts = append(out[last].parts, f)
			continue
		}
		out = append(out, &cursor{reader: r, began: f.began, id: f.id, class: f.class, parts: []file{f}})
	}
	return out, nil
}

// cursor reads the files of one class of a run, one after the other.
type cursor struct {
	reader *Reader
	began  time.Time
	id     bailey.SandboxID
	class  string
	parts  []file // yet to be opened
	name   string // of the open one
	lines  *lines // nil: none is open
	next   Record
}

// advance reads the next record, and reports whether there is one.
func (c *cursor) advance() bool {
	for {
		if c.lines == nil {
			if len(c.parts) == 0 {
				return false
			}
			c.name = c.parts[0].name()
			c.parts = c.parts[1:]
			c.lines, _ = c.reader.open(c.name) // one that is gone was pruned
			continue
		}
		rec, ok := c.lines.record()
		c.reader.offsets[c.name] = c.lines.offset
		if ok {
			c.next = rec
			return true
		}
		_ = c.close()
	}
}

func (c *cursor) close() error {
	if c.lines == nil {
		return nil
	}
	err := c.lines.f.Close()
	c.lines = nil
	return err
}

// cursors are a heap by the time of the next record.
type cursors []*cursor

// Len, Less, Swap, Push and Pop are of heap.Interface.
func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return h[i].next.Time.Before(h[j].next.Time) }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any) {
	if c, ok := x.(*cursor); ok {
		*h = append(*h, c)
	}
}

func (h *cursors) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// begin opens those runs that began before the next record, in their order,
// and returns the rest.
func (h *cursors) begin(runs []*cursor) []*cursor {
	for len(runs) > 0 && (len(*h) == 0 || !runs[0].began.After((*h)[0].next.Time)) {
		if c := runs[0]; c.advance() {
			heap.Push(h, c)
		}
		runs = runs[1:]
	}
	return runs
}

// step goes on by one record.
func (h *cursors) step() {
	if (*h)[0].advance() {
		heap.Fix(h, 0)
	} else {
		heap.Pop(h)
	}
}

// lines reads a file from where it was read to.
type lines struct {
	f      *os.File
	r      *bufio.Reader
	offset int64 // behind the last whole line
}

func (r *Reader) open(name string) (*lines, error) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	at := r.offsets[name]
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return nil, firstOf(err, f.Close())
	}
	return &lines{f: f, r: bufio.NewReaderSize(f, maxLine), offset: at}, nil
}

// record returns the next line that is a record. What is none is passed over:
// a full disk may have cut it. A line without its end is not there yet.
func (l *lines) record() (Record, bool) {
	for {
		line, err := l.r.ReadSlice('\n')
		l.offset += int64(len(line))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue // the rest of it is no record either
		case err != nil:
			l.offset -= int64(len(line))
			return Record{}, false
		}
		var rec Record
		if json.Unmarshal(bytes.TrimSpace(line), &rec) == nil && !rec.Time.IsZero() {
			return rec, true
		}
	}
}

// fresh returns the records that came to the named files since they were read,
// in the order of time; of all files where none is named.
func (r *Reader) fresh(names []string) ([]Record, error) {
	if names == nil {
		var err error
		if names, err = r.grown(); err != nil {
			return nil, err
		}
	}
	var out []Record
	for _, name := range names {
		more, err := r.rest(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // then it was pruned
			return nil, fmt.Errorf("read the record of decisions: %w", err)
		}
		out = append(out, more...)
	}
	slices.SortStableFunc(out, func(a, b Record) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// grown returns the files that hold more than was read.
func (r *Reader) grown() ([]string, error) {
	files, err := list(r.root)
	if err != nil {
		return nil, fmt.Errorf("list the record of decisions: %w", err)
	}
	var names []string
	for _, f := range files {
		if fi, err := r.root.Lstat(f.name()); err == nil && fi.Size() > r.offsets[f.name()] {
			names = append(names, f.name())
		}
	}
	return names, nil
}

// rest reads what came to a file.
func (r *Reader) rest(name string) ([]Record, error) {
	l, err := r.open(name)
	if err != nil {
		return nil, err
	}
	var out []Record
	for rec, ok := l.record(); ok; rec, ok = l.record() {
		out = append(out, rec)
	}
	r.offsets[name] = l.offset
	return out, l.f.Close()
}
