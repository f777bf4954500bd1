package carry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// shadow is a shadow that a snapshot made.
type shadow struct {
	dir        string
	base, head string
	hash       int
}

func openShadow(dir string) (*shadow, error) {
	s := &shadow{dir: dir}
	for name, to := range map[string]*string{baseRef: &s.base, headRef: &s.head} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("open shadow: %w", err)
		}
		*to = strings.TrimSuffix(string(text), "\n")
	}
	s.hash = len(s.base) / 2
	if !isID(s.base, s.hash) || !isID(s.head, s.hash) {
		return nil, fmt.Errorf("open shadow %s: broken", dir)
	}
	return s, nil
}

// files are those of the base, with what the clone's were when it was made: the
// index that git wrote then, before the agent had it.
func (s *shadow) files() (map[string]*file, os.FileInfo, error) {
	path := filepath.Join(s.dir, indexFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the clone's first index: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the clone's first index: %w", err)
	}
	entries, _, err := gitdata.ParseEntries(data, s.hash)
	if err != nil {
		return nil, nil, fmt.Errorf("read the clone's first index: %w", err)
	}
	files := make(map[string]*file, len(entries))
	for i := range entries {
		e := &entries[i]
		files[e.Path] = &file{mode: e.Mode, id: e.ID, known: e}
	}
	return files, info, nil
}

// collect reads the clone into one commit of the shadow.
func (w *Worker) collect(ctx context.Context, c Collect) (Answer, error) {
	s, err := openShadow(c.Shadow)
	if err != nil {
		return Answer{}, err
	}
	files, info, err := s.files()
	if err != nil {
		return Answer{}, err
	}
	root, err := beneath.Dir(c.Clone)
	if err != nil {
		return Answer{}, fmt.Errorf("open clone: %w", err)
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	g := w.git.of(s.dir)
	i, err := startImport(ctx, g)
	if err != nil {
		return Answer{}, err
	}
	inspector := newInspector(ctx, g, files, i)
	walk := newWalk(files, s.hash, w.limit, inspector)
	inspector.refused = &walk.refused
	walk.asOf = info.ModTime()
	if err := walk.run(root); err != nil {
		i.abandon()
		return Answer{}, err
	}
	ref := "refs/heads/" + c.ID.Branch()
	commit, err := i.commit(ref, s.base, "Work of the task "+string(c.ID)+"\n", w.now)
	if err != nil {
		return Answer{}, err
	}
	head := launcher.Collected{Commit: commit, Planted: inspector.planted, Refused: walk.refused.all(), Warnings: inspector.warnings()}
	if commit == "" {
		return Answer{Head: head, Diff: nil}, writeRef(s.dir, ref, s.base)
	}
	return w.describe(ctx, g, s, head)
}

// describe adds what a person reads of the commit.
func (w *Worker) describe(ctx context.Context, g git, s *shadow, head launcher.Collected) (Answer, error) {
	stat, err := g.diff(ctx, maxStat, s.base, head.Commit, "--stat=100,70,200", "--summary")
	if err != nil {
		return Answer{}, err
	}
	head.DiffStat = stat.text()
	diff, err := g.diff(ctx, w.limit.DiffBytes, s.base, head.Commit, "--patch", "--full-index")
	if err != nil {
		return Answer{}, err
	}
	head.DiffBytes = diff.total
	var body io.Reader = bytes.NewReader(diff.kept)
	return Answer{Head: head, Diff: body}, nil
}

// maxStat bounds the list of changed files.
const maxStat = 64 << 10

// diff compares two commits. What the work tree's .gitattributes say of a file
// is nothing to it, no program is started, and modes and the targets of links
// are shown like any change.
func (g git) diff(ctx context.Context, limit int64, from, to string, how ...string) (*beginning, error) {
	complaint := &tail{}
	args := append([]string{"diff-tree", "-r", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--ignore-submodules=none", "--submodule=short"}, how...)
	cmd := g.command(ctx, complaint, append(args, from, to, "--")...)
	out := &beginning{limit: limit}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return nil, failed(ctx, args, err, complaint)
	}
	return out, nil
}

// beginning keeps the first bytes of what is written, and counts all.
type beginning struct {
	kept  []byte
	limit int64
	total int64
}

// Write never fails.
func (b *beginning) Write(p []byte) (int, error) {
	b.total += int64(len(p))
	if room := b.limit - int64(len(b.kept)); room > 0 {
		b.kept = append(b.kept, p[:min(int64(len(p)), room)]...)
	}
	return len(p), nil
}

func (b *beginning) text() string {
	if b.total > int64(len(b.kept)) {
		return string(b.kept) + "\n…\n"
	}
	return string(b.kept)
}
