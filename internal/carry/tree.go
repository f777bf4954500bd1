package carry

import (
	"crypto/sha1" //nolint:gosec // what git names objects by
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Modes of a tree's entries.
const (
	modeFile    = 0o100644
	modeProgram = 0o100755
	modeLink    = 0o120000
	modeModule  = 0o160000
)

// file is what a commit has at a path, and what was known of the file in the
// work tree when it was last seen to be that.
type file struct {
	mode  uint32
	id    string
	known *gitdata.IndexEntry // nil if nothing is
	seen  bool                // in the walk
}

// sink takes the differences between a work tree and a commit.
type sink interface {
	// put is for a file or link that is new, or whose contents changed.
	put(path string, mode uint32, data []byte) error
	// mode is for a file of which only the mode changed.
	mode(path string, mode uint32, id string) error
	// remove is for what is gone.
	remove(path string) error
}

// walk compares a work tree with a commit. The tree may be changed by somebody
// hostile all the while: no path is followed through a link, nothing but
// regular files is opened, and all is bounded.
type walk struct {
	files   map[string]*file // of the commit, by path
	folders map[string]bool  // those that files lie in
	hash    int
	limit   Limits
	asOf    time.Time // what was changed at this time or later is read
	sink    sink

	mine       bool // the user's own tree: nested repositories are the user's too, and are left alone
	look       bool // new files are only told of, and not read
	fixedModes bool // the file system does not keep modes

	left func(name string) // is told what the rules leave out, if it is set
	held map[string]bool   // what they left out before: it stays out, and so do new git folders

	rules   []levelRules
	entries int
	changes int
	bytes   int64
	kept    map[string]bool // paths at and below which the commit's files stand as they are
	refused refusals
}

type levelRules struct {
	folder string // with a slash at its end; empty for the root
	rules  gitdata.Ignore
}

// maxTreeDepth bounds how deep folders lie in each other.
const maxTreeDepth = 200

// maxPath is the longest path that is carried.
const maxPath = 4095

// newWalk makes the table of a commit's files, which are in order of path.
func newWalk(files map[string]*file, hash int, limit Limits, to sink) *walk {
	w := &walk{files: files, folders: map[string]bool{}, kept: map[string]bool{}, hash: hash, limit: limit, sink: to}
	for name := range files {
		for dir := path.Dir(name); dir != "." && !w.folders[dir]; dir = path.Dir(dir) {
			w.folders[dir] = true
		}
	}
	return w
}

// run walks the whole tree and tells the sink of all differences.
func (w *walk) run(root *os.File) error {
	dir, err := beneath.OpenDir(root, "")
	if err != nil {
		return fmt.Errorf("open work tree: %w", err)
	}
	defer func() { _ = dir.Close() }() // read only: nothing to lose
	if err := w.folder(dir, "", 0, false); err != nil {
		return err
	}
	for name, f := range w.files {
		if f.seen || f.mode == modeModule || w.isKept(name) {
			continue
		}
		if f.known != nil && f.known.SkipWorktree {
			continue
		}
		if err := w.sink.remove(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) isKept(name string) bool {
	if w.kept[""] {
		return true
	}
	for ; name != "."; name = path.Dir(name) {
		if w.kept[name] {
			return true
		}
	}
	return false
}

// keep leaves what the commit has at a path, and below it, as it is, and says
// why the tree's is not taken.
func (w *walk) keep(name, why string) {
	w.kept[name] = true
	w.refused.add(name, why)
}

func (w *walk) folder(dir *os.File, rel string, depth int, ignored bool) error {
	nodes, err := beneath.List(dir, w.limit.Entries-w.entries)
	if errors.Is(err, beneath.ErrStrange) {
		w.keep(strings.TrimSuffix(rel, "/"), "a tree with too many names")
		return nil
	}
	if err != nil {
		return fmt.Errorf("read folder: %w", err)
	}
	w.entries += len(nodes)
	defer func(n int) { w.rules = w.rules[:n] }(len(w.rules))
	w.readRules(dir, rel, nodes)
	for i := range nodes {
		if err := w.node(dir, rel, &nodes[i], depth, ignored); err != nil {
			return err
		}
	}
	return nil
}

// readRules reads a folder's .gitignore. Links are not followed, as git does
// not.
func (w *walk) readRules(dir *os.File, rel string, nodes []beneath.Node) {
	for i := range nodes {
		if nodes[i].Name != ".gitignore" || !nodes[i].Mode.IsRegular() {
			continue
		}
		if data, _, err := beneath.ReadFile(dir, ".gitignore", gitdata.MaxIgnoreBytes); err == nil {
			w.rules = append(w.rules, levelRules{folder: rel, rules: gitdata.ParseIgnore(data)})
		}
	}
}

// ignores reports whether the rules leave out a path. Those of the deepest
// folder come first.
func (w *walk) ignores(name string, folder bool) bool {
	for i := len(w.rules) - 1; i >= 0; i-- {
		l := &w.rules[i]
		if ignored, decided := l.rules.Match(name[len(l.folder):], folder); decided {
			return ignored
		}
	}
	return false
}

func (w *walk) node(dir *os.File, rel string, n *beneath.Node, depth int, ignored bool) error { //nolint:gocognit // one check after the other
	name := rel + n.Name
	if name == ".git" {
		if !n.Mode.IsDir() && !w.mine {
			w.refused.add(name, "what was put in the place of the git folder")
		}
		return nil
	}
	f := w.files[name]
	if f == nil && !w.folders[name] && (ignored || w.ignores(name, n.Mode.IsDir())) {
		if w.left != nil && !ignored {
			w.left(name)
		}
		return nil
	}
	if f == nil && w.held[name] {
		w.refused.add(name, "was there before, and was ignored")
		return nil
	}
	if f == nil && !w.folders[name] && w.refuses(n.Name, name) {
		return nil
	}
	switch {
	case n.Mode.IsDir():
		return w.enter(dir, name, n, depth, ignored)
	case f != nil && f.mode == modeModule:
		w.keep(name, "what was put in the place of a submodule")
		return nil
	case n.Mode.IsRegular():
		return w.regular(dir, name, n, f)
	case n.Mode&fs.ModeSymlink != 0:
		return w.link(dir, name, n, f)
	}
	w.keep(name, "a device, pipe or socket")
	return nil
}

func (w *walk) refuses(base, name string) bool {
	why := badName(base)
	switch {
	case why != "":
	case len(name) > maxPath:
		why = "a path that is too long"
	case strings.Count(name, "/") >= maxTreeDepth:
		why = "folders that are too deep in each other"
	default:
		return false
	}
	w.refused.add(name, why)
	return true
}

func (w *walk) enter(dir *os.File, name string, n *beneath.Node, depth int, ignored bool) error {
	if f := w.files[name]; f != nil && f.mode == modeModule {
		return w.submodule(dir, name, n)
	}
	sub, err := beneath.OpenDir(dir, n.Name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		w.keep(name, "a folder that cannot be read")
		return nil
	case beneath.IsOtherMount(err):
		w.keep(name, "another file system")
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
		w.keep(name, "a folder that changed while it was read")
		return nil
	case err != nil:
		return fmt.Errorf("open folder: %w", err)
	}
	defer func() { _ = sub.Close() }() // read only: nothing to lose
	if w.mine {
		if _, err := beneath.Lstat(sub, ".git"); err == nil && !w.folders[name] {
			w.refused.add(name, "a repository in the repository")
			return nil
		}
		if w.held != nil && !w.folders[name] && isGitFolder(sub) {
			w.refused.add(name, "a git folder under another name")
			return nil
		}
	}
	ignored = ignored || w.ignores(name, true)
	return w.folder(sub, name+"/", depth+1, ignored)
}

// isGitFolder reports whether git takes a folder for one, whatever its name is.
func isGitFolder(dir *os.File) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := beneath.Lstat(dir, name); err != nil {
			return false
		}
	}
	return true
}

// submodule passes over a submodule: its folder is empty in a clone.
func (w *walk) submodule(dir *os.File, name string, n *beneath.Node) error {
	if w.mine {
		return nil
	}
	if entries, err := beneath.ReadDirSameDevice(dir, n.Name, 1); err != nil || len(entries) > 0 {
		w.refused.add(name, "what was put in the folder of a submodule")
	}
	return nil
}

func (w *walk) regular(dir *os.File, name string, n *beneath.Node, f *file) error {
	mode := uint32(modeFile)
	if n.Mode&0o100 != 0 {
		mode = modeProgram
	}
	if w.fixedModes {
		mode = modeFile
		if f != nil && f.mode != modeLink {
			mode = f.mode
		}
	}
	if f != nil {
		f.seen = true
		if w.unchanged(f, n, mode) {
			return nil
		}
	} else if w.look {
		return w.sink.put(name, mode, nil)
	}
	if n.Size > w.limit.FileBytes {
		w.keepFile(name, f, fmt.Sprintf("a file of more than %d MiB", w.limit.FileBytes>>20))
		return nil
	}
	data, _, err := beneath.ReadFile(dir, n.Name, w.limit.FileBytes)
	if err != nil {
		why := "a file that changed while it was read"
		if errors.Is(err, fs.ErrPermission) {
			why = "a file that cannot be read"
		}
		w.keepFile(name, f, why)
		return nil
	}
	return w.differs(name, mode, data, f)
}

// keepFile is keep for a file.
func (w *walk) keepFile(name string, f *file, why string) {
	if f != nil {
		f.seen = true
		why += " (it stays as it was)"
	}
	w.refused.add(name, why)
}

// unchanged trusts what the kernel says of a file that has not been touched
// since it was known: the time of a change cannot be set by anybody.
func (w *walk) unchanged(f *file, n *beneath.Node, mode uint32) bool {
	k := f.known
	if k == nil || k.ID != f.id || k.IntentToAdd || k.Stage != 0 {
		return false
	}
	if k.Unchanged {
		return true
	}
	return mode == f.mode && uint32(n.Size) == k.Size && uint32(n.Ino) == k.Ino &&
		same(n.Changed, k.Changed) && same(n.Modified, k.Modified) && n.Changed.Before(w.asOf)
}

// same compares times as an index has them: 32 bits of seconds, and perhaps no
// nanoseconds.
func same(now, known time.Time) bool {
	return uint32(now.Unix()) == uint32(known.Unix()) && (known.Nanosecond() == 0 || now.Nanosecond() == known.Nanosecond())
}

func (w *walk) link(dir *os.File, name string, n *beneath.Node, f *file) error {
	if f != nil {
		f.seen = true
	} else if w.look {
		return w.sink.put(name, modeLink, nil)
	}
	target, err := beneath.Readlink(dir, n.Name)
	if err != nil {
		w.keepFile(name, f, "a link that changed while it was read")
		return nil //nolint:nilerr // it is said
	}
	if f != nil && f.mode == modeLink && w.id([]byte(target)) == f.id {
		return nil
	}
	if why := badLink(name, target); why != "" {
		w.keepFile(name, f, why)
		return nil
	}
	return w.differs(name, modeLink, []byte(target), f)
}

// differs compares contents, and hands on what is another.
func (w *walk) differs(name string, mode uint32, data []byte, f *file) error {
	if f != nil && w.id(data) == f.id {
		if mode == f.mode {
			return nil
		}
		if (mode == modeLink) == (f.mode == modeLink) {
			return w.sink.mode(name, mode, f.id)
		}
	}
	if w.changes++; w.changes > w.limit.Changes {
		w.keepFile(name, f, fmt.Sprintf("more than %d new and changed files", w.limit.Changes))
		return nil
	}
	if w.bytes += int64(len(data)); w.bytes > w.limit.TotalBytes {
		w.bytes -= int64(len(data))
		w.keepFile(name, f, fmt.Sprintf("more than %d MiB of new and changed files", w.limit.TotalBytes>>20))
		return nil
	}
	return w.sink.put(name, mode, data)
}

// id is the object id of contents.
func (w *walk) id(data []byte) string {
	h := newHash(w.hash)
	_, _ = fmt.Fprintf(h, "blob %d\x00", len(data))
	_, _ = h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

func newHash(size int) hash.Hash {
	if size == sha256Bytes {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // what git names objects by
}

// refusals are the paths that were left out, each with the reason.
type refusals struct {
	list []string
	more int
}

// maxRefusals bounds how many are named.
const maxRefusals = 500

func (r *refusals) add(name, why string) {
	if len(r.list) >= maxRefusals {
		r.more++
		return
	}
	r.list = append(r.list, quoted(name)+": "+why)
}

// all is the list, with a last line for those that are not in it.
func (r *refusals) all() []string {
	list := append([]string{}, r.list...)
	if r.more > 0 {
		list = append(list, fmt.Sprintf("%d more that are not named here", r.more))
	}
	return list
}
