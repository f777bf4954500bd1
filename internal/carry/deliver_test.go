package carry_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/launcher"
)

// worked is a bench whose agent did something that was collected.
func worked(tb testing.TB, init ...string) *bench {
	tb.Helper()
	b := newBench(tb, init...)
	b.mustSnapshot()
	write(tb, b.clone()+"/a.txt", "two\n")
	b.collect()
	return b
}

// refs are all references of the repository but the agent's.
func refs(b *bench) string {
	b.Helper()
	all := git(b, b.repo, "for-each-ref", "--format=%(refname) %(objectname)")
	var list []string
	for line := range strings.Lines(all) {
		if !strings.HasPrefix(line, "refs/heads/agent/t1 ") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "") + git(b, b.repo, "rev-parse", "HEAD")
}

func TestDeliver_MakesOneBranch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		init []string
		make func(b *bench)
	}{
		"plain":       {nil, func(*bench) {}},
		"sha256":      {[]string{"--object-format=sha256"}, func(*bench) {}},
		"packed refs": {nil, func(b *bench) { git(b, b.repo, "tag", "v1"); git(b, b.repo, "pack-refs", "--all") }},
		"other agents": {nil, func(b *bench) {
			git(b, b.repo, "branch", "agent/t0")
			git(b, b.repo, "pack-refs", "--all")
		}},
		"moved on":   {nil, func(b *bench) { b.file("a.txt", "three\n").commit("third") }},
		"mid change": {nil, func(b *bench) { b.file("a.txt", "not committed\n"); git(b, b.repo, "add", "a.txt") }},
		"linked": {nil, func(b *bench) {
			git(b, b.repo, "worktree", "add", "-q", b.folder+"/linked")
			b.path = b.folder + "/linked"
		}},
		"shared": {[]string{"--shared=group"}, func(*bench) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := worked(t, c.init...)
			c.make(b)
			before, status := refs(b), git(t, b.repo, "status", "--porcelain")
			got, err := b.deliver()
			if err != nil {
				t.Fatal(err)
			}
			if at := git(t, b.repo, "rev-parse", "refs/heads/agent/t1"); got.Commit != at || got.Branch != "agent/t1" {
				t.Errorf("%+v, the branch is at %s", got, at)
			}
			if diff := cmp.Diff(before, refs(b)); diff != "" {
				t.Errorf("other references changed:\n%s", diff)
			}
			if now := git(t, b.repo, "status", "--porcelain"); now != status {
				t.Errorf("the work tree changed: %s", now)
			}
			git(t, b.repo, "fsck", "--strict")
			again, err := b.deliver()
			if err != nil || again != got {
				t.Errorf("again: %+v %v", again, err)
			}
		})
	}
}

func TestDeliver_Refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, says string
		make       func(b *bench)
	}{
		"twin":         {"none", "", func(*bench) {}},
		"other work":   {"conflict", "with other work", func(b *bench) { git(b, b.repo, "branch", "agent/t1") }},
		"packed":       {"conflict", "with other work", func(b *bench) { git(b, b.repo, "branch", "agent/t1"); git(b, b.repo, "pack-refs", "--all") }},
		"unborn there": {"conflict", "is checked out in", func(b *bench) { git(b, b.repo, "checkout", "-q", "--orphan", "agent/t1") }},
		"unborn in another tree": {"conflict", "is checked out in", func(b *bench) {
			git(b, b.repo, "worktree", "add", "-q", "--detach", b.folder+"/linked")
			git(b, b.folder+"/linked", "checkout", "-q", "--orphan", "agent/t1")
		}},
		"a branch named agent": {"forbidden", "is a link or no folder", func(b *bench) { git(b, b.repo, "branch", "agent") }},
		"link in refs":         {"forbidden", "is a link or no folder", func(b *bench) { link(b, b.folder, b.repo+"/.git/refs/heads/agent") }},
		"locked":               {"conflict", "another git is at work", func(b *bench) { write(b, b.repo+"/.git/refs/heads/agent/t1.lock", "") }},
		"other objects": {"forbidden", "in another way", func(b *bench) {
			remove(b, b.repo)
			git(b, filepath.Dir(b.repo), "init", "-q", "--object-format=sha256", b.repo)
			b.file("a", "x").commit("x")
		}},
		"nothing": {"invalid", "has nothing to deliver", func(b *bench) { write(b, b.clone()+"/a.txt", "one\n"); b.collect() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := worked(t)
			c.make(b)
			_, err := b.deliver()
			if kindOf(err) != c.kind || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("kind %s, want %s: %v", kindOf(err), c.kind, err)
			}
		})
	}
}

// TestDeliver_HostileObjects: what a commit of the shadow must not hold is not
// taken in, should a collect ever make it.
func TestDeliver_HostileObjects(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]string{
		"twin": "100644 blob %s\tfine", "git folder": "040000 tree %[2]s\t.git", "case": "040000 tree %[2]s\t.GIT", "short": "040000 tree %[2]s\tgit~1",
		"up": "040000 tree %[2]s\t..", "modules": "100644 blob %s\t.gitmodules",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := worked(t)
			write(t, b.folder+"/evil", "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n")
			blob := git(t, b.shadow(), "hash-object", "-w", b.folder+"/evil")
			tree := git(t, b.shadow(), "rev-parse", "refs/heads/agent/t1^{tree}")
			entry := strings.NewReplacer("%s", blob, "%[2]s", tree).Replace(entry)
			bad := mktree(t, b.shadow(), entry)
			commit := git(t, b.shadow(), "commit-tree", "-p", b.snap.Base, "-m", "x", bad)
			write(t, b.shadow()+"/refs/heads/agent/t1", commit+"\n")
			_, err := b.deliver()
			if want := name == "twin"; (err == nil) != want {
				t.Errorf("%v", err)
			}
			if at, _ := os.ReadFile(b.repo + "/.git/refs/heads/agent/t1"); (len(at) > 0) != (name == "twin") {
				t.Errorf("the branch is %q", at)
			}
		})
	}
}

// mktree makes a tree as it is written, which git's own command would not.
func mktree(tb testing.TB, dir, entry string) string {
	tb.Helper()
	head, name, _ := strings.Cut(entry, "\t")
	fields := strings.Fields(head)
	var raw []byte
	for i := 0; i < len(fields[2]); i += 2 {
		var n byte
		for _, c := range []byte(fields[2][i : i+2]) {
			d := c - '0'
			if c >= 'a' {
				d = c - 'a' + 10
			}
			n = n<<4 | d
		}
		raw = append(raw, n)
	}
	data := strings.TrimPrefix(fields[0], "0") + " " + name + "\x00" + string(raw)
	cmd := exec.CommandContext(tb.Context(), "git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
	cmd.Dir, cmd.Env, cmd.Stdin = dir, gitEnv(), strings.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestDeleteBranch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		branch, kind string
		gone         bool
		make         func(b *bench)
	}{
		"loose":  {"agent/t1", "none", true, func(*bench) {}},
		"packed": {"agent/t1", "none", true, func(b *bench) { git(b, b.repo, "tag", "-a", "-m", "x", "v1"); git(b, b.repo, "pack-refs", "--all") }},
		"both": {"agent/t1", "none", true, func(b *bench) {
			git(b, b.repo, "pack-refs", "--all")
			git(b, b.repo, "branch", "-f", "agent/t1", "main")
		}},
		"not one":     {"agent/t2", "none", false, func(*bench) {}},
		"checked out": {"agent/t1", "conflict", false, func(b *bench) { git(b, b.repo, "checkout", "-q", "agent/t1") }},
		"checked out elsewhere": {"agent/t1", "conflict", false, func(b *bench) {
			git(b, b.repo, "worktree", "add", "-q", b.folder+"/linked", "agent/t1")
		}},
		"being rebased": {"agent/t1", "conflict", false, func(b *bench) {
			write(b, b.repo+"/.git/rebase-merge/head-name", "refs/heads/agent/t1\n")
		}},
		"main":      {"main", "forbidden", false, func(*bench) {}},
		"full name": {"refs/heads/agent/t1", "forbidden", false, func(*bench) {}},
		"option":    {"--force", "forbidden", false, func(*bench) {}},
		"option id": {"agent/--force", "forbidden", false, func(*bench) {}},
		"up":        {"agent/../main", "forbidden", false, func(*bench) {}},
		"deeper":    {"agent/t1/x", "forbidden", false, func(*bench) {}},
		"empty":     {"agent/", "forbidden", false, func(*bench) {}},
		"locked":    {"agent/t1", "conflict", false, func(b *bench) { git(b, b.repo, "pack-refs", "--all"); write(b, b.repo+"/.git/packed-refs.lock", "") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := worked(t)
			if _, err := b.deliver(); err != nil {
				t.Fatal(err)
			}
			c.make(b)
			before, had := refs(b), git(t, b.repo, "rev-parse", "agent/t1")
			a, err := b.do(carry.Request{DeleteBranch: &carry.DeleteBranch{Repository: b.place(), Branch: c.branch}})
			got, _ := a.Head.(launcher.Deleted)
			if kindOf(err) != c.kind || got.Deleted != c.gone {
				t.Errorf("%+v, kind %s, want %s: %v", got, kindOf(err), c.kind, err)
			}
			if c.gone && got.Commit != had {
				t.Errorf("it had %s, and the answer says %q", had, got.Commit)
			}
			if name == "locked" {
				remove(t, b.repo+"/.git/packed-refs.lock")
			}
			if diff := cmp.Diff(before, refs(b)); diff != "" {
				t.Errorf("other references changed:\n%s", diff)
			}
			if there := git(t, b.repo, "branch", "--list", "agent/t1") != ""; there == c.gone {
				t.Errorf("the branch is there: %v", there)
			}
			git(t, b.repo, "fsck", "--strict")
		})
	}
}

func TestCheckout_CopiesABranch(t *testing.T) {
	t.Parallel()
	b := worked(t)
	if _, err := b.deliver(); err != nil {
		t.Fatal(err)
	}
	git(t, b.repo, "branch", "feature/x", "main")
	for branch, text := range map[string]string{"agent/t1": "two\n", "main": "one\n", "feature/x": "one\n", "nothing": "", "--help": "", "../main": "", "HEAD": ""} {
		clone := filepath.Join(realDir(t), "check")
		a, err := b.do(carry.Request{Checkout: &carry.Checkout{Repository: b.place(), Branch: branch, Clone: clone}})
		got, _ := a.Head.(carry.CheckedOut)
		if text == "" {
			if err == nil {
				t.Errorf("%s: %+v", branch, got)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(clone + "/a.txt")
		if string(data) != text || got.Commit != git(t, b.repo, "rev-parse", branch) {
			t.Errorf("%s: %q %+v", branch, data, got)
		}
		if s := git(t, clone, "status", "--porcelain", "--branch"); s != "## "+branch {
			t.Errorf("%s: %q", branch, s)
		}
		if list, _ := os.ReadDir(filepath.Dir(clone)); len(list) != 1 {
			t.Errorf("left behind: %v", list)
		}
	}
}

func TestRemove_FollowsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	top := b.folder + "/clone"
	write(t, top+"/a/b/c", "x")
	link(t, b.repo, top+"/a/l")
	chmod(t, top+"/a/b", 0)
	chmod(t, top+"/a", 0o500)
	for range 2 { // once more it is no error
		if _, err := b.do(carry.Request{Remove: &carry.Remove{Folder: top}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(top); !os.IsNotExist(err) {
		t.Error(err)
	}
	link(t, b.repo, top)
	if _, err := b.do(carry.Request{Remove: &carry.Remove{Folder: top}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.repo + "/a.txt"); err != nil {
		t.Error("the repository is gone:", err)
	}
}

func TestPrepare_RefusesOddRequests(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]carry.Request{
		"none":     {Git: "/usr/bin/git"},
		"two":      {Git: "/usr/bin/git", Remove: &carry.Remove{Folder: "/tmp/none/x"}, Collect: &carry.Collect{ID: "a", Shadow: "/a", Clone: "/b"}},
		"id":       {Git: "/usr/bin/git", Collect: &carry.Collect{ID: "../x", Shadow: "/a", Clone: "/b"}},
		"option":   {Git: "/usr/bin/git", Collect: &carry.Collect{ID: "-x", Shadow: "/a", Clone: "/b"}},
		"relative": {Git: "/usr/bin/git", Remove: &carry.Remove{Folder: "x"}},
		"up":       {Git: "/usr/bin/git", Remove: &carry.Remove{Folder: "/a/../b"}},
		"no git":   {Remove: &carry.Remove{Folder: "/tmp/none/x"}},
	} {
		if _, err := carry.Prepare(r); kindOf(err) != "invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := carry.Prepare(carry.Request{Git: "/usr/bin/git", Remove: &carry.Remove{Folder: "/tmp/none/x"}}); err != nil {
		t.Errorf("twin: %v", err)
	}
}
