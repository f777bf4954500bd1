package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/task"
)

// Names in a task's folder.
const (
	stateName     = "state.json"
	workName      = "work"             // what belongs to the owner of the repository, who may not be the launcher's user
	diskName      = workName + "/disk" // of fixed size, where the machine has that: see disk.go
	imageName     = "disk.img"
	workspaceName = diskName + "/workspace"
	shadowName    = workName + "/shadow.git"
	outputName    = "output.log"
	errorsName    = "errors.log"
	eventsName    = "events.log"
	collectedName = "collected"
)

// store is the folder that holds a folder for each task and check.
type store struct {
	dir  *os.File
	path string // where it lies, without links
}

// private makes a folder that is its owner's alone, with those above it, and
// refuses one that somebody else has, or may look into.
func private(path string, uid int) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return bailey.WrapError(bailey.Unavailable, "make the folder "+path, err, "make it yours, or set XDG_DATA_HOME, XDG_STATE_HOME and XDG_CONFIG_HOME to folders of yours")
	}
	dir, err := beneath.Follow(nil, path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	info, err := beneath.Lstat(dir, "")
	if err != nil {
		return err
	}
	if info.UID != uid || info.Mode.Perm()&0o077 != 0 {
		return notPrivate(path, uid)
	}
	return nil
}

func notPrivate(path string, uid int) error {
	return bailey.NewError(bailey.Forbidden, fmt.Sprintf("the folder %s is not private to user %d", path, uid), fmt.Sprintf("make it so: chmod 700 %s", path))
}

// openStore makes and opens the folder of tasks in the data folder, which is
// there. It is no link, and its owner's alone.
func openStore(data, name string, uid int) (*store, error) {
	above, err := beneath.Follow(nil, data)
	if err != nil {
		return nil, err
	}
	defer func() { _ = above.Close() }() // O_PATH: nothing to lose
	if err := beneath.MkdirPrivate(above, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dir, err := beneath.Sub(above, name)
	if err != nil {
		return nil, bailey.WrapError(bailey.Forbidden, "open the folder of tasks", err, "it has to be a folder, and no link to one: "+filepath.Join(data, name))
	}
	info, err := beneath.Lstat(dir, "")
	if err == nil && (info.UID != uid || info.Mode.Perm()&0o077 != 0) {
		err = notPrivate(filepath.Join(data, name), uid)
	}
	path := ""
	if err == nil {
		path, err = beneath.Where(dir)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &store{dir: dir, path: path}, nil
}

// ids lists the tasks that have a folder. What is none of a task is passed over.
func (s *store) ids() ([]task.ID, error) {
	const most = 100_000
	entries, err := beneath.ReadDir(s.dir, "", most)
	if err != nil && !errors.Is(err, beneath.ErrStrange) {
		return nil, err
	}
	var out []task.ID
	for _, e := range entries {
		if id := task.ID(e.Name); id.Valid() && e.Type.IsDir() {
			out = append(out, id)
		}
	}
	return out, nil
}

// open opens a task's folder, and makes it if there is none. The caller closes
// it.
func (s *store) open(id task.ID) (*os.File, error) {
	if !id.Valid() { // whoever asked has looked; a path is made of it here
		return nil, fmt.Errorf("open the folder of task %q: %w", id, fs.ErrInvalid)
	}
	if err := beneath.MkdirPrivate(s.dir, string(id)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return beneath.Sub(s.dir, string(id))
}

// makeWork makes the folders that a helper fills.
func (s *store) makeWork(id task.ID) error {
	dir, err := s.open(id)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	if err := beneath.MkdirPrivate(dir, workName); err != nil {
		return err
	}
	work, err := beneath.Sub(dir, workName)
	if err != nil {
		return err
	}
	defer func() { _ = work.Close() }() // O_PATH: nothing to lose
	return beneath.MkdirPrivate(work, filepath.Base(diskName))
}

// pathOf is where something of a task lies, for a child that opens it by name.
func (s *store) pathOf(id task.ID, name string) string {
	return filepath.Join(s.path, string(id), name)
}

// load reads a task's ledger; fs.ErrNotExist is that of one that has none.
func (s *store) load(id task.ID) (record, error) {
	data, _, err := beneath.ReadFile(s.dir, filepath.Join(string(id), stateName), maxRecord)
	if err != nil {
		return record{}, err
	}
	return decodeRecord(id, data)
}

// save writes a task's ledger; it is on the disk when save returns.
func (s *store) save(r *record) error {
	data, err := r.encode()
	if err != nil {
		return err
	}
	dir, err := s.open(r.ID)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	return beneath.Put(dir, stateName, data)
}

// removeAtOnce bounds one pass of removing a folder, in entries.
const removeAtOnce = 1 << 20

// remove removes something of a task, or with no name all of it. What is not
// there is removed.
func (s *store) remove(id task.ID, name string) error {
	if !id.Valid() {
		return fmt.Errorf("remove the folder of task %q: %w", id, fs.ErrInvalid)
	}
	for {
		err := beneath.Remove(s.dir, filepath.Join(string(id), name), removeAtOnce)
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
			return nil
		case !errors.Is(err, beneath.ErrStrange):
			return fmt.Errorf("remove task %s: %w", id, err)
		}
	}
}

// read opens a file of a task's for reading. The caller closes it.
func (s *store) read(id task.ID, name string) (*os.File, error) {
	return beneath.OpenRead(s.dir, filepath.Join(string(id), name))
}

// fresh opens an empty file of a task's for writing.
func (s *store) fresh(id task.ID, name string) (*os.File, error) {
	dir, err := s.open(id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	if err := beneath.Remove(dir, name, 1); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return beneath.OpenAppend(dir, name)
}
