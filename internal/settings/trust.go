package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bailey-dev/bailey"
)

// Trust remembers which project files the user has agreed to, by their very
// content. It lies where no sandbox can reach.
type Trust struct{ Dir string }

// trusted is the record of one file.
type trusted struct {
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
	Content string `json:"content"` // what was agreed to, to show what changed since
}

func (t Trust) record(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(t.Dir, hex.EncodeToString(sum[:])+".json")
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Holds reports whether a file is trusted as it is now.
func (t Trust) Holds(path string, data []byte) (bool, error) {
	was, err := t.last(path)
	return err == nil && was != nil && was.Path == path && was.SHA256 == digest(data), err
}

// state reports whether a project's file is trusted as it is now, or was as it
// was before.
func (t Trust) state(f *File) (now, before bool, err error) {
	was, err := t.last(f.Path)
	if err != nil || was == nil {
		return false, false, err
	}
	now = was.SHA256 == digest(f.Data)
	return now, !now, nil
}

// Last returns what a file held when it was trusted, or nil if it never was.
func (t Trust) Last(path string) ([]byte, error) {
	was, err := t.last(path)
	if err != nil || was == nil {
		return nil, err
	}
	return []byte(was.Content), nil
}

func (t Trust) last(path string) (*trusted, error) {
	if fi, err := os.Stat(t.Dir); err == nil && !ownAlone(fi) {
		return nil, bailey.NewError(bailey.Unavailable, "others can write what is trusted, in "+t.Dir, "make it yours and nobody else's to write: chmod 700 "+t.Dir)
	}
	data, err := os.ReadFile(t.record(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "read what is trusted", err, "make the folder readable, or remove it to trust nothing")
	}
	var was trusted
	if err := json.Unmarshal(data, &was); err != nil || was.Path != path {
		return nil, bailey.NewError(bailey.Unavailable, fmt.Sprintf("the record of trust %s cannot be read", t.record(path)), "remove it")
	}
	return &was, nil
}

// ownAlone reports whether nobody but the caller and root can write a folder.
func ownAlone(fi fs.FileInfo) bool {
	stat, ok := fi.Sys().(*syscall.Stat_t)
	return ok && fi.Mode().Perm()&0o022 == 0 && (int(stat.Uid) == os.Getuid() || stat.Uid == 0)
}

// Give trusts a file as it is.
func (t Trust) Give(path string, data []byte) error {
	text, err := json.Marshal(trusted{path, digest(data), string(data)})
	if err == nil {
		err = os.MkdirAll(t.Dir, 0o700)
	}
	if err == nil {
		err = writeWhole(t.record(path), text)
	}
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "note what is trusted", err, "make the folder writable")
	}
	return nil
}

// Take ends the trust in a file. It is no error that there was none.
func (t Trust) Take(path string) error {
	if err := os.Remove(t.record(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return bailey.WrapError(bailey.Unavailable, "end the trust", err, "")
	}
	return nil
}

// writeWhole writes a private file that is there whole or not at all.
func writeWhole(path string, data []byte) error { return writeWholeAs(path, data, 0o600) }

// writeWholeAs is writeWhole for a file with other rights.
func writeWholeAs(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
