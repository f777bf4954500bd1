package carry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// deliver copies the commit of the shadow into the user's object store, and
// makes the branch. Nothing else of the repository changes.
func (w *Worker) deliver(ctx context.Context, d Deliver) (launcher.Delivered, error) {
	none := launcher.Delivered{}
	s, err := openShadow(d.Shadow)
	if err != nil {
		return none, err
	}
	if s.hash != w.repo.hash {
		return none, refuse(w.repo.root, "it names objects in another way than when the task began")
	}
	name := "refs/heads/" + d.ID.Branch()
	commit, err := readRef(s.dir, name, s.hash)
	if err != nil {
		return none, err
	}
	if commit == "" || commit == s.head {
		return none, bailey.NewError(bailey.Invalid, "the task "+string(d.ID)+" has nothing to deliver", "")
	}
	done := launcher.Delivered{Branch: d.ID.Branch(), Commit: commit}
	there, err := w.free(name, commit)
	if err != nil || there {
		return done, err
	}
	if err := w.sendObjects(ctx, s, commit); err != nil {
		return none, err
	}
	if err := w.repo.createRef(name, commit); err != nil {
		return none, err
	}
	got, err := w.repo.ref(name)
	if err != nil {
		return none, err
	}
	if got != commit {
		return none, bailey.NewError(bailey.Conflict, "the branch "+d.ID.Branch()+" was changed by somebody else", "")
	}
	return done, nil
}

// free reports whether the branch is there and is what it is to be. Another
// branch of its name, or a work tree on it, is an error.
func (w *Worker) free(name, commit string) (bool, error) {
	got, err := w.repo.ref(name)
	if err == nil && got == commit {
		return true, nil
	}
	if err == nil {
		return false, bailey.NewError(bailey.Conflict, "the repository has a branch "+strings.TrimPrefix(name, "refs/heads/")+" already, with other work", "delete it or rename it: `git branch -m OLD NEW`")
	}
	if !errors.Is(err, errNoRef) {
		return false, err
	}
	return false, w.notCheckedOut(name)
}

func (w *Worker) notCheckedOut(name string) error {
	where, err := w.repo.onBranch(name)
	if err != nil || where == "" {
		return err
	}
	return bailey.NewError(bailey.Conflict, "the branch "+strings.TrimPrefix(name, "refs/heads/")+" is checked out in "+where, "`git switch` to another branch there")
}

// sendObjects indexes a pack of what the repository does not have in its object
// store. Git checks each object for what a hostile one could hold (fsck), and
// that nothing is missing.
func (w *Worker) sendObjects(ctx context.Context, s *shadow, commit string) error {
	return w.sendFrom(ctx, w.git.of(s.dir), s.dir, s.head, commit)
}

// sendFrom is sendObjects for a git that has the commit, a folder to work in,
// and the commit that the repository should have already.
func (w *Worker) sendFrom(ctx context.Context, from git, folder, head, commit string) error {
	wanted := commit + "\n"
	dot := filepath.Join(folder, "deliver.git")
	if _, err := removeTree(dot); err != nil {
		return err
	}
	if err := makeGitDir(dot, w.sharing(), true, w.repo.hash); err != nil {
		return err
	}
	defer func() { _, _ = removeTree(dot) }() // the next time removes it otherwise
	store := w.repo.objects[0]
	in := w.git.of(dot, "GIT_OBJECT_DIRECTORY="+store)
	if err := w.copyShallow(dot); err != nil {
		return err
	}
	if _, err := in.run(ctx, nil, maxComplaint, "cat-file", "-e", head+"^{tree}"); err == nil {
		wanted += "^" + head + "\n"
	}
	const mostObjects = 4 << 30
	pack, err := os.OpenFile(filepath.Join(dot, "new.pack"), os.O_RDWR|os.O_CREATE|os.O_EXCL, privateFile)
	if err != nil {
		return fmt.Errorf("make pack: %w", err)
	}
	defer func() { _ = pack.Close() }() // what matters of it is in the store
	if err := from.stream(ctx, strings.NewReader(wanted), pack, "pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet"); err != nil {
		return err
	}
	if _, err := pack.Seek(0, 0); err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	_, err = in.run(ctx, pack, maxComplaint, "index-pack", "--stdin", "--strict", fmt.Sprintf("--max-input-size=%d", int64(mostObjects)))
	if err != nil {
		return bailey.WrapError(bailey.Forbidden, "the work cannot be delivered into "+w.repo.root, err, "")
	}
	return w.connected(ctx, in, head, commit)
}

// connected makes sure that the store has all that the commit needs.
func (w *Worker) connected(ctx context.Context, in git, head, commit string) error {
	if _, err := in.run(ctx, strings.NewReader(commit+"\n^"+head+"\n"), maxComplaint, "rev-list", "--objects", "--quiet", "--stdin"); err != nil {
		return bailey.WrapError(bailey.Conflict, "the repository "+w.repo.root+" lacks what the task began from", err, "")
	}
	return nil
}

// sharing is the settings of the folder by which git writes into the user's
// store: what it makes has the modes that the user's git would give it.
func (w *Worker) sharing() string {
	text := strings.Replace(settings, "fsync = none", "fsync = default", 1)
	value, _ := w.repo.config.Get("core", "sharedrepository")
	switch value = strings.ToLower(value); value {
	case "group", "true", "1", "all", "world", "everybody", "2":
		return text + "[core]\n\tsharedRepository = " + value + "\n"
	}
	return text
}

// stream runs git with its output in a file.
func (g git) stream(ctx context.Context, stdin io.Reader, to io.Writer, args ...string) error {
	complaint := &tail{}
	cmd := g.command(ctx, complaint, args...)
	cmd.Stdin, cmd.Stdout = stdin, to
	if err := cmd.Run(); err != nil {
		return failed(ctx, args, err, complaint)
	}
	return nil
}

// createRef makes a reference that is not there, as git does for one that is a
// file (refs/files-backend.c): under a lock, and no hook is told.
func (r *repository) createRef(name, id string) error {
	if err := r.makeFolders(filepath.Dir(name)); err != nil {
		return err
	}
	lock := name + ".lock"
	dir, err := beneath.Sub(r.commonDir, filepath.Dir(name))
	if err != nil {
		return refuse(r.root, "its folder "+filepath.Dir(name)+" is a link or no folder")
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	if err := beneath.CreateAs(dir, filepath.Base(lock), r.refMode(), []byte(id+"\n")); err != nil {
		return r.locked(lock, err)
	}
	_, err = r.ref(name)
	if errors.Is(err, errNoRef) {
		err = beneath.Rename(dir, filepath.Base(lock), filepath.Base(name))
		if err == nil {
			return nil
		}
	} else if err == nil {
		err = fs.ErrExist
	}
	_ = beneath.Remove(dir, filepath.Base(lock), 1) // the error that is told is the first
	return bailey.WrapError(bailey.Conflict, "the branch "+strings.TrimPrefix(name, "refs/heads/")+" cannot be made", err, "")
}

// refMode is that of HEAD: whoever may read the one may read the other.
func (r *repository) refMode() fs.FileMode {
	info, err := beneath.Lstat(r.commonDir, "HEAD")
	if err != nil || !info.Mode.IsRegular() {
		return privateFile
	}
	return info.Mode.Perm()
}

func (r *repository) locked(lock string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return bailey.NewError(bailey.Conflict, "another git is at work in "+r.root, "try again; if there is none, remove "+filepath.Join(r.common, lock))
	}
	return fmt.Errorf("lock reference: %w", err)
}

// makeFolders makes the folders of a reference, none of which may be a link.
func (r *repository) makeFolders(rel string) error {
	at := ""
	for part := range strings.SplitSeq(rel, "/") {
		at = filepath.Join(at, part)
		sub, err := beneath.Sub(r.commonDir, at)
		if errors.Is(err, fs.ErrNotExist) {
			err = beneath.Mkdir(r.commonDir, at)
		}
		if err != nil {
			return refuse(r.root, "its folder "+at+" is a link or no folder")
		}
		if sub != nil {
			_ = sub.Close() // O_PATH: nothing to lose
		}
	}
	return nil
}

// deleteBranch deletes agent/<id>, and no other branch.
func (w *Worker) deleteBranch(d DeleteBranch) (launcher.Deleted, error) {
	id, err := agentBranch(d.Branch)
	if err != nil {
		return launcher.Deleted{}, err
	}
	name := "refs/heads/" + id.Branch()
	commit, err := w.repo.ref(name)
	if errors.Is(err, errNoRef) {
		return launcher.Deleted{}, nil
	}
	if err != nil {
		return launcher.Deleted{}, err
	}
	if err := w.notCheckedOut(name); err != nil {
		return launcher.Deleted{}, err
	}
	if err := w.repo.deleteRef(name); err != nil {
		return launcher.Deleted{}, err
	}
	return launcher.Deleted{Deleted: true, Commit: commit}, nil
}

// deleteRef takes a reference out of packed-refs first and then removes its
// file, so that no older value shows meanwhile.
func (r *repository) deleteRef(name string) error {
	if err := r.unpack(name); err != nil {
		return err
	}
	for _, file := range []string{name, "logs/" + name} {
		if err := beneath.Remove(r.commonDir, file, 1); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete branch: %w", err)
		}
	}
	return nil
}

func (r *repository) unpack(name string) error {
	const lock = "packed-refs.lock"
	data, err := r.packedRefs()
	if err != nil || !bytes.Contains(data, []byte(" "+name+"\n")) {
		return err
	}
	if err := beneath.Create(r.commonDir, lock, nil); err != nil {
		return r.locked(lock, err)
	}
	undo := func(err error) error {
		_ = beneath.Remove(r.commonDir, lock, 1) // the error that is told is the first
		return err
	}
	data, err = r.packedRefs() // again, now that nobody else writes
	if err != nil {
		return undo(err)
	}
	if err := beneath.Replace(r.commonDir, lock, "packed-refs", gitdata.WithoutPackedRef(data, name)); err != nil {
		return undo(fmt.Errorf("delete branch: %w", err))
	}
	return nil
}
