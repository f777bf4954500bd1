package carrier_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/app/carrier"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/launcher"
)

// git runs the real git as a person would.
func git(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
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

func ask(tb testing.TB, s carrier.Starter, r carry.Request, to any) {
	tb.Helper()
	f, err := s.Start(tb.Context(), r)
	if err != nil {
		tb.Fatal(err)
	}
	if err := carrier.Read(f, to); err != nil {
		tb.Fatal(err)
	}
}

// TestRole_WholeLifeOfATask is what the launcher does, in order.
func TestRole_WholeLifeOfATask(t *testing.T) {
	t.Parallel()
	repo, folder := realDir(t), realDir(t)
	git(t, repo, "init", "-q", "-b", "main")
	write(t, repo+"/a/b.txt", "one\n")
	write(t, repo+"/run.sh", "#!/bin/sh\n")
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-q", "-m", "first")
	base := git(t, repo, "rev-parse", "HEAD")
	place := carry.Repository{Path: repo + "/a", Roots: []string{repo}}
	s := carrier.Starter{Folder: folder}
	shadow, clone := folder+"/shadow.git", folder+"/clone"

	var snap launcher.Snapshot
	ask(t, s, carry.Request{Snapshot: &carry.Snapshot{Repository: place, ID: "t1", Shadow: shadow, Clone: clone}}, &snap)
	if snap.Base != base || snap.Repo != repo || snap.Subdir != "a" || len(snap.Warnings) != 0 {
		t.Fatalf("%+v", snap)
	}
	if got := git(t, clone, "status", "--porcelain", "--branch"); got != "## agent/t1" {
		t.Fatalf("the clone is %q", got)
	}
	write(t, clone+"/a/b.txt", "two\n")
	write(t, clone+"/new/c", "c\n")
	if err := os.Remove(clone + "/run.sh"); err != nil {
		t.Fatal(err)
	}
	f, err := s.Start(t.Context(), carry.Request{Collect: &carry.Collect{ID: "t1", Shadow: shadow, Clone: clone}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	head, diff, _ := strings.Cut(string(all), "\n")
	var got launcher.Collected
	if err := json.Unmarshal([]byte(head), &got); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(diff, "-one\n+two\n") || int64(len(diff)) != got.DiffBytes || len(got.Refused) != 0 {
		t.Fatalf("%+v\n%s", got, diff)
	}
	var sent launcher.Delivered
	ask(t, s, carry.Request{Deliver: &carry.Deliver{Repository: place, ID: "t1", Shadow: shadow}}, &sent)
	if sent.Commit != got.Commit || git(t, repo, "rev-parse", "agent/t1") != got.Commit {
		t.Fatalf("%+v", sent)
	}
	git(t, repo, "fsck", "--strict")
	if got := git(t, repo, "log", "-1", "--format=%an <%ae> %P", "agent/t1"); got != "bailey agent <agent@bailey.invalid> "+base {
		t.Error(got)
	}
	if got := git(t, repo, "diff", "--name-status", "main", "agent/t1"); got != "M\ta/b.txt\nA\tnew/c\nD\trun.sh" {
		t.Error(got)
	}
	if got := git(t, repo, "status", "--porcelain"); got != "" {
		t.Error("the work tree is another:", got)
	}
	var out carry.CheckedOut
	ask(t, s, carry.Request{Checkout: &carry.Checkout{Repository: place, Branch: "agent/t1", Clone: folder + "/check"}}, &out)
	if out.Commit != got.Commit || git(t, folder+"/check", "status", "--porcelain", "--branch") != "## agent/t1" {
		t.Errorf("%+v", out)
	}
	var gone launcher.Deleted
	ask(t, s, carry.Request{DeleteBranch: &carry.DeleteBranch{Repository: place, Branch: "agent/t1"}}, &gone)
	if !gone.Deleted || gone.Commit != got.Commit || git(t, repo, "branch", "--list", "agent/*") != "" {
		t.Errorf("%+v", gone)
	}
	var removed carry.Removed
	ask(t, s, carry.Request{Remove: &carry.Remove{Folder: clone}}, &removed)
	if _, err := os.Lstat(clone); !removed.Removed || !os.IsNotExist(err) {
		t.Errorf("%+v %v", removed, err)
	}
}
