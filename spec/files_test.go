package spec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// python is the system's own, which every sandbox sees.
const python = "/usr/bin/python3"

// try is one thing that an attacker tries with a file or a socket.
type try struct {
	Name string `json:"name"`
	Op   string `json:"op"` // read, list, write, connect, abstract, link, rename, chmod, open, mknod
	Path string `json:"path"`
	To   string `json:"to,omitempty"`
	Mode int    `json:"mode,omitempty"`
}

// tryScript makes the tries of a file and prints what came of each: its name,
// and "ok" with what was got, or the error's name.
const tryScript = `
import errno, json, os, socket, sys

def connect(address):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(address)
    return s.recv(100).decode()

def write(path):
    with open(path, "a") as f:
        f.write("written by the sandbox\n")

def do(t):
    op, path = t["op"], t["path"]
    if op == "read":
        with open(path, "rb") as f:
            return f.read(4096).decode(errors="replace").strip()
    if op == "list":
        return " ".join(sorted(os.listdir(path)))
    if op == "write":
        return write(path)
    if op == "connect":
        return connect(path)
    if op == "abstract":
        return connect("\0" + path)
    if op == "link":
        return os.link(path, t["to"])
    if op == "rename":
        return os.rename(path, t["to"])
    if op == "chmod":
        return os.chmod(path, t["mode"])
    if op == "open":
        return os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, t["mode"]))
    if op == "mknod":
        return os.mknod(path, t["mode"], os.makedev(1, 3))
    raise ValueError(op)

for t in json.load(open(sys.argv[1])):
    try:
        print(t["name"], "ok", do(t) or "", sep="\t")
    except OSError as e:
        print(t["name"], errno.errorcode.get(e.errno, str(e)), "", sep="\t")
`

// outcome is what came of one try.
type outcome struct{ status, got string }

func (o outcome) ok() bool { return o.status == "ok" }

func parseTries(t *testing.T, out string, tries []try) map[string]outcome {
	t.Helper()
	all := map[string]outcome{}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(f) == 3 {
			all[f[0]] = outcome{f[1], f[2]}
		}
	}
	for _, x := range tries {
		if _, made := all[x.Name]; !made {
			t.Fatalf("the try %q was not made; output:\n%s", x.Name, out)
		}
	}
	return all
}

// inside makes the tries in a sandbox of the yard.
func inside(t *testing.T, y *yard.Yard, tries []try, change func(*exec.Cmd), flags ...string) map[string]outcome {
	t.Helper()
	args := append(append([]string{"run", "--quiet"}, flags...), "--", python, "tries.py", "tries.json")
	putTries(t, y, tries)
	r := y.RunWith(t, change, args...).OK(t)
	return parseTries(t, r.Stdout, tries)
}

// natively makes the tries as the same user without a sandbox: the twin that
// shows that they can succeed.
func natively(t *testing.T, y *yard.Yard, tries []try) map[string]outcome {
	t.Helper()
	putTries(t, y, tries)
	return parseTries(t, y.Host(t, python, "tries.py", "tries.json"), tries)
}

func putTries(t *testing.T, y *yard.Yard, tries []try) {
	t.Helper()
	list, err := json.Marshal(tries)
	if err != nil {
		t.Fatal(err)
	}
	y.Write(t, "tries.py", tryScript)
	y.Write(t, "tries.json", string(list))
}

// base is the folder that holds the yard's workspace, home and runtime folder.
func base(y *yard.Yard) string { return filepath.Dir(y.Dir) }

// owned makes a file outside of the workspace that belongs to the identity.
func owned(t *testing.T, y *yard.Yard, path, text string, mode os.FileMode) string {
	t.Helper()
	y.Put(t, path, text)
	chown(t, filepath.Dir(path), y.UID, y.GID)
	chmod(t, path, mode)
	return path
}

func chown(t *testing.T, path string, uid, gid int) {
	t.Helper()
	if err := os.Lchown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestISO02_OnlyTheWorkspaceIsWritable tries to write everywhere else.
func TestISO02_OnlyTheWorkspaceIsWritable(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		out := filepath.Join(base(y), "outside")
		keep := owned(t, y, filepath.Join(out, "keep"), "keep\n", 0o666)
		chmod(t, out, 0o777)
		y.Write(t, "own", "own\n")
		y.Write(t, "sub/deep", "deep\n")
		for name, to := range map[string]string{"link-dir": out, "link-file": keep, "link-up": "../outside/keep"} {
			if err := os.Symlink(to, filepath.Join(y.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		allowed := []try{
			{Name: "workspace file", Op: "write", Path: y.Dir + "/own"},
			{Name: "workspace new file", Op: "write", Path: y.Dir + "/sub/new"},
			{Name: "workspace rename", Op: "rename", Path: y.Dir + "/sub/deep", To: y.Dir + "/shallow"},
		}
		denied := []try{
			{Name: "by path", Op: "write", Path: keep},
			{Name: "new by path", Op: "write", Path: out + "/new"},
			{Name: "by parent", Op: "write", Path: "../outside/keep"},
			{Name: "beside", Op: "write", Path: base(y) + "/beside"},
			{Name: "through a link to a folder", Op: "write", Path: "link-dir/keep"},
			{Name: "through a link", Op: "write", Path: "link-file"},
			{Name: "through a relative link", Op: "write", Path: "link-up"},
			{Name: "by the root of itself", Op: "write", Path: "/proc/self/root" + keep},
			{Name: "by its own folder", Op: "write", Path: "/proc/self/cwd/../outside/keep"},
			{Name: "home", Op: "write", Path: y.Home + "/.profile"},
			{Name: "read", Op: "read", Path: keep},
			{Name: "list", Op: "list", Path: out},
			{Name: "new under the own name", Op: "write", Path: "/proc/self/cwd/../outside/new"},
			{Name: "hard link in", Op: "link", Path: keep, To: "hard"},
			{Name: "hard link out", Op: "link", Path: "own", To: out + "/hard"},
			{Name: "rename out", Op: "rename", Path: "own", To: out + "/own"},
			{Name: "rename in", Op: "rename", Path: keep, To: "kept"},
		}
		got := inside(t, y, append(allowed, denied...), nil)
		for _, x := range allowed {
			if !got[x.Name].ok() {
				t.Errorf("%s: %v, want ok", x.Name, got[x.Name])
			}
		}
		for _, x := range denied {
			if got[x.Name].ok() {
				t.Errorf("%s succeeded: %v", x.Name, got[x.Name])
			}
		}
		if s := contents(t, keep); s != "keep\n" {
			t.Errorf("the file outside holds %q", s)
		}
		if s := contents(t, y.Dir+"/own"); s != "own\nwritten by the sandbox\n" {
			t.Errorf("the workspace's own file holds %q", s)
		}
		if left := y.Host(t, "ls", "-A", out, y.Home); strings.Count(left, "\n") != 4 {
			t.Errorf("something was made outside:\n%s", left)
		}
		for name, o := range inside(t, y, []try{{Name: "read-only", Op: "write", Path: y.Dir + "/own"}}, nil, "--read-only") {
			if o.ok() {
				t.Errorf("%s: a read-only workspace was written", name)
			}
		}
		var twin []try
		for _, x := range denied {
			if x.Name != "beside" || y.UID == 0 { // the yard's own folder is root's
				twin = append(twin, x)
			}
		}
		for name, o := range natively(t, y, twin) {
			if !o.ok() {
				t.Errorf("A124: the twin of %s fails natively: %v", name, o)
			}
		}
	})
}

// TestISO02_NothingElseIsMounted looks at the mount namespaces of a running
// sandbox from the host: the processes that hold it have nothing of the host
// in sight that the sandbox has not, and nothing writable but the workspace.
func TestISO02_NothingElseIsMounted(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Host(t, "git", "init", "-q", ".")
		r := y.Start(t, "run", "--", "sh", "-c", "cat /proc/mounts; echo ready; sleep 60")
		r.Await(t, "ready")
		seen := 0
		for _, pid := range descendants(t, r.Cmd.Process.Pid) {
			name := commandName(pid)
			if name == "bailey-watchdog" {
				continue // holds the workspace's folder, has no part in the sandbox
			}
			seen++
			for _, m := range mountsOf(t, pid) {
				if why := m.stranger(y); why != "" {
					t.Errorf("%s has %s at %s (%s): %s", name, m.root, m.point, m.kind, why)
				}
			}
		}
		if seen < 4 {
			t.Errorf("only %d processes of the sandbox were found", seen)
		}
		strangers := 0
		for _, m := range mountsOf(t, os.Getpid()) {
			if m.pid = os.Getpid(); m.stranger(y) != "" {
				strangers++
			}
		}
		if strangers == 0 {
			t.Error("the twin: this process sees the host and no mount of it was found strange")
		}
		stdout, _ := r.Output()
		for line := range strings.Lines(stdout) {
			f := strings.Fields(line)
			if len(f) < 4 || f[2] != "9p" || strings.HasPrefix(f[3], "ro,") {
				continue
			}
			if at := f[1]; at != y.Dir && at != y.Dir+"/.git" && at != "/.bailey/private" {
				t.Errorf("inside, %s is writable: %s", at, line)
			}
		}
		r.Stdin.Close() // the end of the test kills it
	})
}

// hostMount is a line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
type hostMount struct {
	pid               int
	root, point, kind string
	readOnly          bool
}

func mountsOf(t *testing.T, pid int) []hostMount {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	var all []hostMount
	for line := range strings.Lines(string(text)) {
		left, right, _ := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		all = append(all, hostMount{
			pid: pid, root: l[3], point: l[4], kind: r[0], readOnly: strings.HasPrefix(l[5]+",", "ro,"),
		})
	}
	return all
}

// stranger says why a mount has no place in the mount namespace of a process
// of the sandbox; "" if it has one.
func (m hostMount) stranger(y *yard.Yard) string {
	switch m.kind {
	case "proc", "nsfs":
		return ""
	case "tmpfs":
		if m.point == "/" || strings.HasPrefix(m.root, "/private") || strings.HasPrefix(m.root, "/links/") {
			return "" // made by the helper
		}
	case "devtmpfs":
		switch m.root {
		case "/null", "/zero", "/urandom", "/random":
			return ""
		}
	}
	in := fmt.Sprintf("/proc/%d/root%s", m.pid, m.point)
	// The gofer's root is what the helper calls /root.
	if target := strings.TrimPrefix(strings.TrimPrefix(m.point, "/root"), "/"); target != "" {
		system := strings.HasPrefix(target, "usr") || strings.HasPrefix(target, "etc/") || strings.HasPrefix(target, "lib") || target == "bin" || target == "sbin"
		if m.readOnly && (target == ".bailey/bailey" && same(in, y.Bin) || system && same(in, "/"+target)) {
			return ""
		}
	}
	if same(in, y.Dir) || same(in, y.Dir+"/.git") {
		return ""
	}
	return "it belongs to nothing that the sandbox was given"
}

func same(a, b string) bool {
	x, err1 := os.Stat(a)
	z, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, z)
}

// descendants lists the processes below one.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	ids, err := proc.Descendants(pid)
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, id := range ids {
		all = append(all, id.PID)
	}
	return all
}

func commandName(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone is ""
	name, _, _ := strings.Cut(string(b), "\x00")
	return name
}

// listen answers "canary" to whoever connects to a Unix socket of the host.
func listen(t *testing.T, y *yard.Yard, path string) string {
	t.Helper()
	if !strings.HasPrefix(path, "@") {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if !strings.HasPrefix(path, "@") {
		chown(t, path, y.UID, y.GID)
		chmod(t, path, 0o777)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("canary"))
			_ = c.Close()
		}
	}()
	return path
}

// secretsOf are the places of a home that are worth stealing from.
func secretsOf() []string {
	return []string{
		".ssh/id_ed25519", ".aws/credentials", ".config/gcloud/application_default_credentials.json", ".azure/accessTokens.json",
		".kube/config", ".docker/config.json", ".gnupg/secring.gpg", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
		".config/gh/hosts.yml", ".mozilla/firefox/p/logins.json", ".config/google-chrome/Default/Cookies", ".bash_history",
		".zsh_history", ".local/share/keyrings/login.keyring", ".password-store/x.gpg", "projects/other/.env",
	}
}

// TestISO03_SecretsAndSocketsAreNotThere puts what is worth stealing where it
// usually lies, and tries to get it.
func TestISO03_SecretsAndSocketsAreNotThere(t *testing.T) {
	t.Attr("claim", "ISO-03")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		var tries []try
		add := func(name, op, path string) {
			tries = append(tries, try{Name: name, Op: op, Path: path})
		}
		for _, rel := range secretsOf() {
			path := owned(t, y, filepath.Join(y.Home, rel), "canary", 0o644)
			add("~/"+rel, "read", path)
			add("/proc/1/root ~/"+rel, "read", "/proc/self/root"+path)
		}
		link := filepath.Join(y.Dir, "link")
		if err := os.Symlink(y.Home, link); err != nil {
			t.Fatal(err)
		}
		add("by a link", "read", link+"/.ssh/id_ed25519")
		second := filepath.Join(base(y), "second", "diary")
		owned(t, y, second, "canary", 0o644)
		chown(t, second, 2, 2)
		add("another user's file", "read", second)
		add("the host's users' homes", "list", base(y))

		unique := filepath.Base(base(y))
		run := filepath.Join(base(y), "run")
		chmod(t, run, 0o755)
		shared := filepath.Join("/run", unique)
		t.Cleanup(func() { _ = os.RemoveAll(shared) })
		for _, path := range []string{
			run + "/bus", run + "/docker.sock", run + "/podman/podman.sock", run + "/gnupg/S.gpg-agent", run + "/wayland-0",
			run + "/keyring/ssh", run + "/systemd/private", shared + "/docker.sock", shared + "/containerd.sock",
			"/tmp/.X11-unix/X" + strconv.Itoa(os.Getpid()), filepath.Join("/tmp", unique+"-ssh", "agent.1"),
			y.Dir + "/in-the-workspace.sock",
		} {
			listen(t, y, path)
			add("connect "+path, "connect", path)
		}
		t.Cleanup(func() { _ = os.RemoveAll(filepath.Join("/tmp", unique+"-ssh")) })
		for _, name := range []string{unique, "/tmp/.X11-unix/X" + unique, "/tmp/dbus-" + unique} {
			listen(t, y, "@"+name)
			add("abstract "+name, "abstract", name)
		}
		env := func(c *exec.Cmd) {
			c.Env = append(c.Env, "SSH_AUTH_SOCK="+filepath.Join("/tmp", unique+"-ssh", "agent.1"), "DISPLAY=:0", "WAYLAND_DISPLAY=wayland-0",
				"DBUS_SESSION_BUS_ADDRESS=unix:path="+run+"/bus", "DOCKER_HOST=unix://"+shared+"/docker.sock", "AWS_SECRET_ACCESS_KEY=canary", "GPG_AGENT_INFO=canary")
		}
		for name, o := range inside(t, y, append(tries, try{Name: "/etc/shadow", Op: "read", Path: "/etc/shadow"},
			try{Name: "environment", Op: "read", Path: "/proc/self/environ"}, try{Name: "first environment", Op: "read", Path: "/proc/1/environ"}), env) {
			switch {
			case strings.Contains(o.got, "canary") || strings.Contains(o.got, "SSH_AUTH_SOCK") || strings.Contains(o.got, "DBUS"):
				t.Errorf("%s: got %q", name, o.got)
			case o.ok() && !strings.HasSuffix(name, "environment") && name != "the host's users' homes":
				t.Errorf("%s: ok", name)
			case name == "the host's users' homes" && o.got != filepath.Base(y.Dir):
				t.Errorf("%s: saw %q, want the workspace alone", name, o.got)
			}
		}
		// The positive twin: a socket and a secret made inside work there.
		y.Sh(t, `cd /tmp && `+python+` -c '
import os, socket
for name in ("/tmp/s", "\0s", "`+y.Dir+`/made.sock"):
    l = socket.socket(socket.AF_UNIX); l.bind(name); l.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(name); c.close()
'`).OK(t)
		for name, o := range natively(t, y, tries) {
			if !o.ok() || !strings.Contains(o.got, "canary") && name != "the host's users' homes" {
				t.Errorf("the twin of %s fails natively: %v", name, o)
			}
		}
	})
}

// TestISO04_TheRootFileSystemIsThrownAway writes to what is not the workspace.
func TestISO04_TheRootFileSystemIsThrownAway(t *testing.T) {
	t.Attr("claim", "ISO-04")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		mark := filepath.Base(base(y)) + "-mark"
		refused := []try{
			{Name: "/", Op: "write", Path: "/" + mark},
			{Name: "/etc", Op: "write", Path: "/etc/" + mark},
			{Name: "/etc/passwd", Op: "write", Path: "/etc/passwd"},
			{Name: "/etc/hosts", Op: "write", Path: "/etc/hosts"},
			{Name: "/usr/bin", Op: "write", Path: "/usr/bin/" + mark},
			{Name: "a program", Op: "write", Path: "/usr/bin/env"},
			{Name: "chmod of a program", Op: "chmod", Path: "/usr/bin/env", Mode: 0o755},
			{Name: "rename of a program", Op: "rename", Path: "/usr/bin/env", To: "/usr/bin/" + mark},
			{Name: "/var/lib", Op: "write", Path: "/var/lib/" + mark},
			{Name: "/.bailey", Op: "write", Path: "/.bailey/" + mark},
			{Name: "bailey itself", Op: "write", Path: "/.bailey/bailey"},
			{Name: "above the workspace", Op: "write", Path: base(y) + "/" + mark},
			{Name: "/proc/sys", Op: "write", Path: "/proc/sys/kernel/core_pattern"},
			{Name: "/sys", Op: "write", Path: "/sys/" + mark},
		}
		thrown := []try{
			{Name: "/tmp", Op: "write", Path: "/tmp/" + mark},
			{Name: "/var/tmp", Op: "write", Path: "/var/tmp/" + mark},
			{Name: "/run", Op: "write", Path: "/run/" + mark},
			{Name: "/dev/shm", Op: "write", Path: "/dev/shm/" + mark},
			{Name: "home", Op: "write", Path: "/home/agent/" + mark},
		}
		got := inside(t, y, append(refused, thrown...), nil)
		for _, x := range refused {
			if got[x.Name].ok() {
				t.Errorf("%s was written", x.Name)
			}
		}
		var again []try
		for _, x := range thrown {
			if !got[x.Name].ok() {
				t.Errorf("%s: %v, want ok", x.Name, got[x.Name])
			}
			if _, err := os.Lstat(x.Path); err == nil {
				t.Errorf("%s is on the host", x.Path)
			}
			again = append(again, try{Name: x.Name, Op: "read", Path: x.Path})
		}
		for name, o := range inside(t, y, again, nil) {
			if o.ok() {
				t.Errorf("%s of the first run is seen in the second", name)
			}
		}
		twin := []try{thrown[0], thrown[1], thrown[3]}
		if y.UID == 0 {
			twin = append(twin, refused[1], refused[8])
		}
		for _, x := range twin {
			t.Cleanup(func() { _ = os.Remove(x.Path) })
		}
		for name, o := range natively(t, y, twin) {
			if !o.ok() {
				t.Errorf("the twin of %s fails natively: %v", name, o)
			}
		}
	})
}

// TestISO06_FilesBelongToTheCaller looks at what a sandbox leaves in the
// workspace, and at the identity of its processes on the host.
func TestISO06_FilesBelongToTheCaller(t *testing.T) {
	t.Attr("claim", "ISO-06")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "old", "old\n")
		// What others own in the workspace is theirs: read by its mode, never written.
		for name, owner := range map[string]int{"of-root": 0, "of-another": 2, "closed": 2} {
			if owner == y.UID {
				owner = 3
			}
			chown(t, y.Write(t, name, "other's\n"), owner, owner)
			chmod(t, filepath.Join(y.Dir, name), 0o644)
		}
		chmod(t, filepath.Join(y.Dir, "closed"), 0o640)
		r := y.Start(t, "run", "--quiet", "--", "bash", "-c", `
			echo x > file; mkdir dir; echo y > dir/inner; ln -s old link; ln old hard; cp /usr/bin/env program
			cat of-root of-another | wc -l
			for f in of-root of-another closed; do { echo bad >> $f; } 2>/dev/null && echo WROTE $f; chmod 666 $f 2>/dev/null && echo CHMOD $f; done
			cat closed 2>/dev/null && echo READ closed
			chown 0:0 file 2>/dev/null && echo CHOWN; chown 2 file 2>/dev/null && echo CHOWN
			id -u; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; echo ready; sleep 60`)
		r.Await(t, "ready")
		stdout, _ := r.Output()
		if !strings.HasPrefix(stdout, "2\n") {
			t.Errorf("files of others that everybody may read were not read:\n%s", stdout)
		}
		for _, bad := range []string{"WROTE", "CHMOD", "READ", "CHOWN"} {
			if strings.Contains(stdout, bad) {
				t.Errorf("%s:\n%s", bad, stdout)
			}
		}
		for _, line := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
			if !strings.Contains(stdout, line) {
				t.Errorf("no %q inside:\n%s", line, stdout)
			}
		}
		checked := 0
		for _, pid := range descendants(t, r.Cmd.Process.Pid) {
			checked += checkIdentity(t, y, pid)
		}
		if checked < 3 { // helper, sentry, gofer
			t.Errorf("only %d processes of the sandbox were looked at", checked)
		}
		for _, name := range []string{"file", "dir", "dir/inner", "link", "hard", "program"} {
			var st syscall.Stat_t
			if err := syscall.Lstat(filepath.Join(y.Dir, name), &st); err != nil || int(st.Uid) != y.UID || int(st.Gid) != y.GID {
				t.Errorf("%s belongs to %d:%d (%v), want %d:%d", name, st.Uid, st.Gid, err, y.UID, y.GID)
			}
		}
		if y.UID == 0 { // the twin: root without a sandbox may do to others' files what its sandbox may not
			y.Host(t, "sh", "-ec", "for f in of-another closed; do echo bad >> $f; chmod 666 $f; done; cat closed; chown 2 file")
		}
	})
}

// checkIdentity holds a process of a sandbox to an id that owns nothing of the
// host but what the caller gave: the caller's own, or for root an unused one.
// It returns 1, or 0 for a process that is no part of the sandbox or gone.
func checkIdentity(t *testing.T, y *yard.Yard, pid int) int {
	t.Helper()
	name := commandName(pid)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || name == "bailey-watchdog" || name == "" {
		return 0
	}
	uid := -1
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "Uid:" {
			uid, _ = strconv.Atoi(f[1])
		}
	}
	if y.UID != 0 && uid != y.UID || y.UID == 0 && uid < 0x70000000 {
		t.Errorf("%s runs as %d on the host", name, uid)
	}
	return 1
}

// TestISO06_NoSetIDBitIsLeft: files of the workspace are the caller's, so one
// with the bit would lend the caller's identity to other users of the host.
func TestISO06_NoSetIDBitIsLeft(t *testing.T) {
	t.Attr("claim", "ISO-06")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "file", "#!/bin/sh\n")
		old := y.Write(t, "was-setuid", "old\n")
		chmod(t, old, 0o755|os.ModeSetuid|os.ModeSetgid)
		const plain = 0o100755
		tries := []try{
			{Name: "chmod u+s", Op: "chmod", Path: "file", Mode: 0o4755},
			{Name: "chmod g+s", Op: "chmod", Path: "file", Mode: 0o2755},
			{Name: "chmod ug+s", Op: "chmod", Path: "file", Mode: 0o6711},
			{Name: "open", Op: "open", Path: "opened", Mode: 0o4755},
			{Name: "open g", Op: "open", Path: "opened-g", Mode: 0o2755},
			{Name: "mknod", Op: "mknod", Path: "made", Mode: plain | 0o4000},
		}
		plainTries := []try{
			{Name: "plain chmod", Op: "chmod", Path: "file", Mode: 0o755},
			{Name: "plain open", Op: "open", Path: "plain-opened", Mode: 0o755},
			{Name: "plain mknod", Op: "mknod", Path: "plain-made", Mode: plain},
			{Name: "overwrite", Op: "write", Path: "was-setuid"},
		}
		got := inside(t, y, append(tries, plainTries...), nil)
		for _, x := range tries {
			if got[x.Name].ok() {
				t.Errorf("%s: ok", x.Name)
			}
		}
		for _, x := range plainTries {
			if !got[x.Name].ok() {
				t.Errorf("%s: %v", x.Name, got[x.Name])
			}
		}
		r := y.Sh(t, `cp -p /usr/bin/env by-cp; install -m 4755 /usr/bin/env by-install; cp /usr/bin/env x; chmod u+s x; `+
			python+` -c 'import os; os.fchmod(os.open("x", os.O_RDONLY), 0o4755)'; `+
			python+` -c 'import os; os.setxattr("x", "security.capability", b"\x01\0\0\2\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\0\0\0\0")'; true`).OK(t)
		if found := y.Host(t, "find", ".", "-perm", "/6000"); found != "" {
			t.Errorf("left on the host:\n%s\nstderr: %s", found, r.Stderr)
		}
		if caps, err := exec.CommandContext(t.Context(), python, "-c", "import os,sys; print(os.getxattr(sys.argv[1],'security.capability'))", y.Dir+"/x").Output(); err == nil {
			t.Errorf("the file has capabilities: %s", caps)
		}
		for name, o := range natively(t, y, tries) {
			if !o.ok() {
				t.Errorf("the twin of %s fails natively: %v", name, o)
			}
		}
	})
}

// TestISO07_NoSetIDFileWorks: the part of the claim about files. Images for
// tasks are not built yet.
func TestISO07_NoSetIDFileWorks(t *testing.T) {
	t.Attr("claim", "ISO-07")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		id := filepath.Join(y.Dir, "id")
		if err := exec.CommandContext(t.Context(), "cp", "/usr/bin/id", id).Run(); err != nil {
			t.Fatal(err)
		}
		// Another user's program with the bit, put there before the run.
		const other = 2
		chown(t, id, other, other)
		chmod(t, id, 0o755|os.ModeSetuid|os.ModeSetgid)
		own := filepath.Join(y.Dir, "own")
		if err := exec.CommandContext(t.Context(), "cp", "/usr/bin/id", own).Run(); err != nil {
			t.Fatal(err)
		}
		chown(t, own, 0, 0)
		chmod(t, own, 0o755|os.ModeSetuid)
		r := y.Sh(t, `
			id -u; ./id -u; ./id -g; ./own -u
			for c in "su -c id" "sudo -n id" "newgrp root" "mount -t tmpfs x /tmp" "chsh -s /bin/sh" "unshare -r true"; do
				timeout 5 $c </dev/null >/tmp/out 2>&1 && echo "WORKED $c: $(cat /tmp/out)"
			done; true`).OK(t)
		lines := strings.Split(r.Stdout, "\n")
		if len(lines) < 4 || lines[1] != lines[0] || lines[2] == strconv.Itoa(other) || lines[3] != lines[0] {
			t.Errorf("the bit had an effect:\n%s", r.Stdout)
		}
		if strings.Contains(r.Stdout, "WORKED") {
			t.Errorf("more rights were got:\n%s", r.Stdout)
		}
		if got := strings.TrimSpace(y.Host(t, id, "-u")); got != strconv.Itoa(other) {
			t.Errorf("the twin: natively the bit gives %s", got)
		}
		if y.UID == 0 { // and more rights are to be had
			y.Host(t, "unshare", "--mount", "mount", "-t", "tmpfs", "x", "/mnt")
			y.Host(t, "su", "-c", "id")
		}
		y.Host(t, "unshare", "-r", "true")
	})
}

// hold waits for something that a sandbox does to the workspace.
func hold(t *testing.T, what string, holds func() bool) {
	t.Helper()
	yard.Eventually(t, yard.Timeout, holds, func() string { return what })
}

// nativeCommand prepares a program on the host as the identity, for what Host
// cannot do.
func nativeCommand(ctx context.Context, y *yard.Yard, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = y.Dir
	cmd.Env = []string{"HOME=" + y.Home, "PATH=/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM=1"}
	if y.UID != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(y.UID), Gid: uint32(y.GID)}}
	}
	return cmd
}
