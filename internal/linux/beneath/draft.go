package beneath

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Draft is a file that a person named, while it is written: it lies beside its
// place, under a name of its own, until Keep puts it there.
type Draft struct {
	File *os.File // open for writing
	name string
	dir  *os.File
	temp string
	base string
}

// NewDraft begins the file that a person named, by an absolute path or one
// relative to the current folder. The folder is found as Folder finds it: a link
// in one of the guarded folders is a LedError. What has the name is not opened,
// whatever it is; a folder or a device there, and a place among the kernel's
// own, are ErrStrange. The umask takes some of perm.
func NewDraft(name string, perm fs.FileMode, guarded ...string) (*Draft, error) {
	d := &Draft{name: name, base: filepath.Base(name)}
	if name == "" || strings.HasSuffix(name, "/") || slices.Contains([]string{".", ".."}, d.base) {
		return nil, &fs.PathError{Op: "write", Path: name, Err: unix.EISDIR}
	}
	above, _ := filepath.Split(name) // as it is: a ".." behind a link is the kernel's to read
	if !filepath.IsAbs(name) {
		here, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("find the current folder: %w", err)
		}
		above = here + "/" + above
	}
	var err error
	if d.dir, err = Folder(above, guarded...); err != nil {
		return nil, err
	}
	if err = d.begin(perm); err != nil {
		return nil, errors.Join(err, d.dir.Close())
	}
	return d, nil
}

func (d *Draft) begin(perm fs.FileMode) error {
	if err := d.replaceable(); err != nil {
		return err
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	d.temp = ".bailey-" + hex.EncodeToString(random[:]) + ".new"
	how := unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC, Mode: uint64(perm.Perm()), Resolve: noLinks}
	fd, err := openat2(int(d.dir.Fd()), d.temp, &how)
	if err != nil {
		return &fs.PathError{Op: "write", Path: d.name, Err: err}
	}
	d.File = os.NewFile(uintptr(fd), d.name)
	return nil
}

// replaceable refuses what a file in its place would be a loss of: root would
// put one over /dev/null.
func (d *Draft) replaceable() error {
	strange := &fs.PathError{Op: "write", Path: d.name, Err: ErrStrange}
	at, err := Where(d.dir)
	if err != nil {
		return err
	}
	for _, own := range []string{"/dev", "/proc", "/sys"} {
		if (at == own || strings.HasPrefix(at, own+"/")) && !strings.HasPrefix(at+"/", "/dev/shm/") {
			return strange
		}
	}
	info, err := Lstat(d.dir, d.base)
	if err == nil && (info.Mode.IsDir() || info.Mode&fs.ModeDevice != 0) {
		return strange
	}
	return nil
}

// Keep puts the file in its place, where a link is replaced and never followed.
// Unless replace says so, a name that is taken, also by a link, is fs.ErrExist.
// After an error nothing of the draft is left.
func (d *Draft) Keep(replace bool) error {
	err := errors.Join(d.File.Sync(), d.File.Close())
	d.File = nil
	if err == nil {
		err = Place(d.dir, d.temp, d.dir, d.base, replace)
	}
	if err != nil {
		d.Drop()
		return err
	}
	d.temp = ""
	d.Drop()
	return nil
}

// Name is what the person called it.
func (d *Draft) Name() string { return d.name }

// Drop removes the draft, unless it was kept.
func (d *Draft) Drop() {
	if d.File != nil {
		_ = d.File.Close() // it is removed
		d.File = nil
	}
	if d.temp != "" {
		_ = unix.Unlinkat(int(d.dir.Fd()), d.temp, 0) // what an agent has put there instead is no folder's worth
		d.temp = ""
	}
	if d.dir != nil {
		_ = d.dir.Close() // O_PATH: nothing to lose
		d.dir = nil
	}
}

// PutNamed gives the file that a person named these contents, in place of what
// is there, as NewDraft and Keep do.
func PutNamed(name string, data []byte, perm fs.FileMode, guarded ...string) error {
	d, err := NewDraft(name, perm, guarded...)
	if err != nil {
		return err
	}
	defer d.Drop()
	if _, err := d.File.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return d.Keep(true)
}
