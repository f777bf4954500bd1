package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// maxStores bounds the object stores that are looked after.
const maxStores = 64

// store is an object store that a sandbox may write to.
type store struct {
	path string
	dir  *os.File // the folder that it is in
	rel  string   // below that; "" for the folder itself
	hash int      // bytes of a name
	mark gitdata.StoreMark
}

func (s *store) open() (*os.File, error) {
	if s.rel == "" {
		return beneath.Sub(s.dir, ".")
	}
	return beneath.Sub(s.dir, s.rel)
}

// MarkObjects notes what lies in the object stores of the git folders, so that
// VerifyObjects can tell what appears. It is to be done before the sandbox
// runs, and costs a look at the names of packs.
func (h *Held) MarkObjects() {
	for _, path := range h.guard.GitDirs {
		dir := h.dirs[path]
		if dir == nil {
			continue
		}
		if _, err := beneath.Lstat(dir, "commondir"); err == nil {
			continue // its objects are another's
		}
		h.markStore(&store{path: filepath.Join(path, "objects"), dir: dir, rel: "objects", hash: gitdata.ReadFormat(dir, path).Hash})
	}
	for _, path := range h.guard.Parts {
		of, err := beneath.Dir(filepath.Dir(path))
		if h.dirs[path] == nil || filepath.Base(path) != "objects" || err != nil {
			continue
		}
		h.markStore(&store{path: path, dir: h.dirs[path], hash: gitdata.ReadFormat(of, filepath.Dir(path)).Hash})
		_ = of.Close() // O_PATH: nothing to lose
	}
}

// markStore marks a store, and those in the workspace that it borrows from.
func (h *Held) markStore(s *store) {
	same := func(other *store) bool { return other.path == s.path }
	if len(h.stores) >= maxStores || slices.ContainsFunc(h.stores, same) {
		return
	}
	h.stores = append(h.stores, s)
	dir, err := s.open()
	if err != nil {
		return // all that is there later has appeared
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	s.mark = gitdata.MarkStore(dir)
	for _, path := range gitdata.Borrowed(dir, s.path) {
		if !sandbox.Within(path, h.guard.Root) || h.dirs[path] != nil || h.dirs[filepath.Dir(path)] != nil {
			continue
		}
		if of, err := beneath.Dir(path); err == nil {
			h.dirs[path] = of
			h.markStore(&store{path: path, dir: of, hash: s.hash})
		}
	}
}

// Objects is what VerifyObjects found.
type Objects struct {
	Forged     []Finding // set aside; one that could not be is Open
	Unverified []Finding // as they are; each is Open
}

// VerifyObjects makes sure of the objects that appeared in the git folders
// since MarkObjects: git hashes none that it reads, so a name could stand for
// anything. What is forged is set aside, beside where it was. What git believes
// and makes anew of the objects, an index over packs say, is removed. What ctx
// leaves no time for is named. The sandbox must have ended.
func (h *Held) VerifyObjects(ctx context.Context) Objects {
	var o Objects
	for _, s := range h.stores {
		dir, err := s.open()
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) || s.mark.Ino != 0 {
				o.Unverified = append(o.Unverified, open(s.path, "not verified: it is gone, or a link"))
			}
			continue
		}
		at := s.path
		if s.rel != "" {
			at = filepath.Join(place(s.dir, filepath.Dir(s.path)), s.rel)
		}
		v := verified{dir: dir, at: at}
		for _, f := range s.mark.Verify(ctx, dir, s.hash) {
			v.take(f)
		}
		o.Forged = append(o.Forged, v.Forged...)
		o.Unverified = append(o.Unverified, v.named()...)
		_ = dir.Close() // O_PATH: nothing to lose
	}
	return o
}

// verified does with the faults of one store what is to be done.
type verified struct {
	Objects

	dir   *os.File
	at    string
	loose int    // objects that were not verified
	why   string // of the first
}

func (v *verified) take(f gitdata.Fault) {
	path := filepath.Join(v.at, f.Path)
	switch f.Kind {
	case gitdata.Forged:
		v.setAside(f)
	case gitdata.Derived:
		if err := beneath.Remove(v.dir, f.Path, 1); err != nil && !errors.Is(err, fs.ErrNotExist) {
			v.Unverified = append(v.Unverified, open(path, "not verified, and could not be removed: git makes it anew when it is gone"))
		}
	default:
		if folder, name, _ := strings.Cut(f.Path, "/"); len(folder) == 2 && name != "" {
			v.loose++
			v.why = f.What
			return
		}
		v.Unverified = append(v.Unverified, open(path, "not verified: it "+because(f.What)))
	}
}

func because(what string) string {
	if after, ok := strings.CutPrefix(what, "there was"); ok {
		return "is new or changed, and there was" + after
	}
	return what
}

// setAside takes a forged file, and what goes with it, out of git's sight. The
// indexes over packs speak of packs by name: git makes them anew.
func (v *verified) setAside(f gitdata.Fault) {
	path := filepath.Join(v.at, f.Path)
	to, err := aside(v.dir, f.Path, filepath.Dir(f.Path))
	for _, with := range f.With {
		if _, withErr := aside(v.dir, with, filepath.Dir(with)); withErr != nil && !errors.Is(withErr, fs.ErrNotExist) {
			err = errors.Join(err, withErr)
		}
	}
	if strings.HasPrefix(f.Path, "pack/") {
		_ = beneath.Remove(v.dir, "pack/multi-pack-index", 1) // mostly there is none
	}
	if err != nil {
		v.Forged = append(v.Forged, open(path, f.What+", and could not be set aside: do not use git here before you have removed it"))
		return
	}
	v.Forged = append(v.Forged, finding(path, f.What+"; it is now "+filepath.Join(v.at, to)))
}

// named is what was not verified, with all loose objects as one.
func (v *verified) named() []Finding {
	if v.loose > 0 {
		return append(v.Unverified, open(v.at, fmt.Sprintf("not verified: %d loose objects; the last %s", v.loose, because(v.why))))
	}
	return v.Unverified
}
