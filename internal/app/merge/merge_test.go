package merge_test

import (
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

func TestOpen_FindsNone(t *testing.T) {
	t.Parallel()
	if _, err := merge.Open(t.Context(), t.TempDir(), os.Environ()); bailey.KindOf(err) != bailey.NotFound {
		t.Error(err)
	}
}
