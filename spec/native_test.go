package spec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/landlock"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// onHostKernel makes a `bailey run` one with this machine's kernel.
func onHostKernel(args ...string) []string {
	return slices.Concat([]string{"run", "--runtime", "native"}, args)
}

// TestISO01_SharedKernelIsSaid: the host's kernel is shared by the flag alone,
// which no variable and no file stands for; and wherever a sandbox is shown, that
// is.
func TestISO01_SharedKernelIsSaid(t *testing.T) {
	t.Attr("claim", "ISO-01")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		r := y.Start(t, onHostKernel("--name", "open", "--", "sh", "-c", "uname -r; echo up; cat")...)
		r.Await(t, "up")
		out, said := r.Output()
		for _, want := range []string{": native, workspace", "kernel: shared with this machine"} {
			if !strings.Contains(said, want) {
				t.Errorf("the header does not say %q: %s", want, said)
			}
		}
		if host := y.Host(t, "uname", "-r"); !strings.HasPrefix(out, host) {
			t.Errorf("the kernel inside is %q, want the host's %q", out, host)
		}
		if rows := y.Run(t, "ps", "--json").OK(t).Stdout; !strings.Contains(rows, `"runtime": "native"`) {
			t.Errorf("ps: %s", rows)
		}
		if table := y.Run(t, "ps").OK(t).Stdout; !strings.Contains(table, "native") {
			t.Errorf("ps: %s", table)
		}
		_ = r.Stdin.Close()
		r.Wait(t, yard.Timeout).OK(t)

		y.Write(t, "bailey.yaml", "net: {deny: [example.com]}\n")
		set := func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "BAILEY_RUNTIME=native") }
		if r := y.RunWith(t, set, "run", "--runtime", "gvisor", "--", "uname", "-r").OK(t); !strings.Contains(r.Stderr, ": gvisor, workspace") {
			t.Errorf("gvisor by name: %s", r.Stderr)
		}
		if !yard.Native() {
			if r := y.RunWith(t, set, "run", "--", "uname", "-r").OK(t); !strings.Contains(r.Stderr, ": gvisor, workspace") || strings.Contains(r.Stderr, "shared") {
				t.Errorf("without the flag: %s", r.Stderr)
			}
		}
		for _, bad := range []string{"runc", "", "Native", "gvisor,native"} {
			if r := y.Run(t, "run", "--runtime", bad, "--", "touch", "ran"); r.Code != 125 || exists(filepath.Join(y.Dir, "ran")) {
				t.Errorf("--runtime %q: code %d, %s", bad, r.Code, r.Stderr)
			}
		}
	})
}

// outcomes reads what testdata/native/inside.py printed.
func nativeOutcomes(t *testing.T, out string) (attacks, works map[string]string) {
	t.Helper()
	attacks, works = map[string]string{}, map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 {
			t.Fatalf("not an outcome: %q\n%s", line, out)
		}
		if f[0] == "attack" {
			attacks[f[1]] = f[2]
		} else {
			works[f[1]] = f[2]
		}
	}
	if len(attacks) < 20 || len(works) < 10 {
		t.Fatalf("%d attacks, %d works:\n%s", len(attacks), len(works), out)
	}
	return attacks, works
}

// TestISO05_SharedKernelAttacks is for a sandbox with the host's kernel: what it
// is attacked by beside what TestISO05_NoWayUp tries, and what must work there
// all the same. The twin is root on the host, without a sandbox.
func TestISO05_SharedKernelAttacks(t *testing.T) {
	t.Attr("claim", "ISO-05")
	t.Parallel()
	// What not every machine has, and what not every root may do.
	noTwin := map[string]bool{"multipath TCP": true, "a mount's handle": true, "a cgroup file system": true, "a limit raised": true, "killed last": true}
	script, err := os.ReadFile("testdata/native/inside.py")
	if err != nil {
		t.Fatal(err)
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		chmod(t, y.Write(t, "inside.py", string(script)), 0o644)
		attacks, works := nativeOutcomes(t, y.Run(t, onHostKernel("-q", "--", python, "inside.py")...).OK(t).Stdout)
		twin, twinWorks := nativeOutcomes(t, native(t, y, python, "inside.py", "host"))
		for name, got := range attacks {
			if got == "ok" {
				t.Errorf("%s: works inside", name)
			}
			if twin[name] != "ok" && !noTwin[name] {
				t.Errorf("the twin of %s fails on the host: %s", name, twin[name])
			}
		}
		for name, got := range works {
			if got != "ok" {
				t.Errorf("%s: %s inside, and should work (on the host: %s)", name, got, twinWorks[name])
			}
		}
	})
}

// TestISO05_NoMoreNamespaces: should the filter of calls ever fail, the sandbox's
// user namespace still gives no other out. Root of the host, who has no filter,
// enters it and tries; in one that it has made itself it succeeds.
func TestISO05_NoMoreNamespaces(t *testing.T) {
	t.Attr("claim", "ISO-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		r := y.Start(t, onHostKernel("-q", "--", "sh", "-c", "echo up; cat")...)
		r.Await(t, "up")
		first := childNamed(t, r.Cmd.Process.Pid, "/.bailey/bailey")
		const enter = `import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if sys.argv[1] == "own":
    assert libc.unshare(0x10000000) == 0
    for name, text in {"uid_map": "0 0 1", "setgroups": "deny", "gid_map": "0 0 1"}.items(): # whoever has no id there makes no further one
        with open("/proc/self/" + name, "w") as f:
            f.write(text)
else:
    assert libc.setns(os.open("/proc/" + sys.argv[1] + "/ns/user", os.O_RDONLY), 0) == 0, os.strerror(ctypes.get_errno())
for name, kind in {"mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "pid": 0x20000000, "net": 0x40000000, "user": 0x10000000}.items():
    print(name, "ok" if libc.unshare(kind) == 0 else errno.errorcode[ctypes.get_errno()])
`
		for who, want := range map[string]string{strconv.Itoa(first): "ENOSPC", "own": "ok"} {
			out, err := exec.CommandContext(t.Context(), python, "-c", enter, who).CombinedOutput()
			if err != nil || strings.Count(string(out), " "+want+"\n") != 7 {
				t.Errorf("namespaces in the user namespace of %s: %v, want %s each:\n%s", who, err, want, out)
			}
		}
		_ = r.Stdin.Close()
		r.Wait(t, yard.Timeout).OK(t)
	})
}

// TestISO03_SharedKernelSockets: no namespace is about Unix sockets that have a
// path. Of those in the workspace the ones that are there at the start are
// covered, and said to be; later ones are out of reach with Landlock of ABI 9, and
// else the one thing that gVisor would keep away (docs/native.md). Should that
// change, this fails.
func TestISO03_SharedKernelSockets(t *testing.T) {
	t.Attr("claim", "ISO-03")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		early, later := filepath.Join(y.Dir, "early.sock"), filepath.Join(y.Dir, "later.sock")
		listen(t, y, early)
		y.Write(t, "tries.py", tryScript)
		given := filepath.Join(filepath.Dir(y.WriteHome(t, "given/x", "")), "given.sock")
		listen(t, y, given)
		list, err := json.Marshal([]try{{Name: "read-only", Op: "connect", Path: "/mnt/r/given.sock"}, {Name: "early", Op: "connect", Path: early}, {Name: "later", Op: "connect", Path: later}, {Name: "move", Op: "rename", Path: early, To: early + "2"}})
		if err != nil {
			t.Fatal(err)
		}
		y.Write(t, "tries.json", string(list))
		r := y.Start(t, onHostKernel("--mount", filepath.Dir(given)+":/mnt/r", "--", "sh", "-c", "echo up; read x; exec "+python+" tries.py tries.json")...)
		r.Await(t, "up")
		listen(t, y, later)
		_, _ = r.Stdin.Write([]byte("\n"))
		done := r.Wait(t, yard.Timeout).OK(t)
		got := parseTries(t, done.Stdout, nil)
		if got["early"].ok() || got["move"].ok() || got["read-only"].ok() {
			t.Errorf("the covered socket: %v", got)
		}
		if !strings.Contains(done.Stderr, "covered: "+early) {
			t.Errorf("the header does not say so: %s", done.Stderr)
		}
		const scoped = 9 // of Landlock: sockets with a path
		if reached := got["later"].ok(); reached != (landlock.Level() < scoped) {
			t.Errorf("a socket that was made during the run, Landlock ABI %d: %v", landlock.Level(), got["later"])
		}
		if o := natively(t, y, []try{{Name: "early", Op: "connect", Path: early}})["early"]; o.got != "canary" {
			t.Errorf("twin: %v", o)
		}
	})
}

// TestISO09_SharedKernelLeavesNothing: what a command has left behind, in
// sessions of its own and with timers set, ends with its sandbox, by whichever
// end; on the host it goes on.
func TestISO09_SharedKernelLeavesNothing(t *testing.T) {
	t.Attr("claim", "ISO-09")
	const linger = `for i in 1 2 3; do setsid sh -c 'trap "" HUP TERM; sleep 2; touch lingered' </dev/null >/dev/null 2>&1 & done; `
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lingered := filepath.Join(y.Dir, "lingered")
		clean := nothingLeft(t, y)
		y.Run(t, onHostKernel("-q", "--", "sh", "-c", linger+"true")...).OK(t)
		for _, end := range []string{role.Helper, "/.bailey/bailey", "bailey itself"} {
			r := y.Start(t, onHostKernel("-q", "--", "sh", "-c", linger+"echo up; sleep 60")...)
			r.Await(t, "up")
			pid := r.Cmd.Process.Pid
			if end != "bailey itself" {
				pid = childNamed(t, pid, end)
			}
			signal(t, pid, syscall.SIGKILL)
			if res := r.Wait(t, 10*time.Second); res.Code == 0 {
				t.Errorf("%s killed: it ended well", end)
			}
			clean()
		}
		time.Sleep(2500 * time.Millisecond) // longer than anything that would have been left sleeps
		if exists(lingered) {
			t.Error("something of the sandbox outlived it")
		}
		y.Host(t, "sh", "-c", linger+"true")
		yard.Eventually(t, yard.Timeout, func() bool { return exists(lingered) }, func() string { return "the twin does not linger either" })
	})
}

// TestISO15_SharedKernelPosture compares all that the kernel tells of a sandbox
// without gVisor with what it must be: each process of it from the host, those
// that the command starts as well, the first from inside; and `bailey doctor
// --live` does the same, and finds what was changed.
func TestISO15_SharedKernelPosture(t *testing.T) {
	t.Attr("claim", "ISO-15")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, net := range []bailey.NetMode{bailey.NetNone, bailey.NetAllow} {
			args := onHostKernel("-q", "--name", "posture", "--env", "NAMED=value")
			if net == bailey.NetAllow {
				args = append(args, "--allow", "example.com")
			}
			r := y.Start(t, append(args, "--", "/.bailey/bailey", posture.Arg)...)
			r.Await(t, "\n")
			out, _ := r.Output()
			var inside posture.Report
			if err := json.NewDecoder(strings.NewReader(out)).Decode(&inside); err != nil {
				t.Fatalf("posture inside: %v\n%s", err, out)
			}
			list := confinedRoles(t, r.Cmd.Process.Pid)
			c := expectedOf(t, y, list, net)
			c.Native, c.Modelled = true, false
			for _, d := range posture.Judge(append(list, inside.Self, inside.First), c) {
				t.Error(d)
			}
			for _, role := range []posture.Role{posture.Helper, posture.Native, posture.Shared} {
				if !slices.ContainsFunc(list, func(p posture.Posture) bool { return p.Role == role && len(p.Hidden) == 0 }) {
					t.Errorf("no %s was wholly read", role)
				}
			}
			for _, hidden := range []string{"FDs", "Root", "Env"} {
				if !slices.Contains(inside.First.Hidden, hidden) {
					t.Errorf("a command reads %s of the first process", hidden)
				}
			}
			if said := y.Run(t, "doctor", "--live", "posture").OK(t).Stdout; strings.Count(said, "what it must be")+strings.Count(said, "what they must be") < 6 {
				t.Errorf("doctor --live says:\n%s", said)
			}
			if y.UID == 0 { // the twin: one that left its limits
				outOfItsGroup(t, childNamed(t, r.Cmd.Process.Pid, "/.bailey/bailey"))
				if r := y.Run(t, "doctor", "--live", "posture").Exit(t, 1); !strings.Contains(r.Stdout, "InGroup") {
					t.Errorf("doctor --live says:\n%s", r.Stdout)
				}
			}
			_ = r.Stdin.Close()
			r.Wait(t, yard.Timeout)
		}
	})
}

// TestISO08_SharedKernelLimits: nothing gets out of its cgroup, whatever it makes
// of itself, and the limits of a process are those that were asked for. (That of
// processes is set in the instant after a command's start.)
func TestISO08_SharedKernelLimits(t *testing.T) {
	t.Attr("claim", "ISO-08")
	t.Parallel()
	y := yard.Root(t)
	r := y.Start(t, onHostKernel("-q", "--pids", "77", "--nofile", "99", "--", "sh", "-c", `until [ "$(bash -c "ulimit -u")" = 77 ]; do :; done; bash -c "ulimit -n"; setsid sh -c 'sleep 60 & exec sleep 60' & (sleep 60 &) ; echo up; cat`)...)
	r.Await(t, "up")
	out, _ := r.Output()
	if !strings.HasPrefix(out, "99\n") {
		t.Errorf("limits inside: %q, want 99", out)
	}
	seen := 0
	for _, pid := range descendants(t, childNamed(t, r.Cmd.Process.Pid, role.Helper)) {
		if _, err := proc.Identify(pid); err != nil {
			continue
		}
		seen++
		for _, controller := range []string{"memory", "pids"} {
			if groups := readProc(t, pid, "cgroup"); !strings.Contains(groups, controller+":/bailey/sbx_") && !strings.Contains(groups, "0::/bailey/sbx_") {
				t.Errorf("%s is not in the sandbox's %s group: %s", commandName(pid), controller, groups)
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d processes were looked at", seen)
	}
	_ = r.Stdin.Close()
	r.Wait(t, yard.Timeout)
}

// TestISO13_SharedKernelNeedsLandlock: without that layer nothing runs with the
// host's kernel, and the message says what mends it; with gVisor it does.
func TestISO13_SharedKernelNeedsLandlock(t *testing.T) {
	t.Attr("claim", "ISO-13")
	t.Parallel()
	y := yard.Root(t)
	y.Wrap = func(cmd *exec.Cmd) { withoutLandlock(t, cmd) }
	r := y.Run(t, onHostKernel("--", "touch", "ran")...)
	if r.Code != 125 || exists(filepath.Join(y.Dir, "ran")) || !strings.Contains(r.Stderr, "cannot put landlock in place") || !strings.Contains(r.Stderr, "leave --runtime native out") {
		t.Errorf("code %d, ran %t, said %s", r.Code, exists(filepath.Join(y.Dir, "ran")), r.Stderr)
	}
	y.Run(t, "run", "--runtime", "gvisor", "-q", "--", "true").OK(t)
	y.Wrap = nil
	y.Run(t, onHostKernel("-q", "--", "true")...).OK(t)
}

// TestNative_WorksAsTheOther: the same commands, terminals aside, with the same
// outcome under both runtimes.
func TestNative_WorksAsTheOther(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		repository(t, y, y.Dir)
		for _, c := range []struct {
			script string
			code   int
		}{
			{"id -u; id -g; pwd; hostname | wc -l; echo $HOME; ls -A ~", 0},
			{"git config core.fsmonitor ./evil; git config user.x y; git commit --allow-empty -qm inside; git log -1 --format=%s", 0},
			{"mv .git .moved; echo $?; rm -rf .git/hooks; echo $?", 0},
			{"exit 7", 7},
			{"kill -9 $$", 137},
			{"no-such-command", 127},
			{"cat /etc/passwd | wc -l; cat /etc/shadow; ls /root /home", 2},
			{"cat", 0},
			{"umask; touch mode; stat -c %a mode; rm mode", 0},
			{"test -w /usr && echo writable; ps ax | wc -l | sed 's/.*/some/'", 0},
		} {
			args := []string{"--name", "same", "--", "sh", "-c", c.script + " 2>&1"}
			one := y.Run(t, slices.Concat([]string{"run", "-q", "--runtime", "gvisor"}, args)...)
			other := y.Run(t, onHostKernel(slices.Concat([]string{"-q"}, args)...)...)
			if other.Code != one.Code || c.code != other.Code && c.code != 2 {
				t.Errorf("%s: code %d, with gVisor %d\n%s%s", c.script, other.Code, one.Code, other.Stdout, other.Stderr)
			}
			if a, b := plainErrors(one.Stdout), plainErrors(other.Stdout); a != b {
				t.Errorf("%s:\nnative: %s\ngvisor: %s", c.script, b, a)
			}
		}
		if got := y.Host(t, "git", "log", "--oneline"); strings.Count(got, "inside") != 2 {
			t.Errorf("commits made inside: %s", got)
		}
	})
}

// plainErrors leaves out why something was refused.
func plainErrors(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		if i := strings.LastIndex(line, ": "); i >= 0 {
			line = line[:i]
		}
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "\n")
}

// TestNative_Terminal: a terminal of its own, whose size and signals arrive.
func TestNative_Terminal(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	r := y.RunWith(t, func(cmd *exec.Cmd) {
		script := "stty size; tty; test -t 0 && test -t 1 && echo both; ls /dev/pts"
		cmd.Path, cmd.Args = "/usr/bin/script", []string{"script", "-qec", fmt.Sprintf("stty rows 30 cols 90; exec %s run -q --runtime native -- sh -c '%s'", y.Bin, script), "/dev/null"}
	}, "run")
	for _, want := range []string{"30 90", "/dev/pts/0", "both"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("no %q in %s%s", want, r.Stdout, r.Stderr)
		}
	}
}
