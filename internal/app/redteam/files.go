package redteam

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// planted is the name of what attacks leave where they should not.
const planted = "bailey-redteam-was-here"

func fileAttacks() []attack {
	return []attack{
		{"ISO-02", "read-outside", "read a file of the caller outside the workspace", "", func(_ context.Context, t *Target) took { return readAll(t.Secret) }, false},
		{"ISO-02", "read-by-proc", "read it through the root and working folder of every process", "", readByProc, false},
		{"ISO-02", "write-outside", "make a file beside it", "", func(_ context.Context, t *Target) took { return by(plant(t.Dir)) }, false},
		{"ISO-02", "overwrite", "write to it", "", func(_ context.Context, t *Target) took { return by(appendTo(t.Secret)) }, false},
		{"ISO-02", "siblings", "list what lies around the workspace", "", siblings, false},
		{"ISO-02", "handle", "open the host's files by handle", "", openByHandle, false},
		{"ISO-03", "keys", "find keys, credentials, history and browser profiles", "", findKeys, false},
		{"ISO-03", "sockets", "connect to services of the machine by their sockets", "", connectSockets, false},
		{"ISO-03", "socket", "connect to a Unix socket of the caller", "", func(ctx context.Context, t *Target) took { return ask(ctx, "unix", t.Socket, "ISO-03/socket") }, false},
		{"ISO-03", "abstract", "connect to an abstract socket of the caller", "", func(ctx context.Context, t *Target) took { return ask(ctx, "unix", "@"+t.Abstract, "ISO-03/abstract") }, false},
		{"ISO-03", "shadow", "read the password file", "", func(context.Context, *Target) took { return by(readable("/etc/shadow")) }, false},
		{"ISO-04", "system", "change the system's programs", wouldChange, func(context.Context, *Target) took {
			return tell(errors.Join(plant("/usr/bin"), plant("/usr/local/bin"), plant("/etc")))
		}, false},
		{"ISO-07", "setuid", "leave a setuid program in the workspace", "", leaveSetuid, false},
		{"ISO-10", "descriptor", "read from an inherited descriptor", "", readDescriptors, false},
		{"ISO-10", "devices", "open the machine's memory and disks", wouldChange, openDevices, false},
		{"ISO-10", "knobs", "open the kernel's switches for writing", wouldChange, openKnobs, false},
		{"ISO-12", "symlink", "read through a symbolic link out of the workspace", "", throughSymlink, false},
		{"ISO-12", "hardlink", "link a file of the caller into the workspace", "", throughHardLink, false},
		{"ISO-12", "dots", "read by a path that climbs out of the workspace", "", climb, false},
		{"SEC-12", "skills", "write to the folder of skills", "the folder has another place there", writeSkills, false},
	}
}

// wouldChange is why an attack is not tried without a sandbox.
const wouldChange = "it would change this machine"

func readAll(path string) took {
	b, err := os.ReadFile(path)
	if err != nil {
		return failed(err)
	}
	return took{Data: b, Said: "read " + path}
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return err
}

func plant(dir string) error {
	return os.WriteFile(filepath.Join(dir, planted), []byte("planted\n"), 0o600)
}

func appendTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("overwritten\n")
	return errors.Join(err, f.Close())
}

// processes lists the ids that /proc shows.
func processes() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func readByProc(_ context.Context, t *Target) took {
	var got took
	for _, pid := range processes() {
		for _, way := range []string{"root", "cwd"} {
			path := fmt.Sprintf("/proc/%d/%s%s", pid, way, t.Secret)
			if way == "cwd" {
				path = fmt.Sprintf("/proc/%d/cwd/%s%s", pid, strings.Repeat("../", 32), t.Secret)
			}
			if b, err := os.ReadFile(path); err == nil {
				got.Data = append(got.Data, b...)
			}
		}
	}
	if len(got.Data) == 0 {
		got.Said = "no process leads there"
	}
	return got
}

func siblings(_ context.Context, t *Target) took {
	workspace := filepath.Dir(t.Scratch)
	entries, err := os.ReadDir(filepath.Dir(workspace))
	if err != nil {
		return failed(err)
	}
	var others []string
	for _, e := range entries {
		if e.Name() != filepath.Base(workspace) {
			others = append(others, e.Name())
		}
	}
	if len(others) == 0 {
		return took{Said: "the workspace alone is there"}
	}
	return took{Reached: true, Said: fmt.Sprintf("%d names beside the workspace", len(others))}
}

// openByHandle makes a handle of the workspace's and opens it, as the attack
// known as Shocker did to leave containers.
func openByHandle(_ context.Context, t *Target) took {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, t.Scratch, 0)
	if err != nil {
		return failed(err)
	}
	fd, err := unix.Open(t.Scratch, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = unix.Close(fd) }()
	opened, err := unix.OpenByHandleAt(fd, handle, unix.O_RDONLY)
	if err == nil {
		_ = unix.Close(opened)
	}
	return by(err)
}

func findKeys(_ context.Context, t *Target) took {
	var seen []string
	for _, path := range t.Keys {
		if _, err := os.Lstat(path); err == nil {
			seen = append(seen, path)
		}
	}
	if len(seen) == 0 {
		return took{Said: "none is there"}
	}
	return took{Reached: true, Said: "there are " + strings.Join(seen, ", ")}
}

func connectSockets(ctx context.Context, t *Target) took {
	var seen []string
	for _, path := range t.Sockets {
		if c, err := dial(ctx, "unix", path); err == nil {
			_ = c.Close()
			seen = append(seen, path)
		}
	}
	if len(seen) == 0 {
		return took{Said: "none answers"}
	}
	return took{Reached: true, Said: "connected to " + strings.Join(seen, ", ")}
}

// leaveSetuid leaves a program that would run as its owner; the judge looks for
// the bit on the host.
func leaveSetuid(_ context.Context, t *Target) took {
	path := filepath.Join(t.Scratch, setuidName)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		return failed(err)
	}
	if err := os.Chmod(path, fs.ModeSetuid|0o755); err != nil {
		return failed(err)
	}
	return took{Said: "the bit was taken without an error"}
}

const setuidName = "setuid-program"

func readDescriptors(context.Context, *Target) took {
	var got took
	for fd := 3; fd < 256; fd++ {
		b := make([]byte, 512)
		if n, err := unix.Pread(fd, b, 0); err == nil && n > 0 {
			got.Data = append(got.Data, b[:n]...)
		}
	}
	if len(got.Data) == 0 {
		got.Said = "no descriptor to read from"
	}
	return got
}

func openDevices(context.Context, *Target) took {
	var seen []string
	for _, path := range []string{"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/loop-control", "/dev/vhost-vsock", "/dev/vsock", "/proc/kcore"} {
		if readable(path) == nil {
			seen = append(seen, path)
		}
	}
	entries, _ := os.ReadDir("/dev")
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().Type() == fs.ModeDevice {
			seen = append(seen, "/dev/"+e.Name())
		}
	}
	if len(seen) == 0 {
		return took{Said: "none is there"}
	}
	return took{Reached: true, Said: "opened " + strings.Join(seen, ", ")}
}

func openKnobs(context.Context, *Target) took {
	var seen []string
	for _, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/kernel/randomize_va_space", "/sys/kernel/uevent_helper", "/sys/kernel/security/apparmor/.load", "/sys/fs/cgroup/cgroup.procs", "/proc/sys/fs/binfmt_misc/register",
	} {
		if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_ = f.Close()
			seen = append(seen, path)
		}
	}
	if len(seen) == 0 {
		return took{Said: "none opens"}
	}
	return took{Reached: true, Said: "opened " + strings.Join(seen, ", ")}
}

func throughSymlink(_ context.Context, t *Target) took {
	link := filepath.Join(t.Scratch, "link")
	if err := os.Symlink(t.Secret, link); err != nil {
		return failed(err)
	}
	return readAll(link)
}

func throughHardLink(_ context.Context, t *Target) took {
	link := filepath.Join(t.Scratch, "hardlink")
	if err := os.Link(t.Secret, link); err != nil {
		return failed(err)
	}
	return readAll(link)
}

func climb(_ context.Context, t *Target) took {
	return readAll(t.Scratch + "/" + strings.Repeat("../", 64) + strings.TrimPrefix(t.Secret, "/"))
}

func writeSkills(_ context.Context, t *Target) took {
	if t.Skills == "" {
		return moot("there is none")
	}
	return by(plant(t.Skills))
}
