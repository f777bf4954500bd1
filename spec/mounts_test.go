package spec_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

const besideCanary = "canary-beside-the-workspace"

// folder makes a folder beside the workspace, in the identity's hands, with one
// file in it.
func folder(t *testing.T, y *yard.Yard, name string) string {
	t.Helper()
	return folderIn(t, y, filepath.Dir(y.Dir), name)
}

func folderIn(t *testing.T, y *yard.Yard, at, name string) string {
	t.Helper()
	for part := range strings.SplitSeq(name, "/") {
		at = filepath.Join(at, part)
		if err := os.Mkdir(at, 0o755); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		if err := os.Chown(at, y.UID, y.GID); err != nil {
			t.Fatal(err)
		}
	}
	own(t, y, filepath.Join(at, "file"), besideCanary)
	return at
}

// own writes a file of the identity's.
func own(t *testing.T, y *yard.Yard, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, y.UID, y.GID); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestISO02_MountsShowWhatIsNamed: a file or folder that was named is there,
// read-only unless it was said otherwise; nothing else comes with it. What is
// written to is the caller's.
func TestISO02_MountsShowWhatIsNamed(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		data, kept, sibling := folder(t, y, "data"), folder(t, y, "kept"), folder(t, y, "sibling")
		attack := `for d in /mnt/data ~/data ~/.config/deep/data; do
	cat $d/file || echo "no $d"
	for act in "echo x > $d/file" "echo x > $d/new" "rm $d/file" "mv $d/file $d/other" "chmod 777 $d/file" "mkdir $d/dir" "ln -s / $d/link" "mv $d $d.away"; do
		sh -c "$act" 2>/dev/null && case "$d $act" in */.config/*"mv"*".away") ;; *) echo "done: $act";; esac
	done
done
cat ` + sibling + `/file && echo sibling; cat ` + data + `/file && echo source; ls / /mnt`
		flags := []string{"--mount", "../data:/mnt/data", "--mount", data + ":~/data", "--mount", data + ":/home/agent/.config/deep/data"}
		r := y.Sh(t, attack, flags...)
		if n := strings.Count(r.Stdout, besideCanary); n != 3 || strings.Contains(r.Stdout, "done:") || strings.Contains(r.Stdout, "sibling") || strings.Contains(r.Stdout, "source") {
			t.Errorf("inside:\n%s\n%s", r.Stdout, r.Stderr)
		}
		if n := strings.Count(r.Stderr, "mounted read-only: "+data+" at "); n != 3 {
			t.Errorf("the header shows %d of 3 mounts:\n%s", n, r.Stderr)
		}
		if text, err := os.ReadFile(data + "/file"); err != nil || string(text) != besideCanary {
			t.Errorf("on the host: %q, %v", text, err)
		}
		// The twin may: the same acts, once it is said.
		w := y.Sh(t, "echo changed > /mnt/kept/file && echo new > /mnt/kept/new && chmod 4755 /mnt/kept/new; stat -c %a /mnt/kept/new", "--mount", kept+":/mnt/kept:rw").OK(t)
		if !strings.Contains(w.Stderr, "mounted WRITABLE: "+kept+" at /mnt/kept") || strings.TrimSpace(w.Stdout) != "644" {
			t.Errorf("%s\n%s", w.Stdout, w.Stderr)
		}
		for _, name := range []string{"file", "new"} {
			var st syscall.Stat_t
			if err := syscall.Stat(filepath.Join(kept, name), &st); err != nil || int(st.Uid) != y.UID || int(st.Gid) != y.GID {
				t.Errorf("%s belongs to %d:%d, %v", name, st.Uid, st.Gid, err)
			}
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(y.Dir), "data.away")); err == nil {
			t.Error("the source was moved")
		}
		psShowsMounts(t, y, kept)
		// Without the flag there is nothing.
		y.Sh(t, "ls -d /mnt/data /mnt/kept").Exit(t, 2)
	})
}

func psShowsMounts(t *testing.T, y *yard.Yard, kept string) {
	t.Helper()
	r := y.Start(t, "run", "-q", "--name", "mounted", "--mount", kept+":/mnt/kept:rw", "--", "sh", "-c", "echo ready; read x")
	r.Await(t, "ready")
	var rows []struct {
		Mounts []struct {
			Source, Target string
			Writable       bool
		}
	}
	if err := json.Unmarshal([]byte(y.Run(t, "ps", "--json").OK(t).Stdout), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || len(rows[0].Mounts) != 1 || rows[0].Mounts[0].Source != kept || !rows[0].Mounts[0].Writable {
		t.Errorf("ps: %+v", rows)
	}
	if out := y.Run(t, "ps").OK(t).Stdout; !strings.Contains(out, "mount:rw") {
		t.Errorf("ps: %s", out)
	}
	_, _ = r.Stdin.Write([]byte("\n"))
	r.Wait(t, yard.Timeout).OK(t)
}

// TestISO02_MountsOfOneFile: what is written in place reaches the host; a file
// that takes the place of another does not, on either side, and harms nothing.
func TestISO02_MountsOfOneFile(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		dir := folder(t, y, "one")
		file := own(t, y, dir+"/settings", "first\n")
		r := y.Start(t, "run", "--name", "one", "--mount", file+":/mnt/settings:rw", "--", "sh", "-c",
			`ls /mnt; echo second >> /mnt/settings; echo other > /tmp/new; cp /tmp/new /mnt/new 2>/dev/null && mv /mnt/new /mnt/settings && echo replaced; rm /mnt/settings 2>/dev/null && echo removed; echo ready; read x; cat /mnt/settings`)
		r.Await(t, "ready")
		if text, err := os.ReadFile(file); string(text) != "first\nsecond\n" {
			t.Errorf("the host has %q, %v", text, err)
		}
		// An editor on the host puts another file in its place: inside the first stays.
		own(t, y, dir+"/next", "third\n")
		if err := os.Rename(dir+"/next", file); err != nil {
			t.Fatal(err)
		}
		_, _ = r.Stdin.Write([]byte("\n"))
		end := r.Wait(t, yard.Timeout).OK(t)
		if strings.Contains(end.Stdout, "replaced") || strings.Contains(end.Stdout, "removed") || !strings.Contains(end.Stdout, "ready\nfirst\nsecond\n") {
			t.Errorf("inside: %s\n%s", end.Stdout, end.Stderr)
		}
		if text, err := os.ReadFile(file); string(text) != "third\n" {
			t.Errorf("the host has %q, %v", text, err)
		}
		said := y.Sh(t, "echo more >> /mnt/settings", "--mount", file+":/mnt/settings:rw").OK(t)
		if !strings.Contains(said.Stderr, file+": was changed during the run") {
			t.Errorf("the end does not say it: %s", said.Stderr)
		}
	})
}

// TestISO02_MountsCoverNothing: nothing is shown over, above or in what the
// sandbox's own system, bailey's generated files and git's guards are.
func TestISO02_MountsCoverNothing(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		data := folder(t, y, "data")
		y.Host(t, "git", "init", "-q", ".")
		y.Write(t, "plain/x", "x")
		for i, place := range []string{
			"/", "/usr", "/usr/bin", "/usr/local/x", "/etc", "/etc/passwd", "/etc/ssl", "/proc", "/proc/1", "/sys", "/dev", "/dev/shm", "/run", "/run/x", "/var/run/x",
			"/bin", "/lib64", "/.bailey", "/.bailey/private", "/.bailey/beside/x", "/home", "/home/agent", "/tmp", "/var/tmp", "/var", "~",
			y.Dir, filepath.Dir(y.Dir), y.Dir + "/.git", y.Dir + "/.git/hooks", y.Dir + "/.GIT/x", y.Dir + "/.git/config", y.Dir + "/notthere", y.Dir + "/plain/.git",
			"relative", "", "/mnt/a\nb", "/mnt/../etc",
		} {
			if !y.Turn(i) {
				continue
			}
			r := y.Run(t, "run", "--mount", data+":"+place, "--", "true")
			if r.Code != 125 || !strings.Contains(r.Stderr, "--mount") || strings.Contains(r.Stderr, "sandbox ") && strings.Contains(r.Stderr, "gvisor, workspace") {
				t.Errorf("%q: exit %d: %s", place, r.Code, r.Stderr)
			}
		}
		for _, two := range [][]string{{"/mnt/x", "/mnt/x"}, {"/mnt/x", "/mnt/x/y"}, {"/mnt/x/y", "/mnt/x"}} {
			r := y.Run(t, "run", "--mount", data+":"+two[0], "--mount", data+":"+two[1], "--", "true").Exit(t, 125)
			saysAll(t, r, "something else is shown at "+two[0], "such as /mnt/"+filepath.Base(two[1]))
			if two[0] == two[1] {
				saysAll(t, r, "such as /mnt/x-2") // the place of that name is taken
			}
		}
		// A file is no folder, nor the other way round.
		y.Run(t, "run", "--mount", data+"/file:"+y.Dir+"/plain", "--", "true").Exit(t, 125)
		y.Run(t, "run", "--mount", data+":"+y.Dir+"/plain/x", "--", "true").Exit(t, 125)
		// Twins: what is nobody's, and a folder of the workspace that is there.
		y.Sh(t, "cat /mnt/a/b/file plain/file /tmp/x/file", "-q", "--mount", data+":/mnt/a/b", "--mount", data+":"+y.Dir+"/plain", "--mount", data+":/tmp/x").OK(t)
		if _, err := os.Stat(y.Dir + "/plain/file"); err == nil {
			t.Error("what was shown in the workspace was put there")
		}
	})
}

// TestISO03_NoMountOpensThem: what no sandbox sees is refused by name, by a
// link, by what holds it and by what lies in it, read-only too.
func TestISO03_NoMountOpensThem(t *testing.T) {
	t.Attr("claim", "ISO-03")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		base := filepath.Dir(y.Dir)
		for _, name := range []string{".ssh", ".aws", ".config/gcloud", ".config/gh", ".mozilla/firefox", ".config/google-chrome/Default", ".gnupg", ".docker", ".config/bailey", ".local/share/bailey/vault", ".local/state/bailey", ".config/other"} {
			folderIn(t, y, y.Home, name)
		}
		for _, name := range []string{".bash_history", ".netrc", ".git-credentials"} {
			own(t, y, filepath.Join(y.Home, name), besideCanary)
		}
		socket := filepath.Join(base, "docker.sock")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		pipe := filepath.Join(base, "pipe")
		if err := syscall.Mkfifo(pipe, 0o666); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(base, "link")
		if err := os.Symlink(y.Home+"/.ssh", link); err != nil {
			t.Fatal(err)
		}
		for i, source := range []string{
			"/", "/home", "/root", "/etc", "/etc/shadow", "/proc", "/proc/self", "/proc/1/root", "/sys", "/dev", "/dev/null", "/dev/shm", "/run", "/var/run", "/tmp", "/usr", "/boot",
			"~", "~/", y.Home, base, "~/.ssh", "~/.ssh/file", "~/.aws/file", "~/.config", "~/.config/gcloud", "~/.config/gh/file", "~/.mozilla", "~/.mozilla/firefox", "~/.config/google-chrome/Default/file", "~/.gnupg", "~/.docker",
			"~/.bash_history", "~/.netrc", "~/.git-credentials", "~/.config/bailey", "~/.config/bailey/file", "~/.local/share/bailey/vault", "~/.local/share", "~/.local", "~/.local/state/bailey",
			socket, pipe, link, link + "/file",
		} {
			for _, mode := range []string{"", ":rw"} {
				if !y.Turn(i) && mode == "" {
					continue
				}
				r := y.Run(t, "run", "--mount", source+":/mnt/x"+mode, "--", "sh", "-c", "cat /mnt/x/file /mnt/x; ls -A /mnt/x")
				if r.Code != 125 || strings.Contains(r.Stdout, besideCanary) || !strings.Contains(r.Stderr, "--mount") || !strings.Contains(r.Stderr, "hint:") {
					t.Errorf("%s%s: exit %d: %s%s", source, mode, r.Code, r.Stdout, r.Stderr)
				}
			}
		}
		y.Run(t, "run", "--mount", "~/nothing:/mnt/x", "--", "true").Exit(t, 125)
		// The twin: what lies beside them.
		y.Sh(t, "cat /mnt/x/file", "-q", "--mount", "~/.config/other:/mnt/x").OK(t)
		mountedSocket(t, y)
	})
}

// mountedSocket: a socket in a folder that is shown is a name and no more. On
// the host whoever can name it speaks to its service.
func mountedSocket(t *testing.T, y *yard.Yard) {
	t.Helper()
	dir := folder(t, y, "sockets")
	l, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(dir+"/s", 0o666); err != nil {
		t.Fatal(err)
	}
	reached := make(chan struct{}, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached <- struct{}{}
			_ = c.Close()
		}
	}()
	y.Write(t, "connect.py", "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n")
	for _, mode := range []string{"", ":rw"} {
		r := y.Run(t, "run", "-q", "--mount", dir+":/mnt/s"+mode, "--", "/usr/bin/python3", "connect.py", "/mnt/s/s")
		if r.Code == 0 || len(reached) > 0 {
			t.Errorf("%q: the socket of the host was reached: %s", mode, r.Stderr)
		}
	}
	y.Host(t, "/usr/bin/python3", "connect.py", dir+"/s")
	<-reached
}

// TestISO12_MountsAreFoundOnce: whoever can rename or link where a mount comes
// from leads it nowhere else: neither before the start, by a link that a
// sandbox left in the workspace, nor during it.
func TestISO12_MountsAreFoundOnce(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		secret := folder(t, y, "secret")
		y.Sh(t, "ln -s "+secret+" planted; mkdir sub; ln -s "+secret+" sub/deep", "-q").OK(t)
		for _, name := range []string{"planted", "./planted/file", "sub/deep", y.Dir + "/planted"} {
			r := y.Sh(t, "cat /mnt/x/file /mnt/x", "--mount", name+":/mnt/x")
			if r.Code != 125 || strings.Contains(r.Stdout, besideCanary) || !strings.Contains(r.Stderr, "link") {
				t.Errorf("%s: exit %d: %s", name, r.Code, r.Stderr)
			}
		}
		// A person's own link is followed, once.
		link := filepath.Join(filepath.Dir(y.Dir), "own-link")
		if err := os.Symlink(secret, link); err != nil {
			t.Fatal(err)
		}
		y.Sh(t, "cat /mnt/x/file", "-q", "--mount", link+":/mnt/x").OK(t)
		otherWays(t, y, secret)
		swapped(t, y, secret)
		// Links that were made in a writable mount show nothing of the host, and
		// nothing of bailey's follows them.
		open := folder(t, y, "open")
		r := y.Sh(t, "cd /mnt/o; ln -s "+secret+"/file l; ln -s "+secret+" .vscode; ln -s /etc/shadow .envrc; mkfifo package.json; cat l .vscode/file .envrc; true", "--mount", open+":/mnt/o:rw").OK(t)
		if strings.Contains(r.Stdout, besideCanary) || strings.Contains(r.Stdout, "root:") {
			t.Errorf("inside: %s", r.Stdout)
		}
		if text, err := os.ReadFile(secret + "/file"); string(text) != besideCanary {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// otherWays has the workspace named by other paths, and links of an agent's in
// it, and in a folder that is mounted writable.
func otherWays(t *testing.T, y *yard.Yard, secret string) {
	t.Helper()
	base := filepath.Dir(y.Dir)
	alias, sub := base+"/alias", base+"/alias-of-sub"
	fine := folderIn(t, y, y.Dir, "fine/below")
	shared := folder(t, y, "shared")
	y.Sh(t, "ln -s "+secret+" /mnt/s/planted; ln -s ../fine sub/fine", "-q", "--mount", shared+":/mnt/s:rw").OK(t)
	for link, to := range map[string]string{alias: "work", sub: y.Dir + "/sub", base + "/round": "alias-of-sub/../sub"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	attacks := [][]string{
		{"--mount", alias + "/planted:/mnt/x"},
		{"--mount", alias + "/planted:/mnt/x:rw"},
		{"--mount", alias + "/sub/deep/file:/mnt/x"},
		{"--mount", sub + "/deep:/mnt/x"},
		{"--mount", base + "/round/deep:/mnt/x"},
		{"--mount", "../alias/sub/../planted:/mnt/x"},
		{"--mount", "/proc/self/cwd/planted:/mnt/x"},
		{"--mount", shared + ":/mnt/s:rw", "--mount", shared + "/planted:/mnt/x"},
		{"--agents-dir", alias + "/planted"},
		{"--agents-dir", sub + "/deep"},
	}
	for _, flags := range attacks {
		r := y.Sh(t, "cat /mnt/x/file /mnt/x ~/.agents/file", flags...)
		if r.Code != 125 || strings.Contains(r.Stdout, besideCanary) || !strings.Contains(r.Stderr, "link that leads out of") {
			t.Errorf("%q: exit %d: %s%s", flags, r.Code, r.Stdout, r.Stderr)
		}
	}
	// The twins: the same paths to what lies in the workspace, and a link in it
	// that stays there.
	for _, name := range []string{alias + "/fine/below", sub + "/fine/below", sub + "/../fine/below", fine} {
		if r := y.Sh(t, "cat /mnt/x/file", "-q", "--mount", name+":/mnt/x").OK(t); !strings.Contains(r.Stdout, besideCanary) {
			t.Errorf("twin %s: %s", name, r.Stdout)
		}
	}
}

// swapped exchanges a folder for a link to keys, over and over, while sandboxes
// start: what is shown is what was looked at, or nothing starts.
func swapped(t *testing.T, y *yard.Yard, fine string) {
	t.Helper()
	base := folder(t, y, "swap")
	folderIn(t, y, base, "a")
	own(t, y, base+"/a/file", "harmless")
	keys := folderIn(t, y, y.Home, ".ssh")
	own(t, y, keys+"/file", "canary-of-keys")
	if err := os.Symlink(keys, base+"/b"); err != nil {
		t.Fatal(err)
	}
	started := 0
	for _, name := range []string{"a", "a/file"} {
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					_ = exchange(base+"/a", base+"/b")
				}
			}
		}()
		for range 6 {
			r := y.Run(t, "run", "-q", "--mount", base+"/"+name+":/mnt/x", "--", "sh", "-c", "cat /mnt/x /mnt/x/file 2>/dev/null; true")
			if r.Code != 0 && r.Code != 125 || strings.Contains(r.Stdout, "canary-of-keys") {
				t.Errorf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
			}
			if r.Code == 0 {
				started++
			}
		}
		close(stop)
		<-done
	}
	// The twin: a link to what may be shown is followed.
	if err := os.Symlink(fine, base+"/c"); err != nil {
		t.Fatal(err)
	}
	if r := y.Sh(t, "cat /mnt/x/file", "-q", "--mount", base+"/c:/mnt/x").OK(t); !strings.Contains(r.Stdout, besideCanary) {
		t.Errorf("twin: %s", r.Stdout)
	}
	t.Logf("%d of 12 started", started)
}

// exchange swaps two names (renameat2(2), RENAME_EXCHANGE).
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// TestISO12_MountedRepositories: in a writable mount git on the host is guarded
// as in a workspace, and what acts later is named.
func TestISO12_MountedRepositories(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		repo := folder(t, y, "repo")
		git := func(args ...string) string { return y.Host(t, "git", append([]string{"-C", repo}, args...)...) }
		git("init", "-q")
		git("add", ".")
		git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "one")
		attack := `cd /mnt/repo && git config core.fsmonitor ./evil; git config core.fsmonitor; printf '#!/bin/sh\ntouch %s/ran\n' . > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout
echo new > new; mkdir -p .vscode; echo '{}' > .vscode/tasks.json; git init -q nested; git -C nested config core.fsmonitor ./evil; git add new`
		r := y.Sh(t, attack, "--mount", repo+":/mnt/repo:rw")
		if got := git("config", "--get-all", "core.bare") + git("config", "-l", "--local"); strings.Contains(got, "fsmonitor") {
			t.Errorf("the host's configuration was changed: %s", got)
		}
		if _, err := os.Stat(repo + "/.git/hooks/post-checkout"); err == nil {
			t.Error("a hook was left")
		}
		for _, want := range []string{repo + "/.git/config: added core.fsmonitor", ".vscode/tasks.json", repo + "/nested"} {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("the end does not name %s:\n%s", want, r.Stderr)
			}
		}
		if got := git("status", "--porcelain"); !strings.Contains(got, "A  new") {
			t.Errorf("twin: git does not work in the mount: %s", got)
		}
		tripped := y.Sh(t, "cd /mnt/repo/.git && mkdir -p modules && echo x > commondir; sleep 20", "--mount", repo+":/mnt/repo:rw")
		if tripped.Code != 137 || !strings.Contains(tripped.Stderr, "commondir") {
			t.Errorf("commondir: exit %d: %s", tripped.Code, tripped.Stderr)
		}
		// Git folders themselves, and work trees whose git folder is elsewhere.
		trees := folder(t, y, "trees")
		git("worktree", "add", "-q", trees+"/linked")
		y.Host(t, "git", "clone", "-q", "--bare", repo, trees+"/bare")
		for _, source := range []string{repo + "/.git", repo + "/.git/hooks", trees + "/linked", trees + "/bare", trees + "/bare/hooks", y.Dir} {
			if r := y.Run(t, "run", "--mount", source+":/mnt/x:rw", "--", "true"); r.Code != 125 {
				t.Errorf("%s: exit %d: %s", source, r.Code, r.Stderr)
			}
		}
		for _, name := range []string{".bashrc", ".gitconfig", ".claude/settings.json", ".local/bin/tool", ".config/systemd/user/x.service"} {
			dir := filepath.Dir(filepath.Join(y.Home, name))
			if dir != y.Home {
				folderIn(t, y, y.Home, filepath.Dir(name))
			}
			own(t, y, filepath.Join(y.Home, name), "x")
			y.Run(t, "run", "--mount", "~/"+name+":/mnt/x:rw", "--", "true").Exit(t, 125)
			y.Run(t, "run", "-q", "--mount", "~/"+name+":/mnt/x", "--", "cat", "/mnt/x").OK(t)
		}
	})
}

// TestISO08_MountsAreBounded: what is written beside the workspace counts.
func TestISO08_MountsAreBounded(t *testing.T) {
	t.Attr("claim", "ISO-08")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		dir := folder(t, y, "open")
		bomb := "i=0; while [ $i -lt 10 ]; do head -c 4M /dev/zero > /mnt/o/$i || exit 9; i=$((i+1)); done; sleep 20; echo survived"
		for i, extra := range [][]string{nil, {"--read-only"}} {
			if !y.Turn(i) {
				continue
			}
			r := y.Sh(t, bomb, append([]string{"--disk", "24M", "--mount", dir + ":/mnt/o:rw"}, extra...)...)
			if r.Code != 137 || !strings.Contains(r.Stderr, "--disk raises it") || strings.Contains(r.Stdout, "survived") {
				t.Errorf("%v: exit %d: %s", extra, r.Code, r.Stderr)
			}
			if out, err := exec.Command("sh", "-c", "rm -f "+dir+"/[0-9]*").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		y.Sh(t, strings.Replace(bomb, "sleep 20", "sleep 5", 1), "-q", "--disk", "500M", "--mount", dir+":/mnt/o:rw").OK(t)
	})
}

// skills makes ~/.agents with a link out of it.
func skills(t *testing.T, y *yard.Yard) string {
	t.Helper()
	folderIn(t, y, y.Home, ".agents/skills")
	dir := folderIn(t, y, y.Home, ".agents")
	secret := folder(t, y, "secret")
	for name, target := range map[string]string{"out": secret + "/file", "up": "../../secret", "home": y.Home} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const skillAttack = `A=~/.agents
cat $A/skills/file || exit 3
cat $A/out $A/up/file $A/home/.agents/file 2>/dev/null && echo out
for act in "echo x > $A/skills/file" "echo x > $A/new" "rm $A/skills/file" "mv $A/skills/file $A/f" "mv $A ~/away" "rm -rf $A/skills" "chmod -R 777 $A/skills/file" "touch $A/skills/file" "ln $A/skills/file ~/hard" "mount -t tmpfs none $A" "umount $A" "rmdir $A"; do
	sh -c "$act" 2>/dev/null && echo "done: $act"
done
for p in "$HOST" /mnt/x /mnt/x/.agents /mnt/x/agents; do echo x > "$p/skills/new" && echo "done: $p"; echo x > "$p/skills/file" && echo "done: $p"; done 2>/dev/null
true`

// TestSEC12_SkillsStayReadOnly: ~/.agents is there, and no flag, alone or with
// others, lets a sandbox write to it.
func TestSEC12_SkillsStayReadOnly(t *testing.T) {
	t.Attr("claim", "SEC-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		dir := skills(t, y)
		curated := folder(t, y, "curated/agents")
		folderIn(t, y, curated, "skills")
		untouched := func(what string) {
			t.Helper()
			for _, at := range []string{dir, curated} {
				if text, err := os.ReadFile(at + "/skills/file"); string(text) != besideCanary {
					t.Errorf("%s: %s: %q, %v", what, at, text, err)
				}
				if _, err := os.Stat(at + "/skills/new"); err == nil {
					t.Errorf("%s: %s has a new file", what, at)
				}
			}
		}
		for _, flags := range [][]string{
			{},
			{"--agents-dir", curated},
			{"--agents-dir", "../curated/agents"},
			{"--insecure-keep-root"},
			{"--allow-nested-userns"},
			{"--insecure-unenforced"},
			{"--insecure-keep-root", "--allow-nested-userns"},
		} {
			r := y.Sh(t, skillAttack, append([]string{"--env", "HOST=" + dir}, flags...)...)
			if r.Code != 0 || strings.Contains(r.Stdout, "done:") || strings.Contains(r.Stdout, "out") || !strings.Contains(r.Stdout, besideCanary) {
				t.Errorf("%v: exit %d: %s\n%s", flags, r.Code, r.Stdout, r.Stderr)
			}
			untouched(strings.Join(flags, " "))
		}
		for _, flags := range [][]string{
			{"--mount", "~/.agents:/mnt/x:rw"},
			{"--mount", "~/.agents/skills:/mnt/x:rw"},
			{"--mount", "~/.agents/skills/file:/mnt/x:rw"},
			{"--mount", "~:/mnt/x:rw"},
			{"--mount", "~/.agents:~/.agents:rw"},
			{"--no-agents", "--mount", "~/.agents:/mnt/x:rw"},
			{"--insecure-keep-root", "--mount", "~/.agents:/mnt/x:rw"},
			{"--agents-dir", curated, "--mount", curated + ":/mnt/x:rw"},
			{"--agents-dir", curated, "--mount", filepath.Dir(curated) + ":/mnt/x:rw"},
			{"--agents-dir", curated, "--mount", "~/.agents:/mnt/x:rw"},
			{"--workdir", dir},
			{"--workdir", dir + "/skills"},
			{"--no-agents", "--workdir", dir},
			{"--agents-dir", curated, "--workdir", filepath.Dir(curated)},
			{"--agents-dir", curated, "--workdir", dir},
			{"--agents-dir", "."},
			{"--agents-dir", "~"},
			{"--agents-dir", curated, "--no-agents"},
			{"--agents-dir", curated + "/file"},
			{"--agents-dir", curated + "/none"},
			{"--mount", curated + ":~/.agents"},
		} {
			r := y.Sh(t, skillAttack, append([]string{"--env", "HOST=" + dir}, flags...)...)
			if r.Code != 125 || !strings.Contains(r.Stderr, "hint:") {
				t.Errorf("%v: exit %d: %s\n%s", flags, r.Code, r.Stdout, r.Stderr)
			}
			untouched(strings.Join(flags, " "))
		}
		y.Sh(t, "ls -d ~/.agents", "-q", "--no-agents").Exit(t, 2)
		if r := y.Sh(t, "cat file; touch x && echo wrote", "-q", "--read-only", "--workdir", dir); !strings.Contains(r.Stdout, besideCanary) || strings.Contains(r.Stdout, "wrote") {
			t.Errorf("read-only, as the workspace: %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
		// The twin: the same attack on a folder that may be written to.
		loose := folder(t, y, "loose")
		folderIn(t, y, loose, "skills")
		if r := y.Sh(t, skillAttack, "-q", "--env", "HOST="+dir, "--no-agents", "--mount", loose+":/home/agent/.agents:rw"); strings.Count(r.Stdout, "done:") < 4 {
			t.Errorf("twin: %s%s", r.Stdout, r.Stderr)
		}
	})
}

// TestSEC12_SkillsOfOthers: a folder that is not the caller's, or that others
// may write to, is not shown by itself.
func TestSEC12_SkillsOfOthers(t *testing.T) {
	t.Attr("claim", "SEC-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		dir := skills(t, y)
		show := func() yard.Result { return y.Sh(t, "ls -d ~/.agents/skills; echo end").OK(t) }
		if r := show(); !strings.Contains(r.Stdout, "skills") {
			t.Fatalf("twin: %s", r.Stderr)
		}
		for what, change := range map[string]func() error{
			"others": func() error { return os.Chmod(dir, 0o777) },
			"owner":  func() error { return os.Chown(dir, 4711, 4711) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if r := show(); strings.Contains(r.Stdout, "skills") || !strings.Contains(r.Stderr, "is not shown") {
				t.Errorf("%s: %s%s", what, r.Stdout, r.Stderr)
			}
			if err := os.Chown(dir, y.UID, y.GID); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestISO02_MountsCostNoStart: a folder of many files is shown as fast as a
// small one.
func TestISO02_MountsCostNoStart(t *testing.T) {
	t.Attr("claim", "ISO-02")
	y := yard.Unprivileged(t)
	small, large := folder(t, y, "small"), folder(t, y, "large")
	for i := range 20_000 {
		if i%200 == 0 {
			if err := os.Mkdir(filepath.Join(large, "d"+strconv.Itoa(i/200)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(large, "d"+strconv.Itoa(i/200), strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	best := func(dir string) time.Duration {
		least := time.Hour
		for range 5 {
			least = min(least, y.Run(t, "run", "-q", "--mount", dir+":/mnt/x", "--", "true").OK(t).Took)
		}
		return least
	}
	s, l := best(small), best(large)
	t.Logf("a small folder %v, 20,000 files %v", s, l)
	if l > 2*s {
		t.Errorf("a folder of 20,000 files takes %v to be shown, a small one %v", l, s)
	}
}

// TestISO02_MemoryIsReadOnly: an agent by name finds the file that its user
// keeps for it, and no agent can write to it or finds another's.
func TestISO02_MemoryIsReadOnly(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		files := map[string]string{"claude": ".claude/CLAUDE.md", "codex": ".codex/AGENTS.md", "gemini": ".gemini/GEMINI.md", "opencode": ".config/opencode/AGENTS.md", "pi": ".pi/agent/AGENTS.md"}
		y.WriteHome(t, ".claude/.credentials.json", "canary-of-a-login")
		i := 0
		for agent, name := range files {
			folderIn(t, y, y.Home, filepath.Dir(name))
			own(t, y, filepath.Join(y.Home, name), "memory of "+agent+"\n")
		}
		for agent, name := range files {
			if i++; !y.Turn(i) {
				continue
			}
			// The agent's program is not needed for that: a tool's name is enough.
			bin := stubAgent(t, y, agent)
			script := `cat ~/` + name + `; for act in "echo x >> ~/` + name + `" "rm -f $(readlink -f ~/` + name + `)" "mv $(readlink -f ~/` + name + `) /tmp/x" "chmod 777 $(readlink -f ~/` + name + `)"; do sh -c "$act" 2>/dev/null && echo "done: $act"; done
find ~ / -xdev -path /usr -prune -o \( -name CLAUDE.md -o -name AGENTS.md -o -name GEMINI.md -o -name .credentials.json \) -print 2>/dev/null | sort -u; touch ~/` + filepath.Dir(name) + `/own && echo usable`
			run := func(flags ...string) yard.Result {
				return y.RunWith(t, func(c *exec.Cmd) { withPath(c, bin) }, append(append([]string{"run", "--tool", agent}, flags...), "--", "sh", "-c", script)...)
			}
			r := run().OK(t)
			if !strings.HasPrefix(r.Stdout, "memory of "+agent+"\n") || strings.Contains(r.Stdout, "done:") || strings.Contains(r.Stdout, "credentials") || !strings.HasSuffix(r.Stdout, "usable\n") {
				t.Errorf("%s: %s%s", agent, r.Stdout, r.Stderr)
			}
			for other, path := range files {
				if other != agent && strings.Contains(r.Stdout, "/home/agent/"+path) {
					t.Errorf("%s finds %s", agent, path)
				}
			}
			if !strings.Contains(r.Stderr, "memory, read-only: "+filepath.Join(y.Home, name)) {
				t.Errorf("%s: the header: %s", agent, r.Stderr)
			}
			if text, err := os.ReadFile(filepath.Join(y.Home, name)); string(text) != "memory of "+agent+"\n" {
				t.Errorf("%s: on the host %q, %v", agent, text, err)
			}
			if r := run("--no-memory"); strings.Contains(r.Stdout, "memory of") || strings.Contains(r.Stderr, "memory, read-only") {
				t.Errorf("%s: --no-memory: %s%s", agent, r.Stdout, r.Stderr)
			}
		}
	})
}

// TestISO02_MemoryIsNotAnAgentsChoice: a memory file, and the folder of skills,
// may be a link into a repository in which agents run; where an agent puts a
// link of its own there, what that names is shown to nobody.
func TestISO02_MemoryIsNotAnAgentsChoice(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		dots := folder(t, y, "dots")
		folderIn(t, y, dots, "claude")
		folderIn(t, y, dots, "agents/skills")
		own(t, y, dots+"/CLAUDE.md", "memory\n")
		own(t, y, dots+"/claude/CLAUDE.md", "memory\n")
		other := folder(t, y, "other")
		own(t, y, other+"/.env", besideCanary)
		own(t, y, other+"/CLAUDE.md", besideCanary)
		real := filepath.Join(filepath.Dir(y.Dir), "moved-home")
		if err := os.Rename(y.Home, real); err != nil {
			t.Fatal(err)
		}
		bin := stubAgent(t, y, "claude")
		link := func(to, at string) {
			t.Helper()
			_ = os.RemoveAll(at)
			if err := os.Symlink(to, at); err != nil {
				t.Fatal(err)
			}
		}
		link(real, y.Home) // the home lies behind a link: that is nobody's attack
		run := func() yard.Result {
			t.Helper()
			return y.RunWith(t, func(c *exec.Cmd) { withPath(c, bin) }, "run", "--tool", "claude", "--", "sh", "-c", "cat ~/.claude/CLAUDE.md ~/.agents/file ~/.agents/*/file; true").OK(t)
		}
		ways := map[string]func(){
			"the file is a link":   func() { folderIn(t, y, real, ".claude"); link(dots+"/CLAUDE.md", real+"/.claude/CLAUDE.md") },
			"its folder is a link": func() { link("../dots/claude", real+"/.claude") },
			"the file is one in the home": func() {
				link("/nothing", real+"/x")
				folderIn(t, y, real, ".claude")
				own(t, y, real+"/m.md", "memory\n")
				link(y.Home+"/m.md", real+"/.claude/CLAUDE.md")
			},
			"the file is none, but a file": func() { folderIn(t, y, real, ".claude"); own(t, y, real+"/.claude/CLAUDE.md", "memory\n") },
		}
		for what, way := range ways {
			_ = os.RemoveAll(real + "/.claude")
			way()
			if r := run(); !strings.Contains(r.Stdout, "memory\n") || !strings.Contains(r.Stderr, "memory, read-only: ") {
				t.Errorf("%s: %s%s", what, r.Stdout, r.Stderr)
			}
		}
		link(dots+"/agents", real+"/.agents")
		if r := run(); strings.Count(r.Stdout, besideCanary) != 1 {
			t.Errorf("skills: %s%s", r.Stdout, r.Stderr)
		}
		// An agent runs in the repository.
		in := func(c *exec.Cmd) { c.Dir = dots }
		if err := os.Remove(real + "/.agents"); err != nil { // while it leads there no sandbox may write there
			t.Fatal(err)
		}
		y.RunWith(t, in, "run", "-q", "--no-agents", "--", "sh", "-c", "ln -sfn ../other/.env CLAUDE.md; mv claude was; ln -s ../other claude; mv agents old; ln -s ../other agents").OK(t)
		link(dots+"/agents", real+"/.agents")
		for what, way := range ways {
			if !strings.HasPrefix(what, "the file is a") && !strings.HasPrefix(what, "its folder") {
				continue
			}
			_ = os.RemoveAll(real + "/.claude")
			way()
			r := run()
			if strings.Contains(r.Stdout, besideCanary) || !strings.Contains(r.Stderr, "memory: "+y.Home+"/.claude/CLAUDE.md is not shown: it leads by more than one link") || !strings.Contains(r.Stderr, "ln -sfn ") || !strings.Contains(r.Stderr, "skills: ") {
				t.Errorf("%s: %s%s", what, r.Stdout, r.Stderr)
			}
		}
	})
}

// stubAgent makes a program of an agent's name, in a folder for PATH.
func stubAgent(t *testing.T, y *yard.Yard, agent string) string {
	t.Helper()
	bin := folder(t, y, "bin-"+agent)
	if err := os.Chmod(own(t, y, filepath.Join(bin, agent), "#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

func withPath(c *exec.Cmd, dir string) {
	for i, kv := range c.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			c.Env[i] = "PATH=" + dir + ":" + path
		}
	}
}

// TestISO02_AgentsReadTheirMemory: the real agents send it to their model.
func TestISO02_AgentsReadTheirMemory(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	for _, a := range []struct{ name, model, work, file string }{
		{"claude", "messages", `claude -p "say hello"`, ".claude/CLAUDE.md"},
		{"codex", "responses", `codex exec --skip-git-repo-check "say hello"`, ".codex/AGENTS.md"},
		{"pi", "messages", `pi -p "say hello"`, ".pi/agent/AGENTS.md"},
	} {
		t.Run(a.name, func(t *testing.T) {
			l := newModelLab(t, func(*modelLab) []provider.Turn { return []provider.Turn{provider.Say("hello")} })
			folderIn(t, l.yard, l.yard.Home, filepath.Dir(a.file))
			own(t, l.yard, filepath.Join(l.yard.Home, a.file), "Always remember the word canary-of-memory.\n")
			asked := func(flags ...string) bool {
				before := len(l.model.Requests())
				if out, err := l.run(t, a.name, a.model, a.work, flags...); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				for _, r := range l.model.Requests()[before:] {
					if strings.Contains(string(r.Body), "canary-of-memory") {
						return true
					}
				}
				return false
			}
			if !asked() {
				t.Error("the model was not told")
			}
			if asked("--no-memory") {
				t.Error("twin: it was, without the file")
			}
		})
	}
}
