package workspace_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// yard returns a fresh folder without links in its path, owned by the caller.
func yard(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// git runs the real git with no configuration but its own.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=3",
		"GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=T", "GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=t@example",
		"GIT_CONFIG_KEY_2=protocol.file.allow", "GIT_CONFIG_VALUE_2=always",
		// A commit has the same id in each run, and objects/ff, where a test
		// plants a link, holds none.
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes a repository with one commit.
func repository(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "main")
	write(t, dir+"/file", "text\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "one")
	return dir
}

func request(dir string) workspace.Request {
	return workspace.Request{Dir: dir, UID: os.Getuid(), Home: "/nonexistent", Passwd: "/dev/null", Own: nil, ReadOnly: false}
}

func open(t *testing.T, dir string) *workspace.Workspace {
	t.Helper()
	w, err := workspace.Open(request(dir))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// show describes a workspace with paths relative to base: one line a mount
// ("rw" or "ro"), private copy ("copy") and guarded absence ("absent").
func show(w *workspace.Workspace, base string) []string {
	rel := func(path string) string {
		if r, err := filepath.Rel(base, path); err == nil {
			return r
		}
		return path
	}
	var out []string
	for _, m := range w.Mounts {
		verb := "ro "
		if m.Writable {
			verb = "rw "
		}
		if m.Source != m.Target {
			verb = "MOVED "
		}
		out = append(out, verb+rel(m.Target))
	}
	for _, s := range w.Shadows {
		line := "copy " + rel(s.Path)
		if s.Dir {
			line += "/"
			for _, f := range s.Files {
				line += " " + f.Path
			}
		}
		out = append(out, line)
	}
	for _, path := range w.Guard.Absent {
		out = append(out, "absent "+rel(path))
	}
	return out
}

func expect(t *testing.T, w *workspace.Workspace, base string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, show(w, base)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	expectMountedOnce(t, w)
}

func expectMountedOnce(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	seen := map[string]bool{}
	for _, m := range w.Mounts {
		if seen[m.Target] {
			t.Errorf("%s is mounted twice", m.Target)
		}
		seen[m.Target] = true
	}
	for _, s := range w.Shadows {
		if seen[s.Path] {
			t.Errorf("%s is copied twice, or mounted too", s.Path)
		}
		seen[s.Path] = true
	}
}

func TestOpen_FolderWithoutGit(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	w := open(t, dir)
	expect(t, w, dir, "rw .")
	if w.UID != os.Getuid() || w.Path != dir || len(w.Links) != 0 || len(w.Notes) != 0 {
		t.Errorf("%+v", w)
	}
}

func TestOpen_PlainRepository(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	write(t, dir+"/.git/hooks/pre-commit", "#!/bin/sh\n")
	write(t, dir+"/.git/hooks/pre-commit.d/one", "#!/bin/sh\n")
	w := open(t, dir)
	expect(t, w, dir, "rw .", "rw .git",
		"copy .git/config", "copy .git/hooks/ pre-commit pre-commit.d/one", "copy .git/info/ exclude",
		"absent .git/config.worktree", "absent .git/commondir")
	config, err := os.ReadFile(dir + "/.git/config")
	if err != nil || string(w.Shadows[0].Files[0].Data) != string(config) || w.Shadows[0].Files[0].Path != "" {
		t.Errorf("the copy of config: %+v", w.Shadows[0])
	}
}

func TestOpen_RepositoryWithoutHooksAndInfo(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	git(t, dir, "init", "-q", "--template=")
	expect(t, open(t, dir), dir, "rw .", "rw .git", "copy .git/config",
		"absent .git/config.worktree", "absent .git/hooks", "absent .git/info", "absent .git/commondir")
}

func TestOpen_ReadOnlyNeedsNoCopies(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	r := request(dir)
	r.ReadOnly = true
	w, err := workspace.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, w, dir, "ro .", "ro .git")
}

func TestOpen_SparseCheckoutHasAConfigOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	git(t, dir, "sparse-checkout", "set", "--cone", "sub")
	w := open(t, dir)
	if !slices.Contains(show(w, dir), "copy .git/config.worktree") || !slices.Contains(show(w, dir), "copy .git/info/ exclude sparse-checkout") {
		t.Errorf("%v", show(w, dir))
	}
}

func TestOpen_LinkedWorktree(t *testing.T) {
	t.Parallel()
	base := yard(t)
	repository(t, base+"/main")
	git(t, base+"/main", "worktree", "add", "-q", base+"/feature")
	git(t, base+"/main", "worktree", "add", "-q", base+"/other")
	w := open(t, base+"/feature")
	expect(t, w, base, "rw feature", "rw main/.git", "ro main/.git/HEAD", "ro main/.git/index", "ro main/.git/worktrees",
		"rw main/.git/worktrees/feature",
		"copy feature/.git", "copy main/.git/config", "copy main/.git/hooks/", "copy main/.git/info/ exclude",
		"copy main/.git/worktrees/feature/commondir", "copy main/.git/worktrees/feature/gitdir",
		"absent main/.git/config.worktree", "absent main/.git/commondir", "absent main/.git/worktrees/feature/config.worktree")

	t.Run("and the tree it is linked to", func(t *testing.T) {
		t.Parallel()
		w := open(t, base+"/main")
		got := show(w, base)
		for _, want := range []string{"rw main/.git/worktrees", "ro main/.git/worktrees/feature", "ro main/.git/worktrees/other"} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %v", want, got)
			}
		}
	})
}

func TestOpen_LinkedWorktreeInsideTheWorkspace(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	git(t, dir, "worktree", "add", "-q", dir+"/trees/feature")
	w := open(t, dir)
	got := show(w, dir)
	for _, want := range []string{
		"rw .git/worktrees", "rw .git/worktrees/feature", "copy trees/feature/.git",
		"copy .git/worktrees/feature/commondir", "copy .git/worktrees/feature/gitdir", "absent .git/worktrees/feature/config.worktree",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %v", want, got)
		}
	}
	if diff := cmp.Diff([]string{dir + "/trees/feature"}, w.SafeDirs); diff != "" {
		t.Error(diff)
	}
}

func TestOpen_WorktreeOfABareRepository(t *testing.T) {
	t.Parallel()
	base := yard(t)
	repository(t, base+"/seed")
	git(t, base, "clone", "-q", "--bare", "seed", "bare.git")
	git(t, base+"/bare.git", "worktree", "add", "-q", base+"/tree")
	got := show(open(t, base+"/tree"), base)
	for _, want := range []string{"rw bare.git", "ro bare.git/HEAD", "rw bare.git/worktrees/tree", "copy bare.git/config"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %v", want, got)
		}
	}
}

func TestOpen_WorktreeInsideABareRepositoryHidesItsSiblings(t *testing.T) {
	t.Parallel()
	base := yard(t)
	repository(t, base+"/seed")
	git(t, base, "clone", "-q", "--bare", "seed", "proj")
	git(t, base+"/proj", "worktree", "add", "-q", base+"/proj/one")
	git(t, base+"/proj", "worktree", "add", "-q", base+"/proj/two")
	w := open(t, base+"/proj/one")
	for _, m := range w.Mounts {
		if strings.HasPrefix(base+"/proj/two", m.Source) {
			t.Errorf("the sibling is visible through %s", m.Source)
		}
	}
	got := show(w, base)
	for _, want := range []string{"rw proj/objects", "rw proj/refs", "ro proj/config", "ro proj/hooks", "rw proj/worktrees/one"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %v", want, got)
		}
	}
	if len(w.Notes) != 2 || !strings.Contains(w.Notes[1], "mkdir "+base+"/proj/logs") {
		t.Errorf("notes: %q", w.Notes)
	}
	if err := os.Mkdir(base+"/proj/logs", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, base+"/proj/one/check", "#!/bin/sh\n")
	link(t, "../one/check", base+"/proj/hooks/pre-commit")
	git(t, base+"/proj", "config", "core.hooksPath", "myhooks")
	w = open(t, base+"/proj/one")
	if len(w.Notes) != 1 {
		t.Errorf("with logs: %q", w.Notes)
	}
	if diff := cmp.Diff([]string{base + "/proj/one/check", base + "/proj/one/myhooks"}, w.Guard.Watch); diff != "" {
		t.Error(diff)
	}
}

func TestOpen_Submodules(t *testing.T) {
	t.Parallel()
	base := yard(t)
	repository(t, base+"/inner")
	repository(t, base+"/lib")
	git(t, base+"/lib", "submodule", "add", "-q", base+"/inner", "deep/inner")
	git(t, base+"/lib", "commit", "-q", "-m", "inner")
	dir := repository(t, base+"/super")
	git(t, dir, "submodule", "add", "-q", "--name", "group/lib", base+"/lib", "lib")
	git(t, dir, "submodule", "update", "-q", "--init", "--recursive")
	w := open(t, dir)
	expect(t, w, dir, "rw .", "rw .git", "rw .git/modules", "rw .git/modules/group/lib", "rw .git/modules/group/lib/modules",
		"rw .git/modules/group/lib/modules/deep/inner",
		"copy .git/config", "copy .git/hooks/", "copy .git/info/ exclude",
		"copy .git/modules/group/lib/config", "copy .git/modules/group/lib/hooks/", "copy .git/modules/group/lib/info/ exclude", "copy lib/.git",
		"copy .git/modules/group/lib/modules/deep/inner/config", "copy .git/modules/group/lib/modules/deep/inner/hooks/",
		"copy .git/modules/group/lib/modules/deep/inner/info/ exclude", "copy lib/deep/inner/.git",
		"absent .git/config.worktree", "absent .git/commondir",
		"absent .git/modules/group/lib/config.worktree", "absent .git/modules/group/lib/commondir",
		"absent .git/modules/group/lib/modules/deep/inner/config.worktree", "absent .git/modules/group/lib/modules/deep/inner/commondir")
	if diff := cmp.Diff([]string{dir + "/lib", dir + "/lib/deep/inner"}, w.SafeDirs); diff != "" {
		t.Error(diff)
	}

	t.Run("one of them as the workspace", func(t *testing.T) {
		t.Parallel()
		w := open(t, dir+"/lib")
		got := show(w, dir)
		for _, want := range []string{"rw lib", "rw .git/modules/group/lib", "copy lib/.git", "copy .git/modules/group/lib/config", "copy lib/deep/inner/.git"} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %v", want, got)
			}
		}
		if slices.Contains(got, "rw .git") {
			t.Errorf("the superproject's git folder is visible: %v", got)
		}
	})
}

func TestOpen_SubmoduleOfTheOldForm(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	repository(t, dir+"/old")
	write(t, dir+"/.gitmodules", "[submodule \"old\"]\npath = old\nurl = x\n[submodule \"evil\"]\npath = ../../etc\n[submodule \"gone\"]\npath = gone\n")
	got := show(open(t, dir), dir)
	if !slices.Contains(got, "rw old/.git") || !slices.Contains(got, "copy old/.git/config") {
		t.Errorf("%v", got)
	}
}

// TestOpen_NothingIsMountedTwice opens a tree in which an earlier sandbox wrote
// what names one git folder more than once, or something in it: whatever was
// mounted again would lie there without its private copies.
func TestOpen_NothingIsMountedTwice(t *testing.T) {
	t.Parallel()
	for _, path := range []string{".", "", "./.", "file/..", ".git", ".git/hooks", ".git/modules", "file/../.git/info"} {
		t.Run("submodule at "+path, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, yard(t))
			for _, name := range []string{"", "hooks/", "info/", "modules/"} {
				write(t, dir+"/.git/"+name+".git/config", "")
			}
			write(t, dir+"/.gitmodules", "[submodule \"a\"]\npath = "+path+"\n[submodule \"b\"]\npath = "+path+"\n")
			expect(t, open(t, dir), dir, "rw .", "rw .git", "copy .git/config", "copy .git/hooks/ .git/config", "copy .git/info/ .git/config exclude",
				"absent .git/config.worktree", "absent .git/commondir")
		})
	}
	t.Run("one submodule named twice", func(t *testing.T) {
		t.Parallel()
		dir := repository(t, yard(t))
		repository(t, dir+"/old")
		write(t, dir+"/.gitmodules", "[submodule \"a\"]\npath = old\n[submodule \"b\"]\npath = ./old/\n")
		w := open(t, dir)
		expectMountedOnce(t, w)
		if !slices.Contains(show(w, dir), "copy old/.git/config") {
			t.Errorf("%v", show(w, dir))
		}
	})
	t.Run("two admin folders of one work tree", func(t *testing.T) {
		t.Parallel()
		dir := repository(t, yard(t))
		git(t, dir, "worktree", "add", "-q", dir+"/tree")
		if out, err := exec.CommandContext(t.Context(), "cp", "-a", dir+"/.git/worktrees/tree", dir+"/.git/worktrees/again").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		w := open(t, dir)
		expectMountedOnce(t, w)
		if !slices.Contains(show(w, dir), "copy tree/.git") {
			t.Errorf("%v", show(w, dir))
		}
	})
}

func TestOpen_LinkedHookIsCopiedIfItIsOfTheTree(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	write(t, dir+"/scripts/check", "#!/bin/sh\n")
	link(t, "../../scripts/check", dir+"/.git/hooks/pre-commit")
	link(t, "/etc/hostname", dir+"/.git/hooks/pre-push")
	git(t, dir, "config", "core.hooksPath", "githooks")
	w := open(t, dir)
	if !slices.Contains(show(w, dir), "copy .git/hooks/ pre-commit") || len(w.Notes) != 1 {
		t.Errorf("%v %v", show(w, dir), w.Notes)
	}
	if diff := cmp.Diff([]string{dir + "/scripts/check", dir + "/githooks"}, w.Guard.Watch); diff != "" {
		t.Error(diff)
	}
}

func TestOpen_ManyHooksAreReadOnly(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	write(t, dir+"/.git/hooks/big", strings.Repeat("x", 9<<20))
	write(t, dir+"/scripts/check", "#!/bin/sh\n")
	link(t, "../../scripts/check", dir+"/.git/hooks/pre-push")
	w := open(t, dir)
	if diff := cmp.Diff([]string{dir + "/scripts/check"}, w.Guard.Watch); diff != "" {
		t.Error(diff)
	}
	if got := show(w, dir); !slices.Contains(got, "ro .git/hooks") || len(w.Notes) != 1 {
		t.Errorf("%v %v", got, w.Notes)
	}
}

func TestOpen_SaysThatTheRepositoryLiesAbove(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	write(t, dir+"/sub/file", "")
	w := open(t, dir+"/sub")
	expect(t, w, dir, "rw sub")
	if len(w.Notes) != 1 || !strings.Contains(w.Notes[0], dir) {
		t.Errorf("%v", w.Notes)
	}
}

func TestOpen_Refuses(t *testing.T) {
	t.Parallel()
	base := yard(t)
	home := base + "/people/me"
	for _, dir := range []string{home + "/.ssh", home + "/proj", home + "/.config/x", base + "/own/state", base + "/people/other/proj", base + "/svc/data"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, base+"/file", "")
	write(t, base+"/passwd", "other:x:1005:1005::"+base+"/people/other:/bin/sh\nsvc:x:110:110::"+base+"/svc/data:/bin/sh\n")
	link(t, home, base+"/to-home")
	r := request("")
	r.Home, r.Passwd, r.Own = base+"/to-home", base+"/passwd", []string{base + "/own/state", base + "/own/missing"}
	for dir, want := range map[string]bailey.Kind{
		"/": bailey.Invalid, "/home": bailey.Invalid, "/home/tester": bailey.Invalid, "/root": bailey.Invalid, "/usr": bailey.Invalid,
		"/usr/local/src": bailey.Invalid, "/etc": bailey.Invalid, "/etc/ssl": bailey.Invalid, "/var": bailey.Invalid, "/var/lib/dpkg": bailey.Invalid,
		"/proc": bailey.Invalid, "/proc/self": bailey.Invalid, "/sys": bailey.Invalid, "/dev": bailey.Invalid, "/dev/shm": bailey.Invalid,
		"/run": bailey.Invalid, "/boot": bailey.Invalid, "/tmp": bailey.Invalid, "/var/tmp": bailey.Invalid, "/opt": bailey.Invalid,
		base: bailey.Invalid, home: bailey.Invalid, base + "/to-home": bailey.Invalid, base + "/people": bailey.Invalid, base + "/people/other": bailey.Invalid,
		home + "/.ssh": bailey.Invalid, home + "/.config": bailey.Invalid, base + "/own": bailey.Invalid, base + "/own/state": bailey.Invalid,
		base + "/file": bailey.NotFound, base + "/gone": bailey.NotFound, "relative": bailey.Invalid, base + "/a\nb": bailey.Invalid, base + "/\xff": bailey.Invalid,
	} {
		r.Dir = dir
		_, err := workspace.Open(r)
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok || e.Kind != want || e.Hint == "" {
			t.Errorf("%q: %v", dir, err)
		}
	}
	for _, dir := range []string{home + "/proj", home + "/.config/x", base + "/people/other/proj", base + "/svc", base + "/svc/data"} {
		r.Dir = dir
		if _, err := workspace.Open(r); err != nil {
			t.Errorf("%s is refused: %v", dir, err)
		}
	}
}

func TestOpen_TypedThroughALink(t *testing.T) {
	t.Parallel()
	base := yard(t)
	if err := os.MkdirAll(base+"/real/proj", 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "real", base+"/link")
	w := open(t, base+"/link/proj")
	if w.Path != base+"/real/proj" {
		t.Errorf("path is %s", w.Path)
	}
	var want []bailey.Link // what lies in a temporary folder needs no link inside
	if !strings.HasPrefix(base, "/tmp/") {
		want = []bailey.Link{{Path: base + "/link/proj", Target: base + "/real/proj"}}
	}
	if diff := cmp.Diff(want, w.Links); diff != "" {
		t.Error(diff)
	}
}

// TestOpen_RefusesAFolderOfAnother runs itself again as nobody when it is
// root, who may write everywhere.
func TestOpen_RefusesAFolderOfAnother(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		dir := os.Getenv("BAILEY_TEST_FOREIGN")
		if dir == "" {
			dir = "/usr" // any folder of root's; refused as the system's already
		}
		_, err := workspace.Open(request(dir))
		if kind := bailey.KindOf(err); kind != bailey.Forbidden && kind != bailey.Invalid || dir != "/usr" && kind != bailey.Forbidden {
			t.Errorf("%s: %v", dir, err)
		}
		return
	}
	dir := yard(t)
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestOpen_RefusesAFolderOfAnother$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "BAILEY_TEST_FOREIGN="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestGuard_HasAWireForm(t *testing.T) {
	t.Parallel()
	want := open(t, repository(t, yard(t))).Guard
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got workspace.Guard
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkOpen(b *testing.B) {
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	if out, err := exec.CommandContext(b.Context(), "git", "init", "-q", dir).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for b.Loop() {
		if _, err := workspace.Open(workspace.Request{Dir: dir, UID: os.Getuid(), Home: "/root"}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestOpen_SaysHowToHaveGitInASubfolder: the note of a folder below a
// repository holds a line to copy, where it needs no quotes.
func TestOpen_SaysHowToHaveGitInASubfolder(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	git(t, dir, "init", "-q", ".")
	for sub, want := range map[string]string{
		"a/b": " (with all of it: cd " + dir + " && bailey run --workdir a/b …)",
		"a b": "",
	} {
		write(t, filepath.Join(dir, sub, "file"), "x")
		w, err := workspace.Open(workspace.Request{Dir: filepath.Join(dir, sub), UID: os.Getuid()})
		if err != nil {
			t.Fatal(err)
		}
		if note := "git does not work here: the repository's folder " + dir + " lies above the workspace" + want; !slices.Contains(w.Notes, note) {
			t.Errorf("%s: %q, want %q", sub, w.Notes, note)
		}
	}
}
