package carry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// PhaseBegin looks at a work tree before a unit of a phase works in it, and
// keeps in Folder what is to be known of it afterwards. What lay there in
// Folder is removed.
type PhaseBegin struct {
	Repository
	Home       string `json:"home,omitempty"` // of the user: their rules say which files are nobody's work
	Folder     string `json:"folder"`
	AllowDirty bool   `json:"allow_dirty,omitempty"`

	Except []string `json:"except,omitempty"` // paths that may be uncommitted in any case
}

// PhaseBegan is the answer to PhaseBegin.
type PhaseBegan struct {
	Root    string   `json:"root"`   // of the work tree
	Branch  string   `json:"branch"` // refs/heads/…, which is checked out
	Head    string   `json:"head"`   // its commit
	Base    string   `json:"base"`   // of the folder: Head, with the uncommitted work
	Dirty   []string `json:"dirty"`  // paths of that work, quoted where they are odd
	Remarks []string `json:"remarks"`
}

// Names in the folder of a unit.
const (
	phaseGit     = "own.git"
	phaseRecord  = "begin.json"
	phaseIndex   = "index"   // the user's, as it was
	phaseIgnored = "ignored" // paths that were there and that the rules leave out, each with a NUL behind it
	phaseWork    = "work.json"
	phaseCommit  = "commit.json"
	phaseTip     = "tip.json"
	workRef      = "refs/bailey/work"
)

// phaseState is what is kept of a work tree.
type phaseState struct {
	PhaseBegan
	GitDir  string    `json:"git_dir"`
	Common  string    `json:"common"`
	Objects []string  `json:"objects"`
	Staged  []string  `json:"staged"`  // paths whose entry in the index is not the commit's
	Indexed time.Time `json:"indexed"` // when the index was written
	NoIndex bool      `json:"no_index"`
	LFS     bool      `json:"lfs"`

	Stores map[string]gitdata.StoreMark `json:"stores"` // of Objects, before anything else was looked at

	folder string
}

func (s *phaseState) path(name string) string { return filepath.Join(s.folder, name) }

// own is git with the folder's own git folder, which borrows the user's objects.
func (s *phaseState) own(w *Worker) git { return w.git.of(s.path(phaseGit), w.repo.alternates()) }

// phaseBegin does it.
func (w *Worker) phaseBegin(ctx context.Context, p PhaseBegin) (PhaseBegan, error) {
	none := PhaseBegan{}
	if err := w.repo.atRest(); err != nil {
		return none, err
	}
	s := &phaseState{folder: p.Folder, GitDir: w.repo.gitDir, Common: w.repo.common, Objects: w.repo.objects}
	s.Root, s.Remarks = w.repo.root, []string{}
	var err error
	if s.Stores, err = w.repo.marks(); err != nil {
		return none, err
	}
	if s.Branch, s.Head, err = w.repo.branch(); err != nil {
		return none, err
	}
	if err := s.make(w); err != nil {
		return none, err
	}
	d, err := w.phaseLook(ctx, s)
	if err != nil {
		return none, err
	}
	s.Dirty = d.names()
	if others := slices.DeleteFunc(slices.Clone(s.Dirty), func(name string) bool { return slices.Contains(p.Except, name) }); len(others) > 0 && !p.AllowDirty {
		return none, bailey.NewError(bailey.Conflict, fmt.Sprintf("%s has uncommitted work: %s", s.Root, someOf(others)),
			"commit it or stash it; or --allow-dirty, which keeps it as it is and out of the commits")
	}
	if err := w.phaseBase(ctx, s, d); err != nil {
		return none, err
	}
	if s.LFS {
		s.Remarks = append(s.Remarks, "Git LFS keeps files of this repository: changes of those are not committed")
	}
	return s.PhaseBegan, writeJSON(s.path(phaseRecord), s)
}

// make makes the folder's own git folder anew.
func (s *phaseState) make(w *Worker) error {
	for _, name := range []string{phaseGit, phaseRecord, phaseIndex, phaseIgnored, phaseWork, phaseCommit, phaseTip} {
		if _, err := removeTree(s.path(name)); err != nil {
			return err
		}
	}
	if err := makeGitDir(s.path(phaseGit), settings, true, w.repo.hash); err != nil {
		return err
	}
	return w.copyShallow(s.path(phaseGit))
}

// atRest refuses a repository in which something is half done: a commit now
// would be a part of it.
func (r *repository) atRest() error {
	for _, sign := range []struct{ file, what string }{
		{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"},
	} {
		if _, err := beneath.Lstat(r.gitDirFile, sign.file); err == nil {
			return bailey.NewError(bailey.Conflict, "a "+sign.what+" is going on in "+r.root, "finish it, or `git "+sign.what+" "+end(sign.what)+"`")
		}
	}
	return nil
}

func end(what string) string {
	if what == "bisect" {
		return "reset"
	}
	return "--abort"
}

// branch returns the reference that HEAD names, and its commit.
func (r *repository) branch() (name, id string, err error) {
	name, err = r.headName()
	if err != nil {
		return "", "", err
	}
	if !strings.HasPrefix(name, "refs/heads/") || branchName(strings.TrimPrefix(name, "refs/heads/")) != nil {
		return "", "", bailey.NewError(bailey.Invalid, r.root+" has no branch checked out", "`git switch BRANCH`, or `git switch -c NEW`")
	}
	id, err = r.head()
	return name, id, err
}

// headName is the reference that HEAD names; "" where it names a commit.
func (r *repository) headName() (string, error) {
	text, _, err := beneath.ReadFile(r.gitDirFile, "HEAD", maxRefBytes)
	if err != nil {
		return "", refuse(r.root, "its HEAD cannot be read, or is a link")
	}
	name, symbolic := strings.CutPrefix(strings.TrimRight(string(text), "\n "), "ref:")
	if !symbolic {
		return "", nil
	}
	return strings.TrimSpace(name), nil
}

// phaseLook compares the work tree and the index with the commit, and keeps the
// index and the names of what the rules leave out.
func (w *Worker) phaseLook(ctx context.Context, s *phaseState) (*noted, error) {
	files, err := w.tree(ctx, s.own(w), s.Head)
	if err != nil {
		return nil, err
	}
	s.LFS = w.usesLFS(ctx, s.own(w), files)
	d := &noted{files: files, changed: map[string]bool{}}
	if err := w.keepIndex(s, d); err != nil {
		return nil, err
	}
	var ignored strings.Builder
	walk := w.phaseWalk(files, d)
	walk.look = true
	walk.left = func(name string) { ignored.WriteString(name + "\x00") }
	w.repo.know(walk)
	if err := walk.run(w.repo.rootDir); err != nil {
		return nil, err
	}
	return d, os.WriteFile(s.path(phaseIgnored), []byte(ignored.String()), privateFile)
}

// phaseWalk is a walk through the user's tree.
func (w *Worker) phaseWalk(files map[string]*file, to sink) *walk {
	for _, f := range files {
		f.seen = false
	}
	walk := newWalk(files, w.repo.hash, w.limit, to)
	walk.mine, walk.fixedModes = true, w.repo.modesAreFixed()
	walk.rules = []levelRules{{folder: "", rules: w.rules}, {folder: "", rules: w.repo.exclude()}}
	return walk
}

// keepIndex keeps the user's index, and notes where it is not the commit's.
func (w *Worker) keepIndex(s *phaseState, d *noted) error {
	data, info, err := beneath.ReadFile(w.repo.gitDirFile, "index", gitdata.MaxIndexBytes)
	if err != nil {
		s.NoIndex = true
		return nil //nolint:nilerr // a repository may have none; one that is made does no harm
	}
	entries, index, err := gitdata.ParseEntries(data, w.repo.hash)
	if err != nil || index.Shared != "" {
		return bailey.NewError(bailey.Unsupported, "the index of "+s.Root+" is split, or of a form that is not known", "`git update-index --no-split-index`, `git update-index --index-version 2`")
	}
	seen := make(map[string]bool, len(entries))
	for i := range entries {
		e := &entries[i]
		const folderMode = 0o040000
		switch f := d.files[e.Path]; {
		case e.Stage != 0:
			return bailey.NewError(bailey.Conflict, "files of "+s.Root+" are not merged: "+quoted(e.Path), "resolve them, and commit")
		case e.Mode == folderMode:
			return bailey.NewError(bailey.Unsupported, "the index of "+s.Root+" is sparse", "`git sparse-checkout reapply --no-sparse-index`")
		case f == nil || f.id != e.ID || f.mode != e.Mode:
			d.changed[e.Path] = true
			s.Staged = append(s.Staged, e.Path)
		}
		seen[e.Path] = true
	}
	for name := range d.files {
		if !seen[name] {
			d.changed[name] = true
			s.Staged = append(s.Staged, name)
		}
	}
	s.Indexed = info.Modified
	return os.WriteFile(s.path(phaseIndex), data, privateFile)
}

// phaseBase makes the commit of what is there now, of which the unit's own
// changes are the difference.
func (w *Worker) phaseBase(ctx context.Context, s *phaseState, d *noted) error {
	s.Base = s.Head
	if len(d.changed) == 0 {
		return nil
	}
	i, err := startImport(ctx, s.own(w))
	if err != nil {
		return err
	}
	walk := w.phaseWalk(d.files, i)
	w.repo.know(walk)
	if err := walk.run(w.repo.rootDir); err != nil {
		i.abandon()
		return err
	}
	id, err := i.commit(baseRef, s.Head, "uncommitted work\n", w.now)
	if err == nil && id != "" { // else it is staged alone
		s.Base = id
	}
	return err
}

// usesLFS reports whether an attribute of the commit says so.
func (w *Worker) usesLFS(ctx context.Context, g git, files map[string]*file) bool {
	for name, f := range files {
		if filepath.Base(name) != ".gitattributes" || f.mode == modeModule {
			continue
		}
		if data, err := g.run(ctx, nil, 1<<20, "cat-file", "blob", f.id); err == nil && strings.Contains(string(data), "filter=") {
			return true
		}
	}
	return false
}

// noted is a sink that keeps the names of what differs.
type noted struct {
	files   map[string]*file
	changed map[string]bool
}

func (n *noted) put(path string, _ uint32, _ []byte) error {
	n.changed[path] = true
	return nil
}

func (n *noted) mode(path string, _ uint32, _ string) error {
	n.changed[path] = true
	return nil
}

func (n *noted) remove(path string) error {
	n.changed[path] = true
	return nil
}

// names are the paths, at most so many that a person reads them.
func (n *noted) names() []string {
	list := []string{}
	for name := range n.changed {
		list = append(list, quoted(name))
	}
	slices.Sort(list)
	const most = 50
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("%d more", more))
	}
	return list
}

// readPhase reads what was kept, and makes sure that the repository is the one
// that it was.
func (w *Worker) readPhase(folder string) (*phaseState, error) {
	s := &phaseState{}
	data, err := os.ReadFile(filepath.Join(folder, phaseRecord))
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was kept of the work tree: %w", err)
	}
	s.folder = folder
	if s.Root != w.repo.root || s.GitDir != w.repo.gitDir || s.Common != w.repo.common {
		return nil, refuse(w.repo.root, "its git folder is another than before the unit")
	}
	if !slices.Equal(s.Objects, w.repo.objects) {
		return nil, refuse(w.repo.root, "it borrows objects from other folders than before the unit")
	}
	return s, nil
}

// writeJSON writes a record that is whole or not there.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, privateFile)
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return os.Rename(path+".new", path)
}
