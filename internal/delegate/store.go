package delegate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/task"
)

// Bounds of the files.
const (
	mostRecord = 4 << 20
	mostPart   = 16 << 20 // of a part that is kept
	mostFiles  = 100_000  // names that are looked at
)

// part names a file beside a task's record.
type part string

// The parts.
const (
	partReport part = "report"
	partDiff   part = "diff"
	partLog    part = "log"
	partChecks part = "checks"
	partTold   part = "told" // what happened, as JSON lines
)

func allParts() []part { return []part{partReport, partDiff, partLog, partChecks, partTold} }

// store is the folder: ID.json for each task, ID.PART beside it. A record is
// written whole beside the old one and put into its place, so that a crash at
// any moment leaves one or the other.
type store struct{ root *os.Root }

const (
	recordEnd = ".json"
	freshEnd  = ".json.new"
)

// openStore opens the folder, which must be private and the process's own.
func openStore(dir string) (*store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "open the folder of tasks", err, "")
	}
	fi, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || fi.Mode().Perm()&0o077 != 0 || int(st.Uid) != os.Geteuid() {
		_ = root.Close()
		return nil, bailey.NewError(bailey.Forbidden, "the folder of tasks is not private, or not of the user that serves them", "remove it, or set XDG_STATE_HOME to a folder of yours")
	}
	return &store{root: root}, nil
}

func (s *store) close() error { return s.root.Close() }

// damage is a file of a task that cannot be read.
type damage struct {
	id  task.ID
	err error
}

// load reads all records. What a crash left half-written is removed.
func (s *store) load() (records []*record, damaged []damage, err error) {
	dir, err := s.root.Open(".")
	if err != nil {
		return nil, nil, err
	}
	names, err := dir.Readdirnames(mostFiles)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, nil, fmt.Errorf("list tasks: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, freshEnd) {
			_ = s.root.Remove(name)
			continue
		}
		id, ok := strings.CutSuffix(name, recordEnd)
		if !ok || !task.ID(id).Valid() {
			continue
		}
		r, err := s.read(task.ID(id))
		if err != nil {
			damaged = append(damaged, damage{task.ID(id), err})
			continue
		}
		records = append(records, r)
	}
	return records, damaged, nil
}

func (s *store) read(id task.ID) (*record, error) {
	data, _, err := s.slice(string(id)+recordEnd, 0, mostRecord+1)
	if err != nil {
		return nil, err
	}
	if len(data) > mostRecord {
		return nil, errors.New("it is damaged: it is too long")
	}
	return parseRecord(id, data)
}

// save writes a record, and returns when a power cut would not take it.
func (s *store) save(r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("bug: a record cannot be written: %w", err)
	}
	name := string(r.Task.ID)
	f, err := s.root.OpenFile(name+freshEnd, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = s.root.Remove(name + freshEnd)
		return err
	}
	if err := s.root.Rename(name+freshEnd, name+recordEnd); err != nil {
		return err
	}
	return s.sync()
}

// sync makes the folder's names last.
func (s *store) sync() error {
	dir, err := s.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// remove takes a task's files away, the record last: a crash before leaves a
// task that can be removed again.
func (s *store) remove(id task.ID) error {
	for _, p := range allParts() {
		if err := s.drop(id, p); err != nil {
			return err
		}
	}
	if err := s.root.Remove(string(id) + recordEnd); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.sync()
}

func (s *store) drop(id task.ID, p part) error {
	if err := s.root.Remove(string(id) + "." + string(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// partFile takes the bytes of a part, at most mostPart; it counts the rest.
type partFile struct {
	f     *os.File
	size  int64 // that was given
	limit int64
}

// create begins a part anew.
func (s *store) create(id task.ID, p part) (*partFile, error) {
	f, err := s.root.OpenFile(string(id)+"."+string(p), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the %s: %w", p, err)
	}
	return &partFile{f: f, limit: mostPart}, nil
}

// Write keeps what fits.
func (p *partFile) Write(b []byte) (int, error) {
	room := max(0, p.limit-p.size)
	p.size += int64(len(b))
	if kept := b[:min(int64(len(b)), room)]; len(kept) > 0 {
		if _, err := p.f.Write(kept); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (p *partFile) close() error { return errors.Join(p.f.Sync(), p.f.Close()) }

// put writes a part whole.
func (s *store) put(id task.ID, p part, data []byte) error {
	f, err := s.create(id, p)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.close())
}

// piece reads up to most bytes of a part from an offset, and its length. A part
// that is not there is empty.
func (s *store) piece(id task.ID, p part, offset int64, most int) (data []byte, total int64, err error) {
	data, total, err = s.slice(string(id)+"."+string(p), offset, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	return data, total, err
}

// slice reads a part of a file.
func (s *store) slice(name string, offset int64, most int) (data []byte, total int64, err error) {
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, errors.New("it is no file")
	}
	n := max(0, min(int64(most), fi.Size()-offset))
	data = make([]byte, n)
	got, err := f.ReadAt(data, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:got], fi.Size(), err
}
