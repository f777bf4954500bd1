package carry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Names in a shadow.
const (
	baseRef    = "refs/bailey/base" // what the agent began from
	headRef    = "refs/bailey/head" // what the repository had then
	indexFile  = "clone.index"      // what the clone was when it was made
	recordFile = "snapshot.json"    // what was answered; written last
)

// record is a snapshot that is whole.
type record struct {
	Request Snapshot          `json:"request"`
	Answer  launcher.Snapshot `json:"answer"`
}

// examine finds the commit as a snapshot does, and copies nothing.
func (w *Worker) examine(ctx context.Context, x Examine) (Examined, error) {
	if err := makeGitDir(x.Shadow, settings, true, w.repo.hash); err != nil {
		return Examined{}, err
	}
	commit, err := w.repo.resolve(ctx, w.git.of(x.Shadow, w.repo.alternates()), x.Ref)
	return Examined{Repo: w.repo.root, Commit: commit}, err
}

// snapshot makes the shadow and the clone. What an earlier try left unfinished
// is removed; what it finished is answered again.
func (w *Worker) snapshot(ctx context.Context, s Snapshot) (launcher.Snapshot, error) {
	none := launcher.Snapshot{}
	if done, err := readRecord(s); done != nil || err != nil {
		return orNone(done, none), err
	}
	for _, folder := range []string{s.Shadow, s.Clone} {
		if _, err := removeTree(folder); err != nil {
			return none, err
		}
	}
	if err := makeGitDir(s.Shadow, settings, true, w.repo.hash); err != nil {
		return none, err
	}
	if err := w.copyShallow(s.Shadow); err != nil {
		return none, err
	}
	g := w.git.of(s.Shadow, w.repo.alternates())
	commit, err := w.repo.resolve(ctx, g, s.Ref)
	if err != nil {
		return none, err
	}
	answer := launcher.Snapshot{Repo: w.repo.root, Subdir: w.repo.subdir, Base: commit, Warnings: w.repo.remarks()}
	d, err := w.packAndLook(ctx, s, g, commit)
	if err != nil {
		return none, err
	}
	if answer.Base, err = w.addDirty(ctx, s, commit, d); err != nil {
		return none, err
	}
	answer.Warnings = append(answer.Warnings, d.warnings(s.IncludeDirty)...)
	if err := w.finish(ctx, s, commit, answer.Base); err != nil {
		return none, err
	}
	answer.Warnings = append(answer.Warnings, d.submodules()...)
	answer.Warnings = append(answer.Warnings, largeFiles(s.Clone, d.files)...)
	return answer, writeRecord(s, answer)
}

func orNone(done *launcher.Snapshot, none launcher.Snapshot) launcher.Snapshot {
	if done == nil {
		return none
	}
	return *done
}

// remarks are what a person should know of the repository.
func (r *repository) remarks() []string {
	var list []string
	if data, err := r.shallow(); err == nil && data != nil {
		list = append(list, "the repository is a shallow clone; its history ends early")
	}
	if r.set("core", "sparsecheckout") {
		list = append(list, "the repository is a sparse checkout; the agent gets all files of the commit")
	}
	return list
}

// packAndLook carries the commit into the shadow, and meanwhile looks for
// uncommitted work.
func (w *Worker) packAndLook(ctx context.Context, s Snapshot, g git, commit string) (*dirty, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	packed := make(chan error, 1)
	go func() { packed <- pack(ctx, g, s.Shadow, commit) }()
	d, err := w.lookForDirty(ctx, g, s, commit)
	if err != nil {
		cancel()
	}
	packErr := <-packed
	if err != nil {
		return nil, err
	}
	if packErr != nil && ctx.Err() == nil {
		return nil, w.lacks(packErr)
	}
	return d, packErr
}

// lacks says why a commit could not be carried whole.
func (w *Worker) lacks(err error) error {
	if w.repo.partial() {
		return bailey.WrapError(bailey.Unsupported, "the repository "+w.repo.root+" is a partial clone and does not have all objects of the commit", err,
			"`git fetch --refetch --no-filter` gets them; a task may not")
	}
	return bailey.WrapError(bailey.Invalid, "the commit cannot be read whole from "+w.repo.root, err, "`git fsck` says what is missing")
}

// finish sets the shadow's references and makes the clone.
func (w *Worker) finish(ctx context.Context, s Snapshot, head, base string) error {
	if err := os.Mkdir(filepath.Join(s.Shadow, "refs/bailey"), privateDir); err != nil {
		return fmt.Errorf("make references: %w", err)
	}
	for name, id := range map[string]string{headRef: head, baseRef: base, "refs/heads/" + s.ID.Branch(): base} {
		if err := writeRef(s.Shadow, name, id); err != nil {
			return err
		}
	}
	if err := os.Mkdir(s.Clone, privateDir); err != nil {
		return fmt.Errorf("make clone: %w", err)
	}
	if err := w.populate(ctx, s.Shadow, s.Clone, s.ID.Branch(), base); err != nil {
		return err
	}
	return copyFile(filepath.Join(s.Clone, ".git/index"), filepath.Join(s.Shadow, indexFile))
}

func readRecord(s Snapshot) (*launcher.Snapshot, error) {
	data, err := os.ReadFile(filepath.Join(s.Shadow, recordFile))
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // it is not whole, and is made again
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, nil //nolint:nilerr,nilnil // it is not whole, and is made again
	}
	was, now := r.Request, s
	if was.ID != now.ID || was.Path != now.Path || was.Ref != now.Ref || was.IncludeDirty != now.IncludeDirty {
		return nil, bailey.NewError(bailey.Conflict, "the task "+string(s.ID)+" has a snapshot of something else", "")
	}
	return &r.Answer, nil
}

func writeRecord(s Snapshot, answer launcher.Snapshot) error {
	data, err := json.Marshal(record{Request: s, Answer: answer})
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	path := filepath.Join(s.Shadow, recordFile)
	if err := os.WriteFile(path+".new", data, privateFile); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return os.Rename(path+".new", path)
}

// checkout is a snapshot of a branch without a shadow: nothing is taken back
// from what a check does.
func (w *Worker) checkout(ctx context.Context, c Checkout) (CheckedOut, error) {
	none := CheckedOut{}
	if err := branchName(c.Branch); err != nil {
		return none, err
	}
	commit, err := w.repo.ref("refs/heads/" + c.Branch)
	if errors.Is(err, errNoRef) {
		return none, bailey.NewError(bailey.NotFound, "the repository "+w.repo.root+" has no branch "+printable(c.Branch), "`git branch` lists those that it has")
	}
	if err != nil {
		return none, err
	}
	if err := os.Mkdir(c.Clone, privateDir); err != nil {
		return none, fmt.Errorf("make folder of the check: %w", err)
	}
	store := c.Clone + ".git"
	if _, err := removeTree(store); err != nil { // of a try that broke off
		return none, err
	}
	if err := makeGitDir(store, settings, true, w.repo.hash); err != nil {
		return none, err
	}
	if err := w.copyShallow(store); err != nil {
		return none, err
	}
	g := w.git.of(store, w.repo.alternates())
	if _, err := w.tree(ctx, g, commit); err != nil {
		return none, err
	}
	if err := pack(ctx, g, store, commit); err != nil {
		return none, w.lacks(err)
	}
	if err := w.populate(ctx, store, c.Clone, c.Branch, commit); err != nil {
		return none, err
	}
	if _, err := removeTree(store); err != nil {
		return none, err
	}
	return CheckedOut{Repo: w.repo.root, Subdir: w.repo.subdir, Commit: commit, Warnings: w.repo.remarks()}, nil
}

// pointer is how the file begins that Git LFS commits in the place of a large
// one (its specification, "The Pointer").
const pointer = "version https://git-lfs.github.com/spec/v1\n"

// largeFiles counts the files of the clone that stand for large ones. They are
// looked for only where a .gitattributes says that there are any.
func largeFiles(clone string, files map[string]*file) []string {
	root, err := beneath.Dir(clone)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	const small = 1024
	used := false
	for name := range files {
		if filepath.Base(name) == ".gitattributes" {
			data, _, err := beneath.ReadFile(root, name, 1<<20)
			used = used || err == nil && strings.Contains(string(data), "filter=lfs")
		}
	}
	if !used {
		return nil
	}
	n := 0
	for name, f := range files {
		if f.mode != modeFile && f.mode != modeProgram {
			continue
		}
		if data, _, err := beneath.ReadFile(root, name, small); err == nil && strings.HasPrefix(string(data), pointer) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d files are kept by Git LFS; the agent gets the pointers to them and not their contents", n)}
}
