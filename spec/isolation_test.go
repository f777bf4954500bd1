package spec_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// readProc reads a file of /proc/PID, or "" if the process is gone.
func readProc(t *testing.T, pid int, name string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil && !os.IsNotExist(err) {
		t.Logf("read %s of process %d: %v", name, pid, err)
	}
	return string(b)
}

// values reads lines of NAME=VALUE.
func values(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			m[name] = value
		}
	}
	return m
}

// processes returns the pids for which the text of one file of /proc/PID
// satisfies holds, this test's own not among them.
func processes(t *testing.T, file string, holds func(string) bool) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/" + file)
		if err == nil && holds(string(b)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// escape builds the program of testdata/escape.c.
func escape(t *testing.T, y *yard.Yard) {
	t.Helper()
	out := filepath.Join(y.Dir, "escape")
	cmd := exec.CommandContext(t.Context(), "gcc", "-static", "-O1", "-w", "-o", out, "testdata/escape.c")
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, msg)
	}
	if err := os.Chmod(out, 0o755); err != nil {
		t.Fatal(err)
	}
}

// native runs a program of the workspace on the host, as root with all rights,
// in namespaces of its own so that it harms nobody.
func native(t *testing.T, y *yard.Yard, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts", "--mount-proc"}, args...)...)
	cmd.Dir = y.Dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v on the host: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestISO05_NoWayUp tries every system call that escapes are made of. The same
// program does nearly all of it on the host.
func TestISO05_NoWayUp(t *testing.T) {
	t.Attr("claim", "ISO-05")
	t.Parallel()
	works := map[string]bool{"debug_child": true, "fork": true, "tcp": true}
	if yard.Native() { // the kernel asks the filter after the tracer
		works["trace_seccomp"], works["seize_seccomp"] = true, true
	}
	// What no kernel allows, or this one may lack: there is no twin.
	noTwin := map[string]bool{"nnp_off": true, "x32": true, "int80": true}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		escape(t, y)
		inside := values(y.Run(t, "run", "--quiet", "--", "./escape").OK(t).Stdout)
		host := values(native(t, y, "./escape"))
		if len(inside) < 60 || len(host) != len(inside) {
			t.Fatalf("%d results inside, %d on the host", len(inside), len(host))
		}
		for name, got := range inside {
			switch {
			case works[name] && got != "ok":
				t.Errorf("%s: %s inside, and should work", name, got)
			case yard.Native() && (name == "x32" || name == "int80") && got != "signal":
				t.Errorf("%s: %s inside, and should end the process", name, got)
			case works[name]:
			case got == "ok":
				t.Errorf("%s works inside", name)
			case host[name] == "ENOSYS" || host[name] == "EAFNOSUPPORT":
				t.Logf("%s: this host's kernel does not have it", name)
			case host[name] != "ok" && !noTwin[name]:
				t.Errorf("%s fails on the host, too (%s): the test proves nothing", name, host[name])
			}
		}
		noCapability(t, y)
	})
}

// noCapability reads what the kernel inside says of a command, of one started
// by exec, and of the first process.
func noCapability(t *testing.T, y *yard.Yard) {
	t.Helper()
	r := y.Start(t, "run", "--quiet", "--name", "caps", "--", "sh", "-c", "echo ready; read x")
	r.Await(t, "ready")
	out := y.Run(t, "exec", "caps", "--", "cat", "/proc/self/status", "/proc/1/status", "/proc/2/status", "/proc/7/status").Stdout
	_, _ = r.Stdin.Write([]byte("\n"))
	seen := 0
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2"}[name]
		if strings.HasPrefix(name, "Cap") {
			want = "0000000000000000"
		}
		if want == "" {
			continue
		}
		seen++
		if value != want {
			t.Errorf("inside: %s", strings.TrimSpace(line))
		}
	}
	if seen < 14 {
		t.Errorf("only %d lines to look at:\n%s", seen, out)
	}
	r.Wait(t, yard.Timeout).OK(t)
}

// TestISO01_AnotherKernel shows that what runs inside talks to gVisor: it says
// so, it lacks a call that the host's kernel has, and the host has no process
// that is the command.
func TestISO01_AnotherKernel(t *testing.T) {
	t.Attr("claim", "ISO-01")
	t.Parallel()
	probe := `import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for name, nr in (("mseal", 462), ("statmount", 457), ("listmount", 458), ("cachestat", 451), ("getpid", 39)):
    ctypes.set_errno(0)
    libc.syscall(nr, 0, 0, 0, 0)
    print(name + "=" + ("absent" if ctypes.get_errno() == errno.ENOSYS else "there"))
print("release=" + os.uname().release)
print("version=" + open("/proc/version").read().strip().replace("=", ""))
`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "probe.py", probe)
		inside := values(y.Run(t, "run", "--quiet", "--", "/usr/bin/python3", "probe.py").OK(t).Stdout)
		host := values(y.Host(t, "/usr/bin/python3", "probe.py"))
		if !strings.Contains(inside["release"], "gvisor") || inside["version"] == host["version"] {
			t.Errorf("inside: %v", inside)
		}
		if strings.Contains(host["release"], "gvisor") || inside["getpid"] != "there" {
			t.Errorf("twin: host %v, inside %v", host, inside)
		}
		differ := 0
		for name, v := range inside {
			if v == "absent" && host[name] == "there" {
				differ++
			}
		}
		if differ == 0 {
			t.Errorf("no call that the host has is absent inside: host %v, inside %v", host, inside)
		}
		noHostProcess(t, y)
		said := y.Run(t, "run", "--", "true").OK(t)
		if !strings.Contains(said.Stderr, "gvisor") {
			t.Errorf("the header does not name the runtime: %s", said.Stderr)
		}
		y.Run(t, "run", "--runtime", "runc", "--", "true").Exit(t, 125)
	})
}

// noHostProcess looks for the command among the host's processes.
func noHostProcess(t *testing.T, y *yard.Yard) {
	t.Helper()
	isSleep := func(seconds string) func(string) bool {
		return func(cmdline string) bool { return strings.HasPrefix(cmdline, "sleep\x00"+seconds) }
	}
	r := y.Start(t, "run", "--quiet", "--", "sh", "-c", "sleep 31337 & echo started; read x")
	r.Await(t, "started")
	if pids := processes(t, "cmdline", isSleep("31337")); len(pids) > 0 {
		t.Errorf("the host has processes of the command: %v", pids)
	}
	twin := exec.CommandContext(t.Context(), "sleep", "31338")
	if err := twin.Start(); err != nil {
		t.Fatal(err)
	}
	yard.Eventually(t, yard.Timeout, func() bool { return len(processes(t, "cmdline", isSleep("31338"))) == 1 },
		func() string { return "a native process of that kind is not found" })
	_ = twin.Process.Kill()
	_ = twin.Wait()
	_, _ = r.Stdin.Write([]byte("\n"))
	r.Wait(t, yard.Timeout)
}

// secrets of ISO-10, each where a person might have one.
const (
	secretHost = "canary-of-the-hosts-environment"
	secretFlag = "canary-of-an-env-flag"
	secretFile = "canary-of-an-env-file"
	secretOpen = "canary-of-an-open-file"
)

// TestISO10_NothingOfTheHost looks for what a sandbox could learn of the host,
// and on the host for where a sandbox's secrets might lie.
func TestISO10_NothingOfTheHost(t *testing.T) {
	t.Attr("claim", "ISO-10")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		t.Run("inside", func(t *testing.T) { nothingInside(t, y) })
		t.Run("values", func(t *testing.T) { valuesStayAway(t, y) })
	})
}

const lookAround = `
p() { printf '%s=%s\n' "$1" "$(cat "$2" 2>/dev/null | tr -d '\000' | tr '\n' ' ')"; }
for f in /proc/cmdline /proc/version /proc/sys/kernel/random/boot_id /proc/sys/kernel/hostname /etc/machine-id /proc/partitions /proc/modules /proc/kallsyms /proc/config.gz /proc/keys /proc/self/mountinfo /sys/class/dmi/id/product_uuid /proc/sys/kernel/core_pattern; do p "$f" "$f"; done
printf 'environs=%s\n' "$(cat /proc/*/environ 2>/dev/null | tr '\000' ' ')"
printf 'self=%s\n' "$(readlink /proc/self/exe)"
printf 'fds=%s\n' "$(for n in 0 1 2 3 4 5 6 7 8 9; do (true <&$n) 2>/dev/null && echo $n; done | tr '\n' ' ')"
printf 'leaked=%s\n' "$( (cat <&4) 2>/dev/null; (cat <&5) 2>/dev/null )"
printf 'dev=%s\n' "$(ls /dev | tr '\n' ' ')"
(echo x > /proc/sys/kernel/core_pattern) 2>/dev/null && echo core=written
(echo x > /proc/sysrq-trigger) 2>/dev/null && echo sysrq=written
(echo x >> /.bailey/bailey) 2>/dev/null && echo binary=written
(echo x > /proc/sys/kernel/hostname) 2>/dev/null && echo hostname=written
(echo x > /sys/made) 2>/dev/null && echo sys=written
echo end=reached
`

func nothingInside(t *testing.T, y *yard.Yard) {
	t.Helper()
	secret := y.WriteHome(t, "secret", secretOpen)
	open := func(cmd *exec.Cmd) {
		f, err := os.Open(secret)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		cmd.Env = append(cmd.Env, "HOST_SECRET="+secretHost)
		cmd.ExtraFiles = []*os.File{nil, f, f} // 4 and 5, as a careless parent would
	}
	inside := values(y.RunWith(t, open, "run", "--quiet", "--", "sh", "-c", lookAround).OK(t).Stdout)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	twin := exec.CommandContext(ctx, "sh", "-c", lookAround[:strings.Index(lookAround, "(echo")])
	twin.Env = os.Environ()
	open(twin)
	out, err := twin.Output()
	if err != nil {
		t.Fatal(err)
	}
	host := values(string(out))
	if inside["end"] != "reached" {
		t.Fatalf("the script did not end: %v", inside)
	}
	if inside["leaked"] != "" || inside["fds"] != "0 1 2" {
		t.Errorf("descriptors inside: %q, read from them: %q", inside["fds"], inside["leaked"])
	}
	if !strings.Contains(host["leaked"], secretOpen) || !strings.Contains(host["environs"], secretHost) {
		t.Errorf("twin: the host does not give the secrets away either: %q", host["leaked"])
	}
	for name, v := range inside {
		if strings.Contains(v, secretHost) || strings.Contains(v, secretOpen) || strings.Contains(v, y.Home) {
			t.Errorf("%s gives away %q", name, v)
		}
		if strings.HasSuffix(v, "written") {
			t.Errorf("%s is %s", name, v)
		}
		if strings.HasPrefix(name, "/proc") && v != "" && v == host[name] {
			t.Errorf("%s is the host's: %q", name, v)
		}
	}
	for _, absent := range []string{"/etc/machine-id", "/proc/kallsyms", "/proc/config.gz", "/proc/keys", "/proc/partitions", "/sys/class/dmi/id/product_uuid", "/proc/sys/kernel/core_pattern"} {
		if inside[absent] != "" {
			t.Errorf("%s is there: %q", absent, inside[absent])
		}
	}
	allowed := " char fd full fuse net null ptmx pts random shm stderr stdin stdout tty urandom zero "
	for f := range strings.FieldsSeq(inside["dev"]) {
		if !strings.Contains(allowed, " "+f+" ") {
			t.Errorf("/dev/%s is there", f)
		}
	}
	if host["/proc/cmdline"] == "" || host["/proc/sys/kernel/random/boot_id"] == "" {
		t.Errorf("twin: the host does not tell either: %v", host)
	}
}

// valuesStayAway runs a command with secrets in its environment and looks for
// them in every argv, environment and file that bailey could have made.
func valuesStayAway(t *testing.T, y *yard.Yard) {
	t.Helper()
	file := y.WriteHome(t, "env", "FROM_FILE="+secretFile+"\n")
	wrap := y.Wrap
	y.Wrap = func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "FROM_HOST="+secretHost, "UNNAMED="+secretHost+"-unnamed")
	}
	defer func() { y.Wrap = wrap }()
	r := y.Start(t, "run", "--quiet", "--net", "open", "--env", "FROM_HOST", "--env", "FROM_FLAG="+secretFlag, "--env-file", file,
		"--", "sh", "-c", `env | grep -c -e FROM_HOST=canary -e FROM_FLAG=canary -e FROM_FILE=canary; env | grep UNNAMED; echo ready; read x`)
	r.Await(t, "ready")
	if out, _ := r.Output(); !strings.HasPrefix(out, "3\nready") {
		t.Errorf("the command's environment: %q", out)
	}
	holds := func(s string) bool {
		return strings.Contains(s, secretHost) || strings.Contains(s, secretFlag) || strings.Contains(s, secretFile)
	}
	own := r.Cmd.Process.Pid // what the person typed stands in their own process
	for _, where := range []string{"cmdline", "environ"} {
		found := processes(t, where, holds)
		if yard.Native() && where == "environ" { // the command is a process of this kernel, its environment its user's to read
			found = slices.DeleteFunc(found, func(pid int) bool { return pid != own && mounts(y, pid) })
		}
		if len(found) != 1 || found[0] != own {
			t.Errorf("%s of processes %v holds a secret, want only that of %d (twin)", where, found, own)
		}
	}
	look := func(when string) {
		found := filesWith(t, holds, filepath.Dir(y.Dir), "/tmp", "/run", "/var/tmp", "/dev/shm")
		if len(found) != 1 || found[0] != file {
			t.Errorf("%s the run: files %v hold a secret, want only %s (twin)", when, found, file)
		}
	}
	look("during")
	for _, pid := range processes(t, "cmdline", func(s string) bool { return strings.HasPrefix(s, "bailey-helper") }) {
		root := "/proc/" + strconv.Itoa(pid) + "/root/"
		if found := filesWith(t, holds, root+"bundle", root+"state", root+"private"); len(found) > 0 {
			t.Errorf("the helper's files %v hold a secret", found)
		}
	}
	_, _ = r.Stdin.Write([]byte("\n"))
	r.Wait(t, yard.Timeout).OK(t)
	look("after")
}

// filesWith looks through small, recent files.
func filesWith(t *testing.T, holds func(string) bool, dirs ...string) []string {
	t.Helper()
	var found []string
	seen := map[string]bool{}
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || seen[path] {
				return nil //nolint:nilerr // other tests' files come and go
			}
			seen[path] = true
			info, err := d.Info()
			if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 || time.Since(info.ModTime()) > 2*time.Minute {
				return nil //nolint:nilerr // as above
			}
			if b, err := os.ReadFile(path); err == nil && holds(string(b)) && !bytes.HasPrefix(b, []byte("\x7fELF")) && !strings.HasSuffix(path, ".go") {
				found = append(found, path)
			}
			return nil
		})
	}
	return found
}

// broken are machines that lack a layer, each made by a shell that becomes
// "$@", and what bailey must say there.
var broken = []struct {
	name, script string
	args         []string
	says, hint   string
}{
	{
		name: "user namespaces", script: `echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"`,
		says: "user.max_user_namespaces is 0", hint: "sysctl",
	},
	{
		name: "proc", script: `mount --bind /dev/null /proc/version; exec "$@"`,
		says: "proc", hint: "mask",
	},
	{
		name: "airlock", script: `echo 1 > /proc/sys/user/max_net_namespaces; exec "$@"`, args: []string{"--allow", "example.com"},
		says: "airlock", hint: "",
	},
}

// TestISO13_NothingRunsWithoutALayer breaks one layer at a time, as an ordinary
// user: root's switches are the machine's. The same wrapper without the break
// runs the command.
func TestISO13_NothingRunsWithoutALayer(t *testing.T) {
	t.Attr("claim", "ISO-13")
	t.Parallel()
	y := yard.Unprivileged(t)
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			args := slices.Concat([]string{"run"}, b.args, []string{"--", "touch", "ran"})
			if r, ran := elsewhere(t, y, `exec "$@"`, args...); r.Code != 0 || !ran {
				t.Fatalf("twin: with every layer it ended with %d, ran %t\n%s", r.Code, ran, r.Stderr)
			}
			r, ran := elsewhere(t, y, b.script, args...)
			if r.Code != 125 || ran {
				t.Errorf("exit code %d, ran %t, want 125 and nothing run\n%s", r.Code, ran, r.Stderr)
			}
			if !strings.Contains(r.Stderr, b.says) || !strings.Contains(r.Stderr, b.hint) {
				t.Errorf("says %q, want the layer %q and a hint %q", r.Stderr, b.says, b.hint)
			}
		})
	}
	t.Run("cgroup", func(t *testing.T) {
		r, _ := elsewhere(t, y, `mount -t tmpfs none /sys/fs/cgroup; exec "$@"`, "run", "--", "true")
		if r.OK(t); !strings.Contains(r.Stderr, "memory is watched, not enforced") {
			t.Errorf("the header does not say that limits are watched: %s", r.Stderr)
		}
	})
	t.Run("doctor", func(t *testing.T) {
		r, _ := elsewhere(t, y, broken[0].script, "doctor")
		if r.Exit(t, 1); !strings.Contains(r.Stdout, "user namespaces  missing") || !strings.Contains(r.Stdout, broken[0].hint) {
			t.Errorf("doctor says:\n%s", r.Stdout)
		}
	})
}

// elsewhere runs bailey as the yard's user in a user and a mount namespace of
// its own, where a script may break things without harm to the machine, and
// reports whether the file "ran" came of it.
func elsewhere(t *testing.T, y *yard.Yard, script string, args ...string) (yard.Result, bool) {
	t.Helper()
	path, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	r := y.RunWith(t, func(cmd *exec.Cmd) {
		cmd.Path = path
		cmd.Args = slices.Concat([]string{
			"unshare", "--user", fmt.Sprintf("--map-user=%d", y.UID), fmt.Sprintf("--map-group=%d", y.GID), "--keep-caps", "--mount", "--",
			"sh", "-c", script, "sh", "setpriv", "--inh-caps=-all", "--ambient-caps=-all", "--", y.Bin,
		}, args)
	}, args...)
	file := filepath.Join(y.Dir, "ran")
	_, err = os.Stat(file)
	_ = os.Remove(file)
	return r, err == nil
}
