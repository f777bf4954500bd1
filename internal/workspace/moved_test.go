package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/workspace"
)

func move(t *testing.T, dir, from, to string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755), os.Rename(filepath.Join(dir, from), filepath.Join(dir, to))); err != nil {
		t.Fatal(err)
	}
}

// TestMovedIntoPlace_IsNamed moves what was there before the run to where the
// host's git takes commands from it. Nothing in it has changed since.
func TestMovedIntoPlace_IsNamed(t *testing.T) {
	t.Parallel()
	const deep = "a/b/c/d/e" // deeper than is guarded one by one
	for _, tt := range []struct {
		name     string
		from, to string
		away     string // moved out of the way first
		want     string
	}{
		{"a git folder", "kept/git", "sub/.git", "", "sub/.git: may have been moved here during the run: git there takes commands from it"},
		{"a git folder, deep down", "kept/git", deep + "/new/.git", "", deep + "/new/.git: may have been moved here during the run: git there takes commands from it"},
		{"a git folder in the place of a guarded one", "kept/git", "vendor/x/.git", "vendor", "vendor/x/.git: may have been moved here during the run: git there takes commands from it"},
		{"hooks", "kept/hooks", deep + "/.git/hooks", deep + "/.git/hooks", deep + "/.git: has its hooks changed during the run: git there takes commands from it"},
		{"hooks in hooks", "kept/hooks", deep + "/.git/hooks/pre-commit.d/more", "", deep + "/.git: has a hook changed during the run"},
		{"attributes", "kept/info", deep + "/.git/info", deep + "/.git/info", deep + "/.git: has its info changed during the run: git there takes commands from it"},
		{"a bare repository", "kept/git", "bare.git", "", "bare.git: may have been moved here during the run: git there takes commands from it"},
		{"named hooks", "kept/tools", "tools", "tools", "tools/git/hooks: is a git hook or git configuration: changed during the run (with tools/git)"},
		{"named hooks, deeper", "kept/tools/git", "tools/git", "tools/git", "tools/git/hooks: is a git hook or git configuration: changed during the run (with tools/git)"},
		{"an included file", "kept/tools/git/config", "tools/git/config", "", "tools/git/config: is a git hook or git configuration: changed during the run"},
		{"workflows", "kept/github", ".github", "", ".github/workflows/: runs on the host: changed during the run (with .github)"},
		{"a folder in agent settings", "kept/hooks", ".claude/deep/er/hooks", "", ".claude/deep/er/hooks: runs on the host: changed during the run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, yard(t))
			repository(t, dir+"/vendor/x")
			repository(t, dir+"/"+deep)
			git(t, dir, "config", "core.hooksPath", "tools/git/hooks")
			git(t, dir, "config", "include.path", "../tools/git/config")
			for _, name := range []string{
				"kept/hooks/pre-commit", "kept/info/attributes", "kept/tools/git/hooks/pre-commit", "kept/tools/git/config", "kept/github/workflows/x.yml",
				"tools/git/hooks/pre-commit", ".claude/deep/er/file", deep + "/.git/hooks/pre-commit.d/one", "sub/file",
			} {
				write(t, dir+"/"+name, "old")
			}
			repository(t, dir+"/kept/repo")
			move(t, dir, "kept/repo/.git", "kept/git")
			if err := os.Remove(dir + "/kept/git/refs/heads/main"); err != nil {
				t.Fatal(err)
			}
			w := open(t, dir)
			since := start(t, dir)
			look := func() []string {
				found, _ := workspace.NewGitDirs(w.Guard, since, 10*time.Second, time.Now)
				return say(append(found, workspace.HostRun(w.Guard, since)...), dir)
			}
			if got := look(); len(got) != 0 {
				t.Errorf("before anything was done: %v", got)
			}
			if tt.away != "" {
				move(t, dir, tt.away, "away")
			}
			move(t, dir, tt.from, tt.to)
			if got := look(); !slices.Contains(got, strings.Replace(tt.want, "workflows/:", "workflows:", 1)) {
				t.Errorf("want %s\ngot %s", tt.want, strings.Join(got, "\n"))
			}
		})
	}
}

// TestMovedIntoPlace_WorkIsNotTakenForIt: who works as git does, in
// repositories that are not guarded too, is told nothing.
func TestMovedIntoPlace_WorkIsNotTakenForIt(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	const deep = "/a/b/c/d/e"
	repository(t, dir+deep)
	write(t, dir+"/.github/workflows/x.yml", "old")
	w := open(t, dir)
	since := start(t, dir)
	for _, at := range []string{dir, dir + deep} {
		if err := os.WriteFile(at+"/file", []byte("new\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		git(t, at, "commit", "-q", "-a", "-m", "two")
		git(t, at, "branch", "topic")
	}
	write(t, dir+"/.github/other", "new")
	found, _ := workspace.NewGitDirs(w.Guard, since, 10*time.Second, time.Now)
	if got := say(append(found, workspace.HostRun(w.Guard, since)...), dir); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestRevert_SweepsTheSharedPartsOfABareRepository: a work tree in the folder
// of its bare repository may write to parts of that.
func TestRevert_SweepsTheSharedPartsOfABareRepository(t *testing.T) {
	t.Parallel()
	base := yard(t)
	repository(t, base+"/seed")
	git(t, base, "clone", "-q", "--bare", "seed", "proj")
	git(t, base+"/proj", "config", "core.logAllRefUpdates", "true")
	git(t, base+"/proj", "worktree", "add", "-q", base+"/proj/one")
	write(t, base+"/proj/logs/refs/heads/x", "")
	victim := base + "/victim"
	write(t, victim, "mine\n")
	w := open(t, base+"/proj/one")
	since := start(t, base)
	if got := workspace.Revert(w.Guard, since); len(got) != 0 {
		t.Errorf("before anything was done: %v", say(got, base))
	}
	planted := []string{"logs/refs/heads/one", "objects/info/commit-graph", "objects/ff", "refs/heads/evil"}
	for _, name := range planted {
		if err := errors.Join(os.MkdirAll(filepath.Dir(base+"/proj/"+name), 0o755), os.RemoveAll(base+"/proj/"+name)); err != nil {
			t.Fatal(err)
		}
		link(t, victim, base+"/proj/"+name)
	}
	var want []string
	for _, name := range planted {
		want = append(want, "proj/"+name+": was a link to "+victim+", made during the run; it is removed")
	}
	got := say(workspace.Revert(w.Guard, since), base)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestOpen_HooksOfNestedRepositories: a relative core.hooksPath is taken from
// the work tree that git runs in, not from the workspace.
func TestOpen_HooksOfNestedRepositories(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	repository(t, dir+"/vendor/x")
	repository(t, dir+"/old")
	write(t, dir+"/.gitmodules", "[submodule \"old\"]\npath = old\nurl = x\n")
	git(t, dir, "worktree", "add", "-q", dir+"/tree")
	git(t, dir, "config", "core.hooksPath", "one")
	git(t, dir+"/vendor/x", "config", "core.hooksPath", "two")
	git(t, dir+"/old", "config", "core.hooksPath", "../shared")
	write(t, dir+"/real/pre-commit", "")
	link(t, "real", dir+"/one")
	want := []string{dir + "/one", dir + "/real", dir + "/tree/one", dir + "/shared", dir + "/vendor/x/two"}
	if diff := cmp.Diff(want, open(t, dir).Guard.Watch); diff != "" {
		t.Error(diff)
	}
}

// TestOpen_HooksNamedFromTheHome: the workspace may lie in the caller's home.
func TestOpen_HooksNamedFromTheHome(t *testing.T) {
	t.Parallel()
	home := yard(t)
	dir := repository(t, home+"/proj")
	git(t, dir, "config", "core.hooksPath", "~/proj/hooks")
	git(t, dir, "config", "include.path", "~/elsewhere.conf")
	r := request(dir)
	r.Home = home
	w, err := workspace.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{dir + "/hooks"}, w.Guard.Watch); diff != "" {
		t.Error(diff)
	}
}

// TestOpen_CommandsElsewhereInTheGitFolder: hooks and configuration that lie in
// the git folder under names of the user's own are private copies like others.
func TestOpen_CommandsElsewhereInTheGitFolder(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	git(t, dir, "config", "core.hooksPath", ".git/mine/hooks")
	git(t, dir, "config", "--add", "include.path", "mine.conf")
	git(t, dir, "config", "--add", "include.path", "gone.conf")
	git(t, dir, "config", "--add", "includeIf.gitdir:/x/.path", "../tracked.conf")
	git(t, dir, "config", "--add", "include.path", "/etc/hostname")
	write(t, dir+"/.git/mine/hooks/pre-commit", "")
	write(t, dir+"/.git/mine.conf", "[core]\n")
	w := open(t, dir)
	expect(t, w, dir, "rw .", "rw .git", "copy .git/config", "copy .git/mine.conf", "copy .git/hooks/", "copy .git/info/ exclude", "copy .git/mine/hooks/ pre-commit",
		"absent .git/gone.conf", "absent .git/config.worktree", "absent .git/commondir")
	if diff := cmp.Diff([]string{dir + "/tracked.conf"}, w.Guard.Watch); diff != "" {
		t.Error(diff)
	}
	git(t, dir, "config", "core.hooksPath", ".git")
	if _, err := workspace.Open(request(dir)); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("hooks in the git folder itself: %v", err)
	}
}

// TestOpen_HookThatIsALinkToAnother is there inside, and needs no watch if what
// it names has a private copy itself.
func TestOpen_HookThatIsALinkToAnother(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	write(t, dir+"/.git/hooks/pre-commit", "#!/bin/sh\n")
	write(t, dir+"/.git/other/check", "#!/bin/sh\n")
	link(t, "pre-commit", dir+"/.git/hooks/pre-push")
	link(t, "../other/check", dir+"/.git/hooks/post-commit")
	w := open(t, dir)
	if got := show(w, dir); !slices.Contains(got, "copy .git/hooks/ post-commit pre-commit pre-push") || len(w.Notes) != 0 {
		t.Errorf("%v %v", got, w.Notes)
	}
	if diff := cmp.Diff([]string{dir + "/.git/other/check"}, w.Guard.Watch); diff != "" {
		t.Error(diff)
	}
	since := start(t, dir)
	write(t, dir+"/.git/other/check", "#!/bin/sh\nevil\n")
	want := []string{".git/other/check: is a git hook or git configuration: changed during the run"}
	if diff := cmp.Diff(want, say(workspace.HostRun(w.Guard, since), dir)); diff != "" {
		t.Error(diff)
	}
}
