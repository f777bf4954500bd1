package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/engine/handoff"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/ocispec"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// What a sandbox without gVisor has in the helper's file system beside the
// rest: its whole file system, composed here, and what hides parts of /proc.
const (
	viewDir    = "/view"
	voidDir    = "/void"
	emptyFile  = "/empty"
	bootIDFile = "/boot_id"
	orderFile  = bundleDir + "/order.json"
)

// native makes a sandbox that has the host's kernel, and waits for its end.
//
// Its namespaces for the network, for IPC and for names are the helper's own, so
// that no capability in the sandbox's user namespace, should there ever be one,
// has a say in them.
func native(control *os.File, in born, s *handoff.Settings, files []*os.File) error {
	if err := in.exe.Close(); err != nil {
		return err
	}
	proxy, order, err := prepareNative(s, files)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(proxy) // the proxy serves until this process's end of its socket is gone
	if err := joinLimits(control); err != nil {
		return err
	}
	var model *os.File
	if s.Model >= 0 {
		model = files[s.Model]
	}
	first, err := startFirst(order, in.wire, model)
	if err != nil {
		return err
	}
	if err := userns.NoMore(); err != nil {
		return layerError("namespaces", err, "")
	}
	if err := handoff.WriteReport(control, handoff.Report{Event: handoff.Started}, openPrivate(s)...); err != nil {
		return err
	}
	go watchParent(control, first)
	if err := errors.Join(userns.DropAll(), harden.Undumpable()); err != nil {
		return err
	}
	state, err := first.Wait()
	if err != nil {
		return fmt.Errorf("wait for the first process: %w", err)
	}
	r := handoff.Report{Event: handoff.Exited}
	if !state.Success() {
		r.Log = "the first process ended: " + state.String()
	}
	return handoff.WriteReport(control, r)
}

// prepareNative makes everything that the sandbox's first process is to find.
func prepareNative(s *handoff.Settings, files []*os.File) (*os.File, *handoff.Native, error) {
	st, err := prepareFiles(s, files)
	if err != nil {
		return nil, nil, err
	}
	order, err := compose(s, st)
	if err != nil {
		return nil, nil, layerError("file system", err, "")
	}
	if err := names(s.Spec.Hostname); err != nil {
		return nil, nil, layerError("host name", err, "")
	}
	if s.Spec.Net == bailey.NetNone {
		return nil, order, layerError("loopback", netns.LoopbackUp(), "")
	}
	if !s.Proxy {
		return nil, nil, errors.New("a network mode without a proxy")
	}
	return files[0], order, layerError("airlock", enterAirlock(files[0]), "")
}

// names sets the names of the machine that is the sandbox.
func names(host string) error {
	return errors.Join(unix.Sethostname([]byte(host)), unix.Setdomainname([]byte("(none)")))
}

// enterAirlock builds the airlock, hands its listeners to the proxy, and moves
// this thread into the sandbox's namespace: what it starts is born there.
func enterAirlock(proxy *os.File) error {
	lock, err := airlock.Build()
	if err != nil {
		return err
	}
	err = fdpass.SendListeners(proxy, lock.TCP, lock.DNSUDP, lock.DNSTCP)
	if err == nil {
		err = netns.Enter(lock.Sandbox)
	}
	return errors.Join(err, lock.Close())
}

// joinLimits waits until this process is under its limits, or moves there by
// itself: what it starts from then on is born in them.
func joinLimits(control *os.File) error {
	joins, err := handoff.ReadEnrolled(control)
	if err != nil {
		return err
	}
	fds := make([]int, len(joins))
	for i, f := range joins {
		fds[i] = int(f.Fd())
	}
	err = cgroup.Join(fds)
	for _, f := range joins {
		err = errors.Join(err, f.Close())
	}
	return err
}

// part is one mount of the sandbox's file system that is not in the generated
// root already.
type part struct {
	target   string
	source   string        // "" for memory
	memory   *bailey.Tmpfs // nil for a mount of source
	writable bool
}

// compose puts the sandbox's file system together at viewDir, as gVisor does in
// its own kernel.
func compose(s *handoff.Settings, st *ocispec.Staged) (*handoff.Native, error) {
	if err := scraps(); err != nil {
		return nil, err
	}
	root, err := mount.Clone(rootDir)
	if err != nil {
		return nil, err
	}
	err = mount.SetTopAttr(root, mount.Attr{ReadOnly: true, NoSuid: true, NoDev: true})
	if err = errors.Join(err, mount.Attach(root, viewDir), root.Close()); err != nil {
		return nil, err
	}
	if err := terminals(); err != nil {
		return nil, err
	}
	order := &handoff.Native{
		Root: viewDir, Empty: emptyFile, Void: voidDir, BootID: bootIDFile,
		Program: sandbox.FirstPath, Args: s.Spec.FirstArgs, Env: ocispec.FirstEnv(), Gateway: s.Model >= 0,
		NProc: s.Spec.Limits.Processes, NoFile: s.Spec.Limits.OpenFiles, FSize: s.Spec.Limits.DiskBytes,
	}
	for _, p := range parts(&s.Spec, st) {
		if err := p.put(&s.Spec); err != nil {
			return nil, fmt.Errorf("%s: %w", p.target, err)
		}
		if err := p.list(order); err != nil {
			return nil, err
		}
	}
	if err := coverAll(s.Spec.Covers); err != nil {
		return nil, err
	}
	b, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("encode order: %w", err)
	}
	return order, os.WriteFile(orderFile, b, 0o600)
}

// scraps are the files and folders that hide others.
func scraps() error {
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid") // a new one each time (random(4))
	if err != nil {
		return err
	}
	return errors.Join(
		os.Mkdir(viewDir, 0o755), os.Mkdir(voidDir, 0o555),
		os.WriteFile(emptyFile, nil, 0o444), os.WriteFile(bootIDFile, id, 0o444), os.WriteFile(maskFile, nil, 0),
	)
}

// parts lists what is to be mounted, each after the one that it lies in.
func parts(s *sandbox.Spec, st *ocispec.Staged) []part {
	var list []part
	for i := range s.Tmpfs {
		list = append(list, part{target: s.Tmpfs[i].Target, memory: &s.Tmpfs[i], writable: true})
	}
	for i, m := range s.Mounts {
		if st.Sources[i] != "" {
			list = append(list, part{target: m.Target, source: st.Sources[i], writable: m.Writable})
		}
	}
	for _, b := range st.Binds {
		list = append(list, part{target: b.Target, source: b.Source, writable: b.Writable})
	}
	slices.SortStableFunc(list, func(a, b part) int { return strings.Count(a.target, "/") - strings.Count(b.target, "/") })
	return list
}

// put mounts it.
func (p part) put(s *sandbox.Spec) error {
	at := viewDir + p.target
	if p.memory != nil {
		mode := uint32(p.memory.Mode.Perm())
		if p.memory.Mode&fs.ModeSticky != 0 {
			mode |= unix.S_ISVTX
		}
		return mount.Tmpfs(at, fmt.Sprintf("mode=%04o,size=%d,uid=%d,gid=%d", mode, p.memory.Bytes, s.UID, s.GID))
	}
	f, err := mount.Clone(p.source)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // attached, or gone
	if inMemory(s, p.target) {
		isDir, err := isDirectory(f)
		if err != nil {
			return err
		}
		if err := makeInMemory(at, isDir); err != nil {
			return err
		}
	}
	if err := mount.SetAttr(f, mount.Attr{ReadOnly: !p.writable, NoSuid: true, NoDev: true}); err != nil {
		return err
	}
	return mount.Attach(f, at)
}

// makeInMemory makes a mount point in a memory file system. The folders on the
// way to it are nobody's to write to, as gVisor's are.
func makeInMemory(at string, isDir bool) error {
	dir := at
	if !isDir {
		dir = filepath.Dir(at)
	}
	if err := os.MkdirAll(dir, 0o555); err != nil || isDir {
		return err
	}
	return makePoint(at, false)
}

// inMemory reports whether a mount point has to be made, in a file system that
// is empty so far and that nobody else can reach.
func inMemory(s *sandbox.Spec, target string) bool {
	memory, disk := "", ""
	for _, t := range s.Tmpfs {
		if sandbox.Within(target, t.Target) && len(t.Target) > len(memory) {
			memory = t.Target
		}
	}
	for _, m := range s.Mounts {
		if m.Target != target && sandbox.Within(target, m.Target) && len(m.Target) > len(disk) {
			disk = m.Target
		}
	}
	return len(memory) > len(disk)
}

// list notes for Landlock what may be written.
func (p part) list(order *handoff.Native) error {
	switch {
	case !p.writable:
		return nil
	case p.memory != nil:
		order.Memory = append(order.Memory, p.target)
		return nil
	}
	info, err := os.Stat(viewDir + p.target)
	if err != nil {
		return err
	}
	if info.IsDir() {
		order.Dirs = append(order.Dirs, p.target)
	} else {
		order.Files = append(order.Files, p.target)
	}
	return nil
}

// coverAll takes files of the workspace out of reach.
func coverAll(paths []string) error {
	for _, path := range paths {
		if err := cover(viewDir + path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cover %s: %w", path, err)
		}
	}
	return nil
}

// terminals makes /dev, with its few devices and pseudo terminals of its own.
func terminals() error {
	at := viewDir + "/dev"
	if err := mount.Tmpfs(at, "mode=0755,size=64k"); err != nil {
		return err
	}
	for _, name := range []string{"full", "null", "random", "tty", "urandom", "zero"} {
		if err := bindDevice("/dev/"+name, at+"/"+name, mount.Attr{NoSuid: true, NoExec: true}); err != nil {
			return err
		}
	}
	links := map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}
	for name, target := range links {
		if err := os.Symlink(target, at+"/"+name); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Mkdir(at+"/pts", 0o755), os.Mkdir(at+"/shm", 0o755)); err != nil {
		return err
	}
	return errors.Join(mount.Devpts(at+"/pts"), mount.Restrict(at, mount.Attr{ReadOnly: true, NoSuid: true, NoExec: true}))
}

// bindDevice shows a device.
func bindDevice(source, target string, a mount.Attr) error {
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		return err
	}
	f, err := mount.Clone(source)
	if err != nil {
		return err
	}
	return errors.Join(mount.SetAttr(f, a), mount.Attach(f, target), f.Close())
}

// startFirst starts the role that becomes the first process, and waits until it
// has. It is born in the network that this thread is in.
func startFirst(order *handoff.Native, wire, model *os.File) (*os.Process, error) {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	said, say, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	orders, err := os.Open(orderFile)
	if err != nil {
		return nil, errors.Join(err, say.Close())
	}
	files := []*os.File{null, null, null, wire, null, orders, say}
	if order.Gateway {
		files[handoff.NativeModelFD] = model
	}
	first, err := os.StartProcess("/proc/self/exe", []string{role.Native}, &os.ProcAttr{Dir: "/", Env: []string{}, Files: files, Sys: ownNamespaces()})
	// Both ends of the wires must see the end of the sandbox.
	closeErr := errors.Join(wire.Close(), orders.Close(), say.Close())
	if model != nil {
		closeErr = errors.Join(closeErr, model.Close())
	}
	if err != nil {
		return nil, layerError("namespaces", err, "")
	}
	return first, errors.Join(closeErr, heard(said))
}

// heard reads what kept the role from becoming the first process, if anything.
func heard(said *os.File) error {
	b, err := io.ReadAll(io.LimitReader(said, 64<<10))
	if err != nil || len(b) == 0 {
		return err
	}
	var r handoff.Report
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("decode report: %w", err)
	}
	return layerError(r.Layer, errors.New(r.Message), r.Hint)
}

// ownNamespaces are the sandbox's own, with one id in them, below the helper's.
func ownNamespaces() *syscall.SysProcAttr {
	uid, gid := os.Getuid(), os.Getgid()
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: userns.AllCaps(),
		Pdeathsig:   syscall.SIGKILL,
		Setsid:      true,
	}
}
