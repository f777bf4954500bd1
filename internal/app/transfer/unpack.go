package transfer

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/task"
)

// top is the name of the root of what is copied in its staging folder.
const top = "x"

// mostLooked bounds a file whose contents say whether it makes something run.
const mostLooked = 1 << 20

// unpacker writes what comes out of a sandbox into a folder of its own beside
// the place where it shall be. Whoever may write there too, the sandbox itself
// perhaps, gains nothing: every name is resolved below a descriptor without
// following a link, and nothing is replaced.
type unpacker struct {
	into  *os.File // the folder that holds the place
	name  string   // of the staging folder in it
	stage *os.File
	dirs  []madeDir
	made  map[string]bool // folders
	count int64           // of everything

	planted []task.Planted
}

type madeDir struct {
	name string
	mode fs.FileMode
}

func newUnpacker(into *os.File) (*unpacker, error) {
	u := &unpacker{into: into, name: ".bailey-cp-" + rand.Text()[:12], made: map[string]bool{}}
	if err := beneath.MkdirPrivate(into, u.name); err != nil {
		return nil, err
	}
	var err error
	if u.stage, err = beneath.Sub(into, u.name); err != nil {
		return nil, errors.Join(err, beneath.Remove(into, u.name, 1))
	}
	return u, nil
}

// close removes what was not put in its place.
func (u *unpacker) close() error {
	err := u.stage.Close()
	if rerr := beneath.Remove(u.into, u.name, int(2*u.count)+16); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// at is where an entry is below the staging folder.
func at(name string) string { return path.Join(top, name) }

// parents makes the folders of a name that the archive does not name itself.
func (u *unpacker) parents(name string) error {
	if name == "" {
		return nil
	}
	dir := path.Dir(at(name))
	if u.made[dir] {
		return nil
	}
	up := path.Dir(name)
	if up == "." {
		up = ""
	}
	if err := u.parents(up); err != nil {
		return err
	}
	return u.mkdir(dir, 0o755)
}

func (u *unpacker) mkdir(at string, mode fs.FileMode) error {
	if !u.made[at] {
		u.count++
		if err := beneath.Mkdir(u.stage, at); err != nil {
			return twice(err, at)
		}
		u.made[at] = true
		u.dirs = append(u.dirs, madeDir{at, mode})
		return nil
	}
	for i := range u.dirs {
		if u.dirs[i].name == at {
			u.dirs[i].mode = mode
		}
	}
	return nil
}

// twice explains that a name is there already.
func twice(err error, at string) error {
	if errors.Is(err, fs.ErrExist) {
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("the sandbox sends two files that would have one name here: %.200q", at[len(top):]), "nothing was copied")
	}
	return err
}

func (u *unpacker) dir(e entry) error {
	if err := u.parents(e.name); err != nil {
		return err
	}
	return u.mkdir(at(e.name), permissions(e))
}

// permissions are those of an entry, without set-user-ID, set-group-ID and
// sticky bits.
func permissions(e entry) fs.FileMode { return fs.FileMode(e.head.Mode) & fs.ModePerm }

func (u *unpacker) file(e entry) error {
	if err := u.parents(e.name); err != nil {
		return err
	}
	u.count++
	f, err := beneath.OpenNew(u.stage, at(e.name), permissions(e))
	if err != nil {
		return twice(err, at(e.name))
	}
	var seen bytes.Buffer
	var to io.Writer = f
	if e.head.Size <= mostLooked {
		to = io.MultiWriter(f, &seen)
	}
	_, err = io.Copy(to, e.body)
	if err == nil && !e.head.ModTime.IsZero() {
		now := unix.NsecToTimeval(e.head.ModTime.UnixNano())
		_ = unix.Futimes(int(f.Fd()), []unix.Timeval{now, now}) // a time is no reason to fail
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", e.name, err)
	}
	u.look(e, seen.Bytes())
	return nil
}

// look notes a file that would make something run later on the host.
func (u *unpacker) look(e entry, data []byte) {
	const most = 500
	if p, ok := carry.Planted(e.name, data); ok && len(u.planted) < most {
		u.planted = append(u.planted, p)
	}
}

func (u *unpacker) symlink(e entry) error {
	if err := u.parents(e.name); err != nil {
		return err
	}
	u.count++
	return twice(beneath.Symlink(u.stage, e.head.Linkname, at(e.name)), at(e.name))
}

func (u *unpacker) hardlink(e entry) error {
	if err := u.parents(e.name); err != nil {
		return err
	}
	u.count++
	if err := beneath.Link(u.stage, at(e.link), at(e.name)); err != nil {
		return twice(err, at(e.name))
	}
	u.look(e, nil)
	return nil
}

// settle gives the folders their modes, when nothing comes into them any more.
// Their owner may always use them.
func (u *unpacker) settle() error {
	mask := fs.FileMode(umask())
	for _, d := range u.dirs {
		if err := beneath.SetMode(u.stage, d.name, d.mode&^mask|0o700); err != nil {
			return err
		}
	}
	return nil
}

// umask returns the process's.
func umask() int {
	m := unix.Umask(0o077)
	unix.Umask(m)
	return m
}

// place puts what was copied in its place: under the name as, or with an empty
// one its contents into the folder.
func (u *unpacker) place(as string) error {
	if err := u.settle(); err != nil {
		return err
	}
	if _, err := beneath.Lstat(u.stage, top); errors.Is(err, fs.ErrNotExist) {
		return errNothing
	}
	if as != "" {
		return put(u.stage, top, u.into, as)
	}
	return putAll(u.stage, top, u.into)
}

var errNothing = bailey.NewError(bailey.NotFound, "there is nothing that can be copied", "a link by itself is copied with -L, which follows it")

// put moves name in from to as in to. Folders are merged, files replaced.
func put(from *os.File, name string, to *os.File, as string) error {
	err := beneath.Place(from, name, to, as, false)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	ours, err := beneath.Lstat(from, name)
	if err != nil {
		return err
	}
	theirs, err := beneath.Lstat(to, as)
	if err != nil {
		return err
	}
	switch {
	case ours.Mode.IsDir() && theirs.Mode.IsDir():
		sub, err := beneath.Sub(to, as)
		if err != nil {
			return err
		}
		defer sub.Close()
		return putAll(from, name, sub)
	case ours.Mode.IsDir() || theirs.Mode.IsDir():
		return bailey.NewError(bailey.Conflict, fmt.Sprintf("%q is a folder on one side and a file on the other", as), "move one of them out of the way")
	}
	return beneath.Place(from, name, to, as, true)
}

func putAll(from *os.File, name string, to *os.File) error {
	sub, err := beneath.OpenDir(from, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	nodes, err := beneath.List(sub, maxNodes)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := put(sub, n.Name, to, n.Name); err != nil {
			return err
		}
	}
	return nil
}

// maxNodes bounds one folder.
const maxNodes = 1 << 20
