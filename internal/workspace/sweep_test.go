package workspace_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/workspace"
)

// forgedIndex writes an index that has entries of any path, as no git does.
func forgedIndex(t *testing.T, dir string, mode uint32, paths ...string) {
	t.Helper()
	id := gitOut(t, dir, "rev-parse", "HEAD:file")
	if mode == gitlink {
		id = gitOut(t, dir, "rev-parse", "HEAD")
	}
	sha, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	out := binary.BigEndian.AppendUint32([]byte("DIRC"), 2)
	out = binary.BigEndian.AppendUint32(out, uint32(len(paths)))
	for _, path := range paths {
		b := binary.BigEndian.AppendUint32(bytes.Repeat([]byte{0}, 24), mode)
		b = append(append(b, bytes.Repeat([]byte{0}, 12)...), sha...)
		b = binary.BigEndian.AppendUint16(b, uint16(len(path)))
		b = append(b, path...)
		out = append(out, append(b, bytes.Repeat([]byte{0}, 8-len(b)%8)...)...)
	}
	write(t, dir+"/.git/index.new", string(out)+strings.Repeat("\x00", 20))
	if err := os.Rename(dir+"/.git/index.new", dir+"/.git/index"); err != nil {
		t.Fatal(err)
	}
}

const (
	regular = 0o100644
	gitlink = 0o160000
)

func gitOut(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// evil makes a repository whose configuration runs something, and returns
// what shows that it ran.
func evil(t *testing.T, dir string) string {
	t.Helper()
	mark := filepath.Join(yard(t), "ran")
	repository(t, dir)
	git(t, dir, "config", "core.fsmonitor", "touch "+mark+"; false")
	return mark
}

func ran(mark string) bool {
	_, err := os.Lstat(mark)
	return err == nil
}

// TestRevert_SetsAForgedIndexAside: the host's git believes what the index
// says. The twin is that it then runs, and writes, what that names.
func TestRevert_SetsAForgedIndexAside(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{true, false} {
		dir := repository(t, yard(t))
		w := open(t, dir)
		since := start(t, dir)
		mark := evil(t, dir+"/.git/evil")
		forgedIndex(t, dir, gitlink, ".git/evil")
		if guarded {
			got := say(workspace.Revert(w.Guard, since), dir)
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, `.git/index: names ".git/evil"`) }) ||
				!slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, ".git/evil/.git: is a git repository within") }) {
				t.Errorf("%q", got)
			}
			git(t, dir, "reset", "-q")
		}
		git(t, dir, "status")
		if ran(mark) == guarded {
			t.Errorf("guarded %t: ran %t", guarded, ran(mark))
		}
	}
	for _, guarded := range []bool{true, false} {
		dir := repository(t, yard(t))
		w := open(t, dir)
		since := start(t, dir)
		forgedIndex(t, dir, regular, "file", ".git/hooks/post-checkout", "../outside-"+filepath.Base(dir))
		if guarded {
			workspace.Revert(w.Guard, since)
			git(t, dir, "reset", "-q")
		}
		git(t, dir, "checkout", ".")
		if got := ran(dir + "/.git/hooks/post-checkout"); got == guarded {
			t.Errorf("guarded %t: a hook was written %t", guarded, got)
		}
		if got := ran(dir + "/../outside-" + filepath.Base(dir)); got == guarded {
			t.Errorf("guarded %t: a file outside was written %t", guarded, got)
		}
	}
}

// TestRevert_LeavesWhatGitMakes is the twin of all these: what a program of
// good will does with git stays as it is.
func TestRevert_LeavesWhatGitMakes(t *testing.T) {
	t.Parallel()
	lib, dir := repository(t, yard(t)), repository(t, yard(t))
	git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "old")
	git(t, dir, "commit", "-q", "-m", "sub")
	w := open(t, dir)
	since := start(t, dir)
	for _, version := range []string{"2", "3", "4"} {
		git(t, dir, "update-index", "--index-version", version)
		write(t, dir+"/more-"+version, "x")
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", version)
	}
	git(t, dir, "update-index", "--split-index")
	git(t, dir, "worktree", "add", "-q", yard(t)+"/tree")
	git(t, dir, "checkout", "-q", "-b", "other")
	git(t, dir, "submodule", "--quiet", "deinit", "-f", "old")
	git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "old")
	git(t, dir, "update-ref", "refs/remotes/origin/main", "HEAD")
	git(t, dir, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	write(t, dir+"/file", "changed")
	git(t, dir, "stash")
	if got := workspace.Revert(w.Guard, since); len(got) > 0 {
		t.Errorf("%q", say(got, dir))
	}
	git(t, dir, "status")
}

// TestRevert_LeavesAGuardedSubmoduleThatWasMoved is another twin: the .git of
// it names a git folder that is guarded, wherever both are now.
func TestRevert_LeavesAGuardedSubmoduleThatWasMoved(t *testing.T) {
	t.Parallel()
	lib, dir := repository(t, yard(t)), repository(t, yard(t))
	repository(t, dir+"/vendor/x")
	git(t, dir+"/vendor/x", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "sub")
	held := workspace.Hold(open(t, dir).Guard)
	defer held.Release()
	since := start(t, dir)
	if err := os.Rename(dir+"/vendor/x", dir+"/vendor/moved"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/vendor/moved/sub/new", "x")
	if done, _ := workspace.Split(held.Revert(since)); len(done) > 0 {
		t.Errorf("%q", say(done, dir))
	}
}

// TestRevert_SetsTheGitOfANewSubmoduleAside: `git status` above runs git in
// each submodule, with the commands that its own .git names.
func TestRevert_SetsTheGitOfANewSubmoduleAside(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]bool{"made": false, "moved": true} {
		for _, guarded := range []bool{true, false} {
			dir := repository(t, yard(t))
			at := dir + "/sub"
			if move {
				at = dir + "/a/b/c/d/e" // too deep to be guarded
			}
			var mark string
			if move {
				mark = evil(t, at)
			}
			w := open(t, dir)
			since := start(t, dir)
			if move {
				if err := os.Rename(at, dir+"/sub"); err != nil {
					t.Fatal(err)
				}
			} else {
				mark = evil(t, at)
			}
			git(t, dir, "-c", "core.fsmonitor=false", "update-index", "--add", "--cacheinfo", fmt.Sprintf("160000,%s,sub", gitOut(t, dir, "rev-parse", "HEAD")))
			if guarded {
				got := say(workspace.Revert(w.Guard, since), dir)
				if len(got) != 1 || !strings.HasPrefix(got[0], "sub/.git: was made or changed during the run, and git above would run git there") {
					t.Errorf("%s: %q", name, got)
				}
			}
			_ = os.Remove(mark)
			git(t, dir, "status")
			if ran(mark) == guarded {
				t.Errorf("%s guarded %t: ran %t", name, guarded, ran(mark))
			}
		}
	}
}

// TestRevert_FixedNamesComeFirst: what fills a git folder hides no link at a
// name that git writes to, and that not all was looked at is said apart.
func TestRevert_FixedNamesComeFirst(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	victim := filepath.Join(yard(t), "rc")
	write(t, victim, "mine\n")
	w := open(t, dir)
	since := start(t, dir)
	for i := range 50_010 {
		write(t, fmt.Sprintf("%s/.git/a%d", dir, i), "")
	}
	for _, name := range []string{"logs/HEAD", "logs/refs/heads/main", "COMMIT_EDITMSG"} {
		_ = os.Remove(dir + "/.git/" + name)
		link(t, victim, dir+"/.git/"+name)
	}
	done, left := workspace.Split(workspace.Revert(w.Guard, since))
	want := []string{
		".git/COMMIT_EDITMSG: was a link to " + victim + ", made during the run; it is removed",
		".git/logs/HEAD: was a link to " + victim + ", made during the run; it is removed",
		".git/logs/refs/heads/main: was a link to " + victim + ", made during the run; it is removed",
	}
	if diff := cmp.Diff(want, say(done, dir)); diff != "" {
		t.Error(diff)
	}
	if got := say(left, dir); len(got) != 1 || !strings.HasPrefix(got[0], ".git: holds too much: not all of it was checked") {
		t.Errorf("open: %q", got)
	}
	note, err := os.ReadFile(dir + "/.git/links.set-aside")
	if want := fmt.Sprintf("\"logs/HEAD\" -> %q\n", victim); err != nil || !strings.Contains(string(note), want) {
		t.Errorf("the note says %q, %v", note, err)
	}
}

// TestRevert_SetsAsideDataThatRuns: files that no git of today makes, or not
// with these contents, each beside one that it does make.
func TestRevert_SetsAsideDataThatRuns(t *testing.T) {
	t.Parallel()
	for rel, c := range map[string]struct{ bad, good string }{
		"remotes/origin":            {bad: "URL: /x\n"},
		"branches/b":                {bad: "/x\n"},
		"sequencer/opts":            {"[options]\n\tstrategy = x/../evil\n", "[options]\n\tstrategy = ort\n"},
		"rebase-merge/strategy":     {"x/../evil\n", "ort\n"},
		"refs/heads/topic":          {"ref: hooks/../../victim\n", "ref: refs/heads/main\n"},
		"refs/heads/up":             {"ref: refs/../config\n", "ref: refs/remotes/x\n"},
		"refs/heads/long":           {strings.Repeat(" ", 1<<17), ""},
		"ORIG_HEAD":                 {"ref: config\n", "ref: refs/heads/main\n"},
		"tmp/bare/HEAD":             {bad: "ref: refs/heads/main\n"},
		"tmp/x/.git":                {bad: "gitdir: /x\n"},
		".git":                      {bad: "gitdir: /x\n"},
		"refs/remotes/origin/HEAD":  {"ref: ../config\n", "ref: refs/remotes/origin/main\n"},
		"refs/heads/nested/ref/one": {"ref:config", "0123"},
	} {
		t.Run(strings.ReplaceAll(rel, "/", "-"), func(t *testing.T) {
			t.Parallel()
			dir := repository(t, yard(t))
			w := open(t, dir)
			since := start(t, dir)
			path := dir + "/.git/" + rel
			if c.good != "" {
				write(t, path, c.good)
				if got := workspace.Revert(w.Guard, since); len(got) > 0 {
					t.Errorf("the twin: %q", say(got, dir))
				}
			}
			write(t, path, c.bad)
			if rel == "tmp/bare/HEAD" {
				write(t, dir+"/.git/tmp/bare/objects/x", "")
				write(t, dir+"/.git/tmp/bare/refs/x", "")
			}
			done, left := workspace.Split(workspace.Revert(w.Guard, since))
			if len(done) != 1 || len(left) != 0 || !strings.Contains(done[0].What, "is now "+dir+"/.git/") {
				t.Errorf("%q %q", say(done, dir), say(left, dir))
			}
			if _, err := os.Lstat(path); err == nil {
				t.Error("it is still there")
			}
			git(t, dir, "log", "-1", "--oneline", "main", "--")
		})
	}
}

// TestTripwire_EndsWhatWouldHaveGitActAtOnce has each thing that the host's
// git would act on seen while it is there.
func TestTripwire_EndsWhatWouldHaveGitActAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rel string
		do  func(t *testing.T, dir string)
	}{
		"commondir": {"commondir", func(t *testing.T, dir string) { t.Helper(); write(t, dir+"/.git/commondir", "../ev\n") }},
		"commondir moved": {"commondir", func(t *testing.T, dir string) {
			t.Helper()
			write(t, dir+"/x", "../ev\n")
			if err := os.Rename(dir+"/x", dir+"/.git/commondir"); err != nil {
				t.Fatal(err)
			}
		}},
		"link": {"COMMIT_EDITMSG", func(t *testing.T, dir string) {
			t.Helper()
			_ = os.Remove(dir + "/.git/COMMIT_EDITMSG")
			link(t, "/x", dir+"/.git/COMMIT_EDITMSG")
		}},
		"log":   {"logs/refs/heads/x", func(t *testing.T, dir string) { t.Helper(); link(t, "/x", dir+"/.git/logs/refs/heads/x") }},
		"index": {"index", func(t *testing.T, dir string) { t.Helper(); forgedIndex(t, dir, gitlink, ".git/evil") }},
		"by another name": {"index", func(t *testing.T, dir string) {
			t.Helper()
			forged := repository(t, yard(t))
			forgedIndex(t, forged, regular, "../x")
			data, err := os.ReadFile(forged + "/.git/index")
			if err == nil {
				err = os.Link(dir+"/.git/index", dir+"/same")
			}
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir+"/same", string(data))
		}},
		"in place": {"index", func(t *testing.T, dir string) {
			t.Helper()
			forged := repository(t, yard(t))
			forgedIndex(t, forged, regular, "/home/x")
			data, err := os.ReadFile(forged + "/.git/index")
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir+"/.git/index", string(data))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, yard(t))
			wire := workspace.NewTripwire(open(t, dir).Guard)
			go wire.Run()
			defer wire.Stop()
			c.do(t, dir)
			select {
			case f := <-wire.Tripped():
				if f.Path != dir+"/.git/"+c.rel || !strings.Contains(f.What, "it is now ") {
					t.Errorf("%+v", f)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("nothing was seen")
			}
			if ran(dir + "/.git/" + c.rel) {
				t.Error("it is still there")
			}
			if found := wire.Stop(); len(found) == 0 {
				t.Error("nothing is told at the end")
			}
		})
	}
}

// TestTripwire_WatchesWhatAWorkTreeShares: the other work tree's git follows
// commondir too.
func TestTripwire_WatchesWhatAWorkTreeShares(t *testing.T) {
	t.Parallel()
	main, dir := repository(t, yard(t)), filepath.Join(yard(t), "linked")
	git(t, main, "worktree", "add", "-q", dir)
	wire := workspace.NewTripwire(open(t, dir).Guard)
	go wire.Run()
	defer wire.Stop()
	write(t, main+"/.git/commondir", "../ev\n")
	select {
	case f := <-wire.Tripped():
		if f.Path != main+"/.git/commondir" {
			t.Errorf("%+v", f)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was seen")
	}
}

// TestTripwire_LetsGitWork is the twin.
func TestTripwire_LetsGitWork(t *testing.T) {
	t.Parallel()
	lib, dir := repository(t, yard(t)), repository(t, yard(t))
	git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "before")
	wire := workspace.NewTripwire(open(t, dir).Guard)
	go wire.Run()
	defer wire.Stop()
	git(t, dir, "worktree", "add", "-q", dir+"/tree")
	repository(t, dir+"/sub")
	git(t, dir, "add", "sub")
	git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "lib")
	git(t, dir, "commit", "-q", "-m", "subs")
	git(t, dir, "checkout", "-q", "-b", "topic", "HEAD~1")
	write(t, dir+"/more", "x")
	git(t, dir, "add", "more")
	git(t, dir, "commit", "-q", "-m", "more")
	git(t, dir, "rebase", "-q", "main")
	write(t, dir+"/more", "y")
	git(t, dir, "stash")
	git(t, dir, "stash", "pop")
	git(t, dir, "sparse-checkout", "set", "--no-cone", "/*")
	git(t, dir+"/before", "sparse-checkout", "set", "--no-cone", "/*")
	git(t, dir, "gc", "-q")
	git(t, dir, "update-index", "--split-index")
	git(t, dir, "status")
	if found := wire.Stop(); len(found) > 0 {
		t.Errorf("%q", say(found, dir))
	}
}

// TestNewGitDirs_HidesNoneBehindOthers: what is not listed is counted, and
// that is no end of the look.
func TestNewGitDirs_HidesNoneBehindOthers(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	since := start(t, dir)
	for i := range 150 {
		write(t, fmt.Sprintf("%s/d%d/.git/HEAD", dir, i), "")
	}
	clock := func() time.Time { return time.Unix(0, 0) }
	found, truncated := workspace.NewGitDirs(workspace.Guard{Root: dir}, since, time.Minute, clock)
	if got := say(found, dir); truncated || len(got) != 101 || got[100] != ".: holds 50 more such git folders, which are not listed" {
		t.Errorf("truncated %t: %d, %q", truncated, len(got), got[len(got)-1])
	}
}
