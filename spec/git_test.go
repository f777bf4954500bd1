package spec_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// gitIdentity makes commits of the host's twin possible.
var gitIdentity = []string{"-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"}

// git runs the host's git as the yard's identity in a folder.
func git(t *testing.T, y *yard.Yard, dir string, args ...string) string {
	t.Helper()
	return y.Host(t, "git", slices.Concat([]string{"-C", dir}, gitIdentity, args)...)
}

// repository makes one with a commit.
func repository(t *testing.T, y *yard.Yard, dir string) {
	t.Helper()
	y.WriteHome(t, ".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n")
	git(t, y, "/", "init", "-q", "-b", "main", dir)
	owned(t, y, filepath.Join(dir, "file"), "one\n", 0o644)
	git(t, y, dir, "add", ".")
	git(t, y, dir, "commit", "-q", "-m", "first")
}

// commands reads what git takes commands from in a git folder: names, modes,
// inodes and contents, one line each.
func commands(t *testing.T, gitDir string) string {
	t.Helper()
	var b strings.Builder
	names := []string{"config", "config.worktree", "hooks", "info", "commondir"}
	if filepath.Base(filepath.Dir(gitDir)) == "worktrees" { // the rest is the common folder's (gitrepository-layout(5))
		names = []string{"config.worktree", "commondir", "gitdir"}
	}
	for _, name := range names {
		top := filepath.Join(gitDir, name)
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st syscall.Stat_t
			if err := syscall.Lstat(path, &st); err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s mode=%o inode=%d owner=%d", strings.TrimPrefix(path, gitDir), st.Mode, st.Ino, st.Uid)
			if e.Type().IsRegular() {
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, " %x", sha256.Sum256(text))
			}
			b.WriteByte('\n')
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return b.String()
}

// gitAttack tries to change what the host's git takes commands from, in the
// git folder $1, by every way that a program has to replace a file. What it
// does on the way is undone by nothing.
const gitAttack = `
cd "$1" || exit 9
evil='[core]
	fsmonitor = touch '"$2"'
'
printf %s "$evil" >> config
rm -f config; printf %s "$evil" > config
printf %s "$evil" > new; mv -f new config; mv -T new config; ln -f new config
ln -sf /etc/hostname config; ln -sfn "$PWD/new" config
python3 - <<'P'
import os
evil = "[core]\n\tfsmonitor = touch x\n"
def t(f):
    try: f()
    except OSError: pass
for name in ("config", "hooks", "info", "config.worktree", "commondir", "gitdir"):
    if name == "commondir" and not os.path.lexists(name): continue # that would end the sandbox
    t(lambda: os.unlink(name))
    t(lambda: os.rename(name, name + ".away"))
    t(lambda: os.rmdir(name))
    t(lambda: os.truncate(name, 0))
    t(lambda: os.chmod(name, 0o777))
    t(lambda: os.link(name, name + ".hard"))
    t(lambda: open(name, "w").write(evil))
    open("evil", "w").write(evil)
    t(lambda: os.rename("evil", name))
    t(lambda: os.symlink("evil2", name))
    fd = os.open(".", os.O_RDONLY)
    t(lambda: os.unlink(name, dir_fd=fd))
    t(lambda: os.rename("evil", name, src_dir_fd=fd, dst_dir_fd=fd))
here = os.getcwd()
t(lambda: os.chdir("/proc/self/root" + here))
t(lambda: open("/proc/self/cwd/config", "w").write(evil))
for up in (here, os.path.dirname(here)):
    t(lambda: os.rename(up, up + ".moved"))
    t(lambda: os.symlink(up + ".moved", up))
    t(lambda: os.rename(up + ".moved", up))
P
rm -rf hooks; mkdir hooks; printf '#!/bin/sh\ntouch %s\n' "$2" > hooks/pre-commit; chmod +x hooks/pre-commit
cp hooks/pre-commit hooks/post-checkout; cp hooks/pre-commit hooks/post-index-change
mv hooks h2; ln -s h2 hooks; rm -rf info; mkdir -p info; echo '* filter=evil diff=evil' > info/attributes
printf '[filter "evil"]\n\tclean = touch %s\n\tsmudge = touch %s\n[diff "evil"]\n\tcommand = touch %s\n' "$2" "$2" "$2" >> config
cp config config.worktree; if test -e commondir; then echo "$PWD/elsewhere" > commondir; fi
git config core.hooksPath "$PWD/h2"; git config core.fsmonitor "touch $2"; git config alias.status "!touch $2"
git config core.sshCommand "touch $2"; git config diff.external "touch $2"; git config core.pager "touch $2"; git config core.editor "touch $2"
true
`

// attackScript calls gitAttack for each git folder.
func attackScript(mark string, gitDirs ...string) string {
	var b strings.Builder
	b.WriteString("cat > /tmp/attack <<'EOF'\n" + gitAttack + "EOF\n")
	for _, d := range gitDirs {
		fmt.Fprintf(&b, "sh /tmp/attack %s %s >>/tmp/log 2>&1\n", d, mark)
	}
	b.WriteString("true\n")
	return b.String()
}

// useGit does what a user does in a work tree, with everything that git might
// run from it.
func useGit(t *testing.T, y *yard.Yard, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, args := range [][]string{
		{"status", "--porcelain"},
		{"diff"},
		{"log", "-p", "-1"},
		{"add", "-A"},
		{"commit", "-q", "--allow-empty", "-m", "by the user"},
		{"checkout", "-q", "-b", "other"},
		{"checkout", "-q", "-"},
		{"stash", "list"},
		{"fetch", "--all"},
	} {
		cmd := nativeCommand(t.Context(), y, "git", slices.Concat([]string{"-C", dir}, gitIdentity, args)...)
		out, err := cmd.CombinedOutput()
		fmt.Fprintf(&b, "git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return b.String()
}

// gitForm is a way in which a work tree is tied to its git folder.
type gitForm struct {
	name string
	// make makes one with the yard's folder as the work tree, and returns the
	// git folders that hold commands.
	make func(t *testing.T, y *yard.Yard) (gitDirs []string)
	// fixed says that the first git folder is one that nothing inside writes
	// its configuration in, not even a copy.
	fixed bool
}

// otherRepository makes a repository with a commit beside the workspace.
func otherRepository(t *testing.T, y *yard.Yard, name string) string {
	t.Helper()
	dir := filepath.Join(base(y), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	chown(t, dir, y.UID, y.GID)
	repository(t, y, dir)
	return dir
}

// inner makes a repository with a commit in the workspace.
func inner(t *testing.T, y *yard.Yard, rel string) string {
	t.Helper()
	dir := filepath.Join(y.Dir, rel)
	owned(t, y, filepath.Join(dir, "file"), "one\n", 0o644)
	chown(t, filepath.Dir(dir), y.UID, y.GID)
	repository(t, y, dir)
	return dir
}

// bare makes a bare repository beside the workspace.
func bare(t *testing.T, y *yard.Yard, rel string) string {
	t.Helper()
	seed, dir := otherRepository(t, y, "seed"), filepath.Join(base(y), rel)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	chown(t, dir, y.UID, y.GID)
	git(t, y, seed, "clone", "-q", "--bare", seed, dir)
	return dir
}

// formNamed returns one of gitForms.
func formNamed(t *testing.T, name string) gitForm {
	t.Helper()
	i := slices.IndexFunc(gitForms, func(f gitForm) bool { return f.name == name })
	if i < 0 {
		t.Fatalf("there is no form %q", name)
	}
	return gitForms[i]
}

var gitForms = []gitForm{
	{name: "plain", make: func(t *testing.T, y *yard.Yard) []string {
		repository(t, y, y.Dir)
		return []string{filepath.Join(y.Dir, ".git")}
	}},
	{name: "linked", make: func(t *testing.T, y *yard.Yard) []string {
		main := otherRepository(t, y, "main")
		git(t, y, main, "worktree", "add", "-q", "-b", "topic", y.Dir)
		return []string{main + "/.git", main + "/.git/worktrees/work"}
	}},
	{name: "linked inside", make: func(t *testing.T, y *yard.Yard) []string {
		repository(t, y, y.Dir)
		git(t, y, y.Dir, "worktree", "add", "-q", "-b", "topic", y.Dir+"/tree")
		return []string{y.Dir + "/.git", y.Dir + "/.git/worktrees/tree"}
	}},
	{name: "bare", make: func(t *testing.T, y *yard.Yard) []string {
		dir := bare(t, y, "bare.git")
		git(t, y, dir, "worktree", "add", "-q", "-b", "topic", y.Dir)
		return []string{dir, dir + "/worktrees/work"}
	}},
	{name: "in a bare one", fixed: true, make: func(t *testing.T, y *yard.Yard) []string {
		dir := bare(t, y, "proj")
		git(t, y, dir, "worktree", "add", "-q", "-b", "topic", dir+"/one")
		y.Host(t, "mkdir", dir+"/logs") // or nothing can be committed inside, as the header then says
		y.Dir = dir + "/one"
		return []string{dir, dir + "/worktrees/one"}
	}},
	{name: "submodule", make: func(t *testing.T, y *yard.Yard) []string {
		lib := otherRepository(t, y, "lib")
		repository(t, y, y.Dir)
		git(t, y, y.Dir, "submodule", "--quiet", "add", lib, "sub")
		git(t, y, y.Dir, "commit", "-q", "-m", "submodule")
		return []string{y.Dir + "/.git", y.Dir + "/.git/modules/sub"}
	}},
	{name: "submodule with a folder of its own", make: func(t *testing.T, y *yard.Yard) []string {
		lib := otherRepository(t, y, "lib")
		repository(t, y, y.Dir)
		git(t, y, y.Dir, "clone", "-q", lib, "old")
		git(t, y, y.Dir, "submodule", "--quiet", "add", lib, "old")
		git(t, y, y.Dir, "commit", "-q", "-m", "submodule")
		return []string{y.Dir + "/.git", y.Dir + "/old/.git"}
	}},
	{name: "nested", make: func(t *testing.T, y *yard.Yard) []string {
		repository(t, y, y.Dir)
		return []string{y.Dir + "/.git", inner(t, y, "vendor/x") + "/.git"}
	}},
	{name: "submodule of a nested", make: func(t *testing.T, y *yard.Yard) []string {
		lib := otherRepository(t, y, "lib")
		repository(t, y, y.Dir)
		nested := inner(t, y, "vendor/x")
		git(t, y, nested, "submodule", "--quiet", "add", lib, "sub")
		git(t, y, nested, "commit", "-q", "-m", "submodule")
		return []string{y.Dir + "/.git", nested + "/.git", nested + "/.git/modules/sub"}
	}},
}

// workTrees lists the work trees of a form besides the yard's folder.
func workTrees(y *yard.Yard) (dirs []string) {
	for _, rel := range []string{"sub", "old", "tree", "vendor/x", "vendor/x/sub"} {
		if _, err := os.Stat(filepath.Join(y.Dir, rel)); err == nil {
			dirs = append(dirs, filepath.Join(y.Dir, rel))
		}
	}
	return dirs
}

// pointers reads the .git files of work trees, which name a git folder.
func pointers(t *testing.T, y *yard.Yard) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range append(workTrees(y), y.Dir) {
		if path := filepath.Join(dir, ".git"); fileMode(path).IsRegular() {
			all[path] = contents(t, path)
		}
	}
	return all
}

// pointerScript tries to have .git files name another git folder.
func pointerScript(paths map[string]string) string {
	var b strings.Builder
	b.WriteString("git init -q /tmp/evil\n")
	for path := range paths {
		fmt.Fprintf(&b, `{ echo "gitdir: /tmp/evil/.git" > %[1]s; rm -f %[1]s; echo "gitdir: /tmp/evil/.git" > %[1]s.new; mv -f %[1]s.new %[1]s
			ln -sf /tmp/evil/.git %[1]s; mv %[1]s %[1]s.away; rm -f %[1]s.new; } >>/tmp/log 2>&1
`, path)
	}
	return b.String()
}

// TestRES02_TheHostsGitRunsNothingOfTheSandboxs attacks what git takes
// commands from, in each form of a work tree. Nothing of it changes on the
// host, a user of git there runs nothing, and the footer says what was tried.
// The same attack without a sandbox makes the user's git run a program.
func TestRES02_TheHostsGitRunsNothingOfTheSandboxs(t *testing.T) {
	t.Attr("claim", "RES-02")
	t.Parallel()
	for turn, form := range gitForms {
		t.Run(form.name, func(t *testing.T) {
			yard.InTurn(t, turn, func(t *testing.T, y *yard.Yard) {
				gitDirs := form.make(t, y)
				mark := filepath.Join(y.Home, "ran")
				before, pointed := map[string]string{}, pointers(t, y)
				for _, d := range gitDirs {
					before[d] = commands(t, d)
				}
				r := y.Sh(t, attackScript(mark, gitDirs...)+pointerScript(pointed)+"tail -3 /tmp/log").OK(t)
				for i, d := range gitDirs {
					if diff := cmp.Diff(before[d], commands(t, d)); diff != "" {
						t.Errorf("%s changed (-before +after):\n%s", d, diff)
					}
					if !strings.Contains(r.Stderr, d+"/co") && (!form.fixed || i != 0) { // config or commondir
						t.Errorf("the footer says nothing of %s", d)
					}
				}
				if diff := cmp.Diff(pointed, pointers(t, y)); diff != "" {
					t.Errorf("the .git files changed (-before +after):\n%s", diff)
				}
				did := useGit(t, y, y.Dir)
				for _, dir := range workTrees(y) {
					did += useGit(t, y, dir)
				}
				if _, err := os.Lstat(mark); err == nil {
					t.Errorf("git on the host ran the sandbox's program:\n%s", did)
				}
				if t.Failed() {
					t.Logf("stdout:\n%s\nstderr:\n%s", r.Stdout, r.Stderr)
				}
				// One of the attack's many lines is enough where nothing guards.
				y.Host(t, "git", "config", "--file", gitDirs[0]+"/config", "core.fsmonitor", "touch "+mark)
				did = useGit(t, y, y.Dir)
				if _, err := os.Lstat(mark); err != nil {
					t.Errorf("the twin: natively the attack has no effect:\n%s", did)
				}
			})
		})
	}
}

// TestRES02_AGitFolderNamedAgainIsNotShownAgain: an earlier sandbox wrote into
// the tree what names the git folder, or a folder in it, as a submodule's, in
// every spelling. The next one attacks the git folder all the same. The twin is
// that the submodule that is one is guarded by its name.
func TestRES02_AGitFolderNamedAgainIsNotShownAgain(t *testing.T) {
	t.Attr("claim", "RES-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		repository(t, y, y.Dir)
		inner(t, y, "a/b/c/d/e/old") // deeper than is looked for repositories that nothing names
		var modules strings.Builder
		for i, path := range []string{".", "", "./.", "a/..", ".git", ".git/hooks", ".git/info", "a/b/c/d/e/old", "./a/b/c/d/e/old/", "../work"} {
			fmt.Fprintf(&modules, "[submodule \"m%d\"]\n\tpath = %s\n\turl = x\n", i, path)
		}
		y.Sh(t, "mkdir -p .git/.git .git/objects/.git; cat > .gitmodules <<'E'\n"+modules.String()+"E\n").OK(t)
		gitDirs := []string{y.Dir + "/.git", y.Dir + "/a/b/c/d/e/old/.git"}
		mark := filepath.Join(y.Home, "ran")
		before := commands(t, gitDirs[0]) + commands(t, gitDirs[1])
		r := y.Sh(t, attackScript(mark, gitDirs...)+"grep -c "+y.Dir+"/.git /proc/mounts").OK(t)
		if diff := cmp.Diff(before, commands(t, gitDirs[0])+commands(t, gitDirs[1])); diff != "" {
			t.Errorf("changed (-before +after):\n%s\nstderr:\n%s", diff, r.Stderr)
		}
		for _, dir := range gitDirs {
			if did := useGit(t, y, filepath.Dir(dir)); fileMode(mark).IsRegular() {
				t.Errorf("git on the host ran the sandbox's program:\n%s", did)
			}
		}
	})
}

// TestGitWorksInside: what an agent does with git works in each form, and
// what it did is there on the host.
func TestGitWorksInside(t *testing.T) {
	t.Parallel()
	for turn, form := range gitForms {
		t.Run(form.name, func(t *testing.T) {
			yard.InTurn(t, turn, func(t *testing.T, y *yard.Yard) {
				gitDirs := form.make(t, y)
				before := commands(t, gitDirs[0])
				script, stash := "set -ex\n", ""
				if !form.fixed {
					stash = "git stash -q; git stash pop -q; git gc -q; "
					script += `
					git config user.nick x; test "$(git config user.nick)" = x
					git remote add up https://example.org/x.git; git remote -v | grep -q example.org
					git branch side; git branch -m side renamed; git branch -D renamed
					git tag t1; git tag -d t1
					`
				}
				script += `
					git status --porcelain
					echo two >> file; git add file; git commit -q -m second; git commit -q --amend -m amended
					echo three >> file; ` + stash + `git checkout -q file
					git log --oneline | head -3
					git checkout -q -b feature; echo 4 > four; git add four; git commit -q -m four; git checkout -q -; git merge -q feature
					git reflog | head -2; git fsck --no-progress
				`
				if form.name == "plain" {
					script += `git worktree add -q ../` + filepath.Base(y.Dir) + `/wt; cd wt; echo w > w; git add w; git commit -q -m worktree; cd ..; git worktree list; git worktree remove wt`
				}
				if form.name == "submodule" {
					script += `git submodule status; git -C sub checkout -q -b s; echo s > sub/s; git -C sub add s; git -C sub commit -q -m insub; git add sub; git commit -q -m bump; git submodule foreach git status`
				}
				r := y.Sh(t, script).OK(t)
				if diff := cmp.Diff(before, commands(t, gitDirs[0])); diff != "" {
					t.Errorf("the host's changed (-before +after):\n%s", diff)
				}
				log := git(t, y, y.Dir, "log", "--format=%s %an")
				if !strings.Contains(log, "amended Ada") || !strings.Contains(log, "four Ada") {
					t.Errorf("the commits are not on the host:\n%s\n%s", log, r.Stderr)
				}
				git(t, y, y.Dir, "fsck", "--no-progress")
				if status := git(t, y, y.Dir, "status", "--porcelain"); status != "" && status != "?? vendor/\n" && status != "?? tree/\n" {
					t.Errorf("status on the host afterwards:\n%s", status)
				}
				for _, want := range []string{"user.nick", "remote.up.url"} {
					if form.fixed {
						want = "deleting and renaming branches, dropping a stash and git gc do not work here"
					}
					if !strings.Contains(strings.ToLower(r.Stderr), want) {
						t.Errorf("the footer does not name %s:\n%s", want, r.Stderr)
					}
				}
			})
		})
	}
}

// TestReportB1_NoStubsInTheTree: protected names that do not exist leave
// nothing in the tree, also when bailey is killed; made ones do not stay.
func TestReportB1_NoStubsInTheTree(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	repository(t, y, y.Dir)
	if err := os.RemoveAll(y.Dir + "/.git/hooks"); err != nil {
		t.Fatal(err)
	}
	clean := func(when string) {
		t.Helper()
		if s := git(t, y, y.Dir, "status", "--porcelain", "--ignored"); s != "" {
			t.Errorf("%s the host's status is:\n%s", when, s)
		}
		for _, name := range []string{"hooks", "config.worktree", "commondir"} {
			if _, err := os.Lstat(y.Dir + "/.git/" + name); err == nil {
				t.Errorf("%s there is a .git/%s", when, name)
			}
		}
	}
	clean("before")
	r := y.Start(t, "run", "--quiet", "--", "bash", "-c", `git status --porcelain --ignored; git add . && git status --porcelain
			find . -path ./.git -prune -o -size 0 -print -o -type c -print; echo ready; read go
			echo x > .git/config.worktree; ln -s /etc/hostname .git/odd; echo made; read go`)
	r.Await(t, "ready")
	if out, _ := r.Output(); out != "ready\n" {
		t.Errorf("inside:\n%s", out)
	}
	clean("during")
	if _, err := r.Stdin.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	r.Await(t, "made")
	if _, err := os.Lstat(y.Dir + "/.git/config.worktree"); err != nil {
		t.Errorf("the twin: what was made inside was never there: %v", err)
	}
	if err := r.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	hold(t, "what a killed run left is set aside", func() bool {
		_, err := os.Lstat(y.Dir + "/.git/config.worktree")
		_, err2 := os.Lstat(y.Dir + "/.git/odd")
		return err != nil && err2 != nil
	})
	clean("after SIGKILL")
	if v := y.Sh(t, "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; sleep 20"); v.Code != 137 || !strings.Contains(v.Stderr, tripped) {
		t.Errorf("hooks where there were none: exit code %d, %s", v.Code, v.Stderr)
	}
	clean("after")
}

func fileMode(path string) fs.FileMode {
	info, err := os.Lstat(path)
	if err != nil {
		return fs.ModeIrregular
	}
	return info.Mode()
}

// TestReportB3_WorktreeConfigIsReadable: protected means not writable, not
// unreadable.
func TestReportB3_WorktreeConfigIsReadable(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	repository(t, y, y.Dir)
	owned(t, y, y.Dir+"/sub/deep", "x\n", 0o644)
	git(t, y, y.Dir, "add", ".")
	git(t, y, y.Dir, "commit", "-q", "-m", "more")
	git(t, y, y.Dir, "sparse-checkout", "set", "sub")
	before := commands(t, y.Dir+"/.git")
	if !strings.Contains(before, "config.worktree") {
		t.Fatalf("git made no config.worktree:\n%s", before)
	}
	r := y.Sh(t, `set -e; git status --porcelain; git sparse-checkout list; git config --worktree core.sparseCheckout
			echo y >> sub/deep; git add -A; git commit -q -m inside`).OK(t)
	if r.Stdout != "sub\ntrue\n" {
		t.Errorf("inside:\n%s", r.Stdout)
	}
	if diff := cmp.Diff(before, commands(t, y.Dir+"/.git")); diff != "" {
		t.Errorf("changed on the host:\n%s", diff)
	}
}

// TestReportB5_UncommittedEditsInSubmodules are there, inside and after.
func TestReportB5_UncommittedEditsInSubmodules(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	formNamed(t, "submodule").make(t, y)
	owned(t, y, y.Dir+"/sub/file", "edited on the host\n", 0o644)
	owned(t, y, y.Dir+"/new", "new on the host\n", 0o644)
	r := y.Sh(t, `set -e; cat sub/file new; git status --porcelain; git -C sub status --porcelain; echo inside >> sub/file`).OK(t)
	const want = "edited on the host\nnew on the host\n M sub\n?? new\n M file\n"
	if diff := cmp.Diff(want, r.Stdout); diff != "" {
		t.Errorf("inside:\n%s", diff)
	}
	if got := contents(t, y.Dir+"/sub/file"); got != "edited on the host\ninside\n" {
		t.Errorf("after: %q", got)
	}
}

// TestRES06_EventsSayByWhat: each file is an event with what would run it, of
// the same list that the results of tasks are held to.
func TestRES06_EventsSayByWhat(t *testing.T) {
	t.Attr("claim", "RES-06")
	t.Parallel()
	y := yard.Unprivileged(t)
	repository(t, y, y.Dir)
	r := y.Sh(t, `mkdir -p .pi sub .devcontainer; for f in .pi/settings.json sub/main.tf .nvmrc .envrc.local QWEN.md .devcontainer/devcontainer.json conftest.py .npmrc plain.txt; do echo x > $f; done`, "--json", "--show", ".npmrc").OK(t)
	got := map[string]string{}
	for line := range strings.Lines(r.Stderr) {
		var e struct{ Type, Path, By string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Type == "file.runs" {
			got[strings.TrimPrefix(e.Path, y.Dir+"/")] = e.By
		}
	}
	want := map[string]string{
		".pi/settings.json": "a coding agent", "QWEN.md": "a coding agent", "sub/main.tf": "a deployment, the desktop or another program", ".nvmrc": "your shell", ".envrc.local": "your shell",
		".devcontainer/devcontainer.json": "CI or a container", "conftest.py": "a build or a test", ".npmrc": "a package manager",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, r.Stderr)
	}
}

// TestRES06_WhatWouldRunOnTheHostIsNamed: the footer names files that the
// user's own tools would run, and git folders made during the run.
func TestRES06_WhatWouldRunOnTheHostIsNamed(t *testing.T) {
	t.Attr("claim", "RES-06")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		repository(t, y, y.Dir)
		y.Write(t, "Makefile", "all:\n")
		y.Write(t, "package.json", "{}\n")
		time.Sleep(30 * time.Millisecond) // older than the clock's tick: see clockSlack
		r := y.Sh(t, `mkdir -p .vscode .githooks deep/er .claude .github/workflows
			for f in .envrc .vscode/tasks.json .githooks/pre-commit .claude/settings.json .github/workflows/x.yml package.json .gitattributes; do echo x > $f; done
			git init -q deep/er/repo; git init -q --bare bare.git
			git config core.hooksPath .githooks; echo '#!/bin/sh' > .git/hooks/pre-push`).OK(t)
		for _, want := range []string{
			".envrc", ".vscode/tasks.json", ".githooks/pre-commit", ".claude/settings.json", ".github/workflows/x.yml", "package.json",
			".gitattributes", "deep/er/repo/.git", "bare.git", ".git/hooks: added pre-push", "core.hookspath",
		} {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("the footer does not name %s", want)
			}
		}
		if strings.Contains(r.Stderr, "Makefile") {
			t.Error("the footer names a file that was not touched")
		}
		if t.Failed() {
			t.Log(r.Stderr)
		}
		if r := y.Sh(t, "echo y >> file; git add file; git commit -q -m quiet").OK(t); strings.Contains(r.Stderr, "host") || strings.Contains(r.Stderr, ".git") {
			t.Errorf("the footer of a harmless run:\n%s", r.Stderr)
		}
	})
}
