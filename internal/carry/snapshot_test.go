package carry_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/carry"
)

func TestSnapshot_Refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, says string
		plant      func(b *bench)
	}{
		"twin":            {"none", "", func(*bench) {}},
		"outside":         {"forbidden", "outside of the folders", func(b *bench) { b.roots = []string{b.folder} }},
		"no roots":        {"forbidden", "outside of the folders", func(b *bench) { b.roots = nil }},
		"name as a root":  {"forbidden", "outside of the folders", func(b *bench) { b.roots = []string{b.repo + "-not", b.repo[:len(b.repo)-1]} }},
		"root is below":   {"not found", "is not in a git repository", func(b *bench) { b.path = b.repo + "/dir"; b.roots = []string{b.path} }},
		"absent, outside": {"not found", "does not exist", func(b *bench) { b.path = "/nope/nothing" }},
		"absent":          {"not found", "does not exist", func(b *bench) { b.path = b.repo + "/nothing" }},
		"a file":          {"invalid", "is not a folder", func(b *bench) { b.path = b.repo + "/a.txt" }},
		"link":            {"forbidden", "symbolic link", func(b *bench) { link(b, b.repo, b.folder+"/l"); b.path = b.folder + "/l" }},
		"link on the way": {"forbidden", "symbolic link", func(b *bench) { link(b, b.repo, b.folder+"/l"); b.path = b.folder + "/l/dir" }},
		"no repository":   {"not found", "is not in a git repository", func(b *bench) { b.path = b.folder }},
		"bare": {"invalid", "bare repository", func(b *bench) {
			git(b, b.folder, "clone", "-q", "--bare", b.repo, "bare.git")
			b.path = b.folder + "/bare.git"
		}},
		"in the git folder": {"invalid", "bare repository", func(b *bench) { b.path = b.repo + "/.git/hooks" }},
		"no commit": {"not found", "has no commit yet", func(b *bench) {
			b.path = b.folder + "/empty"
			git(b, b.folder, "init", "-q", "empty")
		}},
		"git folder is a link": {"forbidden", "is a link", func(b *bench) {
			rename(b, b.repo+"/.git", b.folder+"/g")
			link(b, b.folder+"/g", b.repo+"/.git")
		}},
		"git file to another's": {"forbidden", "does not point back", func(b *bench) {
			git(b, b.folder, "clone", "-q", b.repo, "other")
			write(b, b.folder+"/mine/.git", "gitdir: "+b.folder+"/other/.git\n")
			b.path = b.folder + "/mine"
		}},
		"alternate elsewhere": {"forbidden", "borrows objects", func(b *bench) {
			write(b, b.repo+"/.git/objects/info/alternates", "/etc\n")
		}},
		"alternate through a link": {"forbidden", "borrows objects", func(b *bench) {
			git(b, b.folder, "clone", "-q", b.repo, "other")
			link(b, b.folder+"/other/.git/objects", b.folder+"/l")
			write(b, b.repo+"/.git/objects/info/alternates", b.folder+"/l\n")
		}},
		"alternates a link": {"forbidden", "is a link", func(b *bench) { link(b, "/etc/passwd", b.repo+"/.git/objects/info/alternates") }},
		"objects a link": {"forbidden", "", func(b *bench) {
			rename(b, b.repo+"/.git/objects", b.folder+"/o")
			link(b, b.folder+"/o", b.repo+"/.git/objects")
		}},
		"unknown extension": {"forbidden", "extension", func(b *bench) { git(b, b.repo, "config", "extensions.future", "1") }},
		"reftable":          {"unsupported", "reftable", func(b *bench) { git(b, b.repo, "config", "extensions.refstorage", "reftable") }},
		"broken settings":   {"forbidden", "is broken", func(b *bench) { write(b, b.repo+"/.git/config", "[core\n") }},
		"HEAD a pipe": {"forbidden", "HEAD", func(b *bench) {
			if err := os.Remove(b.repo + "/.git/HEAD"); err != nil {
				b.Fatal(err)
			}
			if err := syscall.Mkfifo(b.repo+"/.git/HEAD", 0o600); err != nil {
				b.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c.plant(b)
			_, err := b.snapshot()
			if kindOf(err) != c.kind || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("kind %s, want %s: %v", kindOf(err), c.kind, err)
			}
			// Who asks before is told the same.
			a, early := b.do(carry.Request{Examine: &carry.Examine{Repository: b.place(), Shadow: b.folder + "/looked.git"}})
			if kindOf(early) != c.kind || err != nil && early.Error() != err.Error() {
				t.Errorf("examined: %v; copied: %v", early, err)
			}
			if got, _ := a.Head.(carry.Examined); early == nil && (got.Repo != b.repo || got.Commit != b.snap.Base) {
				t.Errorf("examined: %+v", got)
			}
		})
	}
}

func TestSnapshot_RefusesWhatIsNotTheOwners(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.snapshot(func(s *carry.Snapshot) { s.Owner++ })
	if kindOf(err) != "forbidden" || !strings.Contains(err.Error(), "does not belong to you") {
		t.Error(err)
	}
}

func link(tb testing.TB, target, at string) {
	tb.Helper()
	if err := os.Symlink(target, at); err != nil {
		tb.Fatal(err)
	}
}

func rename(tb testing.TB, from, to string) {
	tb.Helper()
	if err := os.Rename(from, to); err != nil {
		tb.Fatal(err)
	}
}

func TestSnapshot_FindsTheCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := git(t, b.repo, "rev-parse", "HEAD")
	git(t, b.repo, "tag", "-a", "-m", "x", "v1")
	second := b.file("a.txt", "two\n").commit("second")
	git(t, b.repo, "branch", "feature/x", first)
	git(t, b.repo, "pack-refs", "--all")
	git(t, b.repo, "tag", "both", first)
	git(t, b.repo, "branch", "both", second)
	git(t, b.repo, "tag", "alike", second)
	git(t, b.repo, "branch", "alike", second)
	git(t, b.repo, "update-ref", "refs/heads/"+first, second) // C061: a branch that is named like an id
	for ref, want := range map[string]string{
		"": second, "HEAD": second, "@": second, "main": second, "refs/heads/main": second, "HEAD~1": first, "main^": first, "feature/x": first,
		"v1": first, "refs/tags/v1": first, first: first, first[:9]: first, "alike": second, "refs/tags/both": first,
		"both": "", "nothing": "", "main~7": "", "--output=/tmp/x": "", "-x": "", "main:a.txt": "", "HEAD^{tree}": "", "a..b": "", "refs/../x": "", "main@{0}": "",
	} {
		t.Run(ref, func(t *testing.T) {
			c := *b
			c.TB, c.folder = t, realDir(t)
			got, err := c.snapshot(func(s *carry.Snapshot) { s.Ref = ref })
			if got.Base != want || (err == nil) != (want != "") {
				t.Errorf("%q is %q, want %q: %v", ref, got.Base, want, err)
			}
		})
	}
}

// TestSnapshot_UnderstandsRepositories is about the attacks: C065.
func TestSnapshot_UnderstandsRepositories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		init []string
		make func(b *bench)
		says string
	}{
		"plain":    {nil, func(*bench) {}, ""},
		"sha256":   {[]string{"--object-format=sha256"}, func(*bench) {}, ""},
		"packed":   {nil, func(b *bench) { git(b, b.repo, "gc", "-q") }, ""},
		"detached": {nil, func(b *bench) { git(b, b.repo, "checkout", "-q", "--detach") }, ""},
		"linked work tree": {nil, func(b *bench) {
			git(b, b.repo, "worktree", "add", "-q", "-b", "other", b.folder+"/linked")
			b.repo = b.folder + "/linked"
			b.path = b.repo + "/dir"
		}, ""},
		"submodule's own": {nil, func(b *bench) {
			git(b, b.folder, "init", "-q", "-b", "main", "super")
			git(b, b.folder+"/super", "submodule", "--quiet", "add", b.repo, "mod")
			b.repo = b.folder + "/super/mod"
			b.path = b.repo
		}, ""},
		"shallow": {nil, func(b *bench) {
			b.file("a.txt", "two\n").commit("second")
			git(b, b.folder, "clone", "-q", "--depth=1", "file://"+b.repo, "shallow")
			b.repo = b.folder + "/shallow"
			b.path = b.repo
		}, "shallow clone"},
		"sparse": {nil, func(b *bench) {
			b.file("left/out", "x\n").commit("second")
			git(b, b.repo, "sparse-checkout", "set", "dir")
		}, "sparse checkout"},
		"sparse index": {nil, func(b *bench) {
			b.file("left/out", "x\n").commit("second")
			git(b, b.repo, "sparse-checkout", "set", "--sparse-index", "dir")
		}, "sparse checkout"},
		"split index": {nil, func(b *bench) { git(b, b.repo, "update-index", "--split-index") }, ""},
		"index 4":     {nil, func(b *bench) { git(b, b.repo, "update-index", "--index-version=4") }, ""},
		"no index":    {nil, func(b *bench) { _ = os.Remove(b.repo + "/.git/index") }, ""},
		"borrowing": {nil, func(b *bench) {
			git(b, b.folder, "clone", "-q", "--shared", b.repo, "borrows")
			b.repo = b.folder + "/borrows"
			b.path = b.repo
		}, ""},
		"large files": {nil, func(b *bench) {
			b.file(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n").file("x.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n").commit("lfs")
		}, "1 files are kept by Git LFS"},
		"submodule": {nil, func(b *bench) {
			git(b, b.folder, "clone", "-q", b.repo, "other")
			git(b, b.repo, "submodule", "--quiet", "add", b.folder+"/other", "mod/x")
			b.commit("submodule")
		}, "submodules are left out, their folders are empty: mod/x"},
		"attributes of files": {nil, func(b *bench) {
			b.file(".gitattributes", "*.txt text eol=crlf\n* ident\n*.u working-tree-encoding=UTF-16\n").file("id.txt", "$Id$\n").commit("attributes")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.init...)
			c.make(b)
			head := git(t, b.repo, "rev-parse", "HEAD")
			got := b.mustSnapshot()
			if got.Base != head || got.Repo != b.repo || filepath.Join(got.Repo, got.Subdir) != b.path {
				t.Errorf("%+v, want base %s", got, head)
			}
			switch {
			case c.says == "" && len(got.Warnings) > 0:
				t.Errorf("warnings: %q", got.Warnings)
			case c.says != "":
				b.has(got.Warnings, c.says)
			}
			if s := git(t, b.clone(), "status", "--porcelain", "--branch"); s != "## agent/t1" {
				t.Errorf("the clone is %q", s)
			}
			git(t, b.clone(), "fsck", "--full")
			if diff := cmp.Diff(git(t, b.repo, "log", "--format=%H %s"), git(t, b.clone(), "log", "--format=%H %s")); diff != "" {
				t.Errorf("history (-repository +clone):\n%s", diff)
			}
			if got, _ := b.collect(); got.Commit != "" || len(got.Refused) > 0 {
				t.Errorf("an untouched clone gives %+v", got)
			}
		})
	}
}

// TestSnapshot_BringsOnlyWhatIsReachable: other branches, what was thrown away
// and the stash are not the agent's to read.
func TestSnapshot_BringsOnlyWhatIsReachable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("secret", "of another branch\n")
	git(t, b.repo, "checkout", "-q", "-b", "private")
	private := b.commit("private")
	git(t, b.repo, "checkout", "-q", "main")
	git(t, b.repo, "gc", "-q")
	b.mustSnapshot()
	for _, dir := range []string{b.shadow(), b.clone()} {
		if all := git(t, dir, "cat-file", "--batch-all-objects", "--batch-check"); strings.Contains(all, private) || !strings.Contains(all, b.snap.Base) {
			t.Errorf("%s has\n%s", dir, all)
		}
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink != 1 {
				t.Errorf("%s is one file with another", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if text := git(t, b.clone(), "remote"); text != "" {
		t.Errorf("remotes: %s", text)
	}
}

func TestSnapshot_SaysWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file(".gitignore", "*.o\nbuild/\n").file("gone", "x\n").commit("second")
	b.file("a.txt", "changed\n").file("x.o", "ignored").file("build/y", "ignored").file("new/file", "new\n").file("home.swp", "of the editor")
	b.file("deep/nested/.git/config", "").file("deep/nested/f", "x")
	home := realDir(t)
	write(t, home+"/.config/git/ignore", "*.swp\n")
	if err := os.Remove(b.repo + "/gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(b.repo+"/dir/run.sh", 0o755); err != nil {
		t.Fatal(err)
	}
	got := b.mustSnapshot(func(s *carry.Snapshot) { s.Home = home })
	b.has(got.Warnings, "uncommitted work is not seen by the agent: 2 changed, 1 deleted and 1 new files")
	if data, _ := os.ReadFile(b.clone() + "/a.txt"); string(data) != "one\n" {
		t.Errorf("a.txt is %q", data)
	}
	head := got.Base

	b.folder += "-dirty"
	if err := os.Mkdir(b.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	got = b.mustSnapshot(func(s *carry.Snapshot) { s.Home, s.IncludeDirty = home, true })
	b.has(got.Warnings, "uncommitted work is in the base as a commit of its own: 2 changed, 1 deleted and 1 new files")
	b.has(got.Warnings, "deep/nested: a repository in the repository")
	if got.Base == head || git(t, b.clone(), "rev-parse", "HEAD~1") != head {
		t.Errorf("base %s", got.Base)
	}
	if diff := cmp.Diff("M\ta.txt\nM\tdir/run.sh\nD\tgone\nA\tnew/file", git(t, b.clone(), "diff", "--name-status", "HEAD~1")); diff != "" {
		t.Error(diff)
	}
	write(t, b.clone()+"/work", "of the agent\n")
	b.collect()
	if _, err := b.deliver(); err != nil {
		t.Fatal(err)
	}
	if got := git(t, b.repo, "log", "--format=%s", "agent/t1"); got != "Work of the task t1\nuncommitted work\nsecond\nfirst" {
		t.Error(got)
	}
	if _, err := b.snapshot(func(s *carry.Snapshot) { s.Ref, s.IncludeDirty, s.ID = "HEAD~1", true, "t2" }); kindOf(err) == "none" {
		t.Error("uncommitted work on another commit than HEAD")
	}
}

func TestSnapshot_AgainIsTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.mustSnapshot()
	write(t, b.clone()+"/work", "of the agent\n")
	b.file("a.txt", "later\n").commit("later")
	again := b.mustSnapshot()
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(b.clone() + "/work"); err != nil {
		t.Error("the work is gone:", err)
	}
	if _, err := b.snapshot(func(s *carry.Snapshot) { s.Ref = "main" }); kindOf(err) != "conflict" {
		t.Error("another request:", err)
	}
	// One that broke off is made anew.
	if err := os.Remove(b.shadow() + "/snapshot.json"); err != nil {
		t.Fatal(err)
	}
	if got := b.mustSnapshot(); got.Base == first.Base {
		t.Error("an unfinished snapshot was taken for a whole one")
	}
}
