package carry

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/task"
)

// Request is one operation. Exactly one of the pointers is set. All paths are
// absolute, and without symbolic links.
type Request struct {
	Git     string        `json:"git"`     // the program
	Now     time.Time     `json:"now"`     // when the commits that are made say they were
	Timeout time.Duration `json:"timeout"` // 0 means DefaultTimeout
	Limits  Limits        `json:"limits"`

	Examine      *Examine      `json:"examine,omitempty"`
	Snapshot     *Snapshot     `json:"snapshot,omitempty"`
	Collect      *Collect      `json:"collect,omitempty"`
	Deliver      *Deliver      `json:"deliver,omitempty"`
	DeleteBranch *DeleteBranch `json:"delete_branch,omitempty"`
	Checkout     *Checkout     `json:"checkout,omitempty"`
	Remove       *Remove       `json:"remove,omitempty"`
	PhaseBegin   *PhaseBegin   `json:"phase_begin,omitempty"`
	PhaseCollect *PhaseCollect `json:"phase_collect,omitempty"`
	PhaseCommit  *PhaseCommit  `json:"phase_commit,omitempty"`
}

// DefaultTimeout is for an operation on a repository with a long history.
const DefaultTimeout = 10 * time.Minute

// How large a commit is copied, unless Limits say otherwise.
const (
	MostTreeBytes = 10 << 30 // of all its files, written out
	MostTreeNames = 500_000  // files and folders
)

// Limits bound what is taken from an agent's files, or from uncommitted work,
// and the commits that clones are made of. A zero field is the default.
type Limits struct {
	FileBytes  int64 `json:"file_bytes,omitempty"`  // of one file; default 100 MiB
	TotalBytes int64 `json:"total_bytes,omitempty"` // of all new and changed files; default 1 GiB
	Changes    int   `json:"changes,omitempty"`     // files that are new or changed; default 100,000
	Entries    int   `json:"entries,omitempty"`     // names that are looked at; default 2,000,000
	DiffBytes  int64 `json:"diff_bytes,omitempty"`  // of the diff that is handed on; default 16 MiB
	TreeBytes  int64 `json:"tree_bytes,omitempty"`  // of all files of a commit that is copied; default MostTreeBytes
	TreeNames  int   `json:"tree_names,omitempty"`  // files and folders of such a commit; default MostTreeNames
}

func (l Limits) orDefault() Limits {
	l.FileBytes = orElse(l.FileBytes, 100<<20)
	l.TotalBytes = orElse(l.TotalBytes, 1<<30)
	l.Changes = orElse(l.Changes, 100_000)
	l.Entries = orElse(l.Entries, 2_000_000)
	l.DiffBytes = orElse(l.DiffBytes, 16<<20)
	l.TreeBytes = orElse(l.TreeBytes, MostTreeBytes)
	l.TreeNames = orElse(l.TreeNames, MostTreeNames)
	return l
}

func orElse[T int | int64](v, other T) T {
	if v <= 0 {
		return other
	}
	return v
}

// Repository names a user's repository, and what it may be.
type Repository struct {
	Path  string   `json:"path"`  // a folder in its work tree
	Roots []string `json:"roots"` // it lies below one of these
	From  string   `json:"from"`  // who names them: the end of a sentence
	Owner int      `json:"owner"` // the user id that it belongs to
}

// Examine looks for the commit that a snapshot would copy. The shadow is a folder
// of its own, which does not exist before.
type Examine struct {
	Repository
	Ref    string `json:"ref,omitempty"` // default HEAD
	Shadow string `json:"shadow"`
}

// Examined is the answer to Examine.
type Examined struct {
	Repo   string `json:"repo"`
	Commit string `json:"commit"`
}

// Snapshot copies a commit into a shadow and from there into a scratch clone.
// Neither folder exists before; the folder that they are to be made in does.
type Snapshot struct {
	Repository
	ID           task.ID `json:"id"`
	Ref          string  `json:"ref,omitempty"` // default HEAD
	IncludeDirty bool    `json:"include_dirty,omitempty"`
	Home         string  `json:"home,omitempty"` // of the user: the rules in it say which files no snapshot takes
	Shadow       string  `json:"shadow"`
	Clone        string  `json:"clone"`
}

// Collect reads what became of the clone into one commit of the shadow.
type Collect struct {
	ID     task.ID `json:"id"`
	Shadow string  `json:"shadow"`
	Clone  string  `json:"clone"`
}

// Deliver puts the commit of the shadow into the repository as agent/<id>.
type Deliver struct {
	Repository
	ID     task.ID `json:"id"`
	Shadow string  `json:"shadow"`
}

// DeleteBranch deletes agent/<id>.
type DeleteBranch struct {
	Repository
	Branch string `json:"branch"`
}

// Checkout copies the commit of a branch into a fresh folder.
type Checkout struct {
	Repository
	Branch string `json:"branch"` // without refs/heads/
	Clone  string `json:"clone"`
}

// Remove removes a folder that an agent wrote to. One that is not there is no
// error.
type Remove struct {
	Folder string `json:"folder"`
}

// CheckedOut is the answer to Checkout.
type CheckedOut struct {
	Repo     string   `json:"repo"`
	Subdir   string   `json:"subdir"`
	Commit   string   `json:"commit"`
	Warnings []string `json:"warnings"`
}

// Removed is the answer to Remove.
type Removed struct {
	Removed bool `json:"removed"`
}

// Answer is what an operation found: Head as one line of JSON, and for Collect
// the diff behind it.
type Answer struct {
	Head any
	Diff io.Reader
}

// Worker is an operation that is ready to be done. Making one reads of the
// user's repository only where its parts lie; Needs says which they are.
type Worker struct {
	git   git
	now   time.Time
	limit Limits
	repo  *repository    // of the operations that have one
	rules gitdata.Ignore // of the user's home
	req   Request
}

// Needs are the folders of an operation, and all that is below them.
type Needs struct {
	Read   []string
	Write  []string
	Remove []string // folders from which one that has become empty is removed
}

// Needs says what the operation reads and writes.
func (w *Worker) Needs() Needs {
	var n Needs
	if w.repo != nil {
		n.Read = append([]string{w.repo.root, w.repo.gitDir, w.repo.common}, w.repo.objects...)
	}
	switch r := w.req; {
	case r.Examine != nil:
		n.Write = []string{filepath.Dir(r.Examine.Shadow)}
	case r.Snapshot != nil:
		n.Write = []string{filepath.Dir(r.Snapshot.Shadow), filepath.Dir(r.Snapshot.Clone)}
	case r.Collect != nil:
		n.Read, n.Write = []string{r.Collect.Clone}, []string{r.Collect.Shadow}
	case r.Deliver != nil:
		// Of the work tree nothing is looked at.
		n.Read = append([]string{w.repo.gitDir, w.repo.common}, w.repo.objects...)
		n.Write = []string{r.Deliver.Shadow, w.repo.objects[0], filepath.Join(w.repo.common, "refs")}
	case r.DeleteBranch != nil:
		n.Read, n.Write = []string{w.repo.gitDir}, []string{w.repo.common}
	case r.Checkout != nil:
		n.Write = []string{filepath.Dir(r.Checkout.Clone)}
	case r.PhaseBegin != nil:
		n.Write = []string{r.PhaseBegin.Folder}
	case r.PhaseCollect != nil:
		n.Write = []string{r.PhaseCollect.Folder}
	case r.PhaseCommit != nil:
		n.Write = []string{r.PhaseCommit.Folder, w.repo.objects[0], w.repo.gitDir, filepath.Join(w.repo.common, "refs")}
	case r.Remove != nil:
		n.Write, n.Remove = []string{r.Remove.Folder}, []string{filepath.Dir(r.Remove.Folder)}
	}
	return n
}

// Prepare checks a request and finds the user's repository. The errors that a
// person can cause are *bailey.Error.
func Prepare(r Request) (*Worker, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	w := &Worker{git: git{program: r.Git}, now: r.Now, limit: r.Limits.orDefault(), req: r}
	if place := r.place(); place != nil {
		repo, err := open(*place)
		if err != nil {
			return nil, err
		}
		w.repo = repo
	}
	if r.Snapshot != nil {
		w.rules = gitdata.ReadUserIgnore(r.Snapshot.Home, "")
	}
	if home := r.phaseHome(); home != "" {
		w.rules = gitdata.ReadUserIgnore(home, "")
	}
	return w, nil
}

// place is the user's repository that the operation is about, if it is.
func (r Request) place() *Repository {
	switch {
	case r.Examine != nil:
		return &r.Examine.Repository
	case r.Snapshot != nil:
		return &r.Snapshot.Repository
	case r.Deliver != nil:
		return &r.Deliver.Repository
	case r.DeleteBranch != nil:
		return &r.DeleteBranch.Repository
	case r.Checkout != nil:
		return &r.Checkout.Repository
	case r.PhaseBegin != nil:
		return &r.PhaseBegin.Repository
	case r.PhaseCollect != nil:
		return &r.PhaseCollect.Repository
	case r.PhaseCommit != nil:
		return &r.PhaseCommit.Repository
	}
	return nil
}

// Do does the operation. The diff of an Answer is to be read before ctx ends.
func (w *Worker) Do(ctx context.Context) (Answer, error) {
	var head any
	var err error
	switch r := w.req; {
	case r.Examine != nil:
		head, err = w.examine(ctx, *r.Examine)
	case r.Snapshot != nil:
		head, err = w.snapshot(ctx, *r.Snapshot)
	case r.Collect != nil:
		return w.collect(ctx, *r.Collect)
	case r.Deliver != nil:
		head, err = w.deliver(ctx, *r.Deliver)
	case r.DeleteBranch != nil:
		head, err = w.deleteBranch(*r.DeleteBranch)
	case r.Checkout != nil:
		head, err = w.checkout(ctx, *r.Checkout)
	case r.Remove != nil:
		head, err = w.remove(*r.Remove)
	case r.PhaseBegin != nil:
		head, err = w.phaseBegin(ctx, *r.PhaseBegin)
	case r.PhaseCollect != nil:
		head, err = w.phaseCollect(ctx, *r.PhaseCollect)
	case r.PhaseCommit != nil:
		head, err = w.phaseCommit(ctx, *r.PhaseCommit)
	}
	return Answer{Head: head, Diff: nil}, err
}

// phaseHome is the home whose rules hold for an operation of a phase.
func (r Request) phaseHome() string {
	switch {
	case r.PhaseBegin != nil:
		return r.PhaseBegin.Home
	case r.PhaseCollect != nil:
		return r.PhaseCollect.Home
	case r.PhaseCommit != nil:
		return r.PhaseCommit.Home
	}
	return ""
}

// Subject is the folder whose owner an operation is done as.
func (r Request) Subject() string {
	switch place := r.place(); {
	case place != nil:
		return place.Path
	case r.Collect != nil:
		return r.Collect.Shadow
	case r.Remove != nil:
		return r.Remove.Folder
	}
	return ""
}

// SetOwner says who the user's repository has to belong to.
func (r Request) SetOwner(uid int) {
	if place := r.place(); place != nil {
		place.Owner = uid
	}
}
