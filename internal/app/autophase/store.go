package autophase

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/phase"
)

// Store keeps what is known of phases, each in a folder of its own, which no
// sandbox sees.
type Store struct{ dir string }

// NewStore is that in bailey's folder of state.
func NewStore(state string) Store { return Store{filepath.Join(state, "phases")} }

// Names in a folder.
const (
	recordName = "state.json"
	planName   = "plan.json"
	lockName   = "lock"
	stopName   = "stop"
	reportName = "report.md"
	gitName    = "git"
	logsName   = "logs"
)

const (
	privateDir  = 0o700
	privateFile = 0o600
)

// Folder is that of one phase.
func (s Store) Folder(key string) string { return filepath.Join(s.dir, key) }

// Load reads a record, with the plan that it is of; nil for none.
func (s Store) Load(key string) (*phase.Record, error) {
	r := &phase.Record{}
	switch err := readJSON(filepath.Join(s.Folder(key), recordName), r); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, bailey.WrapError(bailey.Invalid, "the record of the phase cannot be read", err, "bailey phase run --restart forgets it")
	}
	r.Plan = &phase.Plan{}
	if err := readJSON(filepath.Join(s.Folder(key), planName), r.Plan); err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "the plan of the phase cannot be read", err, "bailey phase run --restart forgets the phase")
	}
	return r, nil
}

// All reads every record that can be read, the newest first.
func (s Store) All() ([]*phase.Record, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list phases: %w", err)
	}
	var list []*phase.Record
	for _, e := range entries {
		if r, err := s.Load(e.Name()); err == nil && r != nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *phase.Record) int { return b.Updated.Compare(a.Updated) })
	return list, nil
}

// empty removes all that is kept of a phase, but for the lock that the caller
// has.
func (s Store) empty(key string) error {
	entries, err := os.ReadDir(s.Folder(key))
	for _, e := range entries {
		if e.Name() != lockName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.Folder(key), e.Name())))
		}
	}
	return err
}

// forgetUnbegun removes the folder of a phase of which nothing was ever written.
func (s Store) forgetUnbegun(key string) error {
	if _, err := os.Lstat(filepath.Join(s.Folder(key), recordName)); !errors.Is(err, fs.ErrNotExist) {
		return nil // a phase was begun here, or nobody knows
	}
	return os.RemoveAll(s.Folder(key))
}

// lock makes this process the one that works on a phase. It lasts as long as the
// file is open.
func (s Store) lock(key string) (*os.File, error) {
	if err := os.MkdirAll(s.Folder(key), privateDir); err != nil {
		return nil, fmt.Errorf("make folder of the phase: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(s.Folder(key), lockName), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, privateFile)
	if err != nil {
		return nil, fmt.Errorf("lock phase: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, bailey.NewError(bailey.Conflict, "this plan is being worked on already", "bailey phase status shows it, bailey phase stop ends it")
	}
	if !isAt(f, filepath.Join(s.Folder(key), lockName)) { // who held it has removed the folder meanwhile
		_ = f.Close() // nothing was written
		return s.lock(key)
	}
	return f, nil
}

// isAt reports whether an open file is the one that is found at a path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(open, there)
}

// Running reports whether a process works on a phase.
func (s Store) Running(key string) bool {
	f, err := os.Open(filepath.Join(s.Folder(key), lockName))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// Stop asks the process that works on a phase to end: now, or when the unit that
// goes on is done.
func (s Store) Stop(key string, now bool) error {
	word := "after"
	if now {
		word = "now"
	}
	return writeFile(filepath.Join(s.Folder(key), stopName), []byte(word))
}

// asked returns what somebody asks for by the stop file.
func (s Store) asked(key string) string {
	b, err := os.ReadFile(filepath.Join(s.Folder(key), stopName))
	switch {
	case err != nil:
		return ""
	case strings.TrimSpace(string(b)) == "now":
		return "now"
	}
	return "after"
}

func readJSON(path string, to any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return writeFile(path, b)
}

// writeFile writes a file that is whole or as it was.
func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, privateFile)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
