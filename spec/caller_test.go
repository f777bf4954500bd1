package spec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// under runs bailey by another program, and reports whether the command ran.
func under(t *testing.T, y *yard.Yard, wrapper []string, args ...string) (yard.Result, bool) {
	t.Helper()
	path, err := exec.LookPath(wrapper[0])
	if err != nil {
		t.Fatal(err)
	}
	args = slices.Concat([]string{"run"}, args, []string{"--", "sh", "-c", "sleep 0.3; touch ran"})
	r := y.RunWith(t, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = path, slices.Concat(wrapper, []string{y.Bin}, args)
	}, args...)
	file := filepath.Join(y.Dir, "ran")
	_, err = os.Stat(file)
	_ = os.Remove(file)
	return r, err == nil
}

// TestISO13_RootWithLess: a root that lacks a capability, as in a container, has
// every process of bailey beside its command or no command at all.
func TestISO13_RootWithLess(t *testing.T) {
	t.Attr("claim", "ISO-13")
	y := yard.Root(t)
	for caps, missing := range map[string]string{
		"-sys_ptrace": "", "-kill": "", "-fowner": "", "-dac_override": "", "-sys_ptrace,-kill,-fowner,-dac_override,-net_admin,-mknod": "",
		"-setpcap": "", "-sys_admin": "CAP_SYS_ADMIN", "-setuid": "CAP_SETUID", "-setfcap": "CAP_SETFCAP", "-all": "CAP_SETGID",
	} {
		t.Run(caps, func(t *testing.T) {
			r, ran := under(t, y, []string{"setpriv", "--bounding-set", caps}, "--allow", "example.com")
			if missing == "" {
				if r.OK(t); !ran {
					t.Error("the command did not run")
				}
				return
			}
			if r.Exit(t, 125); ran || !strings.Contains(r.Stderr, missing) || !strings.Contains(r.Stderr, "hint: ") {
				t.Errorf("ran %t, says %q, want %s and a mend", ran, r.Stderr, missing)
			}
		})
	}
}

// TestISO13_CoresThatLeave: where the kernel hands core dumps to a program of the
// host's, and the caller's limit cannot keep it from that, there is no sandbox on
// this kernel; gVisor's programs dump nothing there. The twins: a limit that can
// be had, and a machine that writes files. The pattern is the whole machine's, so
// that no other test runs meanwhile.
func TestISO13_CoresThatLeave(t *testing.T) {
	t.Attr("claim", "ISO-13")
	const file = "/proc/sys/kernel/core_pattern"
	was := contents(t, file)
	t.Cleanup(func() {
		if err := os.WriteFile(file, []byte(was), 0o600); err != nil {
			t.Error(err)
		}
	})
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for name, c := range map[string]struct{ pattern, limit, runtime, says string }{
			"natively":                     {"|/bin/false", "0", "native", "kernel.core_pattern"},
			"gVisor":                       {"|/bin/false", "0", "gvisor", ""},
			"natively, with another limit": {"|/bin/false", "unlimited", "native", ""},
			"natively, with files":         {"core", "0", "native", ""},
		} {
			t.Run(name, func(t *testing.T) {
				if err := os.WriteFile(file, []byte(c.pattern), 0o600); err != nil {
					t.Fatal(err)
				}
				lacking := "setpriv --bounding-set -sys_resource " // where root could raise it
				if y.UID != 0 {
					lacking = ""
				}
				r, ran := under(t, y, []string{"sh", "-c", "ulimit -c " + c.limit + "; exec " + lacking + `"$@"`, "sh"}, "--runtime", c.runtime)
				if c.says == "" {
					if r.OK(t); !ran {
						t.Error("the command did not run")
					}
				} else if r.Exit(t, 125); ran || !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, "hint: ") {
					t.Errorf("ran %t, says %q", ran, r.Stderr)
				}
			})
		}
	})
}

// TestISO13_WhatTheCallerLacks: what the caller's own limits keep from starting
// is named, and they are kept to where they do not.
func TestISO13_WhatTheCallerLacks(t *testing.T) {
	t.Attr("claim", "ISO-13")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		long := "/tmp/" + strings.Repeat("x", 100)
		for name, c := range map[string]struct{ script, says, hint string }{
			"no core files": {"ulimit -c 0", "", ""},
			"files":         {"ulimit -n 64", "64 open files", "ulimit -n"},
			"enough files":  {"ulimit -n 1024", "", ""},
			"addresses":     {"ulimit -v 1000000", "address space", "ulimit -v unlimited"},
			"more":          {"ulimit -v 8000000", "", ""},
			"long socket":   {"export XDG_RUNTIME_DIR=" + long, "socket's path", "XDG_RUNTIME_DIR"},
			"relative":      {"export XDG_RUNTIME_DIR=tmp TMPDIR=tmp", "", ""},
			"mask of all":   {"umask 777; export XDG_RUNTIME_DIR=$(mktemp -d); chmod 700 $XDG_RUNTIME_DIR", "", ""},
			"mask of group": {"umask 077", "", ""},
		} {
			t.Run(name, func(t *testing.T) {
				r, ran := under(t, y, []string{"sh", "-c", c.script + `; exec "$@"`, "sh"})
				if c.says == "" {
					if r.OK(t); !ran {
						t.Error("the command did not run")
					}
				} else if r.Exit(t, 125); ran || !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, c.hint) {
					t.Errorf("ran %t, says %q, want %q and %q", ran, r.Stderr, c.says, c.hint)
				}
				if _, err := os.Stat(filepath.Join(y.Dir, "tmp")); err == nil {
					t.Error("a folder of bailey's is in the workspace")
				}
			})
		}
	})
}

// moving keeps a folder of many files ahead of whoever reads it: it sees by the
// times of access that it is read. Then it writes. With "stay" it does not move.
const moving = `
import os, sys, time
for i in range(600): os.mkdir("P%d" % i)
P = [x for x in os.listdir(".") if x.startswith("P")]
cur = P[0] + "/heavy"
os.mkdir(cur)
for f in range(4000): os.close(os.open("%s/%d" % (cur, f), os.O_CREAT | os.O_WRONLY))
stale = lambda: os.utime(cur, (time.time() - 10, time.time()))
seen = lambda: os.stat(cur).st_atime_ns
stale(); at = seen()
if os.fork() == 0:
    for n in range(int(sys.argv[1])):
        with open("big%d" % n, "wb") as f: f.write(b"\0" * (4 << 20))
        time.sleep(0.05)
    os._exit(0)
moved, end = 0, time.time() + 8
while time.time() < end:
    if seen() != at:
        moved += 1
        stale(); old = cur; cur = P[moved % len(P)] + "/heavy"
        os.rename(old, cur); at = seen()
print("survived", flush=True)
`

// TestISO08_TheCountHasAnEnd: a sandbox that knows when it is counted, and moves
// its files ahead of the count, is counted.
func TestISO08_TheCountHasAnEnd(t *testing.T) {
	t.Attr("claim", "ISO-08")
	y := yard.Unprivileged(t)
	y.Write(t, "moving.py", moving)
	const wipe = "rm -rf P* big*; "
	r := y.Sh(t, wipe+"python3 moving.py 60", "--disk", "40M").Exit(t, 137)
	if !strings.Contains(r.Stderr, "more than the limit of") || strings.Contains(r.Stdout, "survived") {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
	if r := y.Sh(t, wipe+"python3 moving.py 3", "--disk", "40M").OK(t); !strings.Contains(r.Stdout, "survived") {
		t.Errorf("twin: %s%s", r.Stdout, r.Stderr)
	}
}

// TestISO08_OtherFileSystemsCount: what is mounted in the workspace can be
// written to, and counts.
func TestISO08_OtherFileSystemsCount(t *testing.T) {
	t.Attr("claim", "ISO-08")
	y := yard.Root(t)
	at := filepath.Join(y.Dir, "other")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("other", at, "tmpfs", 0, "size=200m,mode=777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	const script = "rm -f other/*; for i in 1 2 3 4; do head -c 12M /dev/zero > other/$i; done; sleep 3; echo survived"
	r := y.Sh(t, script, "--disk", "16M").Exit(t, 137)
	if !strings.Contains(r.Stderr, "the workspace has grown by") {
		t.Errorf("says %q", r.Stderr)
	}
	if r := y.Sh(t, script, "--disk", "100M").OK(t); r.Stdout != "survived\n" {
		t.Errorf("twin: %q %s", r.Stdout, r.Stderr)
	}
}
