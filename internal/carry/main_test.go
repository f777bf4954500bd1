package carry_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/launcher"
)

// gitEnv is that of a person without settings.
func gitEnv() []string {
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_ALLOW_PROTOCOL=file")
}

// git runs the real git as a person would.
func git(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, gitEnv()
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func realDir(tb testing.TB) string {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// bench is a repository with a commit, and the folder of a task.
type bench struct {
	testing.TB
	repo, folder, path string
	roots              []string
	limits             carry.Limits
	snap               launcher.Snapshot
}

func newBench(tb testing.TB, init ...string) *bench {
	tb.Helper()
	top := realDir(tb)
	b := &bench{TB: tb, repo: top + "/repo", folder: top + "/task", roots: []string{top}}
	b.path = b.repo
	for _, dir := range []string{b.repo, b.folder} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	git(tb, b.repo, append([]string{"init", "-q", "-b", "main"}, init...)...)
	b.file("a.txt", "one\n").file("dir/run.sh", "#!/bin/sh\n").file("dir/sub/c.txt", "c\n").commit("first")
	return b
}

func (b *bench) file(name, text string) *bench {
	b.Helper()
	write(b, filepath.Join(b.repo, name), text)
	return b
}

func (b *bench) commit(message string) string {
	b.Helper()
	git(b, b.repo, "add", "-A")
	git(b, b.repo, "commit", "-q", "-m", message)
	return git(b, b.repo, "rev-parse", "HEAD")
}

func (b *bench) shadow() string { return b.folder + "/shadow.git" }
func (b *bench) clone() string  { return b.folder + "/clone" }

func (b *bench) place() carry.Repository {
	return carry.Repository{Path: b.path, Roots: b.roots, Owner: os.Getuid()}
}

func (b *bench) do(r carry.Request) (carry.Answer, error) {
	b.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		b.Fatal(err)
	}
	r.Git, r.Now, r.Limits = program, time.Unix(1_700_000_000, 0), b.limits
	w, err := carry.Prepare(r)
	if err != nil {
		return carry.Answer{}, err
	}
	return w.Do(b.Context())
}

func (b *bench) snapshot(change ...func(*carry.Snapshot)) (launcher.Snapshot, error) {
	b.Helper()
	s := carry.Snapshot{Repository: b.place(), ID: "t1", Shadow: b.shadow(), Clone: b.clone()}
	for _, c := range change {
		c(&s)
	}
	a, err := b.do(carry.Request{Snapshot: &s})
	got, _ := a.Head.(launcher.Snapshot)
	b.snap = got
	return got, err
}

func (b *bench) mustSnapshot(change ...func(*carry.Snapshot)) launcher.Snapshot {
	b.Helper()
	got, err := b.snapshot(change...)
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// collect returns what was found, and the diff.
func (b *bench) collect() (launcher.Collected, string) {
	b.Helper()
	a, err := b.do(carry.Request{Collect: &carry.Collect{ID: "t1", Shadow: b.shadow(), Clone: b.clone()}})
	if err != nil {
		b.Fatal(err)
	}
	got, _ := a.Head.(launcher.Collected)
	if a.Diff == nil {
		return got, ""
	}
	diff, err := io.ReadAll(a.Diff)
	if err != nil {
		b.Fatal(err)
	}
	return got, string(diff)
}

func (b *bench) deliver() (launcher.Delivered, error) {
	b.Helper()
	a, err := b.do(carry.Request{Deliver: &carry.Deliver{Repository: b.place(), ID: "t1", Shadow: b.shadow()}})
	got, _ := a.Head.(launcher.Delivered)
	return got, err
}

// names are the files of the collected commit, with their modes.
func (b *bench) names() []string {
	b.Helper()
	var list []string
	for line := range strings.SplitSeq(git(b, b.shadow(), "ls-tree", "-r", "-z", "refs/heads/agent/t1"), "\x00") {
		if head, name, ok := strings.Cut(line, "\t"); ok {
			mode, _, _ := strings.Cut(head, " ")
			list = append(list, mode+" "+name)
		}
	}
	return list
}

func (b *bench) has(list []string, part string) {
	b.Helper()
	if !slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) }) {
		b.Errorf("nothing of %q in %q", part, list)
	}
}

func kindOf(err error) string {
	if err == nil {
		return "none"
	}
	return bailey.KindOf(err).String()
}
