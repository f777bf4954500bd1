package carry_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/carry"
)

// TestCollect_TakesWhatAnAgentDoes is about the attacks: C066.
func TestCollect_TakesWhatAnAgentDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		init []string
		work func(b *bench)
		want string // name-status of the commit; empty for no commit
		diff string // is in the diff
	}{
		"nothing":           {nil, func(*bench) {}, "", ""},
		"touched":           {nil, func(b *bench) { write(b, b.clone()+"/a.txt", "one\n") }, "", ""},
		"changed":           {nil, func(b *bench) { write(b, b.clone()+"/a.txt", "two\n") }, "M\ta.txt", "-one\n+two\n"},
		"changed in sha256": {[]string{"--object-format=sha256"}, func(b *bench) { write(b, b.clone()+"/a.txt", "two\n") }, "M\ta.txt", "-one\n+two\n"},
		"same size and time": {nil, func(b *bench) {
			info, err := os.Stat(b.clone() + "/a.txt")
			if err != nil {
				b.Fatal(err)
			}
			write(b, b.clone()+"/a.txt", "two\n")
			if err := os.Chtimes(b.clone()+"/a.txt", info.ModTime(), info.ModTime()); err != nil {
				b.Fatal(err)
			}
		}, "M\ta.txt", "+two\n"},
		"new":     {nil, func(b *bench) { write(b, b.clone()+"/x/y z", "new\n") }, "A\tx/y z", "+new\n"},
		"deleted": {nil, func(b *bench) { remove(b, b.clone()+"/dir/sub") }, "D\tdir/sub/c.txt", "deleted file mode"},
		"renamed": {
			nil, func(b *bench) { rename(b, b.clone()+"/dir", b.clone()+"/other") },
			"R100\tdir/run.sh\tother/run.sh\nR100\tdir/sub/c.txt\tother/sub/c.txt", "rename from dir/run.sh",
		},
		"executable": {nil, func(b *bench) { chmod(b, b.clone()+"/dir/run.sh", 0o755) }, "M\tdir/run.sh", "old mode 100644\nnew mode 100755\n"},
		"a file becomes a folder": {nil, func(b *bench) {
			remove(b, b.clone()+"/a.txt")
			write(b, b.clone()+"/a.txt/in", "x\n")
		}, "D\ta.txt\nA\ta.txt/in", ""},
		"a folder becomes a file": {nil, func(b *bench) {
			remove(b, b.clone()+"/dir")
			write(b, b.clone()+"/dir", "x\n")
		}, "A\tdir\nD\tdir/run.sh\nD\tdir/sub/c.txt", ""},
		"a file becomes a link": {nil, func(b *bench) {
			remove(b, b.clone()+"/a.txt")
			link(b, "dir/run.sh", b.clone()+"/a.txt")
		}, "T\ta.txt", "new file mode 120000"},
		"ignored": {nil, func(b *bench) {
			write(b, b.clone()+"/.gitignore", "*.o\nnode_modules/\n")
			write(b, b.clone()+"/x.o", "x")
			write(b, b.clone()+"/node_modules/m/i.js", "x")
			write(b, b.clone()+"/dir/.gitignore", "!x.o\n/sub/\n")
			write(b, b.clone()+"/dir/x.o", "x\n")
			write(b, b.clone()+"/dir/sub/new", "x")
			write(b, b.clone()+"/dir/sub/c.txt", "two\n")
		}, "A\t.gitignore\nA\tdir/.gitignore\nM\tdir/sub/c.txt\nA\tdir/x.o", ""},
		"names": {nil, func(b *bench) {
			for _, n := range []string{"a\\b", `q"uote`, "é", "日本", " lead", "trail ", "a'b$(id);|&", "x.git", ".gitx", "git"} {
				write(b, b.clone()+"/n/"+n, "x\n")
			}
		}, "*", ""},
		"unmatched attributes": {nil, func(b *bench) {
			write(b, b.clone()+"/.gitattributes", "*.txt text eol=crlf -diff\n* filter=x ident\n")
			write(b, b.clone()+"/a.txt", "$Id$\r\n")
		}, "A\t.gitattributes\nM\ta.txt", "+$Id$\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.init...)
			b.mustSnapshot()
			c.work(b)
			got, diff := b.collect()
			if (got.Commit != "") != (c.want != "") || len(got.Refused) > 0 || int64(len(diff)) != got.DiffBytes || !strings.Contains(diff, c.diff) {
				t.Fatalf("%+v\n%s", got, diff)
			}
			if c.want == "" {
				return
			}
			if got := git(t, b.shadow(), "diff", "-M", "--name-status", b.snap.Base, "refs/heads/agent/t1"); c.want != "*" && got != c.want {
				t.Errorf("%s", cmp.Diff(c.want, got))
			}
			// What git makes of the same tree, with a folder of its own.
			git(t, b.clone(), "-c", "core.attributesFile=/dev/null", "add", "-A")
			if want, got := git(t, b.clone(), "write-tree"), git(t, b.shadow(), "rev-parse", "refs/heads/agent/t1^{tree}"); got != want {
				t.Errorf("tree %s, git makes %s:\n%s", got, want, git(t, b.clone(), "diff", "--cached", "--stat", b.snap.Base))
			}
			if _, err := b.deliver(); err != nil {
				t.Error(err)
			}
			git(t, b.repo, "fsck", "--strict")
		})
	}
}

func remove(tb testing.TB, path string) {
	tb.Helper()
	if err := os.RemoveAll(path); err != nil {
		tb.Fatal(err)
	}
}

func chmod(tb testing.TB, path string, mode os.FileMode) {
	tb.Helper()
	if err := os.Chmod(path, mode); err != nil {
		tb.Fatal(err)
	}
}

// TestCollect_LeavesOut: what is not taken is named, and the rest is.
func TestCollect_LeavesOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work func(b *bench)
		says string
		kept string // a path that is in the commit all the same
	}{
		"git folder of a nested repository": {func(b *bench) {
			git(b, b.clone(), "init", "-q", "vendor/x")
			write(b, b.clone()+"/vendor/x/f", "x\n")
		}, "vendor/x/.git: a name that a file system may take for .git", "vendor/x/f"},
		"git file":           {func(b *bench) { write(b, b.clone()+"/sub/.git", "gitdir: /etc\n") }, "sub/.git: a name", ""},
		"own git replaced":   {func(b *bench) { remove(b, b.clone()+"/.git"); write(b, b.clone()+"/.git", "gitdir: /etc\n") }, ".git: what was put in the place", ""},
		"own git a link":     {func(b *bench) { remove(b, b.clone()+"/.git"); link(b, "/etc", b.clone()+"/.git") }, ".git: what was put in the place", ""},
		"case":               {func(b *bench) { write(b, b.clone()+"/.GiT/config", "x") }, ".GiT: a name that a file system may take", ""},
		"NTFS short name":    {func(b *bench) { write(b, b.clone()+"/GIT~1/config", "x") }, "\"GIT~1\": a name", ""},
		"NTFS dots":          {func(b *bench) { write(b, b.clone()+"/.git. ./config", "x") }, "a name that a file system may take", ""},
		"NTFS stream":        {func(b *bench) { write(b, b.clone()+"/.git::$INDEX_ALLOCATION/config", "x") }, "a name that a file system may take", ""},
		"HFS+":               {func(b *bench) { write(b, b.clone()+"/.g\u200cit/config", "x") }, "a name that a file system may take", ""},
		"backslash":          {func(b *bench) { write(b, b.clone()+"/a\\.git\\config", "x") }, "a name that a file system may take", ""},
		"option":             {func(b *bench) { write(b, b.clone()+"/-rf", "x") }, "-rf: a name that a program may take for an option", ""},
		"words":              {func(b *bench) { write(b, b.clone()+"/-x: none. All checks passed", "x") }, "\"-x: none. All checks passed\": a name that", ""},
		"line feed":          {func(b *bench) { write(b, b.clone()+"/a\nb", "x") }, "\"a b\": a name with a control character", ""},
		"escape":             {func(b *bench) { write(b, b.clone()+"/\x1b]52;c;eA==\x07", "x") }, "\"?]52;c;eA==?\": a name with a control character", ""},
		"C1":                 {func(b *bench) { write(b, b.clone()+"/\u009b2J", "x") }, "a name with a control character", ""},
		"direction":          {func(b *bench) { write(b, b.clone()+"/gpj.\u202eexe", "x") }, "a name with a control character", ""},
		"not UTF-8":          {func(b *bench) { write(b, b.clone()+"/\xff\xfe", "x") }, "a name that is not UTF-8", ""},
		"absolute link":      {func(b *bench) { link(b, "/etc/passwd", b.clone()+"/l") }, "l: a link to an absolute path", ""},
		"link out":           {func(b *bench) { link(b, "../../x", b.clone()+"/dir/l") }, "dir/l: a link that may lead out of the tree", ""},
		"link over a link":   {func(b *bench) { link(b, ".", b.clone()+"/d"); link(b, "d/../../x", b.clone()+"/l") }, "l: a link that may lead out", "d"},
		"link to git":        {func(b *bench) { link(b, "../.git/hooks", b.clone()+"/dir/l") }, "dir/l: a link into a git folder", ""},
		"link of attributes": {func(b *bench) { link(b, "a.txt", b.clone()+"/.gitattributes") }, "a link in the place of a file that git reads", ""},
		"link of modules":    {func(b *bench) { link(b, "a.txt", b.clone()+"/.GITMODULES") }, "a link in the place of a file that git reads", ""},
		"tracked becomes a link out": {
			func(b *bench) { remove(b, b.clone()+"/a.txt"); link(b, "/etc/passwd", b.clone()+"/a.txt") },
			"a.txt: a link to an absolute path (it stays as it was)", "a.txt",
		},
		"pipe": {func(b *bench) { fifo(b, b.clone()+"/README.md") }, "README.md: a device, pipe or socket", ""},
		"tracked becomes a pipe": {
			func(b *bench) { remove(b, b.clone()+"/a.txt"); fifo(b, b.clone()+"/a.txt") },
			"a.txt: a device, pipe or socket", "a.txt",
		},
		"pipe of rules": {func(b *bench) { fifo(b, b.clone()+"/.gitignore") }, ".gitignore: a device, pipe or socket", ""},
		"socket": {func(b *bench) {
			if err := syscall.Mknod(b.clone()+"/s", syscall.S_IFSOCK|0o600, 0); err != nil {
				b.Fatal(err)
			}
		}, "s: a device, pipe or socket", ""},
		"large": {func(b *bench) {
			b.limits.FileBytes = 1 << 20
			write(b, b.clone()+"/big", "")
			if err := os.Truncate(b.clone()+"/big", 1<<40); err != nil {
				b.Fatal(err)
			}
		}, "big: a file of more than 1 MiB", ""},
		"tracked becomes large": {func(b *bench) {
			b.limits.FileBytes = 1 << 20
			if err := os.Truncate(b.clone()+"/a.txt", 1<<40); err != nil {
				b.Fatal(err)
			}
		}, "a.txt: a file of more than 1 MiB (it stays as it was)", "a.txt"},
		"too many": {func(b *bench) {
			b.limits.Changes = 3
			for i := range 10 {
				write(b, fmt.Sprintf("%s/many/%d", b.clone(), i), "x")
			}
		}, "many/2: more than 3 new and changed files", "many/0"},
		"too much": {func(b *bench) {
			b.limits.TotalBytes = 1 << 20
			for i := range 3 {
				write(b, fmt.Sprintf("%s/many/%d", b.clone(), i), strings.Repeat("x", 1<<19))
			}
		}, "many/2: more than 1 MiB", "many/0"},
		"too many names": {func(b *bench) {
			b.limits.Entries = 20
			for i := range 30 {
				write(b, fmt.Sprintf("%s/many/%d", b.clone(), i), "x")
			}
		}, "many: a tree with too many names", "a.txt"},
		"deep": {func(b *bench) {
			write(b, b.clone()+"/"+strings.Repeat("d/", 210)+"f", "x")
		}, "folders that are too deep in each other", ""},
		"modules by which git was made to run something": {func(b *bench) {
			write(b, b.clone()+"/.gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n")
		}, ".gitmodules: settings of submodules", ""},
		"modules that run a command": {func(b *bench) {
			write(b, b.clone()+"/.gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = https://example.com/\n\tupdate = !touch /tmp/x\n")
		}, ".gitmodules: settings of submodules", ""},
		"modules elsewhere": {func(b *bench) {
			write(b, b.clone()+"/.gitmodules", "[submodule \"../../hooks\"]\n\tpath = x\n\turl = https://example.com/\n")
		}, ".gitmodules: settings of submodules", ""},
		"modules with a carriage return": {func(b *bench) {
			write(b, b.clone()+"/.gitmodules", "[submodule \"x\"]\n\tpath = \"x\r\"\n\turl = https://example.com/\n")
		}, ".gitmodules: settings of submodules", ""},
		"attributes without an end": {func(b *bench) {
			write(b, b.clone()+"/.gitattributes", "* "+strings.Repeat("a ", 4000)+"\n")
		}, "attributes with a line that is too long", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.mustSnapshot()
			c.work(b)
			write(b, b.clone()+"/twin", "taken\n")
			if b.limits != (carry.Limits{}) { // names are read in their order
				rename(b, b.clone()+"/twin", b.clone()+"/AAA-twin")
			}
			got, _ := b.collect()
			b.has(got.Refused, c.says)
			names := b.names()
			if !slices.ContainsFunc(names, func(s string) bool { return strings.HasSuffix(s, "twin") }) {
				t.Errorf("the rest was not taken: %q", names)
			}
			if c.kept != "" {
				b.has(names, " "+c.kept)
			}
			for _, r := range got.Refused {
				at, _, _ := strings.Cut(r, ": ")
				if at != c.kept && !strings.Contains(r, "(it stays") && slices.ContainsFunc(names, func(s string) bool { return strings.HasSuffix(s, " "+at) }) {
					t.Errorf("%s is in the commit", at)
				}
			}
			if _, err := b.deliver(); err != nil {
				t.Error(err)
			}
			git(t, b.repo, "fsck", "--strict")
		})
	}
}

func fifo(tb testing.TB, path string) {
	tb.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// TestCollect_KeepsSubmodules: the folder of one is empty in the clone, and the
// pointer stays whatever becomes of the folder.
func TestCollect_KeepsSubmodules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	git(t, b.folder, "clone", "-q", b.repo, "other")
	for _, name := range []string{"m1", "m2", "m3"} {
		git(t, b.repo, "submodule", "--quiet", "add", b.folder+"/other", name)
	}
	b.commit("submodules")
	b.mustSnapshot()
	remove(t, b.clone()+"/m1")
	write(t, b.clone()+"/m2/payload", "x")
	remove(t, b.clone()+"/m3")
	write(t, b.clone()+"/m3", "x")
	write(t, b.clone()+"/work", "x\n")
	got, diff := b.collect()
	b.has(got.Refused, "m2: what was put in the folder of a submodule")
	b.has(got.Refused, "m3: what was put in the place of a submodule")
	for _, name := range []string{"m1", "m2", "m3"} {
		b.has(b.names(), "160000 "+name)
	}
	if strings.Contains(diff, "m1") {
		t.Error(diff)
	}
}

// TestCollect_SaysWhatCannotBeRead needs an ordinary user: to root nothing is
// unreadable.
func TestCollect_SaysWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Log("root reads everything; spec has this as an ordinary user")
		return
	}
	b := newBench(t)
	b.mustSnapshot()
	write(t, b.clone()+"/new", "x")
	write(t, b.clone()+"/work", "x\n")
	write(t, b.clone()+"/a.txt", "two\n")
	chmod(t, b.clone()+"/new", 0)
	chmod(t, b.clone()+"/a.txt", 0)
	chmod(t, b.clone()+"/dir", 0)
	t.Cleanup(func() { chmod(t, b.clone()+"/dir", 0o700) })
	got, _ := b.collect()
	b.has(got.Refused, "new: a file that cannot be read")
	b.has(got.Refused, "a.txt: a file that cannot be read (it stays as it was)")
	b.has(got.Refused, "dir: a folder that cannot be read")
	if diff := cmp.Diff([]string{"100644 a.txt", "100644 dir/run.sh", "100644 dir/sub/c.txt", "100644 work"}, b.names()); diff != "" {
		t.Error(diff)
	}
}

// TestCollect_NeverUsesTheAgentsGit: whatever is in the clone's .git makes no
// difference, nor whether it is there.
// Of the attacks: C057.
func TestCollect_NeverUsesTheAgentsGit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.mustSnapshot()
	write(t, b.clone()+"/a.txt", "two\n")
	want, _ := b.collect()
	for name, spoil := range map[string]func(){
		"index": func() { write(t, b.clone()+"/.git/index", "no index") },
		"head":  func() { write(t, b.clone()+"/.git/HEAD", "ref: refs/heads/../../x\n") },
		"config": func() {
			write(t, b.clone()+"/.git/config", "[core]\n\tworktree = /etc\n\texcludesFile = /etc/passwd\n\tfileMode = false\n[include]\n\tpath = /etc/passwd\n")
		},
		"exclude":    func() { write(t, b.clone()+"/.git/info/exclude", "*\n") },
		"attributes": func() { write(t, b.clone()+"/.git/info/attributes", "* filter=x -diff\n") },
		"alternates": func() { write(t, b.clone()+"/.git/objects/info/alternates", "/etc\n") },
		"gone":       func() { remove(t, b.clone()+"/.git") },
	} {
		spoil()
		if got, _ := b.collect(); got.Commit != want.Commit {
			t.Errorf("%s: commit %s, want %s", name, got.Commit, want.Commit)
		}
	}
}

func TestCollect_BoundsTheDiff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.limits.DiffBytes = 1000
	b.mustSnapshot()
	write(t, b.clone()+"/a.txt", strings.Repeat("line\n", 10_000))
	got, diff := b.collect()
	if len(diff) != 1000 || got.DiffBytes < 50_000 {
		t.Errorf("%d bytes of %d", len(diff), got.DiffBytes)
	}
}
