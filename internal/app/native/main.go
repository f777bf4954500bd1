package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/handoff"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/landlock"
	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/linux/seccomp"
	"github.com/bailey-dev/bailey/internal/linux/userns"
)

// Main plays the role. It returns only when it has failed.
func Main() int {
	// What a thread gives up it gives up alone, and the thread that executes a
	// program is the one that goes on.
	runtime.LockOSThread()
	report := os.NewFile(handoff.NativeReportFD, "report")
	if err := harden.KeepDescriptors(); err != nil {
		return fail(report, step{"descriptors", ""}, err)
	}
	order, err := handoff.ReadNative(os.NewFile(handoff.NativeOrderFD, "order"))
	if err != nil {
		return fail(report, step{"order", ""}, err)
	}
	for _, s := range steps() {
		if err := s.do(order); err != nil {
			return fail(report, s.step, err)
		}
	}
	err = syscall.Exec(order.Program, order.Args, order.Env)
	return fail(report, step{"first process", ""}, fmt.Errorf("execute %s: %w", order.Program, err))
}

func fail(report *os.File, s step, err error) int {
	r := handoff.Report{Event: handoff.Failed, Layer: s.layer, Message: err.Error(), Hint: s.hint}
	_ = json.NewEncoder(report).Encode(r) // the helper sees the end as well
	return bailey.ExitBailey
}

// step is one layer of the sandbox, and what mends it where it is missing.
type step struct{ layer, hint string }

// steps are taken in this order: to mount takes capabilities, to give those up
// takes system calls, and the filter of those comes last.
func steps() []struct {
	step

	do func(*handoff.Native) error
} {
	const gvisor = "leave --runtime native out: gVisor needs none"
	return []struct {
		step

		do func(*handoff.Native) error
	}{
		{step{"limits", ""}, limits},
		{step{"root file system", ""}, unlock},
		{step{"proc", "run outside of containers that mask /proc"}, process},
		{step{"root file system", ""}, func(n *handoff.Native) error { return mount.Pivot(n.Root) }},
		{step{"landlock", "boot with landlock among the security modules (lsm=landlock,...), or " + gvisor}, confine},
		{step{"capabilities", ""}, func(*handoff.Native) error {
			harden.OwnKeyring()
			return userns.DropThread()
		}},
		{step{"seccomp", "a kernel with CONFIG_SECCOMP_FILTER is needed, or " + gvisor}, func(*handoff.Native) error { return seccomp.ConfineSandbox() }},
		{step{"descriptors", ""}, descriptors},
	}
}

func limits(n *handoff.Native) error {
	err := errors.Join(harden.NoDump(), harden.Limit(unix.RLIMIT_NPROC, n.NProc), harden.Limit(unix.RLIMIT_NOFILE, n.NoFile))
	if n.FSize > 0 {
		err = errors.Join(err, harden.Limit(unix.RLIMIT_FSIZE, n.FSize))
	}
	return err
}

// confine leaves the sandbox only its own places to write to.
func confine(n *handoff.Native) error {
	return landlock.ConfineSandbox(landlock.Sandbox{Memory: n.Memory, Dirs: n.Dirs, Files: n.Files, Special: []string{"/dev", "/proc"}})
}

// descriptors hands the wires on, and nothing else.
func descriptors(n *handoff.Native) error {
	keep := []uintptr{handoff.NativeWireFD}
	if n.Gateway {
		keep = append(keep, handoff.NativeModelFD)
	}
	for _, fd := range keep {
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("hand on descriptor %d: %w", fd, err)
		}
	}
	return nil
}

// unlock covers the sandbox's file system with a copy of it: mounts that a mount
// namespace was born with, from one with more privileges, are locked together
// (mount_namespaces(7)), and such a one cannot be the root.
func unlock(n *handoff.Native) error {
	f, err := mount.Clone(n.Root)
	if err != nil {
		return err
	}
	return errors.Join(mount.Attach(f, n.Root), f.Close())
}

// process mounts /proc, where it hides what is not of the sandbox.
func process(n *handoff.Native) error {
	at := n.Root + "/proc"
	if err := mount.Proc(at); err != nil {
		return err
	}
	if err := over(at+"/sys", at+"/sys"); err != nil {
		return err
	}
	for _, name := range hiddenFiles() {
		if err := over(n.Empty, at+"/"+name); err != nil {
			return err
		}
	}
	for _, name := range hiddenFolders() {
		if err := over(n.Void, at+"/"+name); err != nil {
			return err
		}
	}
	return over(n.BootID, at+"/sys/kernel/random/boot_id")
}

// over covers a path with another, read-only. What this kernel does not have
// need not be covered.
func over(source, target string) error {
	f, err := mount.Clone(source)
	if errors.Is(err, fs.ErrNotExist) && source == target {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // attached, or gone
	if err := mount.SetAttr(f, mount.Attr{ReadOnly: true, NoSuid: true, NoDev: true, NoExec: true}); err != nil {
		return err
	}
	if err := mount.Attach(f, target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// hiddenFiles are those of /proc that tell of the machine, of other processes
// or of what a kernel can be attacked by, and that programs do without: those
// that runc masks, and what is a fingerprint of the host.
func hiddenFiles() []string {
	return []string{
		"cmdline", "config.gz", "consoles", "crypto", "device-tree", "devices", "diskstats", "dma", "execdomains", "fb", "interrupts",
		"iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats",
		"locks", "mdstat", "misc", "modules", "mtrr", "pagetypeinfo", "partitions", "sched_debug", "schedstat", "slabinfo", "softirqs", "swaps",
		"sysrq-trigger", "timer_list", "timer_stats", "version", "version_signature", "vmallocinfo", "vmcore",
		"sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hotplug",
	}
}

// hiddenFolders are its folders of the kind.
func hiddenFolders() []string {
	return []string{"acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "mpt", "pressure", "scsi", "sys/fs/binfmt_misc", "tty"}
}
