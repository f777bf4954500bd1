package carry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// PhaseCommit commits what was collected of a unit, and nothing else, on the
// branch that was checked out before it. Done again, it answers the same.
type PhaseCommit struct {
	Repository
	Home    string `json:"home,omitempty"`
	Folder  string `json:"folder"`
	Message string `json:"message"`
	Name    string `json:"name"` // of who commits
	Email   string `json:"email"`
	Back    bool   `json:"back,omitempty"` // commit nothing: HEAD, branch and index as before the unit
}

// PhaseCommitted is the answer to PhaseCommit.
type PhaseCommitted struct {
	Commit string   `json:"commit"`
	Stat   string   `json:"stat"`
	Kept   []string `json:"kept"` // references to commits that the unit had made itself, or that HEAD was moved to
	Left   []string `json:"left"` // paths of the work tree that differ from the commit, quoted where they are odd

	Forged []string `json:"forged,omitempty"` // as of PhaseCollected; nothing was committed
}

// phaseCommit does it: a commit of the folder, its objects into the user's
// store, the index, HEAD, and the branch last. Whatever the moment at which
// that breaks off, the next try ends with the same commit.
func (w *Worker) phaseCommit(ctx context.Context, p PhaseCommit) (PhaseCommitted, error) {
	none := PhaseCommitted{}
	s, err := w.readPhase(p.Folder)
	if err != nil {
		return none, err
	}
	if p.Back {
		return w.phaseBack(ctx, s)
	}
	// The validation could write there too.
	if none.Forged, err = w.forged(ctx, s); err != nil || len(none.Forged) > 0 {
		return none, err
	}
	if err := w.phaseOnto(ctx, s); err != nil {
		return none, err
	}
	made, err := w.phaseMake(ctx, s, p)
	if err != nil {
		return none, err
	}
	g := s.own(w)
	if err := w.sendFrom(ctx, g, s.folder, s.Head, made.Commit); err != nil {
		return none, err
	}
	if err := w.phaseIndexed(ctx, s, made.Commit); err != nil {
		return none, err
	}
	if made.Kept, err = w.phaseRefs(ctx, s, made.Commit); err != nil {
		return none, err
	}
	if made.Left, err = w.phaseLeft(ctx, s, made.Commit); err != nil {
		return none, err
	}
	return made, nil
}

// phaseBack puts HEAD, branch and index back where a unit that is not committed
// moved them. Its work stays in the work tree.
func (w *Worker) phaseBack(ctx context.Context, s *phaseState) (back PhaseCommitted, err error) {
	tip, tipErr := w.repo.ref(s.Branch)
	name, nameErr := w.repo.headName()
	if tipErr == nil && nameErr == nil && tip == s.Head && name == s.Branch {
		return back, nil
	}
	if err := w.phaseIndexed(ctx, s, s.Head); err != nil {
		return back, err
	}
	back.Kept, err = w.phaseRefs(ctx, s, s.Head)
	return back, err
}

// tipRecord is where HEAD and the branch were when the first try to commit began.
type tipRecord struct {
	On  string `json:"on"`
	Tip string `json:"tip"`
}

// phaseOnto finds what the commit is to be made on. Where the branch was moved
// before the first try, the unit did it, and that is passed over. Where it was
// moved between tries there was no sandbox, so it was the person, for whom the
// first try did not come to an end: their commit is built upon, and the index is
// what they made of it.
func (w *Worker) phaseOnto(ctx context.Context, s *phaseState) error {
	now := tipRecord{}
	var err error
	if now.Tip, err = w.repo.ref(s.Branch); err != nil && !errors.Is(err, errNoRef) {
		return err
	}
	if now.On, err = w.repo.headName(); err != nil {
		return err
	}
	var was tipRecord
	data, err := os.ReadFile(s.path(phaseTip))
	if err != nil || json.Unmarshal(data, &was) != nil {
		return writeJSON(s.path(phaseTip), now)
	}
	if now.On != was.On && now.On != s.Branch {
		return bailey.NewError(bailey.Conflict, "HEAD of "+s.Root+" is not on "+strings.TrimPrefix(s.Branch, "refs/heads/")+" any more", "`git switch "+strings.TrimPrefix(s.Branch, "refs/heads/")+"`, then go on")
	}
	var made PhaseCommitted
	if data, err := os.ReadFile(s.path(phaseCommit)); err == nil {
		_ = json.Unmarshal(data, &made) // one that is broken is made anew
	}
	if now.Tip == "" || now.Tip == was.Tip || now.Tip == s.Head || now.Tip == made.Commit {
		return nil
	}
	files, err := w.tree(ctx, s.own(w), now.Tip)
	if err != nil {
		return err
	}
	s.Head, s.Staged = now.Tip, nil
	if err := w.keepIndex(s, &noted{files: files, changed: map[string]bool{}}); err != nil {
		return err
	}
	if _, err := removeTree(s.path(phaseCommit)); err != nil {
		return err
	}
	return errors.Join(writeJSON(s.path(phaseRecord), s), writeJSON(s.path(phaseTip), now))
}

// phaseMake makes the commit, once.
func (w *Worker) phaseMake(ctx context.Context, s *phaseState, p PhaseCommit) (PhaseCommitted, error) {
	var made PhaseCommitted
	if data, err := os.ReadFile(s.path(phaseCommit)); err == nil && json.Unmarshal(data, &made) == nil && isID(made.Commit, w.repo.hash) {
		return made, nil
	}
	work, err := s.readWork()
	if err != nil {
		return made, err
	}
	g := s.own(w)
	tree := work.Work + "^{tree}"
	if s.Base != s.Head {
		if tree, err = w.phaseMerged(ctx, s, work.Work); err != nil {
			return made, err
		}
	}
	if made.Commit, err = commitTree(ctx, g.as(p, w), tree, s.Head, p.Message); err != nil {
		return made, err
	}
	if err := w.notStaged(ctx, s, made.Commit); err != nil {
		return made, err
	}
	stat, err := g.diff(ctx, maxStat, s.Head, made.Commit, "--stat=100,70,200", "--summary")
	if err != nil {
		return made, err
	}
	made.Stat = stat.text()
	return made, writeJSON(s.path(phaseCommit), made)
}

// as is git that commits as somebody.
func (g git) as(p PhaseCommit, w *Worker) git {
	date := fmt.Sprintf("@%d +0000", w.now.Unix())
	return g.of(g.dir, "GIT_AUTHOR_NAME="+p.Name, "GIT_AUTHOR_EMAIL="+p.Email, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME="+p.Name, "GIT_COMMITTER_EMAIL="+p.Email, "GIT_COMMITTER_DATE="+date)
}

func commitTree(ctx context.Context, g git, tree, parent, message string) (string, error) {
	out, err := g.run(ctx, strings.NewReader(message), maxComplaint, "commit-tree", tree, "-p", parent, "-F", "-")
	return strings.TrimSpace(string(out)), err
}

// phaseMerged takes the unit's changes to where the uncommitted work, which they
// were made upon, is not: a merge of three trees, the uncommitted work's between
// the commit's and the unit's.
func (w *Worker) phaseMerged(ctx context.Context, s *phaseState, work string) (string, error) {
	g := s.own(w)
	mine := PhaseCommit{Name: "bailey", Email: "bailey@bailey.invalid"}
	ours, err := commitTree(ctx, g.as(mine, w), s.Head+"^{tree}", s.Base, "without the uncommitted work\n")
	if err != nil {
		return "", err
	}
	complaint, out := &tail{}, &bounded{left: maxStat}
	args := []string{"-c", "merge.renames=false", "-c", "merge.directoryRenames=false", "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, work}
	cmd := g.command(ctx, complaint, args...)
	cmd.Stdout = out
	err = cmd.Run()
	parts := strings.Split(strings.TrimRight(string(out.Bytes()), "\x00"), "\x00")
	if err == nil {
		return strings.TrimSpace(parts[0]), nil
	}
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 1 && len(parts) > 1 {
		names := parts[1:]
		for i := range names {
			names[i] = quoted(names[i])
		}
		return "", inBoth(names)
	}
	return "", failed(ctx, args[4:], err, complaint)
}

// inBoth says in which files the user's work and the unit's cannot be told
// apart.
func inBoth(names []string) error {
	return bailey.NewError(bailey.Conflict, "your uncommitted work and the unit's change are in the same place: "+someOf(names),
		"both are in the work tree, nothing is committed: commit or stash yours there (`git add -p`), then go on")
}

// notStaged refuses files of which the user has staged something.
func (w *Worker) notStaged(ctx context.Context, s *phaseState, commit string) error {
	if len(s.Staged) == 0 {
		return nil
	}
	changed, err := w.phaseChanges(ctx, s, commit)
	if err != nil {
		return err
	}
	var both []string
	for _, c := range changed {
		if slices.Contains(s.Staged, c.path) {
			both = append(both, quoted(c.path))
		}
	}
	if len(both) > 0 {
		return inBoth(both)
	}
	return nil
}

// change is one path of a commit's difference.
type change struct {
	path, mode, id string // mode 0: it is gone
}

// phaseChanges lists the difference that a commit makes to the branch.
func (w *Worker) phaseChanges(ctx context.Context, s *phaseState, commit string) ([]change, error) {
	out, err := s.own(w).run(ctx, nil, maxListBytes, "diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", "--no-commit-id", s.Head, commit)
	if err != nil {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	var list []change
	for i := 0; i+1 < len(fields); i += 2 {
		words := strings.Fields(fields[i])
		if len(words) != 5 {
			return nil, fmt.Errorf("read difference: %q", fields[i])
		}
		list = append(list, change{path: fields[i+1], mode: strings.TrimLeft(words[1], "0"), id: words[3]})
	}
	return list, nil
}

// phaseIndexed puts an index into the place of the user's: theirs as it was
// before the unit, with the entries of what is committed.
func (w *Worker) phaseIndexed(ctx context.Context, s *phaseState, commit string) error {
	next := s.path("index.next")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make index: %w", err)
	}
	g := w.git.of(s.path(phaseGit), w.repo.alternates(), "GIT_INDEX_FILE="+next, "GIT_WORK_TREE="+s.Root)
	if s.NoIndex {
		if _, err := g.run(ctx, nil, maxComplaint, "read-tree", commit); err != nil {
			return err
		}
	} else if err := w.phaseEntries(ctx, s, g, next, commit); err != nil {
		return err
	}
	// It reads files that have another stamp; that some differ is no error.
	_, _ = g.run(ctx, nil, maxStat, "-c", "core.bare=false", "update-index", "-q", "--unmerged", "--ignore-submodules", "--refresh")
	data, err := os.ReadFile(next)
	if err != nil {
		return fmt.Errorf("make index: %w", err)
	}
	mode := fs.FileMode(privateFile)
	if info, err := beneath.Lstat(w.repo.gitDirFile, "index"); err == nil && info.Mode.IsRegular() {
		mode = info.Mode.Perm()
	}
	return w.repo.overwrite(s, w.repo.gitDirFile, "index", mode, data)
}

func (w *Worker) phaseEntries(ctx context.Context, s *phaseState, g git, next, commit string) error {
	data, err := os.ReadFile(s.path(phaseIndex))
	if err != nil {
		return fmt.Errorf("make index: %w", err)
	}
	if err := os.WriteFile(next, data, privateFile); err != nil {
		return fmt.Errorf("make index: %w", err)
	}
	changed, err := w.phaseChanges(ctx, s, commit)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, c := range changed {
		if c.mode == "" {
			c.mode = "0"
		}
		fmt.Fprintf(&lines, "%s %s\t%s\x00", c.mode, c.id, c.path)
	}
	_, err = g.run(ctx, &lines, maxComplaint, "update-index", "-z", "--index-info")
	return err
}

// overwrite writes a file of a git folder as git does, under its lock. A try
// that broke off may have left one: it has said so before, in the folder.
func (r *repository) overwrite(s *phaseState, dir *os.File, name string, mode fs.FileMode, data []byte) error {
	lock, locking := name+".lock", s.path("locking")
	if said, err := os.ReadFile(locking); err == nil && string(said) == lock {
		if there, _, err := beneath.ReadFile(dir, lock, int64(len(data))+1); err == nil && bytes.HasPrefix(data, there) {
			_ = beneath.Remove(dir, lock, 1) // what follows says that it is there
		}
	}
	if err := os.WriteFile(locking, []byte(lock), privateFile); err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	if err := beneath.CreateAs(dir, lock, mode, nil); err != nil {
		return errors.Join(r.locked(lock, err), os.Remove(locking))
	}
	if err := beneath.Replace(dir, lock, name, data); err != nil {
		_ = beneath.Remove(dir, lock, 1) // the error that is told is the first
		return errors.Join(err, os.Remove(locking))
	}
	return os.Remove(locking)
}

// phaseRefs puts HEAD back to the branch, and the branch to the commit. What
// either was moved to meanwhile stays there under a name, so nobody's commits
// are lost.
func (w *Worker) phaseRefs(ctx context.Context, s *phaseState, commit string) ([]string, error) { //nolint:gocognit // one check after the other
	kept := []string{}
	tip, err := w.repo.ref(s.Branch)
	if err != nil && !errors.Is(err, errNoRef) {
		return nil, err
	}
	ids := []string{tip}
	name, err := w.repo.headName()
	if err != nil || name != s.Branch {
		if id, err := w.repo.head(); err == nil {
			ids = append(ids, id)
		}
		if err := w.repo.overwrite(s, w.repo.gitDirFile, "HEAD", w.repo.refMode(), []byte("ref: "+s.Branch+"\n")); err != nil {
			return nil, err
		}
	}
	for _, id := range ids {
		if id == "" || id == s.Head || id == commit {
			continue
		}
		ref, err := w.keepCommit(ctx, s, id)
		if err != nil {
			return nil, err
		}
		if ref != "" && !slices.Contains(kept, ref) {
			kept = append(kept, ref)
		}
	}
	if tip == commit {
		return kept, nil
	}
	return kept, w.repo.setRef(s, s.Branch, commit)
}

// keepCommit gives a commit a name, if it is one.
func (w *Worker) keepCommit(ctx context.Context, s *phaseState, id string) (string, error) {
	const short = 16
	kind, err := s.own(w).line(ctx, "cat-file", "-t", id)
	if err != nil || kind != "commit" {
		return "", nil //nolint:nilerr // what is no commit holds nobody's work
	}
	name := "refs/bailey/kept/" + id[:short]
	if got, err := w.repo.ref(name); err == nil && got == id {
		return name, nil
	}
	return name, w.repo.setRef(s, name, id)
}

// setRef sets a reference, whatever it is, as git does for one that is a file.
func (r *repository) setRef(s *phaseState, name, id string) error {
	if err := r.makeFolders(filepath.Dir(name)); err != nil {
		return err
	}
	dir, err := beneath.Sub(r.commonDir, filepath.Dir(name))
	if err != nil {
		return refuse(r.root, "its folder "+filepath.Dir(name)+" is a link or no folder")
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	return r.overwrite(s, dir, filepath.Base(name), r.refMode(), []byte(id+"\n"))
}

// phaseLeft lists what of the work tree is not in the commit.
func (w *Worker) phaseLeft(ctx context.Context, s *phaseState, commit string) ([]string, error) {
	files, err := w.tree(ctx, s.own(w), commit)
	if err != nil {
		return nil, err
	}
	d := &noted{files: files, changed: map[string]bool{}}
	walk := w.phaseWalk(files, d)
	walk.look = true
	if walk.held, err = s.ignored(); err != nil {
		return nil, err
	}
	w.repo.know(walk)
	if err := walk.run(w.repo.rootDir); err != nil {
		return nil, err
	}
	return d.names(), nil
}
