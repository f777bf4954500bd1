package gitdata

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// StoreMark is what is kept of an object store (the folder objects of a git
// folder) at a moment, so that what appears or changes in it later can be told.
// It has a wire form. The zero value knows nothing: everything has appeared.
//
// Git checks no hash when it reads an object, so whoever writes to a store can
// have any name stand for any contents. Times alone do not tell what is new: a
// folder that is moved in brings its files with the stamps that they had.
type StoreMark struct {
	Since   time.Time         `json:"since"`   // by beneath.Clock
	Ino     uint64            `json:"ino"`     // of the folder itself
	Folders map[string]uint64 `json:"folders"` // inodes of the folders of loose objects
	Files   map[string]Stamp  `json:"files"`   // what lies in pack and info
	Borrows string            `json:"borrows"` // a digest of info/alternates; empty without one
}

// Stamp tells one state of a file from another. Whoever may write to a file
// cannot set when it was changed.
type Stamp struct {
	Ino     uint64    `json:"ino"`
	Size    int64     `json:"size"`
	Changed time.Time `json:"changed"`
}

func (s Stamp) is(other Stamp) bool {
	return s.Ino == other.Ino && s.Size == other.Size && s.Changed.Equal(other.Changed)
}

// Limits of what is looked at in a store.
const (
	maxStoreNames     = 300_000
	maxAlternateBytes = 64 << 10
	maxStoreDepth     = 3 // pack/multi-pack-index.d and info/commit-graphs have files of their own
)

// MarkStore marks the store that is open as dir. What cannot be looked at is
// not known, and so has appeared when it can.
func MarkStore(dir *os.File) StoreMark {
	m := StoreMark{Since: beneath.Clock(), Folders: map[string]uint64{}, Files: map[string]Stamp{}}
	if info, err := beneath.Lstat(dir, ""); err == nil {
		m.Ino = info.Ino
	}
	top, _ := listStore(dir, "")
	for _, n := range top {
		if isFanOut(n.Name) && n.Mode.IsDir() {
			m.Folders[n.Name] = n.Ino
		}
	}
	l := storeLister{dir: dir, left: maxStoreNames}
	for _, name := range []string{"pack", "info"} {
		l.list(name, 0)
	}
	for name, n := range l.found {
		m.Files[name] = stampOf(n)
	}
	m.Borrows = borrows(dir)
	return m
}

func stampOf(n beneath.Info) Stamp { return Stamp{Ino: n.Ino, Size: n.Size, Changed: n.Changed} }

// isFanOut reports whether a name is that of a folder of loose objects.
func isFanOut(name string) bool { return len(name) == 2 && isHex(name) }

func isHex(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

func listStore(dir *os.File, rel string) ([]beneath.Node, error) {
	f, err := beneath.OpenDir(dir, rel)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	return beneath.List(f, maxStoreNames)
}

// storeLister lists what is not a folder, below a folder of the store.
type storeLister struct {
	dir    *os.File
	left   int
	found  map[string]beneath.Info
	missed []string // folders that could not be listed
}

func (l *storeLister) list(rel string, depth int) {
	nodes, err := listStore(l.dir, rel)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if l.left -= len(nodes); err != nil || l.left < 0 || depth > maxStoreDepth {
		l.missed = append(l.missed, rel)
		return
	}
	if l.found == nil {
		l.found = map[string]beneath.Info{}
	}
	for _, n := range nodes {
		name := path.Join(rel, n.Name)
		if n.Mode.IsDir() {
			l.list(name, depth+1)
			continue
		}
		l.found[name] = n.Info
	}
}

// borrows is a digest of what a store says it borrows from.
func borrows(dir *os.File) string {
	data, _, err := beneath.ReadFile(dir, "info/alternates", maxAlternateBytes)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return ""
	}
	if err != nil {
		return "?"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Borrowed lists the stores that a store borrows from, as its file says it:
// relative paths are from the store's own. One that cannot be read lists none.
func Borrowed(dir *os.File, at string) (list []string) {
	data, _, err := beneath.ReadFile(dir, "info/alternates", maxAlternateBytes)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' || line[0] == '"' {
			continue
		}
		if !path.IsAbs(line) {
			line = path.Join(at, line)
		}
		list = append(list, path.Clean(line))
	}
	return list
}

// changes is what appeared or changed in a store.
type changes struct {
	loose   []string // objects
	packs   []string // names without a suffix whose index is new
	touched []string // likewise of packs with the index that they had
	orders  []string // .rev files
	derived []string // what git makes anew of the rest
	strange []string // what is no plain file
	missed  []string // what could not be looked at
	borrows bool
}

// since finds what changed in a store. Nothing of what the files hold is read.
func (m StoreMark) since(dir *os.File) changes {
	var c changes
	info, err := beneath.Lstat(dir, "")
	if err != nil {
		return changes{missed: []string{""}}
	}
	if info.Ino != m.Ino {
		m.Folders, m.Files = nil, nil // another folder in its place
	}
	c.borrows = borrows(dir) != m.Borrows
	m.loose(dir, &c)
	l := storeLister{dir: dir, left: maxStoreNames}
	l.list("pack", 0)
	l.list("info", 0)
	c.missed = append(c.missed, l.missed...)
	k := kept{m.Files, l.found}
	rewritten := c.packed(k)
	for name := range l.found {
		base := strings.TrimSuffix(name, path.Ext(name))
		again := slices.Contains(c.packs, base)
		switch {
		case isDerived(name) && (k.fresh(name) || again || rewritten && strings.Contains(name, "multi-pack-index")):
			c.derived = append(c.derived, name)
		case strings.HasSuffix(name, ".rev") && (k.fresh(name) || again):
			c.orders = append(c.orders, name)
		}
	}
	for _, list := range [][]string{c.loose, c.packs, c.touched, c.orders, c.derived, c.strange} {
		slices.Sort(list)
	}
	return c
}

// kept is what lay in pack and info, and what lies there now.
type kept struct {
	was map[string]Stamp
	now map[string]beneath.Info
}

// fresh reports whether a file appeared or changed.
func (k kept) fresh(name string) bool {
	n, there := k.now[name]
	was, known := k.was[name]
	return there && (!known || !was.is(stampOf(n)))
}

func (k kept) plain(name string) bool {
	n, there := k.now[name]
	return !there || n.Mode.IsRegular()
}

// packed finds the packs that changed, and reports whether there is one of a
// name that others may still speak of as it was.
func (c *changes) packed(k kept) (rewritten bool) {
	for name := range k.now {
		base, isIndex := strings.CutSuffix(name, ".idx")
		pack := base + ".pack"
		if _, there := k.now[pack]; !isIndex || !there || !k.fresh(name) && !k.fresh(pack) { // git passes over an index alone
			continue
		}
		switch {
		case !k.plain(name), !k.plain(pack):
			c.strange = append(c.strange, name)
		case k.fresh(name):
			c.packs = append(c.packs, base)
			_, known := k.was[name]
			rewritten = rewritten || known
		default:
			c.touched = append(c.touched, base)
		}
	}
	return rewritten
}

// isDerived reports whether git makes a file of a store from the others when
// it is not there, and believes it when it is: an index over packs, a graph of
// commits, a map of what is reachable.
func isDerived(name string) bool {
	return strings.HasPrefix(name, "pack/multi-pack-index") || strings.HasPrefix(name, "info/commit-graph") || strings.HasSuffix(name, ".bitmap")
}

// loose finds the loose objects that changed.
func (m StoreMark) loose(dir *os.File, c *changes) {
	top, err := beneath.ReadDirSameDevice(dir, "", maxStoreNames)
	if err != nil {
		c.missed = append(c.missed, "")
	}
	left := maxStoreNames
	for _, e := range top {
		switch {
		case !isFanOut(e.Name):
		case !e.Type.IsDir():
			c.strange = append(c.strange, e.Name)
		default:
			n, err := m.fanOut(dir, e.Name, left, c)
			if left -= n; err != nil {
				c.missed = append(c.missed, e.Name)
			}
		}
	}
}

// fanOut looks through one folder of loose objects and returns how many names
// it has.
func (m StoreMark) fanOut(dir *os.File, rel string, most int, c *changes) (int, error) {
	f, err := beneath.OpenDir(dir, rel)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	info, err := beneath.Lstat(f, "")
	if err != nil {
		return 0, err
	}
	nodes, err := beneath.List(f, most)
	all := m.Folders[rel] != info.Ino
	for _, n := range nodes {
		switch name := rel + "/" + n.Name; {
		case !all && n.Changed.Before(m.Since) || !isLooseName(n.Name):
		case n.Mode.IsRegular():
			c.loose = append(c.loose, name)
		default:
			c.strange = append(c.strange, name)
		}
	}
	return len(nodes), err
}

// isLooseName reports whether git reads a name in a folder of loose objects.
func isLooseName(name string) bool { return (len(name) == 38 || len(name) == 62) && isHex(name) }
