package spec_test

import (
	"bytes"
	encoding "encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// racer swaps, as fast as it can, the places that bailey looks at on the host
// for links to a folder outside. Its arguments: that folder, and whether to
// swap also what makes bailey refuse to start, or end a sandbox that does it.
const racer = `
import os, sys, time
out = sys.argv[1]
def t(f, *a):
    try: f(*a)
    except OSError: pass
places = ["a", "a/b", "a/b/c", ".envrc", "package.json", ".vscode", ".vscode/tasks.json", ".githooks", ".claude", "sub/.git", "sub",
    ".git/refs/x", ".git/refs/heads/d", ".git/objects/ab", ".git/hooks.set-aside", ".git/commondir.set-aside",
    ".gitmodules", "vendor/x/.git", "vendor/x",
    ".github", ".github/workflows", ".python-version", "rust-toolchain", "rust-toolchain.toml", ".tool-versions", "mise.toml",
    "node_modules", "node_modules/.bin", "node_modules/.bin/claude", "node_modules/.bin/racy", "script"]
if sys.argv[2] == "all":
    places += [".git/logs", ".git/refs", ".git/commondir", ".git/config.worktree", ".git/modules", ".git/worktrees",
        ".git/logs/refs", ".git/rebase-merge", ".git/rebase-merge/git-rebase-todo", ".git/COMMIT_EDITMSG"]
# A link that bailey set aside meanwhile and put back must not lead the racer out.
here = os.getcwd()
def within(p): return os.path.realpath(os.path.dirname(p) or ".") == os.path.normpath(os.path.join(here, os.path.dirname(p)))
n = 0
while True:
    for p in places:
        if not within(p): continue
        if os.path.islink(p): t(os.unlink, p)
        aside = p + ".aside"
        t(os.rename, p, aside)
        t(os.symlink, os.path.join(out, p.replace(".git/", "git/", 1)), p)
        t(os.unlink, p)
        t(os.symlink, out, p)
        t(os.unlink, p)
        t(os.rename, aside, p)
        if not os.path.lexists(p):
            t(os.makedirs, p) if n % 2 else t(lambda: open(p, "w").write("x"))
    n += 1
    if n == 3: print("racing", flush=True)
`

// spy sees every open, read and change below a folder of the host.
type spy struct {
	names  map[int32]string
	mu     sync.Mutex
	events []string
}

func watchFolder(t *testing.T, dir string) *spy {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	// A file of Go's: closing it wakes its reader, which would otherwise go on
	// with the number, that is with what the next test watches.
	events := os.NewFile(uintptr(fd), "inotify")
	t.Cleanup(func() { _ = events.Close() })
	s := &spy{names: map[int32]string{}}
	const mask = syscall.IN_OPEN | syscall.IN_ACCESS | syscall.IN_MODIFY | syscall.IN_ATTRIB | syscall.IN_CREATE | syscall.IN_DELETE | syscall.IN_MOVE
	var paths []string // first, since the walk itself is seen
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		wd, err := syscall.InotifyAddWatch(fd, path, mask)
		if err != nil {
			t.Fatal(err)
		}
		s.names[int32(wd)] = path
	}
	go s.read(events)
	return s
}

func (s *spy) read(from io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || n <= 0 {
			return
		}
		for b := buf[:n]; len(b) >= syscall.SizeofInotifyEvent; {
			wd, mask, length := int32(encoding.NativeEndian.Uint32(b)), encoding.NativeEndian.Uint32(b[4:]), encoding.NativeEndian.Uint32(b[12:])
			name := bytes.TrimRight(b[16:16+length], "\x00")
			b = b[16+length:]
			s.mu.Lock()
			if len(s.events) < 100 {
				s.events = append(s.events, fmt.Sprintf("%s/%s %#x", s.names[wd], name, mask))
			}
			s.mu.Unlock()
		}
	}
}

func (s *spy) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.events...)
}

// bait is a folder of the host that looks like what the racer's links stand
// for, wherever they point in it.
func bait(t *testing.T, y *yard.Yard) string {
	t.Helper()
	out := filepath.Join(base(y), "outside")
	for _, name := range []string{
		"b/c/canary", "canary", "tasks.json", "pre-commit", "settings.json", "config", "commondir", "HEAD", "hooks/pre-commit", "info/attributes",
		"git/logs/HEAD", "git/refs/x/y", "git/objects/ab/cd", "git/rebase-merge/git-rebase-todo", "git/hooks/pre-commit", "git-rebase-todo",
		".envrc", "package.json", "a/b/c/canary", "objects/ab", "refs/heads/main", ".github/workflows/x.yml", "workflows/x.yml",
		".python-version", "rust-toolchain", "rust-toolchain.toml", ".tool-versions", "mise.toml",
	} {
		owned(t, y, filepath.Join(out, name), "exec canary\n", 0o644)
	}
	for _, name := range []string{"node_modules/.bin/claude", "node_modules/.bin/racy", ".bin/claude", ".bin/racy", "claude", "racy", "script"} {
		owned(t, y, filepath.Join(out, name), "#!/bin/sh\necho canary\n", 0o755) // what would be run must look like a program
	}
	if err := os.Symlink("canary", filepath.Join(out, "link")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a", "a/b", "git", "git/refs", "git/objects", "objects", "refs", "b", "."} {
		chown(t, filepath.Join(out, d), y.UID, y.GID)
	}
	return out
}

// TestISO12_RacesLeadNowhere lets a sandbox swap what bailey looks at on the
// host, while other runs in the same folder start, are measured, set right,
// looked through, and killed. Nothing outside is opened, and nothing of it is
// seen inside. What a sandbox is ended for at once, a program of the host's
// swaps.
func TestISO12_RacesLeadNowhere(t *testing.T) {
	t.Attr("claim", "ISO-12")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		repository(t, y, y.Dir)
		out := bait(t, y)
		toolchainsToRace(t, y)
		y.Write(t, "race.py", racer)
		for _, name := range []string{"a/b/c/file", "sub/file", ".vscode/tasks.json", ".githooks/pre-commit", "package.json", ".github/workflows/x.yml"} {
			y.Write(t, name, "x\n")
		}
		before := y.Host(t, "find", out, "-printf", "%p %m %U %s %T@ %C@ %l\n")
		spy := watchFolder(t, out)
		ran := 0
		for _, places := range []string{"tree", "all"} {
			stop := race(t, y, out, places)
			for i := range 3 {
				ran += victim(t, y, out, fmt.Sprintf("victim-%s-%d", places, i))
				ran += agentVictim(t, y, fmt.Sprintf("agent-%s-%d", places, i))
			}
			killedVictim(t, y, places)
			if places == "tree" {
				stop()
			}
		}
		if ran == 0 {
			t.Error("no run got through the races; refused ones prove less")
		}
		<-time.After(500 * time.Millisecond) // the watchdog of the killed one ends meanwhile
		if seen := spy.seen(); len(seen) > 0 {
			t.Errorf("bailey opened or changed outside of the workspace: %v", seen)
		}
		if after := y.Host(t, "find", out, "-printf", "%p %m %U %s %T@ %C@ %l\n"); after != before {
			t.Errorf("the folder outside changed:\n%s\nwas:\n%s", after, before)
		}
		// The twin: who reads without care is led there.
		yard.Eventually(t, yard.Timeout, func() bool {
			for _, name := range []string{"a/canary", "sub/canary", ".vscode/canary", ".claude/canary"} {
				_, _ = os.ReadFile(filepath.Join(y.Dir, name))
			}
			return len(spy.seen()) > 5 // find's own listing is a part of them
		}, func() string { return "the twin: a careless reader was never led outside" })
	})
}

// race starts the racer, for the tree in a sandbox, for all places beside any.
// It goes on until it is stopped, at the latest with the test.
func race(t *testing.T, y *yard.Yard, out, places string) (stop func()) {
	t.Helper()
	if places == "tree" {
		r := y.Start(t, "run", "--quiet", "--name", "racer", "--", python, "race.py", out, places)
		r.Await(t, "racing")
		return func() {
			y.Run(t, "stop", "racer").OK(t)
			r.Wait(t, 20*time.Second)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "race.py", out, places) // ends before the test's clean-up
	cmd.Dir = y.Dir
	if y.UID != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(y.UID), Gid: uint32(y.GID)}}
	}
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	if _, err := said.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the racer said nothing: %v", err)
	}
	return func() {}
}

// victim is a run in a folder where another sandbox races. It returns 1 if it
// ran, 0 if bailey refused to start it.
func victim(t *testing.T, y *yard.Yard, out, name string) int {
	t.Helper()
	v := y.RunWith(t, racyPath(y), "run", "--disk", "1G", "--inodes", "100000", "--name", name, "--tool", "racy", "--tool", "cargo", "--tool", "./script", "--", "sh", "-c", `for i in 1 2 3 4 5 6 7 8; do find . -name canary 2>/dev/null; cat a/canary a/b/canary a/b/c/canary .git/logs/HEAD sub/canary 2>/dev/null; done | grep canary
		ln -s `+out+`/canary .git/x 2>/dev/null; true`)
	if v.Stdout != "" {
		t.Errorf("what is outside was seen inside:\n%s", v.Stdout)
	}
	return started(t, y, v)
}

// started returns 1 for a run that went well, and 0 for one that did not start
// for something in the workspace: bailey refused it, or gVisor did, because a
// place to mount at was swapped under it; or bailey ended it for what the racer
// did meanwhile.
func started(t *testing.T, y *yard.Yard, v yard.Result) int {
	t.Helper()
	if v.Code == 125 && slices.ContainsFunc([]string{y.Dir, "--tool ./script", "--tool racy", "--tool cargo", endedEarly}, func(why string) bool { return strings.Contains(v.Stderr, why) }) {
		return 0
	}
	if v.Code == 137 && strings.Contains(v.Stderr, tripped) {
		return 0
	}
	v.OK(t)
	return 1
}

// tripped is what bailey says of a sandbox that it ended for what appeared in a
// git folder.
const tripped = " while the sandbox ran, and the host's git "

// endedEarly is what bailey says of a sandbox that gVisor did not start.
const endedEarly = "gvisor did not start the sandbox: gvisor said: "

// toolchainsToRace puts version managers into the home, whose versions files of
// the workspace choose, and an agent.
func toolchainsToRace(t *testing.T, y *yard.Yard) {
	t.Helper()
	for _, rel := range []string{
		".pyenv/shims/racy", ".pyenv/versions/1/bin/racy", ".cargo/bin/rustup", ".cargo/bin/cargo", ".rustup/toolchains/t/bin/cargo", "bin/racy", "bin/cargo",
	} {
		program(t, y, rel, "ran")
	}
	y.WriteHome(t, ".pyenv/version", "1\n")
	y.WriteHome(t, ".rustup/settings.toml", "default_toolchain = \"t\"\n")
	agent := filepath.Join(y.Home, ".local", "bin", "claude")
	owned(t, y, agent, contents(t, "/usr/bin/true"), 0o755)
}

// racyPath has a run look for programs where the racer swaps them, and then in
// the home.
func racyPath(y *yard.Yard) func(*exec.Cmd) {
	path := "PATH=" + filepath.Join(y.Dir, "node_modules", ".bin")
	for _, rel := range []string{".pyenv/shims", ".cargo/bin", ".local/bin", "bin"} {
		path += ":" + filepath.Join(y.Home, rel)
	}
	return func(c *exec.Cmd) { c.Env = append(c.Env, path+":/usr/bin:/bin") }
}

// agentVictim is a run of an agent, which is looked for by name.
func agentVictim(t *testing.T, y *yard.Yard, name string) int {
	t.Helper()
	v := y.RunWith(t, racyPath(y), "run", "--quiet", "--name", name, "claude")
	if strings.Contains(v.Stdout, "canary") {
		t.Errorf("a program from outside was run:\n%s", v.Stdout)
	}
	return started(t, y, v)
}

// killedVictim is one that is killed: its watchdog sets right what it left,
// unless the racer has a hand in that very name too. One that is refused is
// started again.
func killedVictim(t *testing.T, y *yard.Yard, places string) {
	t.Helper()
	made := filepath.Join(y.Dir, ".git", "config.worktree")
	for try := range 20 {
		v := y.Start(t, "run", "--quiet", "--disk", "1G", "--name", fmt.Sprintf("killed-%s-%d", places, try), "--", "sh", "-c", "mkdir .git/config.worktree; echo there; sleep 60")
		yard.Eventually(t, yard.Timeout, func() bool {
			o, e := v.Output()
			return strings.Contains(o, "there") || strings.Contains(e, y.Dir) || strings.Contains(e, endedEarly) || strings.Contains(e, tripped)
		}, func() string { o, e := v.Output(); return "neither started nor refused: " + o + e })
		o, _ := v.Output()
		if !strings.Contains(o, "there") {
			v.Wait(t, 10*time.Second)
			continue
		}
		if places == "tree" && !fileMode(made).IsDir() {
			t.Error("the twin: what the killed run made was never there")
		}
		if err := v.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		v.Wait(t, 10*time.Second)
		if places == "tree" {
			hold(t, "what the killed run made is set aside", func() bool { return fileMode(made) == fs.ModeIrregular })
		}
		return
	}
	if places == "tree" { // with all places swapped each may be refused
		t.Error("no run that was to be killed got through the races")
	}
}

// TestISO12_SpecialFilesHoldNothingUp: pipes and devices at places that bailey
// reads make it neither wait nor read.
func TestISO12_SpecialFilesHoldNothingUp(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		repository(t, y, y.Dir)
		for _, name := range []string{"Makefile", ".envrc", ".gitmodules", "package.json", ".vscode/tasks.json", "sub/.git", ".git/COMMIT_EDITMSG2", ".git/logs/pipe"} {
			path := y.Write(t, name, "")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(path, 0o644); err != nil {
				t.Fatal(err)
			}
			chown(t, path, y.UID, y.GID)
		}
		if err := syscall.Mknod(y.Dir+"/setup.py", syscall.S_IFCHR|0o666, 1<<8|1); err != nil {
			t.Fatal(err)
		}
		r := y.Sh(t, `touch Makefile .envrc .gitmodules; head -c 4 setup.py >/dev/null && echo DEVICE; mknod null c 1 3 && echo MKNOD
			mkfifo pipe && ls -l pipe; git status --porcelain >/dev/null; true`, "--disk", "1G").OK(t)
		if strings.Contains(r.Stdout, "DEVICE") || strings.Contains(r.Stdout, "MKNOD") {
			t.Errorf("a device was opened or made:\n%s", r.Stdout)
		}
		for _, name := range []string{"pipe", "null"} {
			if _, err := os.Lstat(filepath.Join(y.Dir, name)); err == nil {
				t.Errorf("the sandbox made the special file %s on the host", name)
			}
		}
		// A pipe where git's configuration should be is refused at once.
		config := y.Dir + "/.git/config"
		if err := os.Remove(config); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(config, 0o644); err != nil {
			t.Fatal(err)
		}
		if r := y.Sh(t, "true").Exit(t, 125); !strings.Contains(r.Stderr, config) {
			t.Errorf("the message does not name %s: %s", config, r.Stderr)
		}
	})
}

// TestISO12_LinksChooseNoProgram: links in the workspace, where bailey looks for
// which toolchain is wanted and for the agent, lead it nowhere outside.
func TestISO12_LinksChooseNoProgram(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		out := bait(t, y)
		toolchainsToRace(t, y)
		for name, to := range map[string]string{
			".python-version": "/.python-version", "rust-toolchain": "/rust-toolchain", "rust-toolchain.toml": "/rust-toolchain.toml", "node_modules": "/node_modules",
		} {
			if err := os.Symlink(out+to, filepath.Join(y.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		spy := watchFolder(t, out)
		r := y.RunWith(t, racyPath(y), "run", "--quiet", "--tool", "cargo", "--", "sh", "-c", "cargo").OK(t)
		if r.Stdout != "ran\n" {
			t.Errorf("the toolchain said %q", r.Stdout)
		}
		r = y.RunWith(t, func(c *exec.Cmd) {
			c.Env = append(c.Env, "PATH="+filepath.Join(y.Home, ".pyenv/shims")+":/usr/bin:/bin")
		}, "run", "--quiet", "--", "racy").OK(t)
		if r.Stdout != "ran\n" {
			t.Errorf("the toolchain said %q", r.Stdout)
		}
		if agentVictim(t, y, "agent") == 0 {
			t.Error("the agent of the home was not started")
		}
		if seen := spy.seen(); len(seen) > 0 {
			t.Errorf("bailey opened or changed outside of the workspace: %v", seen)
		}
		y.Host(t, "cat", ".python-version", "node_modules/.bin/claude")
		yard.Eventually(t, yard.Timeout, func() bool { return len(spy.seen()) > 0 }, func() string { return "the twin: nobody was led outside" })
	})
}
