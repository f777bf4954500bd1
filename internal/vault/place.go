package vault

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
)

// Place is where a vault is, and what opens it. Everything in it has to be the
// calling user's own.
type Place struct {
	DataDir   string // bailey's folders: of the vault,
	StateDir  string // of the note of how new it is,
	ConfigDir string // and of the key
	Env       func(name string) string

	Ask     func(prompt string) (seal.Secret, error) // asks a person without echo; nil: there is nobody
	Keyring Keyring                                  // nil: that of the session, if there is one

	at func(step string) error // a test stops the writing here
}

// The variables of the environment that a Place reads.
const (
	KeyVariable      = "BAILEY_VAULT_KEY"      // an absolute path, or fd:N; empty: vault.key in ConfigDir
	IdentityVariable = "BAILEY_VAULT_IDENTITY" // a file of age identities, for a key that is encrypted to one
)

func (p Place) env(name string) string {
	if p.Env == nil {
		return ""
	}
	return p.Env(name)
}

// The files of a vault.
const (
	folderName = "vault"     // in DataDir and in StateDir
	storeName  = "store"     // in DataDir/vault
	markName   = "mark"      // in StateDir/vault
	keyName    = "vault.key" // in ConfigDir
	nextSuffix = ".next"     // of the key that a change of keys is about to put in place
	newSuffix  = ".new"      // of a file that is being written
)

const (
	maxStore = 16 << 20 // bytes
	maxSmall = 64 << 10 // of a key file or a mark
)

func (p Place) folder() string    { return filepath.Join(p.DataDir, folderName) }
func (p Place) storePath() string { return filepath.Join(p.folder(), storeName) }
func (p Place) markPath() string  { return filepath.Join(p.StateDir, folderName, markName) }

// descriptor returns the N of fd:N.
func (p Place) descriptor() (fd int, given bool, err error) {
	digits, given := strings.CutPrefix(p.env(KeyVariable), "fd:")
	if !given {
		return 0, false, nil
	}
	fd, err = ParseDescriptor(digits)
	return fd, true, err
}

// ParseDescriptor reads the number of an inherited descriptor.
func ParseDescriptor(digits string) (int, error) {
	const first, last = 3, 1 << 20
	n, err := strconv.Atoi(digits)
	if err != nil || n < first || n > last || strconv.Itoa(n) != digits {
		return 0, bailey.NewError(bailey.Invalid, fmt.Sprintf("fd:%s names no descriptor for a key", digits), "such as fd:3, and 3<KEYFILE behind the command")
	}
	return n, nil
}

// keyPath is the path of the key's file. Where the key comes by a descriptor
// it is the one that a change of keys may write to.
func (p Place) keyPath() (string, error) {
	given := p.env(KeyVariable)
	if _, byDescriptor, err := p.descriptor(); byDescriptor || err != nil || given == "" {
		return filepath.Join(p.ConfigDir, keyName), err
	}
	if !filepath.IsAbs(given) {
		return "", bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: %q is neither an absolute path nor fd:N", KeyVariable, given), "set it to one of them, or unset it")
	}
	return filepath.Clean(given), nil
}

// Files are the files outside of bailey's folders from which the vault is
// opened. No sandbox may see one.
func (p Place) Files() []string {
	var out []string
	if key := p.env(KeyVariable); filepath.IsAbs(key) {
		out = append(out, key, key+nextSuffix)
	}
	if identity, err := filepath.Abs(p.env(IdentityVariable)); err == nil && p.env(IdentityVariable) != "" {
		out = append(out, identity)
	}
	return out
}

// step is passed between any two changes of the disk.
func (p Place) step(name string) error {
	if p.at == nil {
		return nil
	}
	return p.at(name)
}

// closed refuses a folder that others can look into, or that is not the
// user's own. That there is none is fs.ErrNotExist.
func (p Place) closed(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return bailey.NewError(bailey.Forbidden, dir+" is no folder of its own", "put the folder itself there, in place of a link or a file")
	}
	return p.own(dir, fi, "chmod 700 "+dir)
}

// own refuses what is another user's, or open to others.
func (p Place) own(path string, fi fs.FileInfo, fix string) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(st.Uid) != os.Getuid():
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s does not belong to user %d", path, os.Getuid()), "use bailey as its owner, or move it away")
	case fi.Mode().Perm()&0o077 != 0:
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s is open to other users (mode %04o)", path, fi.Mode().Perm()), fix)
	}
	return nil
}

// makeClosed makes a folder, and refuses one that is not the user's alone.
func (p Place) makeClosed(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return bailey.WrapError(bailey.Unavailable, "make "+dir, err, "make the folder above it writable")
	}
	return p.closed(dir)
}

// read returns a file that is the user's alone, and its state when it was read.
// That there is none is fs.ErrNotExist.
func (p Place) read(path string, limit int64) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	case errors.Is(err, syscall.ELOOP):
		return nil, nil, bailey.NewError(bailey.Forbidden, path+" is a link", "put the file itself there")
	case err != nil:
		return nil, nil, bailey.WrapError(bailey.Unavailable, "open "+path, err, "")
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, bailey.WrapError(bailey.Unavailable, "look at "+path, err, "")
	}
	if !fi.Mode().IsRegular() || fi.Size() > limit {
		return nil, nil, bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s is no file of at most %d bytes", path, limit), "restore it from a backup")
	}
	if err := p.own(path, fi, "chmod 600 "+path); err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, nil, bailey.WrapError(bailey.Unavailable, "read "+path, err, "")
	}
	return data, fi, nil
}

// write puts a file in place of what is there. It is there whole, the old one
// or the new, whatever ends the process or the machine. The caller holds the
// lock.
func (p Place) write(path string, data []byte) error {
	if err := p.prepare(path, data); err != nil {
		return bailey.WrapError(bailey.Unavailable, "write "+path, err, "what was there before is as it was")
	}
	return p.move(path+newSuffix, path)
}

// prepare writes what write is to put in place.
func (p Place) prepare(path string, data []byte) error {
	temp := path + newSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a writer that was killed
		return err
	}
	if err := p.step("make " + temp); err != nil {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = p.step("fill " + temp); err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = p.step("sync " + temp)
	}
	return errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
}

// move renames a file of the vault for good.
func (p Place) move(from, to string) error {
	err := p.step("rename to " + to)
	if err == nil {
		err = os.Rename(from, to)
	}
	if err == nil {
		err = p.step("sync the folder of " + to)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(to))
	}
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "put "+to+" in place", err, "")
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// locked calls f while no other bailey changes the vault.
func (p Place) locked(f func() error) error {
	if err := p.makeClosed(p.folder()); err != nil {
		return err
	}
	dir, err := os.Open(p.folder())
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "open "+p.folder(), err, "")
	}
	defer func() { _ = dir.Close() }() // and with it the lock
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return bailey.WrapError(bailey.Unavailable, "lock "+p.folder(), err, "")
	}
	return f()
}

// Mark tells states of a vault's file apart. Marks are compared with ==.
type Mark struct {
	dev, ino         uint64
	size             int64
	changed, written int64 // nanoseconds: ctime, mtime
}

func markOf(fi fs.FileInfo) Mark {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Mark{}
	}
	return Mark{st.Dev, st.Ino, st.Size, st.Ctim.Nano(), st.Mtim.Nano()}
}

// Mark returns the mark of the file that is there now, the zero Mark for none.
// It costs one look at the file's state.
func (p Place) Mark() Mark { return markAt(p.storePath()) }

func markAt(path string) Mark {
	fi, err := os.Lstat(path)
	if err != nil {
		return Mark{}
	}
	return markOf(fi)
}
