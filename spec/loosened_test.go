package spec_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// hatches are the flags that loosen a sandbox, as `ps` calls them, and a word
// of the header.
func hatches() map[string][]string {
	return map[string][]string{
		"insecure-keep-root":  {"--insecure-keep-root"},
		"insecure-unenforced": {"--insecure-unenforced"},
		"allow-nested-userns": {"--allow-nested-userns"},
		"runtime-arg":         {"--runtime-arg", "strace-log-size=512"},
	}
}

// TestISO13_HatchesAreNamed: each weaker mode has its own flag, implies none of
// the others, and is seen in the header and in ps; without a flag there is none.
func TestISO13_HatchesAreNamed(t *testing.T) {
	t.Attr("claim", "ISO-13")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		seen := func(flags []string) (header, list string) {
			r := y.Start(t, append(append([]string{"run", "--name", "hatch"}, flags...), "--", "sh", "-c", "echo ready; read x")...)
			r.Await(t, "ready")
			list = y.Run(t, "ps").OK(t).Stdout + y.Run(t, "ps", "--json").OK(t).Stdout
			_, _ = r.Stdin.Write([]byte("\n"))
			return r.Wait(t, yard.Timeout).OK(t).Stderr, list
		}
		if header, list := seen(nil); strings.Contains(header, "LOOSENED") || strings.Contains(strings.ToUpper(list), "LOOSENED") {
			t.Errorf("without a flag:\n%s\n%s", header, list)
		}
		i := 0
		for name, flags := range hatches() {
			if i++; !y.Turn(i) {
				continue
			}
			header, list := seen(flags)
			if strings.Count(header, "LOOSENED by --") != 1 || !strings.Contains(header, "LOOSENED by --"+name+":") {
				t.Errorf("%s: the header:\n%s", name, header)
			}
			if strings.Count(list, name) != 2 || !strings.Contains(list, "LOOSENED") {
				t.Errorf("%s: ps:\n%s", name, list)
			}
		}
		// What would open more than is loosened is refused, with the reason.
		for _, arg := range []string{
			"--network=host", "network=host", "--host-uds=all", "host-uds=open", "--host-fifo=open", "--directfs=false", "--overlay2=all:dir=/", "--platform=ptrace", "--oci-seccomp=false", "--rootless",
			"--ignore-cgroups=false", "--allow-suid", "--net-raw", "--nvproxy", "--debug-log=/tmp/x", "--profile", "--TESTONLY-unsafe-nonroot", "--allow-flag-override", "--pod-init-config=/x", "--file-access-mounts=exclusive",
			"--iouring", "--unheard-of", "", "run", "--strace=a b", "--strace-syscalls=", "--strace-syscalls=a/b", "--dcache=1\n--network=host",
		} {
			if r := y.Run(t, "run", "--runtime-arg="+arg, "--", "true"); r.Code != 125 || !strings.Contains(r.Stderr, "hint:") {
				t.Errorf("--runtime-arg %q: exit %d: %s", arg, r.Code, r.Stderr)
			}
		}
	})
}

// TestISO13_UnkeptLimitsStopTheRun: a limit that was asked for, and that nothing
// here keeps or watches, is no reason to run without it.
func TestISO13_UnkeptLimitsStopTheRun(t *testing.T) {
	t.Attr("claim", "ISO-13")
	t.Parallel()
	y := yard.Unprivileged(t) // who has no cgroup on this machine
	r := y.Run(t, "run", "--cpus", "0.5", "--", "sh", "-c", "echo ran; touch made").Exit(t, 125)
	if !strings.Contains(r.Stderr, "--cpus") || !strings.Contains(r.Stderr, "--insecure-unenforced") || strings.Contains(r.Stdout, "ran") {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
	if _, err := os.Stat(y.Dir + "/made"); err == nil {
		t.Error("the command ran")
	}
	y.Run(t, "run", "-q", "--cpus", "0.5", "--insecure-keep-root", "--", "true").Exit(t, 125) // no other flag does
	y.Run(t, "run", "-q", "--cpus", "0.5", "--insecure-unenforced", "--", "true").OK(t)
	y.Run(t, "run", "-q", "--", "true").OK(t)
}

// TestISO05_KeepRootIsRootInsideAlone: user 0 inside may change what is
// thrown away, and nothing on the host that the caller could not.
func TestISO05_KeepRootIsRootInsideAlone(t *testing.T) {
	t.Attr("claim", "ISO-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		escape(t, y)
		system := "id -u; touch /usr/bin/made /etc/made && echo wrote; chown 33:33 /etc/made && stat -c %u /etc/made; mkdir -p /var/lib/made && echo wrote"
		r := y.Sh(t, system, "-q", "--insecure-keep-root").OK(t)
		if r.Stdout != "0\nwrote\n33\nwrote\n" {
			t.Errorf("inside: %q\n%s", r.Stdout, r.Stderr)
		}
		if got := y.Sh(t, system, "-q").Stdout; strings.Contains(got, "wrote") || strings.HasPrefix(got, "0\n") {
			t.Errorf("twin: without the flag: %q", got)
		}
		for _, path := range []string{"/usr/bin/made", "/etc/made", "/var/lib/made"} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s is on the host", path)
			}
		}
		// The host's rights are the caller's: what others own stays theirs.
		others := filepath.Join(filepath.Dir(y.Dir), "others")
		if err := os.Mkdir(others, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, mode := range map[string]os.FileMode{"secret": 0o600, "shown": 0o644} {
			if err := os.WriteFile(filepath.Join(others, name), []byte(besideCanary), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(filepath.Join(others, name), 4711, 4711); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(others, y.UID, y.GID); err != nil {
			t.Fatal(err)
		}
		r = y.Sh(t, `cat /mnt/o/secret; echo x > /mnt/o/shown; chown 0 /mnt/o/shown; chmod 666 /mnt/o/secret; cat /mnt/o/secret; cat /mnt/o/shown
cat /etc/shadow; touch mine; chown 4711 mine; chmod 4755 mine && echo suid; mknod dev c 1 3 && echo node
mkdir -p /mnt/m && mount -t tmpfs none /mnt/m && echo mounted; unshare -n true && echo unshared; setpriv --reuid 4711 cat /mnt/o/secret`,
			"-q", "--insecure-keep-root", "--mount", others+":/mnt/o:rw")
		if strings.TrimSpace(r.Stdout) != besideCanary {
			t.Errorf("inside: %q\n%s", r.Stdout, r.Stderr)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(y.Dir+"/mine", &st); err != nil || int(st.Uid) != y.UID {
			t.Errorf("a file that was given away belongs to %d on the host, %v", st.Uid, err)
		}
		if text, err := os.ReadFile(others + "/shown"); string(text) != besideCanary {
			t.Errorf("%q, %v", text, err)
		}
		// Every call that escapes are made of fails as without the flag, but for
		// what user 0 may do to files of its own.
		plain, kept := values(y.Run(t, "run", "-q", "--", "./escape").OK(t).Stdout), values(y.Run(t, "run", "-q", "--insecure-keep-root", "--", "./escape").OK(t).Stdout)
		for name, got := range kept {
			if got == "ok" && plain[name] != "ok" {
				t.Logf("%s works with --insecure-keep-root alone", name)
				if name != "setuid" && name != "setgid" && name != "setgroups" && name != "chown" && name != "setuid0" && name != "setresuid" {
					t.Errorf("%s works", name)
				}
			}
		}
		hostIDs(t, y)
	})
}

// hostIDs: on the host, the processes of a sandbox whose command is user 0 have
// the ids of any other, and no capability.
func hostIDs(t *testing.T, y *yard.Yard) {
	t.Helper()
	r := y.Start(t, "run", "-q", "--name", "zero", "--insecure-keep-root", "--", "sh", "-c", "echo ready; read x")
	r.Await(t, "ready")
	seen := 0
	for _, pid := range processes(t, "cmdline", func(c string) bool {
		return strings.HasPrefix(c, "runsc-sandbox") || strings.HasPrefix(c, "runsc-gofer")
	}) {
		status := readProc(t, pid, "status")
		if !descends(t, pid, r.Cmd.Process.Pid) {
			continue
		}
		seen++
		for line := range strings.Lines(status) {
			f := strings.Fields(line)
			switch {
			case len(f) > 1 && (f[0] == "Uid:" || f[0] == "Gid:"):
				if f[1] == "0" {
					t.Errorf("process %d is root's: %s", pid, line)
				}
			case len(f) > 1 && f[0] == "CapEff:" && strings.HasPrefix(readProc(t, pid, "cmdline"), "runsc-sandbox"):
				t.Logf("the kernel of the sandbox: %s", strings.TrimSpace(line))
			}
		}
	}
	if seen < 2 {
		t.Errorf("%d processes to look at", seen)
	}
	_, _ = r.Stdin.Write([]byte("\n"))
	r.Wait(t, yard.Timeout).OK(t)
}

// descends reports whether a process is of another's children's.
func descends(t *testing.T, pid, of int) bool {
	t.Helper()
	for range 10 {
		for line := range strings.Lines(readProc(t, pid, "status")) {
			if rest, ok := strings.CutPrefix(line, "PPid:"); ok {
				pid, _ = strconv.Atoi(strings.TrimSpace(rest))
			}
		}
		if pid == of {
			return true
		}
		if pid <= 1 {
			return false
		}
	}
	return false
}

// TestISO05_KeepRootInstallsPackages is what the flag is for: a package is
// unpacked over the system inside, and is gone afterwards.
func TestISO05_KeepRootInstallsPackages(t *testing.T) {
	t.Attr("claim", "ISO-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "p/DEBIAN/control", "Package: bailey-probe\nVersion: 1\nArchitecture: all\nMaintainer: A <a@example.com>\nDescription: probe\n")
		y.Write(t, "p/DEBIAN/postinst", "#!/bin/sh\nchown root:root /usr/bin/bailey-probe && chmod 755 /usr/bin/bailey-probe\n")
		y.Write(t, "p/usr/bin/bailey-probe", "#!/bin/sh\necho installed\n")
		script := "chmod -R u=rwX,go=rX p && chmod 755 p/DEBIAN/postinst && dpkg-deb --root-owner-group --build p /tmp/p.deb >/dev/null && mkdir -p /var/lib/dpkg/updates /var/lib/dpkg/info /var/lib/dpkg/triggers && touch /var/lib/dpkg/status && dpkg -i /tmp/p.deb && bailey-probe"
		r := y.Sh(t, script, "-q", "--insecure-keep-root").OK(t)
		if !strings.HasSuffix(r.Stdout, "installed\n") {
			t.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		if y.Sh(t, script, "-q").Code == 0 {
			t.Error("twin: without the flag it installs too")
		}
		if r := y.Sh(t, "bailey-probe", "-q", "--insecure-keep-root"); r.Code != 127 {
			t.Errorf("the next sandbox has it: %d %s", r.Code, r.Stdout)
		}
		if _, err := os.Lstat("/usr/bin/bailey-probe"); err == nil {
			t.Error("the host has it")
		}
	})
}

const nestedAttack = `W=$PWD; A=~/.agents
unshare -Urm sh -c "id -u; mkdir -p /tmp/m; mount -t tmpfs none /tmp/m && touch /tmp/m/x && echo nested
bad() { \"\$@\" 2>/dev/null && echo DONE: \$@; }
bad umount $W/.git; bad umount -l $W/.git; bad umount -R $W; bad umount -l $W; bad umount $A; bad mount -o remount,rw,bind $A; bad mount -o remount,rw,bind /usr; bad mount -o remount,suid,dev,bind $W
mkdir -p /tmp/a /tmp/b /tmp/c
bad mount --bind $W /tmp/a; bad mount --move $W/.git /tmp/a; mount --make-rprivate / 2>/dev/null; bad umount $W/.git
mount --rbind $W /tmp/b && bad umount /tmp/b/.git
mount --bind $W/.git /tmp/c && echo evil > /tmp/c/hooks/post-checkout; git -C $W config core.fsmonitor ./evil
mount --rbind $A /tmp/c; echo x > /tmp/c/skills/new
bad mknod $W/dev c 1 3; bad mknod $W/blk b 8 0; bad mount -t sysfs none /tmp/m/s
touch $W/suid; bad chmod 4755 $W/suid"
ls /tmp/m/x 2>/dev/null && echo outer`

// TestISO05_NestedNamespacesAreGVisors: with the flag, programs make user
// namespaces and what sandboxes are made of, and are no further for it: what is
// mounted is locked, the guards of git hold, and the host has no namespace more.
func TestISO05_NestedNamespacesAreGVisors(t *testing.T) {
	t.Attr("claim", "ISO-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		dir := skills(t, y)
		y.Host(t, "git", "init", "-q", ".")
		r := y.Sh(t, nestedAttack, "-q", "--allow-nested-userns")
		if !strings.HasPrefix(r.Stdout, "0\nnested\n") || strings.Contains(r.Stdout, "DONE") || strings.Contains(r.Stdout, "outer") {
			t.Errorf("inside:\n%s\n%s", r.Stdout, r.Stderr)
		}
		if got := y.Host(t, "git", "config", "-l", "--local"); strings.Contains(got, "fsmonitor") {
			t.Errorf("git's configuration was changed: %s", got)
		}
		for _, path := range []string{y.Dir + "/.git/hooks/post-checkout", dir + "/skills/new", y.Dir + "/dev", y.Dir + "/blk"} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s is on the host", path)
			}
		}
		if fi, err := os.Stat(y.Dir + "/suid"); err == nil && fi.Mode()&os.ModeSetuid != 0 {
			t.Error("a file of the workspace has the bit of another's identity")
		}
		if r := y.Sh(t, nestedAttack, "-q"); strings.Contains(r.Stdout, "nested") {
			t.Errorf("twin: without the flag: %s", r.Stdout)
		}
		bwrap := []string{
			"--", "bwrap", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
			"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "sh", "-c", "echo in; ls /home 2>/dev/null; ls -A /tmp",
		}
		if r := y.Run(t, append([]string{"run", "-q", "--allow-nested-userns"}, bwrap...)...).OK(t); r.Stdout != "in\n" {
			t.Errorf("bubblewrap: %q %s", r.Stdout, r.Stderr)
		}
		if r := y.Run(t, append([]string{"run", "-q"}, bwrap...)...); r.Code == 0 {
			t.Errorf("twin: bubblewrap without the flag: %s", r.Stdout)
		}
	})
}
