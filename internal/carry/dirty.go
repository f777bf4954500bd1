package carry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// dirty is the work in the user's tree that is not committed.
type dirty struct {
	files                   map[string]*file // of the commit
	changed, removed, added int
	refused                 []string // of what was to be carried
}

func (d *dirty) count() int { return d.changed + d.removed + d.added }

// put counts; that of mode and remove does too.
func (d *dirty) put(path string, _ uint32, _ []byte) error {
	if d.files[path] != nil {
		d.changed++
	} else {
		d.added++
	}
	return nil
}

func (d *dirty) mode(string, uint32, string) error {
	d.changed++
	return nil
}

func (d *dirty) remove(string) error {
	d.removed++
	return nil
}

// warnings say what the agent does not see, or what else it sees.
func (d *dirty) warnings(included bool) []string {
	if d.count() == 0 && (!included || len(d.refused) == 0) {
		return nil
	}
	what := fmt.Sprintf("%d changed, %d deleted and %d new files", d.changed, d.removed, d.added)
	if !included {
		return []string{"uncommitted work is not seen by the agent: " + what}
	}
	list := []string{"uncommitted work is in the base as a commit of its own: " + what}
	for _, r := range d.refused {
		list = append(list, "uncommitted work left out: "+r)
	}
	return list
}

// submodules says which folders of the clone are empty.
func (d *dirty) submodules() []string {
	var names []string
	for name, f := range d.files {
		if f.mode == modeModule {
			names = append(names, quoted(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	const most = 20
	if n := len(names); n > most {
		names = append(names[:most], fmt.Sprintf("and %d more", n-most))
	}
	return []string{"submodules are left out, their folders are empty: " + strings.Join(names, ", ")}
}

// lookForDirty counts the uncommitted work. The files are those of the commit
// in any case; the work of another commit than HEAD is nobody's.
func (w *Worker) lookForDirty(ctx context.Context, g git, s Snapshot, commit string) (*dirty, error) {
	files, err := w.tree(ctx, g, commit)
	if err != nil {
		return nil, err
	}
	d := &dirty{files: files}
	if head, err := w.repo.head(); err != nil || head != commit {
		if s.IncludeDirty {
			return nil, invalidDirty()
		}
		return d, nil
	}
	return d, w.walkUser(d, d, !s.IncludeDirty)
}

// walkUser compares the user's work tree with the commit.
func (w *Worker) walkUser(d *dirty, to sink, look bool) error {
	for _, f := range d.files {
		f.seen = false
	}
	walk := newWalk(d.files, w.repo.hash, w.limit, to)
	walk.mine, walk.look = true, look
	walk.fixedModes = w.repo.modesAreFixed()
	walk.rules = []levelRules{{folder: "", rules: w.rules}, {folder: "", rules: w.repo.exclude()}}
	w.repo.know(walk)
	err := walk.run(w.repo.rootDir)
	d.refused = walk.refused.all()
	return err
}

// modesAreFixed reports whether git was told that the file system keeps no
// executable bits.
func (r *repository) modesAreFixed() bool {
	_, there := r.config.Get("core", "filemode")
	return there && !r.set("core", "filemode")
}

// exclude are the rules of the repository that are not committed.
func (r *repository) exclude() gitdata.Ignore {
	data, _, err := beneath.ReadFile(r.commonDir, "info/exclude", gitdata.MaxIgnoreBytes)
	if err != nil {
		return nil
	}
	return gitdata.ParseIgnore(data)
}

// know takes from the user's index what git knew of the files. Without one, or
// with one that is of another form, every file is read.
func (r *repository) know(w *walk) {
	data, info, err := beneath.ReadFile(r.gitDirFile, "index", gitdata.MaxIndexBytes)
	if err != nil {
		return
	}
	entries, index, err := gitdata.ParseEntries(data, r.hash)
	if err != nil || index.Shared != "" {
		return
	}
	w.know(entries, info.Modified)
}

// know takes what an index that was written then says of the files.
func (w *walk) know(entries []gitdata.IndexEntry, written time.Time) {
	w.asOf = written
	for i := range entries {
		e := &entries[i]
		if f := w.files[e.Path]; f != nil && e.Stage == 0 {
			f.known = e
		}
		const folderMode = 0o040000
		if e.Mode == folderMode && e.SkipWorktree {
			w.kept[strings.TrimSuffix(e.Path, "/")] = true
		}
	}
}

// addDirty makes a base commit of the uncommitted work, if that was asked for
// and there is some, and returns the base.
func (w *Worker) addDirty(ctx context.Context, s Snapshot, commit string, d *dirty) (string, error) {
	if !s.IncludeDirty || d.count() == 0 {
		return commit, nil
	}
	i, err := startImport(ctx, w.git.of(s.Shadow))
	if err != nil {
		return "", err
	}
	if err := w.walkUser(d, i, false); err != nil {
		i.abandon()
		return "", err
	}
	id, err := i.commit("refs/heads/"+s.ID.Branch(), commit, "uncommitted work\n\nThe task "+string(s.ID)+" began from it.\n", w.now)
	if err != nil {
		return "", err
	}
	if id == "" { // it was committed or undone meanwhile
		return commit, nil
	}
	files, err := w.tree(ctx, w.git.of(s.Shadow), id)
	if err != nil {
		return "", err
	}
	d.files = files
	return id, nil
}
