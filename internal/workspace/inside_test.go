package workspace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/workspace"
)

// insideEnv makes the test binary carry out a Workspace in a fresh mount
// namespace and run a script in it.
const insideEnv = "BAILEY_TEST_INSIDE"

func TestMain(m *testing.M) {
	if script := os.Getenv(insideEnv); script != "" {
		if err := runInside(script); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
	}
	os.Exit(m.Run())
}

// inside runs a shell script as a sandbox of w would see the host, by mounts
// alone: base is empty but for what w shows. It returns the output; the
// script's failure fails the test.
func inside(t *testing.T, w *workspace.Workspace, base, script string) string {
	t.Helper()
	spec, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Stdin = bytes.NewReader(spec)
	cmd.Env = []string{
		"PATH=/usr/bin:/bin", "HOME=/nonexistent", insideEnv + "=set -e; " + script, "BASE=" + base, "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=T", "GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=t@example",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("inside: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// runInside is the other side of inside.
func runInside(script string) error {
	var w workspace.Workspace
	if err := json.NewDecoder(os.Stdin).Decode(&w); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	base := os.Getenv("BASE")
	trees := make([]int, len(w.Mounts))
	for i, m := range w.Mounts { // before base is covered
		fd, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return err
		}
		if trees[i] = fd; !m.Writable {
			if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
				return err
			}
		}
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", 0, ""); err != nil {
		return err
	}
	private := filepath.Join(base, ".private")
	for i, m := range w.Mounts {
		if err := stub(m.Target); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(trees[i], &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			if f, err := os.OpenFile(m.Target, os.O_CREATE, 0o600); err == nil {
				_ = f.Close()
			}
		} else if err := os.MkdirAll(m.Target, 0o755); err != nil {
			return err
		}
		if err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, m.Target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	for i, s := range w.Shadows {
		copyAt := fmt.Sprintf("%s/%d/copy", private, i)
		for _, f := range s.Files {
			path := filepath.Join(copyAt, f.Path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, f.Data, f.Mode); err != nil {
				return err
			}
		}
		if s.Dir {
			if err := os.MkdirAll(copyAt, 0o755); err != nil {
				return err
			}
			if err := unix.Mount(copyAt, s.Path, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("cover %s: %w", s.Path, err)
			}
			continue
		}
		linkAt := copyAt + ".link"
		if err := os.Symlink(copyAt, linkAt); err != nil {
			return err
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, linkAt, unix.OPEN_TREE_CLONE|unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return err
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, s.Path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("cover %s: %w", s.Path, err)
		}
	}
	if err := os.Chdir(w.Path); err != nil {
		return err
	}
	for c := range uintptr(41) { // what the script runs with: nothing
		_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_LOWER, c, 0, 0)
	}
	return unix.Exec("/bin/sh", []string{"sh", "-c", script}, os.Environ())
}

func stub(target string) error { return os.MkdirAll(filepath.Dir(target), 0o755) }

// unchanged returns a check that the files at paths are byte for byte what
// they were.
func unchanged(t *testing.T, paths ...string) func() {
	t.Helper()
	before := make(map[string]string)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before[path] = string(data)
	}
	return func() {
		t.Helper()
		for path, want := range before {
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%s has changed (%v):\n%s", path, err, got)
			}
		}
	}
}

// refused is a shell function: its arguments must fail.
//
// move renames without mv's way out, which is to copy and remove.
const refused = `move() { perl -e 'rename $ARGV[0], $ARGV[1] or exit 1' "$1" "$2"; }; refused() { if "$@" 2>/dev/null; then echo "not refused: $*"; exit 1; fi; }; `

func TestInside_PlainRepository(t *testing.T) {
	t.Parallel()
	base := yard(t)
	dir := repository(t, base+"/repo")
	write(t, dir+"/.git/hooks/keep", "#!/bin/sh\n")
	check := unchanged(t, dir+"/.git/config", dir+"/.git/hooks/keep", dir+"/.git/info/exclude")
	w := open(t, dir)
	out := inside(t, w, base, refused+`
		git config alias.x y; git remote add up /x; git config core.fsmonitor 'touch /tmp/x'; git config --unset core.fsmonitor
		echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; rm .git/hooks/keep; echo '*.o' >> .git/info/exclude
		echo two > file; git commit -q -a -m two; git branch -m main trunk; git branch other; git branch -D -q other
		echo three > file; git stash -q; git stash pop -q; git add .; git commit -q -m three; git gc -q; git pack-refs --all
		refused move .git gone; refused rmdir .git; git status --porcelain; git config alias.x`)
	if out != "y" {
		t.Errorf("output: %q", out)
	}
	check()
	if got := git(t, dir, "log", "--format=%s", "trunk"); got != "three\ntwo\none" {
		t.Errorf("the host's log: %s", got)
	}
	git(t, dir, "fsck")
	if got := git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("the host's status: %s", got)
	}
}

func TestInside_LinkedWorktree(t *testing.T) {
	t.Parallel()
	base := yard(t)
	main := repository(t, base+"/main")
	git(t, main, "branch", "packed")
	git(t, main, "pack-refs", "--all")
	git(t, main, "worktree", "add", "-q", base+"/feature")
	check := unchanged(t, main+"/.git/config", main+"/.git/HEAD", main+"/.git/index", base+"/feature/.git",
		main+"/.git/worktrees/feature/gitdir", main+"/.git/worktrees/feature/commondir")
	w := open(t, base+"/feature")
	inside(t, w, base, refused+`
		G=`+main+`/.git; test ! -e `+main+`/file
		echo two > file; git add file; git commit -q -m two; git branch -m feature renamed; git branch -m packed unpacked
		echo three > file; git stash -q; git stash pop -q; git commit -q -a -m three
		git config alias.x y; echo x > $G/hooks/post-checkout
		refused sh -c "echo x > $G/HEAD"; refused rm -f $G/index; refused move $G/HEAD $G/x; refused mkdir $G/worktrees/y; refused move $G/worktrees $G/w
		refused move $G/worktrees/feature $G/x; refused move $G $G.x; echo evil > .git; echo evil > $G/worktrees/feature/commondir`)
	check()
	if got := git(t, base+"/feature", "log", "--format=%s"); got != "three\ntwo\none" {
		t.Errorf("the host's log: %s", got)
	}
	if got := git(t, main, "for-each-ref", "--format=%(refname:short)", "refs/heads"); got != "main\nrenamed\nunpacked" {
		t.Errorf("branches: %s", got)
	}
	if _, err := os.Stat(main + "/.git/hooks/post-checkout"); err == nil {
		t.Error("a hook reached the host")
	}
	git(t, main, "fsck")
	git(t, main, "checkout", "-q", "-b", "next")
}

func TestInside_Submodules(t *testing.T) {
	t.Parallel()
	base := yard(t)
	repository(t, base+"/lib")
	dir := repository(t, base+"/super")
	git(t, dir, "submodule", "add", "-q", base+"/lib", "lib")
	git(t, dir, "commit", "-q", "-m", "lib")
	check := unchanged(t, dir+"/.git/config", dir+"/.git/modules/lib/config", dir+"/lib/.git")
	inside(t, open(t, dir), base, refused+`
		git submodule status; cd lib; echo two > file; git commit -q -a -m two; git config core.sshCommand x
		cd ..; git add lib; git commit -q -m bump
		refused move .git/modules/lib .git/modules/x; refused move .git/modules .git/x; mkdir .git/modules/new; echo x > lib/.git`)
	check()
	if got := git(t, dir+"/lib", "log", "--format=%s"); got != "two\none" {
		t.Errorf("the host's log: %s", got)
	}

	t.Run("as the workspace", func(t *testing.T) {
		inside(t, open(t, dir+"/lib"), base, `git status --porcelain; echo 3 > file; git commit -q -a -m three; test ! -e ../file`)
		if got := git(t, dir+"/lib", "log", "-1", "--format=%s"); got != "three" {
			t.Errorf("the host's log: %s", got)
		}
	})
}

func TestInside_WorktreeInsideABareRepository(t *testing.T) {
	t.Parallel()
	base := yard(t)
	repository(t, base+"/seed")
	git(t, base, "clone", "-q", "--bare", "seed", "proj")
	git(t, base+"/proj", "worktree", "add", "-q", base+"/proj/one")
	git(t, base+"/proj", "worktree", "add", "-q", base+"/proj/two")
	inside(t, open(t, base+"/proj/one"), base, refused+`
		echo two > file; git add .; git commit -q -m two; git status --porcelain; test ! -e ../two; refused git config a.b c`)
	if got := git(t, base+"/proj", "log", "--format=%s", "one"); got != "two\none" {
		t.Errorf("the host's log: %s", got)
	}
}

func TestInside_SparseCheckout(t *testing.T) {
	t.Parallel()
	base := yard(t)
	dir := repository(t, base+"/repo")
	write(t, dir+"/sub/file", "")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "sub")
	git(t, dir, "sparse-checkout", "set", "--cone", "sub")
	check := unchanged(t, dir+"/.git/config", dir+"/.git/config.worktree", dir+"/.git/info/sparse-checkout")
	inside(t, open(t, dir), base, `git status --porcelain; git config --worktree a.b c; git sparse-checkout list; echo x > sub/file; git commit -q -a -m x`)
	check()
}
