package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
)

// mostRecord bounds one record that is read.
const mostRecord = 1 << 20

// errRecord is wrapped by the error for a file that holds something else.
var errRecord = errors.New("not a record of bailey's")

// Record is something that was written.
type Record struct {
	Time    time.Time
	Stream  Stream
	Data    []byte // valid until the next Next
	Skipped int64  // bytes of output right before it that were thrown away
}

// Reader reads the output of one run, from the beginning of what is kept.
type Reader struct {
	Run Run

	state string
	uid   int
	dir   string
	root  *os.Root

	number int // of the file that is read; 0 is none yet
	file   *os.File
	head   bool  // its first line has been read
	offset int64 // in it
	output int64 // bytes of output before that
	buf    []byte
}

// Open opens the newest run of that name. One that there is none of is NotFound.
func Open(state string, uid int, name string) (*Reader, error) {
	root, err := open(state, uid)
	if err != nil && !isAbsent(err) {
		return nil, err
	}
	if err == nil {
		defer func() { _ = root.Close() }() // the reader's own is another
		for _, k := range list(root) {
			if before, _, _ := strings.Cut(k.dir, "."); before != name {
				continue
			}
			r := &Reader{state: state, uid: uid, dir: k.dir}
			if r.root, err = root.OpenRoot(k.dir); err != nil {
				continue // it is being pruned
			}
			if err = readJSON(r.root, metaName, &r.Run); err == nil {
				return r, nil
			}
			_ = r.root.Close()
		}
	}
	return nil, bailey.NewError(bailey.NotFound, fmt.Sprintf("there is no output of a sandbox named %q", name), keptHint(state, uid))
}

// keptHint names some of what output is kept of.
func keptHint(state string, uid int) string {
	hint := "output is kept of what was started with bailey run --detach"
	if names := Names(state, uid); len(names) > 0 {
		const most = 6
		hint += ": " + strings.Join(names[:min(len(names), most)], ", ")
		if more := len(names) - most; more > 0 {
			hint += fmt.Sprintf(" and %d more (bailey ps --all)", more)
		}
	}
	return hint
}

// Close lets go of the files.
func (r *Reader) Close() error {
	err := r.root.Close()
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	return err
}

// Lasts reports whether the run goes on.
func (r *Reader) Lasts() bool {
	root, err := open(r.state, r.uid)
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }() // read only: nothing to lose
	return Lasts(root, r.dir)
}

// End returns how the run ended; false while it goes on, and for one whose
// holder was killed.
func (r *Reader) End() (End, bool) {
	var e End
	err := readJSON(r.root, endName, &e)
	return e, err == nil
}

// Next returns the next record; io.EOF where there is none yet.
func (r *Reader) Next() (Record, error) {
	for {
		rec, err := r.read()
		if !errors.Is(err, io.EOF) {
			return rec, err
		}
		next := r.after()
		if next == 0 {
			return Record{}, io.EOF
		}
		if rec, err = r.read(); !errors.Is(err, io.EOF) { // written before the next was begun
			return rec, err
		}
		if err := r.turnTo(next); err != nil && !isAbsent(err) {
			return Record{}, err
		}
	}
}

// after returns the number of the file behind the one that is read, or 0.
func (r *Reader) after() int {
	d, err := r.root.Open(".")
	if err != nil {
		return 0
	}
	defer func() { _ = d.Close() }() // read only: nothing to lose
	names, _ := d.Readdirnames(-1)
	var numbers []int
	for _, name := range names {
		n := 0
		if _, err := fmt.Sscanf(name, "%06d.log", &n); err == nil && name == partName(n) && n > r.number {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return 0
	}
	return slices.Min(numbers)
}

func (r *Reader) turnTo(number int) error {
	f, err := r.root.OpenFile(partName(number), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if r.file != nil {
		_ = r.file.Close() // read only: nothing to lose
	}
	r.file, r.number, r.offset, r.head = f, number, 0, false
	return nil
}

// read reads the next record of the file.
func (r *Reader) read() (Record, error) {
	if r.file == nil {
		return Record{}, io.EOF
	}
	skipped := int64(0)
	if !r.head {
		line, err := r.line()
		if err != nil {
			return Record{}, err
		}
		before := int64(0)
		if _, err := fmt.Sscanf(line, "bailey-log 1 %d", &before); err != nil {
			return Record{}, fmt.Errorf("%s: %w", filepath.Join(r.dir, partName(r.number)), errRecord)
		}
		r.head = true
		skipped = before - r.output
		r.output = before
	}
	begin := r.offset
	rec, err := r.record()
	if err != nil {
		r.offset = begin // it is not all there
		if skipped > 0 { // but that is
			return Record{Skipped: skipped, Stream: Said}, nil
		}
		return Record{}, err
	}
	rec.Skipped = skipped
	r.output += int64(len(rec.Data))
	return rec, nil
}

func (r *Reader) record() (Record, error) {
	line, err := r.line()
	if err != nil {
		return Record{}, err
	}
	var at int64
	var stream byte
	var n int
	if _, err := fmt.Sscanf(line, "%d %c %d", &at, &stream, &n); err != nil || n < 0 || n > mostRecord {
		return Record{}, fmt.Errorf("%s: %w", filepath.Join(r.dir, partName(r.number)), errRecord)
	}
	if cap(r.buf) < n+1 {
		r.buf = make([]byte, n+1)
	}
	b := r.buf[:n+1]
	if _, err := r.file.ReadAt(b, r.offset); err != nil {
		return Record{}, io.EOF
	}
	r.offset += int64(len(b))
	return Record{Time: time.UnixMilli(at), Stream: Stream(stream), Data: b[:n]}, nil
}

// line reads one line of ours.
func (r *Reader) line() (string, error) {
	var buf [80]byte
	n, err := r.file.ReadAt(buf[:], r.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	line, _, whole := bytes.Cut(buf[:n], []byte{'\n'})
	switch {
	case whole:
		r.offset += int64(len(line) + 1)
		return string(line), nil
	case n == len(buf):
		return "", fmt.Errorf("%s: %w", filepath.Join(r.dir, partName(r.number)), errRecord)
	}
	return "", io.EOF
}
