package spec_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// neighbour plays one of two sandboxes: it says what it holds and tries to
// find what the other one holds.
const neighbour = `
import os, signal, socket, sys
me, other = sys.argv[1], sys.argv[2]
keep = []
a = socket.socket(socket.AF_UNIX); a.bind("\0yard-" + me); a.listen(); keep.append(a)
t = socket.socket(); t.bind(("0.0.0.0", 4000 + int(me))); t.listen(); keep.append(t)
for d in ("/tmp", "/dev/shm", "/run", "/var/tmp", "/home/agent"):
    open(d + "/held-by-" + me, "w").write(me)
def spin():
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sleep", ["sleep", "9" + me * 4])
spin()
print("holding", flush=True)
for line in sys.stdin:
    who = {"own": me, "other": other}.get(line.strip())
    if who is None:
        break
    def tell(name, value):
        print(line.strip() + "." + name + "=" + str(value), flush=True)
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect("\0yard-" + who); tell("abstract", "ok")
    except OSError as e:
        tell("abstract", e.errno)
    reached = "no"
    for address in ("127.0.0.1", "192.0.0.1", "192.0.0.2"):
        s = socket.socket(); s.settimeout(2)
        try:
            s.connect((address, 4000 + int(who)))
            s.settimeout(1)
            try:
                reached = "no" if s.recv(1) == b"" else "ok"
            except TimeoutError:
                reached = "ok"
            except OSError:
                pass
        except OSError:
            pass
        if reached == "ok":
            break
    tell("tcp", reached)
    tell("files", sum(os.path.exists(d + "/held-by-" + who) for d in ("/tmp", "/dev/shm", "/run", "/var/tmp", "/home/agent")))
    seen = 0
    for p in os.listdir("/proc"):
        try:
            seen += p.isdigit() and ("9" + who * 4) in open("/proc/" + p + "/cmdline").read()
        except OSError:
            pass
    tell("processes", seen)
    print(line.strip() + ".end=1", flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    os.kill(-1, signal.SIGTERM)
except OSError:
    pass
print("killed", flush=True)
sys.stdin.read()
`

// TestISO14_TwoSandboxes runs two at once, in neighbouring workspaces of one
// user. What each finds of the other it finds of itself: that is the twin.
func TestISO14_TwoSandboxes(t *testing.T) {
	t.Attr("claim", "ISO-14")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		var two [2]*yard.Running
		for i, me := range []string{"1", "2"} {
			dir := "ws" + me
			y.Write(t, dir+"/neighbour.py", neighbour)
			y.Write(t, dir+"/token", "token-of-"+me)
			home := y.Dir
			y.Dir = filepath.Join(home, dir)
			two[i] = y.Start(t, "run", "--quiet", "--name", "n"+me, "--allow", "example.com", "--", python, "neighbour.py", me, strconv.Itoa(3-i-1))
			y.Dir = home
		}
		for _, r := range two {
			r.Await(t, "holding")
		}
		for i, r := range two {
			for _, who := range []string{"own", "other"} {
				_, _ = r.Stdin.Write([]byte(who + "\n"))
				r.Await(t, who+".end=1")
			}
			out, _ := r.Output()
			got := values(out)
			want := map[string]string{"own.abstract": "ok", "own.tcp": "ok", "own.files": "5", "own.processes": "1", "other.abstract": "111", "other.tcp": "no", "other.files": "0", "other.processes": "0"}
			for name, v := range want {
				if got[name] != v {
					t.Errorf("sandbox %d: %s is %q, want %q", i+1, name, got[name], v)
				}
			}
		}
		nothingShared(t, y, two[0].Cmd.Process.Pid, two[1].Cmd.Process.Pid)
		noNames(t, y)
		// The first ends all it can reach; the second must not notice.
		_, _ = two[0].Stdin.Write([]byte("kill\n"))
		two[0].Await(t, "killed")
		if got := y.Run(t, "exec", "n2", "--", "pgrep", "-f", "92222"); got.Code != 0 {
			t.Errorf("the second sandbox lost its process: %d %s", got.Code, got.Stderr)
		}
		for _, r := range two {
			_ = r.Stdin.Close()
		}
		two[1].Wait(t, yard.Timeout)
	})
}

// nothingShared compares what the kernel shows of both sandboxes' processes.
func nothingShared(t *testing.T, y *yard.Yard, first, second int) {
	t.Helper()
	var lists [2][]posture.Posture
	for i, pid := range []int{first, second} {
		var err error
		if lists[i], err = (posture.Reader{}).Run(pid); err != nil {
			t.Fatal(err)
		}
	}
	roles := []posture.Role{posture.Helper, posture.Gofer, posture.Sentry, posture.Proxy}
	if yard.Native() {
		roles = []posture.Role{posture.Helper, posture.Native, posture.Proxy}
	}
	for _, role := range roles {
		a, b := find(t, lists[0], role), find(t, lists[1], role)
		for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
			if x := link(t, a.PID, "ns/"+kind); role != posture.Proxy && x == link(t, b.PID, "ns/"+kind) {
				t.Errorf("%s: both are in %s", role, x)
			}
		}
		for _, fd := range openFDs(t, a.PID) {
			if slices.Contains(openFDs(t, b.PID), fd) {
				t.Errorf("%s: both hold %s", role, fd)
			}
		}
		if y.UID == 0 && a.UIDs[0] == b.UIDs[0] {
			t.Errorf("%s: both run as %d", role, a.UIDs[0])
		}
	}
	if y.UID == 0 {
		helper, proxy := find(t, lists[0], posture.Helper), find(t, lists[0], posture.Proxy)
		if helper.UIDs[0] == proxy.UIDs[0] || helper.UIDs[0] == 0 || proxy.UIDs[0] == 0 {
			t.Errorf("helper runs as %d, proxy as %d", helper.UIDs[0], proxy.UIDs[0])
		}
	}
	mounts := strings.Join(find(t, lists[0], posture.Helper).Mounts, "\n")
	if strings.Contains(mounts, "/ws2") || !strings.Contains(mounts, "/ws1") {
		t.Errorf("the first sandbox has mounted:\n%s", mounts)
	}
	if fds := openFDs(t, find(t, lists[0], roles[len(roles)-2]).PID); len(fds) == 0 {
		t.Errorf("twin: the %s holds no socket and no pipe", roles[len(roles)-2])
	}
}

func find(t *testing.T, list []posture.Posture, role posture.Role) posture.Posture {
	t.Helper()
	for _, p := range list {
		if p.Role == role {
			return p
		}
	}
	t.Fatalf("no %s", role)
	return posture.Posture{}
}

func link(t *testing.T, pid int, name string) string {
	t.Helper()
	s, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openFDs lists the sockets and pipes of a process: those are numbered.
func openFDs(t *testing.T, pid int) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		s, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + e.Name())
		if err == nil && (strings.HasPrefix(s, "socket:") || strings.HasPrefix(s, "pipe:")) {
			list = append(list, s)
		}
	}
	return list
}

// noNames looks from inside for what leads to another sandbox: bailey's own
// commands, sockets, and files beside the workspace. What it finds of itself,
// and what a person finds on the host by the same means, is the twin.
func noNames(t *testing.T, y *yard.Yard) {
	t.Helper()
	look := `for c in ps 'stop n2' 'exec n2 -- true' 'run -- true'; do timeout 5 %s $c </dev/null >/dev/null 2>&1 && echo "did $c"; done
find %s -name '*.sock' 2>/dev/null
cat token ../ws2/token 2>&1; echo end`
	run := filepath.Dir(y.Dir) + "/run"
	inside := y.Run(t, "exec", "n1", "--", "sh", "-c", fmt.Sprintf(look, "/.bailey/bailey", "/run /tmp /var/tmp /dev /.bailey /home")).Stdout
	if !strings.Contains(inside, "token-of-1") || !strings.HasSuffix(inside, "end\n") {
		t.Errorf("twin: it does not find its own: %q", inside)
	}
	for _, bad := range []string{"did ", ".sock", "token-of-2"} {
		if strings.Contains(inside, bad) {
			t.Errorf("from inside %q: %s", bad, inside)
		}
	}
	outside := y.Host(t, "sh", "-c", fmt.Sprintf("cd ws1; find %s -name '*.sock'; cat ../ws2/token", run))
	for _, name := range []string{"n1.sock", "n2.sock", "token-of-2"} {
		if !strings.Contains(outside, name) {
			t.Errorf("twin: on the host there is no %s: %s", name, outside)
		}
	}
	names := y.Run(t, "ps").OK(t).Stdout
	for _, name := range []string{"n1", "n2"} {
		if !strings.Contains(names, name+" ") {
			t.Errorf("twin: bailey ps does not list %s:\n%s", name, names)
		}
	}
}

// TestISO06_TheIdentityOwnsNothingElse looks at each process of a sandbox: its
// ids, all four and of its groups, are the caller's own, or for root ids that
// nobody has and that own no file of the host.
func TestISO06_TheIdentityOwnsNothingElse(t *testing.T) {
	t.Attr("claim", "ISO-06")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		r := y.Start(t, "run", "--quiet", "--allow", "example.com", "--", "sh", "-c", "echo up; cat")
		r.Await(t, "up")
		list, err := (posture.Reader{}).Run(r.Cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		sandbox := unusedID(t, sandboxID(t, y))
		proxy := sandbox ^ 0x800000
		stubs := 0
		for _, p := range list {
			uid, gid, groups := y.UID, y.GID, list[0].Groups
			switch p.Role {
			case posture.CLI, posture.Watchdog:
				continue
			case posture.Stub, posture.Shared:
				stubs++
			default:
			}
			if y.UID == 0 {
				uid, groups = sandbox, []int{}
				if p.Role == posture.Proxy {
					uid = proxy
				}
				gid = uid
			}
			if !slices.Equal(p.UIDs, []int{uid, uid, uid, uid}) || !slices.Equal(p.GIDs, []int{gid, gid, gid, gid}) || !slices.Equal(p.Groups, groups) {
				t.Errorf("%s runs as %v, %v, groups %v; want %d, %d, %v", p.Role, p.UIDs, p.GIDs, p.Groups, uid, gid, groups)
			}
		}
		if stubs == 0 {
			t.Error("no process of a command was looked at")
		}
		if y.UID == 0 {
			ownsNothing(t, sandbox, proxy)
		}
		_ = r.Stdin.Close()
		r.Wait(t, yard.Timeout).OK(t)
	})
}

// ownsNothing looks for the ids where names, delegated ranges and files are. An
// id that does own a file is found by the same search.
func ownsNothing(t *testing.T, ids ...int) {
	t.Helper()
	own := t.TempDir()
	owned := func(id int) string {
		out, err := exec.CommandContext(t.Context(), "find", "/etc", "/home", "/root", "/run", "/srv", "/var", own, "-xdev",
			"(", "-uid", strconv.Itoa(id), "-o", "-gid", strconv.Itoa(id), ")").Output()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended { // what others remove meanwhile is no failure
			t.Fatal(err)
		}
		return string(out)
	}
	for _, id := range ids {
		if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
			t.Errorf("%d is user %s", id, u.Username)
		}
		if g, err := user.LookupGroupId(strconv.Itoa(id)); err == nil {
			t.Errorf("%d is group %s", id, g.Name)
		}
		for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
			b, _ := os.ReadFile(file) // a machine may have none
			for line := range strings.Lines(string(b)) {
				f := strings.Split(strings.TrimSpace(line), ":")
				first, _ := strconv.Atoi(f[1])
				count, _ := strconv.Atoi(f[2])
				if id >= first && id < first+count {
					t.Errorf("%d is in the range %s of %s", id, strings.TrimSpace(line), file)
				}
			}
		}
		if found := owned(id); found != "" {
			t.Errorf("%d owns on the host:\n%s", id, found)
		}
	}
	if err := os.Chown(own, ids[0], ids[0]); err != nil {
		t.Fatal(err)
	}
	if found := owned(ids[0]); strings.TrimSpace(found) != own {
		t.Errorf("twin: what it owns is not found: %q", found)
	}
}

// remains lists what a bailey of this yard may have left: processes in a mount
// namespace that has the workspace, those of known that still run, and sockets.
func remains(t *testing.T, y *yard.Yard, known map[int]string) []string {
	t.Helper()
	var found []string
	pids := processes(t, "mountinfo", func(s string) bool { return strings.Contains(s, y.Dir) })
	for pid, started := range known {
		if s := startOf(t, pid); s != "" && s == started {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		found = append(found, fmt.Sprintf("process %d: %s", pid, strings.ReplaceAll(readProc(t, pid, "cmdline"), "\x00", " ")))
	}
	names, err := filepath.Glob(filepath.Dir(y.Dir) + "/run/bailey/*.sock")
	if err != nil {
		t.Fatal(err)
	}
	return append(found, names...)
}

// startOf returns when a process started, or "" if it has ended.
func startOf(t *testing.T, pid int) string {
	t.Helper()
	_, rest, _ := strings.Cut(readProc(t, pid, "stat"), ") ")
	f := strings.Fields(rest)
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}

// TestISO09_NothingOutlivesItsKeepers stops and kills the processes that keep
// a run, at different moments.
func TestISO09_NothingOutlivesItsKeepers(t *testing.T) {
	t.Attr("claim", "ISO-09")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, net := range [][]string{{"--net", "none"}, {"--allow", "example.com"}} {
			for i, after := range []time.Duration{30, 150, 400, 900} {
				t.Run(fmt.Sprintf("%s kill %d", net[1], i), func(t *testing.T) { killed(t, y, net, after*time.Millisecond, i%2 == 1) })
			}
		}
	})
}

// killed kills the run, and the watchdog with it if both is set, some time
// after the start.
func killed(t *testing.T, y *yard.Yard, net []string, after time.Duration, both bool) {
	t.Helper()
	r := y.Start(t, slices.Concat([]string{"run", "--quiet"}, net, []string{"--", "sh", "-c", "sleep 600 & sleep 600"})...)
	<-time.NewTimer(after).C
	list, err := (posture.Reader{}).Run(r.Cmd.Process.Pid)
	if err != nil {
		t.Errorf("while it started: %v", err)
	}
	known := map[int]string{}
	for _, p := range list {
		if s := startOf(t, p.PID); s != "" {
			known[p.PID] = s
		}
	}
	if len(remains(t, y, known)) == 0 {
		t.Error("twin: nothing is found of a running bailey")
	}
	groups := groupsOf(list)
	for _, p := range list {
		if both && p.Role == posture.Watchdog {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	_ = r.Cmd.Process.Kill()
	_ = r.Wait(t, yard.Timeout)
	var left []string
	yard.Eventually(t, yard.Timeout, func() bool {
		left = remains(t, y, known)
		for _, g := range groups {
			if _, err := os.Stat(g); err == nil {
				left = append(left, g)
			}
		}
		if both { // nobody is left who could remove what is no process; the next run does
			left = slices.DeleteFunc(left, func(s string) bool { return !strings.HasPrefix(s, "process") })
		}
		return len(left) == 0
	}, func() string { return fmt.Sprintf("left after 3 s: %v", left) })
	if both {
		<-time.NewTimer(1100 * time.Millisecond).C // as old as a socket has to be
		y.Run(t, "run", "--quiet", "--", "true").OK(t)
		if left := remains(t, y, nil); len(left) > 0 {
			t.Errorf("the next run has not removed %v", left)
		}
	}
}

// groupsOf returns the folders of the cgroups that bailey made for a run.
func groupsOf(list []posture.Posture) []string {
	var dirs []string
	for _, p := range list {
		for _, g := range p.Cgroups {
			f := strings.SplitN(g, ":", 3)
			if len(f) == 3 && strings.HasPrefix(f[2], "/bailey/") {
				dirs = append(dirs, "/sys/fs/cgroup/"+f[1]+f[2])
			}
		}
	}
	return dirs
}
