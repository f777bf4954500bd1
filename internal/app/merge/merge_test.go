package merge_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/merge"
)

// repo is a repository of a user, with a branch of a task in it.
type repo struct {
	t    *testing.T
	dir  string
	home string
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t: t, dir: filepath.Join(t.TempDir(), "repo"), home: t.TempDir()}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	r.write("a.txt", "one\n")
	r.write("big.bin", "data\n")
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "first")
	return r
}

func (r *repo) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.com", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.com",
	}
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = r.dir, r.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repo) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// submodule adds a submodule in which git runs a program for each file that it
// looks at.
func (r *repo) submodule(filter string) {
	r.t.Helper()
	other := newRepo(r.t)
	r.git("-c", "protocol.file.allow=always", "-c", "core.hooksPath=/dev/null", "submodule", "--quiet", "add", other.dir, "sub")
	r.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "a submodule")
	r.git("-C", "sub", "config", "filter.s.clean", filter)
	r.write(".git/modules/sub/info/attributes", "* filter=s\n")
}

// touch has git look into a file the next time.
func (r *repo) touch(name string) {
	r.t.Helper()
	old := time.Unix(1_500_000_000, 0)
	if err := os.Chtimes(filepath.Join(r.dir, name), old, old); err != nil {
		r.t.Fatal(err)
	}
}

// work makes agent/x with files, and goes back to main.
func (r *repo) work(files map[string]string) merge.Work {
	r.t.Helper()
	r.git("switch", "-q", "-c", "agent/x")
	for name, text := range files {
		r.write(name, text)
	}
	r.git("add", "-A")
	r.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "work")
	w := merge.Work{Branch: "agent/x", Commit: r.git("rev-parse", "HEAD"), Base: r.git("rev-parse", "main")}
	r.git("switch", "-q", "main")
	return w
}

func (r *repo) open() *merge.Repo {
	r.t.Helper()
	r.git("config", "user.name", "u")
	r.git("config", "user.email", "u@example.com")
	m, err := merge.Open(r.t.Context(), r.dir, append(r.env(), "GIT_DIR=/nonexistent"))
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

func TestMerge_MakesACommitOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	w := r.work(map[string]string{"a.txt": "one\ntwo\n", "new/b.txt": "b\n"})
	r.write("untracked", "mine")
	got, err := r.open().Merge(t.Context(), w, "Merge agent/x")
	if err != nil || got.Into != "main" || got.Commit != r.git("rev-parse", "main") {
		t.Fatalf("%+v, %v", got, err)
	}
	if p := r.git("rev-list", "--parents", "-1", "HEAD"); len(strings.Fields(p)) != 3 {
		t.Errorf("parents: %s", p)
	}
	if s := r.git("status", "--porcelain"); s != "?? untracked" {
		t.Errorf("status: %q", s)
	}
	if b, _ := os.ReadFile(filepath.Join(r.dir, "new/b.txt")); string(b) != "b\n" {
		t.Errorf("%q", b)
	}
	if got, err := r.open().Merge(t.Context(), w, "again"); err != nil || !got.Already {
		t.Errorf("again: %+v, %v", got, err)
	}
}

func TestMerge_Refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *repo, w *merge.Work)
		kind   bailey.Kind
		says   string
	}{
		"dirty":      {func(r *repo, _ *merge.Work) { r.write("a.txt", "mine\n") }, bailey.Conflict, "not committed: a.txt"},
		"staged":     {func(r *repo, _ *merge.Work) { r.write("c", "c"); r.git("add", "c") }, bailey.Conflict, "not committed: c"},
		"detached":   {func(r *repo, _ *merge.Work) { r.git("switch", "-q", "--detach") }, bailey.Conflict, "no branch"},
		"gone":       {func(_ *repo, w *merge.Work) { w.Branch = "agent/y" }, bailey.NotFound, "no branch agent/y"},
		"moved":      {func(r *repo, _ *merge.Work) { r.git("branch", "-f", "agent/x", "main") }, bailey.Conflict, "not what was delivered"},
		"conflict":   {func(r *repo, _ *merge.Work) { r.write("a.txt", "three\n"); r.git("commit", "-qam", "x") }, bailey.Conflict, "a.txt"},
		"in the way": {func(r *repo, _ *merge.Work) { r.write("b.txt", "mine") }, bailey.Conflict, "work tree"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			w := r.work(map[string]string{"a.txt": "two\n", "b.txt": "b\n"})
			c.change(r, &w)
			before, status := r.git("rev-parse", "HEAD"), r.git("status", "--porcelain")
			_, err := r.open().Merge(t.Context(), w, "m")
			if bailey.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if r.git("rev-parse", "HEAD") != before || r.git("status", "--porcelain") != status {
				t.Error("something was changed")
			}
		})
	}
}

// TestMerge_StartsNothing: the tree has attributes and hooks for all that the
// user's git is set up to run. The twin is git merge itself, which runs it.
func TestMerge_StartsNothing(t *testing.T) {
	t.Parallel()
	for _, ours := range []bool{true, false} {
		r := newRepo(t)
		ran := filepath.Join(t.TempDir(), "ran")
		evil := "#!/bin/sh\necho \"$0 $*\" >>" + ran + "\n"
		r.write("../prog", evil+"cat\n")
		prog := filepath.Join(filepath.Dir(r.dir), "prog")
		for key, value := range map[string]string{
			"core.hooksPath": ".githooks", "core.fsmonitor": prog, "filter.f.smudge": prog, "filter.f.clean": prog, "filter.f.required": "true",
			"merge.m.driver": prog + " %A", "diff.external": prog, "diff.d.textconv": prog, "core.sshCommand": prog, "gpg.program": prog,
		} {
			r.git("config", key, value)
		}
		hooks := map[string]string{".gitattributes": "*.bin filter=f diff=d\n", "x.bin": "x\n", "big.bin": "other\n"}
		for _, h := range []string{"post-merge", "pre-merge-commit", "post-checkout", "reference-transaction", "post-index-change", "commit-msg", "prepare-commit-msg", "pre-commit"} {
			hooks[".githooks/"+h] = evil
		}
		r.submodule(prog)
		w := r.work(hooks)
		r.touch("sub/a.txt")
		_ = os.Remove(ran)
		if ours {
			if _, err := r.open().Merge(t.Context(), w, "m"); err != nil {
				t.Fatal(err)
			}
		} else {
			r.git("-c", "core.fsmonitor=false", "status")
			if b, _ := os.ReadFile(ran); !strings.Contains(string(b), "/prog") {
				t.Error("the twin: git status does not run the filter of a submodule")
			}
			r.git("merge", "-q", "--no-ff", "--no-edit", "agent/x")
		}
		b, _ := os.ReadFile(ran)
		if ours && len(b) > 0 {
			t.Errorf("was run: %s", b)
		}
		if !ours && (!strings.Contains(string(b), "/prog") || !strings.Contains(string(b), "post-merge")) {
			t.Errorf("the twin runs too little: %q", b)
		}
	}
}

func TestStake(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	w := r.work(map[string]string{"a.txt": "two\n", "b.txt": "b\n"})
	m := r.open()
	if s, err := m.Stake(t.Context(), w); err != nil || s.None() || s.String() != "1 commit with changes in 2 files" {
		t.Errorf("%v, %v", s, err)
	}
	r.git("branch", "kept", "agent/x")
	if s, err := m.Stake(t.Context(), w); err != nil || !s.None() || !s.Exists {
		t.Errorf("another branch has it: %v, %v", s, err)
	}
	r.git("branch", "-D", "kept")
	if _, err := m.Merge(t.Context(), w, "m"); err != nil {
		t.Fatal(err)
	}
	if s, err := m.Stake(t.Context(), w); err != nil || !s.None() {
		t.Errorf("it is merged: %v, %v", s, err)
	}
	if s, err := m.Stake(t.Context(), merge.Work{Branch: "agent/y"}); err != nil || s.Exists {
		t.Errorf("it is not there: %v, %v", s, err)
	}
}

// TestMerge_WithWhatWasNotCommitted: the branch begins from a commit of the
// dirty tree, as --include-dirty makes one.
func TestMerge_WithWhatWasNotCommitted(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*repo, merge.Work) {
		t.Helper()
		r := newRepo(t)
		r.git("switch", "-q", "-c", "agent/x")
		r.write("a.txt", "mine\n")
		r.write("new.txt", "new\n")
		r.git("add", "-A")
		r.git("commit", "-q", "-m", "carried")
		base := r.git("rev-parse", "HEAD")
		r.write("b.txt", "b\n")
		r.git("add", "-A")
		r.git("commit", "-q", "-m", "work")
		w := merge.Work{Branch: "agent/x", Commit: r.git("rev-parse", "HEAD"), Base: base, Carried: true}
		r.git("switch", "-q", "main")
		r.write("a.txt", "mine\n")
		return r, w
	}
	refused := func(t *testing.T, r *repo, w merge.Work) string {
		t.Helper()
		_, err := r.open().Merge(t.Context(), w, "m")
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok || e.Kind != bailey.Conflict {
			t.Fatalf("%v", err)
		}
		return e.Hint
	}
	t.Run("changed", func(t *testing.T) {
		t.Parallel()
		r, w := begin(t)
		r.write("new.txt", "new\n")
		if hint := refused(t, r, w); !strings.Contains(hint, "commit "+w.Base[:12]) || !strings.Contains(hint, "git stash -u") {
			t.Errorf("hint: %s", hint)
		}
		r.git("stash", "-u", "-q") // as the hint says
		got, err := r.open().Merge(t.Context(), w, "m")
		if err != nil || got.Carried != w.Base {
			t.Fatalf("%+v, %v", got, err)
		}
		if b, _ := os.ReadFile(filepath.Join(r.dir, "new.txt")); string(b) != "new\n" || r.git("status", "--porcelain") != "" {
			t.Errorf("after it: %q, %s", b, r.git("status", "--porcelain"))
		}
	})
	t.Run("committed", func(t *testing.T) {
		t.Parallel()
		r, w := begin(t)
		r.write("new.txt", "new\n")
		r.git("add", "-A")
		r.git("commit", "-q", "-m", "mine") // as the hint says, too
		if _, err := r.open().Merge(t.Context(), w, "m"); err != nil {
			t.Error(err)
		}
	})
	t.Run("new alone", func(t *testing.T) {
		t.Parallel()
		r, w := begin(t)
		r.git("checkout", "-q", "a.txt")
		r.write("new.txt", "another\n")
		if hint := refused(t, r, w); !strings.Contains(hint, "commit "+w.Base[:12]) {
			t.Errorf("hint: %s", hint)
		}
	})
	t.Run("the twin", func(t *testing.T) {
		t.Parallel()
		r, w := begin(t)
		w.Carried = false
		if hint := refused(t, r, w); hint != "commit or stash them first" {
			t.Errorf("of other work: %s", hint)
		}
		w.Carried, w.Base = true, r.git("rev-parse", "main") // there was nothing to carry
		if hint := refused(t, r, w); hint != "commit or stash them first" {
			t.Errorf("nothing was carried: %s", hint)
		}
	})
}

func TestBranches(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	m := r.open()
	if got, err := m.Branches(t.Context(), "agent/"); err != nil || len(got) > 0 {
		t.Errorf("there are none: %v, %v", got, err)
	}
	w := r.work(map[string]string{"a.txt": "two\n"})
	r.git("branch", "agent/y", "agent/x")
	r.git("branch", "other")
	if got, err := m.Branches(t.Context(), "agent/"); err != nil || !maps.Equal(got, map[string]bool{"agent/x": false, "agent/y": false}) {
		t.Errorf("before the merge: %v, %v", got, err)
	}
	r.git("commit", "-q", "--allow-empty", "-m", "ahead of y")
	r.git("branch", "-f", "agent/y", "HEAD~1")
	if _, err := m.Merge(t.Context(), w, "m"); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Branches(t.Context(), "agent/"); err != nil || !maps.Equal(got, map[string]bool{"agent/x": true, "agent/y": true}) {
		t.Errorf("after it: %v, %v", got, err)
	}
	r.git("switch", "-q", "agent/x")
	if got, err := m.Branches(t.Context(), "agent/"); err != nil || got["agent/x"] {
		t.Errorf("checked out itself: %v, %v", got, err)
	}
}

func TestOpen_FindsNone(t *testing.T) {
	t.Parallel()
	if _, err := merge.Open(t.Context(), t.TempDir(), os.Environ()); bailey.KindOf(err) != bailey.NotFound {
		t.Error(err)
	}
}
