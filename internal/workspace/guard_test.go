package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// start returns an instant that lies after everything done so far and before
// everything done later, by the time stamps of the file system.
func start(t *testing.T, dir string) time.Time {
	t.Helper()
	probe := filepath.Join(dir, ".probe")
	first := stamp(t, probe)
	for {
		if now := stamp(t, probe); now.Sub(first) > 50*time.Millisecond {
			if err := os.Remove(probe); err != nil {
				t.Fatal(err)
			}
			return now
		}
	}
}

func stamp(t *testing.T, path string) time.Time {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

func say(found []workspace.Finding, base string) []string {
	var out []string
	for _, f := range found {
		rel, err := filepath.Rel(base, f.Path)
		if err != nil {
			rel = f.Path
		}
		out = append(out, rel+": "+f.What)
	}
	return out
}

func TestRevert_SetsAsideWhatWasNotThere(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	git(t, dir, "init", "-q", "--template=")
	w := open(t, dir)
	since := start(t, dir)
	if found := workspace.Revert(w.Guard, since); len(found) != 0 {
		t.Errorf("before anything was done: %v", say(found, dir))
	}
	outside := yard(t)
	write(t, outside+"/kept", "x")
	write(t, dir+"/.git/hooks/pre-commit", "#!/bin/sh\ntouch /tmp/pwned\n")
	write(t, dir+"/.git/commondir", outside)
	link(t, outside, dir+"/.git/config.worktree")
	want := []string{
		".git/config.worktree: was made during the run; it is now config.worktree.set-aside",
		".git/hooks: was made during the run; it is now hooks.set-aside",
		".git/commondir: was made during the run; it is now commondir.set-aside",
		".git/config.worktree.set-aside: was a link to " + outside + ", made during the run; it is removed",
	}
	if diff := cmp.Diff(want, say(workspace.Revert(w.Guard, since), dir)); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"hooks", "commondir", "config.worktree"} {
		if _, err := os.Lstat(dir + "/.git/" + name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	if _, err := os.Stat(outside + "/kept"); err != nil {
		t.Error(err)
	}
	git(t, dir, "status")

	write(t, dir+"/.git/hooks/post-checkout", "")
	if got := say(workspace.Revert(w.Guard, since), dir); !slices.Contains(got, ".git/hooks: was made during the run; it is now hooks.set-aside-1") {
		t.Errorf("the second time: %v", got)
	}
}

// TestRevert_RemovesFreshLinks plants links where git on the host writes, and
// lets the real git write.
func TestRevert_RemovesFreshLinks(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	victim := filepath.Join(yard(t), "bashrc")
	write(t, victim, "mine\n")
	link(t, "refs/heads/main", dir+"/.git/refs/heads/old-link")
	w := open(t, dir)
	since := start(t, dir)
	planted := []string{
		"COMMIT_EDITMSG", "FETCH_HEAD", "logs/HEAD", "logs/refs/heads/main", "modules/new/HEAD", "objects/ff",
		"objects/info/commit-graph", "objects/pack/multi-pack-index", "rebase-merge/message",
	}
	for _, name := range []string{"modules/new", "rebase-merge"} {
		write(t, dir+"/.git/"+name+"/file", "")
	}
	plant := func() {
		for _, name := range planted {
			if err := os.RemoveAll(dir + "/.git/" + name); err != nil {
				t.Fatal(err)
			}
			link(t, victim, dir+"/.git/"+name)
		}
	}
	plant()
	got := say(workspace.Revert(w.Guard, since), dir)
	slices.Sort(got)
	var want []string
	for _, name := range planted {
		want = append(want, ".git/"+name+": was a link to "+victim+", made during the run; it is removed")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "two")
	if text, err := os.ReadFile(victim); err != nil || string(text) != "mine\n" {
		t.Errorf("git wrote %q through a link (%v)", text, err)
	}

	// The twin: with the links in place git does write there.
	plant()
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "three")
	if text, err := os.ReadFile(victim); err != nil || string(text) == "mine\n" {
		t.Error("git does not write through such links: this test proves nothing")
	}
}

func TestRevert_KeepsASymbolicHEAD(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	w := open(t, dir)
	since := start(t, dir)
	git(t, dir, "-c", "core.preferSymlinkRefs=true", "checkout", "-q", "-b", "other")
	if found := workspace.Revert(w.Guard, since); len(found) != 0 {
		t.Errorf("%v", say(found, dir))
	}
	git(t, dir, "status")
}

func TestRevert_FollowsNoLinkInTheWay(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	w := open(t, dir)
	outside := yard(t)
	write(t, outside+"/commondir", "x")
	if err := os.Rename(dir+"/.git", dir+"/.git2"); err != nil {
		t.Fatal(err)
	}
	link(t, outside, dir+"/.git")
	if got := workspace.Revert(w.Guard, time.Time{}); len(got) != 3 {
		t.Errorf("%v", say(got, dir))
	}
	if _, err := os.Lstat(outside + "/commondir"); err != nil {
		t.Error(err)
	}
}

func TestCompare_NamesWhatChanged(t *testing.T) {
	t.Parallel()
	config := bailey.Shadow{Path: "/w/.git/config", Dir: false, Files: []bailey.File{{Path: "", Mode: 0o644, Data: []byte("[core]\nbare = false\n[alias]\nx = y\n")}}}
	hooks := bailey.Shadow{Path: "/w/.git/hooks", Dir: true, Files: []bailey.File{{Path: "a", Mode: 0o755, Data: []byte("1")}, {Path: "b", Mode: 0o755, Data: []byte("1")}}}
	pointer := bailey.Shadow{Path: "/w/sub/.git", Dir: false, Files: []bailey.File{{Path: "", Mode: 0o644, Data: []byte("gitdir: x\n")}}}
	file := func(text string) workspace.Copy {
		return workspace.Copy{Files: []bailey.File{{Path: "", Mode: 0o600, Data: []byte(text)}}}
	}
	for _, tt := range []struct {
		name   string
		shadow bailey.Shadow
		after  workspace.Copy
		want   []string
	}{
		{"same variables in another form", config, file("[alias]\n\tx = y\n[core]\n\tbare = false\n"), nil},
		{
			"variables", config, file("[core]\nbare = true\nfsmonitor = touch /tmp/x\n[remote \"o\x1b[2J\"]\nurl = u\n"),
			[]string{"/w/.git/config: added core.fsmonitor, remote.o\\x1b[2J.url; changed core.bare; removed alias.x"},
		},
		{"no configuration", config, file("]]]"), []string{"/w/.git/config: added (not git configuration); removed alias.x, core.bare"}},
		{"removed", config, workspace.Copy{Gone: true}, []string{"/w/.git/config: was removed"}},
		{"odd", config, workspace.Copy{Files: config.Files, Odd: true}, []string{"/w/.git/config: holds what cannot be read"}},
		{"same hooks", hooks, workspace.Copy{Files: hooks.Files}, nil},
		{
			"hooks", hooks,
			workspace.Copy{Files: []bailey.File{{Path: "a", Mode: 0o755, Data: []byte("2")}, {Path: "c\n", Mode: 0o755}}},
			[]string{`/w/.git/hooks: added c\n; changed a; removed b`},
		},
		{"pointer", pointer, file("gitdir: y\n"), []string{"/w/sub/.git: changed contents"}},
	} {
		if diff := cmp.Diff(tt.want, say2(workspace.Compare(tt.shadow, tt.after))); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "[s%d]\nk = v\n", i)
	}
	if got := say2(workspace.Compare(config, file(many.String()))); len(got) != 1 || len(got[0]) > 500 || !strings.Contains(got[0], "and 992 more") {
		t.Errorf("%v", got)
	}
}

func say2(found []workspace.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, f.Path+": "+f.What)
	}
	return out
}

func TestObserve_ReadsAPrivateCopyAndNothingElse(t *testing.T) {
	t.Parallel()
	base := yard(t)
	write(t, base+"/secret", "s")
	write(t, base+"/copies/config", "[a]\nx = 1\n")
	write(t, base+"/copies/hooks/a", "1")
	write(t, base+"/copies/hooks/d/b", "2")
	dir, err := beneath.Dir(base + "/copies")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	hooks := bailey.Shadow{Path: "/x", Dir: true}
	got := workspace.Observe(hooks, dir, "hooks")
	want := workspace.Copy{Files: []bailey.File{{Path: "a", Mode: 0o644, Data: []byte("1")}, {Path: "d/b", Mode: 0o644, Data: []byte("2")}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := workspace.Observe(bailey.Shadow{Path: "/x"}, dir, "config"); got.Odd || len(got.Files) != 1 {
		t.Errorf("%+v", got)
	}
	link(t, base+"/secret", base+"/copies/hooks/link")
	link(t, base+"/secret", base+"/copies/file")
	link(t, base, base+"/copies/folder")
	if got := workspace.Observe(hooks, dir, "hooks"); !got.Odd || len(got.Files) != 2 {
		t.Errorf("with a link in it: %+v", got)
	}
	for _, s := range []bailey.Shadow{{Path: "/x"}, {Path: "/x", Dir: true}} {
		for _, name := range []string{"file", "folder"} {
			if got := workspace.Observe(s, dir, name); !got.Odd || len(got.Files) != 0 {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if got := workspace.Observe(s, dir, "gone"); !got.Gone {
			t.Errorf("gone: %+v", got)
		}
	}
	for i := range 300 {
		write(t, fmt.Sprintf("%s/copies/hooks/many%d", base, i), "")
	}
	if got := workspace.Observe(hooks, dir, "hooks"); !got.Odd || len(got.Files) > 256 {
		t.Errorf("many: %d files, odd %t", len(got.Files), got.Odd)
	}
}

func TestNewGitDirs_FindsWhatARunMade(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	for _, name := range []string{"old", "a/b/touched", "a/b/hooked", "quiet"} {
		repository(t, dir+"/vendor/"+name)
	}
	write(t, dir+"/vendor/a/b/hooked/.git/hooks/pre-commit", "#!/bin/sh\n")
	git(t, dir, "clone", "-q", "--bare", "vendor/old", "old-bare")
	write(t, dir+"/pointer/.git", "gitdir: ../vendor/old/.git\n")
	write(t, dir+"/moved/.git", "gitdir: ../vendor/old/.git\n")
	w := open(t, dir)
	since := start(t, dir)
	find := func() []string {
		found, truncated := workspace.NewGitDirs(w.Guard, since, 10*time.Second, time.Now)
		if truncated {
			t.Error("the search was cut short")
		}
		got := say(found, dir)
		for i, line := range got {
			got[i], _, _ = strings.Cut(line, " during")
		}
		slices.Sort(got)
		return got
	}
	write(t, dir+"/vendor/quiet/file", "changed\n")
	git(t, dir+"/vendor/quiet", "commit", "-q", "-a", "-m", "two")
	git(t, dir, "config", "user.name", "x") // guarded by a private copy in a real run
	if got := find(); len(got) != 0 {
		t.Errorf("before anything was done: %v", got)
	}

	git(t, dir, "init", "-q", "new")
	git(t, dir, "init", "-q", "--bare", "a/b/new-bare")
	git(t, dir+"/vendor/a/b/touched", "config", "core.fsmonitor", "x")
	write(t, dir+"/vendor/a/b/hooked/.git/hooks/pre-commit", "#!/bin/sh\ntouch /tmp/x\n")
	write(t, dir+"/made/.git", "gitdir: x\n")
	if err := os.Rename(dir+"/moved/.git", dir+"/vendor/.git"); err != nil {
		t.Fatal(err)
	}
	link(t, "vendor", dir+"/loop")
	want := []string{
		"a/b/new-bare: is a bare git repository made", "made/.git: was made or changed", "new/.git: was made",
		"vendor/.git: was made or changed", "vendor/a/b/hooked/.git: has a hook changed", "vendor/a/b/touched/.git: has its config changed",
	}
	if diff := cmp.Diff(want, find()); diff != "" {
		t.Error(diff)
	}
}

func TestNewGitDirs_EndsAfterItsBudget(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	for i := range 50 {
		write(t, fmt.Sprintf("%s/d%d/file", dir, i), "")
	}
	write(t, dir+"/.git", "x")
	now := time.Unix(0, 0)
	clock := func() time.Time { now = now.Add(time.Millisecond); return now }
	found, truncated := workspace.NewGitDirs(workspace.Guard{Root: dir}, time.Time{}, 5*time.Millisecond, clock)
	if !truncated || len(found) != 1 {
		t.Errorf("%v, truncated %t", found, truncated)
	}
}

func TestHostRun_NamesWhatTheUsersToolsWouldRun(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	git(t, dir, "config", "core.hooksPath", "myhooks")
	for _, name := range []string{"package.json", ".vscode/settings.json", ".vscode/tasks.json", "myhooks/pre-commit", "myhooks/pre-push"} {
		write(t, filepath.Join(dir, name), "old")
	}
	w := open(t, dir)
	since := start(t, dir)
	if got := workspace.HostRun(w.Guard, since); len(got) != 0 {
		t.Errorf("before anything was done: %v", say(got, dir))
	}
	for _, name := range []string{".envrc", ".vscode/tasks.json", "myhooks/pre-push", "src/main.go"} {
		write(t, filepath.Join(dir, name), "new")
	}
	write(t, dir+"/.git/rebase-merge/git-rebase-todo", "pick 0123 x\n# exec no\nexec\ttouch /tmp/x\n")
	want := []string{
		".envrc: runs on the host: changed during the run", ".vscode/tasks.json: runs on the host: changed during the run",
		"myhooks/pre-push: is a git hook or git configuration: changed during the run",
		".git/rebase-merge/git-rebase-todo: would run commands on `git rebase --continue`",
	}
	if diff := cmp.Diff(want, say(workspace.HostRun(w.Guard, since), dir)); diff != "" {
		t.Error(diff)
	}
	write(t, dir+"/.git/rebase-merge/git-rebase-todo", "pick 0123 x\n# exec no\nreword 0 exec\n")
	if got := workspace.HostRun(w.Guard, since); len(got) != 3 {
		t.Errorf("a harmless rebase: %v", say(got, dir))
	}
}

// A policy file in a folder below has a word in what runs there later.
func TestHostRun_NamesPolicyFiles(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	write(t, filepath.Join(dir, "old", "bailey.yaml"), "net: {}")
	w := open(t, dir)
	since := start(t, dir)
	write(t, filepath.Join(dir, "sub", "bailey.yaml"), "net: {}")
	want := []string{"sub/bailey.yaml: is a policy that bailey reads in its folder: changed during the run"}
	if diff := cmp.Diff(want, say(workspace.HostRun(w.Guard, since), dir)); diff != "" {
		t.Error(diff)
	}
}

// TestHeld_FindsAMovedGitFolder: a folder above a nested repository can be
// renamed by the sandbox, and another be made in its place.
func TestHeld_FindsAMovedGitFolder(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	repository(t, dir+"/vendor/x")
	w := open(t, dir)
	held := workspace.Hold(w.Guard)
	defer held.Release()
	since := start(t, dir)
	write(t, dir+"/vendor/x/.git/commondir", "/elsewhere\n")
	link(t, "/etc/hostname", dir+"/vendor/x/.git/COMMIT_EDITMSG.link")
	if err := os.Rename(dir+"/vendor", dir+"/moved"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/vendor/x/.git/commondir", "made anew\n")
	want := []string{
		"vendor/x/.git/commondir: was made during the run; it is now commondir.set-aside",
		"vendor/x/.git: was moved; it is now " + dir + "/moved/x/.git",
		"moved/x/.git/COMMIT_EDITMSG.link: was a link to /etc/hostname, made during the run; it is removed",
	}
	if diff := cmp.Diff(want, say(held.Revert(since), dir)); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Lstat(dir + "/moved/x/.git/commondir"); err == nil {
		t.Error("commondir is still where git reads it")
	}
	if text, err := os.ReadFile(dir + "/vendor/x/.git/commondir"); err != nil || string(text) != "made anew\n" {
		t.Errorf("the new folder's was touched: %q %v", text, err)
	}
}
