package spec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// hiddenAttacks are the names of the attacks in testdata/hidden/attacks.py.
func hiddenAttacks(t *testing.T) (names []string) {
	t.Helper()
	script, err := os.ReadFile("testdata/hidden/attacks.py")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(script), "ATTACKS = {")
	for _, m := range regexp.MustCompile(`(?m)^    "([a-z]+)":`).FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	if len(names) < 50 {
		t.Fatalf("%d attacks", len(names))
	}
	return names
}

// hidingTree makes a repository with a hidden file for each attack.
func hidingTree(t *testing.T, y *yard.Yard, attacks []string) {
	t.Helper()
	script, err := os.ReadFile("testdata/hidden/attacks.py")
	if err != nil {
		t.Fatal(err)
	}
	y.Write(t, "attacks.py", string(script))
	y.Write(t, "sub/plain", "plain\n")
	y.Write(t, ".gitignore", ".env\n.env.*\n.aws\nvault\nsecrets\nsecrets2\n")
	for _, dir := range []string{"deep", "cloud", "cloud2", "vault"} {
		y.Write(t, dir+"/x", "plain\n")
	}
	y.Write(t, "tracked/.env", "A=b\n")
	y.Write(t, "deep/tracked/.env", "A=c\n")
	git(t, y, "/", "init", "-q", "-b", "main", y.Dir)
	git(t, y, y.Dir, "add", "-f", "attacks.py", "sub", ".gitignore", "tracked", "deep/tracked")
	git(t, y, y.Dir, "commit", "-q", "-m", "first")
	for _, name := range attacks {
		y.Write(t, ".env."+name, "#!/bin/sh\n# canary-.env."+name+"\nexit 7\n")
	}
	for _, p := range []string{"cloud/.aws/credentials", "cloud2/.aws/credentials", "secrets/.env", "secrets2/.env", "vault/inner/plain.txt"} {
		y.Write(t, p, "canary-"+p+"\n")
	}
	exe := filepath.Join(y.Dir, ".env.execve")
	if err := os.Chmod(exe, 0o755); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(y.Dir, ".env.readlink")
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub/plain", at); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(at, y.UID, y.GID); err != nil {
		t.Fatal(err)
	}
}

// hiddenContent is what the hidden files hold: an attack may move a folder.
func hiddenContent(t *testing.T, y *yard.Yard) string {
	t.Helper()
	return y.Host(t, "sh", "-c", "grep -rh canary- --exclude=attacks.py --exclude-dir=.git . | LC_ALL=C sort")
}

func TestISO02_HiddenFilesAreNotThere(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	attacks := hiddenAttacks(t)
	// What takes files away comes last, and one at a time.
	last := []string{"gitstash", "gitclean"}
	most := slices.DeleteFunc(slices.Clone(attacks), func(n string) bool { return slices.Contains(last, n) })
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		hidingTree(t, y, attacks)
		before := hiddenContent(t, y)
		result := func(names []string, flags ...string) map[string]string {
			args := append(append([]string{"run", "--quiet"}, flags...), "--", python, "attacks.py", strings.Join(names, ","))
			return outcomes(t, y.Run(t, args...).OK(t).Stdout, names)
		}
		got := result(most, "--hide", "vault/")
		for _, n := range last {
			got[n] = result([]string{n}, "--hide", "vault/")[n]
		}
		for _, name := range attacks {
			t.Run(name, func(t *testing.T) {
				if got[name] == "got" {
					t.Errorf("%s: the hidden file was got at", name)
				}
			})
		}
		if after := hiddenContent(t, y); after != before {
			t.Errorf("hidden files before:\n%s\nafter:\n%s", before, after)
		}
	})
}

func outcomes(t *testing.T, out string, names []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) > 1 {
			all[f[0]] = f[1]
		}
	}
	for _, n := range names {
		if all[n] == "" {
			t.Fatalf("the attack %s was not made:\n%s", n, out)
		}
	}
	return all
}

// TestISO02_HiddenFilesTwin makes the same attacks with nothing hidden.
func TestISO02_HiddenFilesTwin(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	attacks := hiddenAttacks(t)
	alone := []string{"gitstash", "gitclean"} // they take the others' files away
	// Only the first process may make that call: there is no twin to it.
	never := []string{"prctl"}
	together := slices.DeleteFunc(slices.Clone(attacks), func(n string) bool { return slices.Contains(alone, n) || slices.Contains(never, n) })
	for i, names := range [][]string{together, alone[:1], alone[1:]} {
		yard.InTurn(t, i+1, func(t *testing.T, y *yard.Yard) {
			hidingTree(t, y, attacks)
			r := y.Run(t, "run", "--quiet", "--show", "*", "--", python, "attacks.py", strings.Join(names, ",")).OK(t)
			got := outcomes(t, r.Stdout, names)
			for _, name := range names {
				if got[name] != "got" {
					t.Errorf("%s: %s: the attack is none", name, got[name])
				}
			}
		})
	}
}

func TestISO02_WhatIsNotHiddenIsAsBefore(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, name := range []string{".env", "prod.env", "id_rsa", "tls/server.key", ".npmrc", "notes.txt", "other.txt"} {
			y.Write(t, name, "canary-"+name+"\n")
		}
		for _, name := range []string{".env.example", "id_rsa.pub", "cacert.pem", "environment", ".envs/x"} {
			y.Write(t, name, "plain\n")
		}
		const script = `cat .env prod.env id_rsa tls/server.key .npmrc notes.txt other.txt 2>/dev/null | grep -o 'canary-.*' | tr '\n' ' '
cat .env.example id_rsa.pub cacert.pem environment .envs/x | tr -d '\n'`
		for _, c := range []struct {
			name  string
			flags []string
			want  string
		}{
			{"defaults", nil, "canary-notes.txt canary-other.txt "},
			{"one is shown", []string{"--show", ".env"}, "canary-.env canary-notes.txt canary-other.txt "},
			{"one of a folder is shown", []string{"--show", "/tls/server.key", "--show", "/id_*"}, "canary-id_rsa canary-tls/server.key canary-notes.txt canary-other.txt "},
			{"another is hidden", []string{"--hide", "notes.*"}, "canary-other.txt "},
			{"read-only", []string{"--read-only", "--hide", "notes.txt"}, "canary-other.txt "},
			{"all are shown", []string{"--show", "*"}, "canary-.env canary-prod.env canary-id_rsa canary-tls/server.key canary-.npmrc canary-notes.txt canary-other.txt "},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := y.Sh(t, script, append([]string{"--quiet"}, c.flags...)...).OK(t)
				if want := c.want + strings.Repeat("plain", 5); r.Stdout != want {
					t.Errorf("got  %q\nwant %q", r.Stdout, want)
				}
			})
		}
	})
}

func TestISO02_HiddenFilesOfPolicyFiles(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.InTurn(t, 1, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "bailey.yaml", "hide:\n  - notes.txt\n")
		y.WriteHome(t, ".config/bailey/config.yaml", "show:\n  - .env\nhide: [mine.txt]\n")
		for _, name := range []string{".env", "notes.txt", "mine.txt", "id_rsa"} {
			y.Write(t, name, name+" ")
		}
		r := y.Sh(t, "cat .env notes.txt mine.txt id_rsa 2>/dev/null; true").OK(t)
		if r.Stdout != ".env " || !strings.Contains(r.Stderr, "; shown: .env") {
			t.Errorf("seen %q; header:\n%s", r.Stdout, r.Stderr)
		}
		y.Write(t, "bailey.yaml", "show:\n  - id_rsa\n")
		if r := y.Sh(t, "cat id_rsa").Exit(t, 125); r.Stdout != "" || !strings.Contains(r.Stderr, "only your own file shows what is hidden") {
			t.Errorf("a project's file shows:\n%s%s", r.Stdout, r.Stderr)
		}
	})
}

// TestISO02_HiddenFilesOfTheHostsDoing makes and renames files on the host while
// a sandbox runs.
func TestISO02_HiddenFilesOfTheHostsDoing(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, ".env.first", "first\n")
		r := y.Start(t, "run", "--quiet", "--", "sh", "-c", `while read -r line; do eval "$line"; echo done; done`)
		ask := func(line string) string {
			t.Helper()
			before, _ := r.Output()
			if _, err := fmt.Fprintln(r.Stdin, line); err != nil {
				t.Fatal(err)
			}
			yard.Eventually(t, time.Minute, func() bool {
				out, _ := r.Output()
				return strings.HasSuffix(out[len(before):], "done\n")
			}, func() string { out, errOut := r.Output(); return out + errOut })
			out, _ := r.Output()
			return strings.TrimSuffix(out[len(before):], "done\n")
		}
		const all = "cat .env.* plain* sub/.env 2>/dev/null; ls -A . | tr '\\n' ' '"
		if got := ask(all); got != "" {
			t.Errorf("at the start: %q", got)
		}
		y.Write(t, ".env.later", "later\n")
		y.Write(t, "sub/.env", "below\n")
		if got := ask(all); got != "sub " {
			t.Errorf("a file made later: %q", got)
		}
		rename := func(from, to string) {
			t.Helper()
			if err := os.Rename(filepath.Join(y.Dir, from), filepath.Join(y.Dir, to)); err != nil {
				t.Fatal(err)
			}
		}
		rename(".env.later", "plain-later")
		if got := ask(all); got != "later\nplain-later sub " {
			t.Errorf("one that the host gave another name: %q", got)
		}
		rename("plain-later", ".env.again")
		if got := ask(all); got != "sub " {
			t.Errorf("and its old one: %q", got)
		}
		_ = r.Stdin.Close()
		r.Wait(t, time.Minute).OK(t)
	})
}

// TestISO02_NothingRunsWithoutTheRules: rules that the sandbox's kernel would
// not take.
func TestISO02_NothingRunsWithoutTheRules(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.InTurn(t, 1, func(t *testing.T, y *yard.Yard) {
		args := []string{"run"}
		for i := range 600 {
			args = append(args, "--hide", fmt.Sprintf("%0500d", i))
		}
		r := y.Run(t, append(args, "--", "touch", "ran")...).Exit(t, 125)
		if !strings.Contains(r.Stderr, "hidden files: ") || !strings.Contains(r.Stderr, "nothing was run") {
			t.Errorf("message:\n%s", r.Stderr)
		}
		if _, err := os.Lstat(filepath.Join(y.Dir, "ran")); err == nil {
			t.Error("the command ran")
		}
		r = y.Sh(t, "touch ran", "--hide", "a/**/b").Exit(t, 125)
		if !strings.Contains(r.Stderr, `"a/**/b"`) {
			t.Errorf("message:\n%s", r.Stderr)
		}
	})
}

// TestReportB1_HiddenFilesDoNotUpsetGit: git inside and outside say the same.
func TestReportB1_HiddenFilesDoNotUpsetGit(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		repository(t, y, y.Dir)
		y.Write(t, ".gitignore", ".env.local\n*.key\n!kept.key\n")
		y.Write(t, "test/.env", "A=1\n")
		y.Write(t, "kept.key", "k\n")
		git(t, y, y.Dir, "add", ".")
		git(t, y, y.Dir, "commit", "-q", "-m", "second")
		y.Write(t, ".env.local", "canary\n")
		y.Write(t, "server.key", "canary\n")
		y.Write(t, "file", "changed\n")
		want := git(t, y, y.Dir, "status", "--porcelain")
		r := y.Sh(t, "git status --porcelain; git add . && git stash -q && git stash pop -q && git status --porcelain; cat test/.env kept.key; ls -A").OK(t)
		if !strings.HasPrefix(r.Stdout, want) || !strings.Contains(r.Stdout, "A=1\nk\n") || strings.Contains(r.Stdout, ".env.local") || strings.Contains(r.Stdout, "server.key") {
			t.Errorf("inside:\n%s\noutside:\n%s", r.Stdout, want)
		}
		if !strings.Contains(r.Stderr, `not hidden, since git has them as they are: "kept.key", "test/.env"`) {
			t.Errorf("header:\n%s", r.Stderr)
		}

		// What git tracks and the user has changed may hold a secret by now.
		y.Write(t, "test/.env", "canary\n")
		r = y.Sh(t, "cat test/.env kept.key").Exit(t, 1)
		if r.Stdout != "k\n" || !strings.Contains(r.Stderr, `since they are not as git has them: "test/.env"`) {
			t.Errorf("a changed file: %q; header:\n%s", r.Stdout, r.Stderr)
		}

		// An index that names a file shows it only if it has the file's content.
		y.Write(t, "test/.env", "A=1\n")
		y.Sh(t, `git update-index --add --cacheinfo 100644,$(git hash-object -w file),.env.local`, "--quiet").OK(t)
		r = y.Sh(t, "cat .env.local").Exit(t, 1)
		if r.Stdout != "" {
			t.Errorf("a file that a sandbox had git track is seen: %q", r.Stdout)
		}
	})
}

// TestHiddenFiles_FilesWorkAsBefore does with files what a file system is for.
func TestHiddenFiles_FilesWorkAsBefore(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "w.py", `
import fcntl, mmap, os, socket, stat, tempfile
f = open("t", "w+b"); f.write(b"x" * 100); f.flush()
os.unlink("t"); os.ftruncate(f.fileno(), 10); assert os.fstat(f.fileno()).st_size == 10
os.fchmod(f.fileno(), 0o640); assert stat.S_IMODE(os.fstat(f.fileno()).st_mode) == 0o640
assert os.readlink("/proc/self/fd/%d" % f.fileno()) == os.getcwd() + "/t (deleted)"
fd = os.open("a", os.O_CREAT | os.O_RDWR, 0o600); os.write(fd, b"one\n"); os.utime(fd, (1, 2)); assert os.stat("a").st_mtime == 2
m = mmap.mmap(fd, 4); m[0:3] = b"two"; m.flush(); assert open("a").read() == "two\n"
fcntl.flock(fd, fcntl.LOCK_EX); fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND); os.write(fd, b"more"); assert open("a").read() == "two\nmore"
open("a", "w").close(); assert os.stat("a").st_size == 0
try: os.open("a", os.O_CREAT | os.O_EXCL); assert False
except FileExistsError: pass
os.symlink("target", "dangling"); open("dangling", "w").write("t"); assert open("target").read() == "t"
os.symlink("sub/deep", "d2"); os.makedirs("sub")
try: open("d2/x", "w"); assert False
except FileNotFoundError: pass
os.symlink("d3", "loop"); os.symlink("loop", "d3")
try: open("loop", "w"); assert False
except OSError as e: assert e.errno == 40, e
try: os.open("sub", os.O_CREAT | os.O_RDWR); assert False
except IsADirectoryError: pass
os.mkfifo("pipe"); r = os.open("pipe", os.O_RDWR | os.O_NONBLOCK); os.write(r, b"p"); assert os.read(r, 1) == b"p"; os.close(r)
s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect("sock"); s.accept()[0].send(b"hi"); assert c.recv(2) == b"hi"
d = os.open("sub", os.O_RDONLY); os.mkdir("x", dir_fd=d); os.rename("x", "y", src_dir_fd=d, dst_dir_fd=d); os.rename("sub", "sub2"); assert os.listdir(d) == ["y"]
os.link("a", "b"); assert os.stat("a").st_nlink == 2; os.remove("b"); os.rmdir("sub2/y"); os.chmod("a", 0o644)
try: os.mkdir("nodir/x"); assert False
except FileNotFoundError: pass
try: os.mkdir("a/x"); assert False
except NotADirectoryError: pass
os.mkdir("venv"); os.mkdir(".env"); open(".env/pyvenv.cfg", "w").close(); assert ".env" in os.listdir(".") and os.path.isdir(".env")
for n in range(300): open("venv/%d" % n, "w").close()
assert len(os.listdir("venv")) == 300
print("all")
`)
		if r := y.Run(t, "run", "--quiet", "--", python, "w.py").OK(t); r.Stdout != "all\n" {
			t.Errorf("got %q\n%s", r.Stdout, r.Stderr)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(y.Dir, "target"), &st); err != nil || int(st.Uid) != y.UID {
			t.Errorf("what a link had made: %v, of user %d", err, st.Uid)
		}
	})
}
