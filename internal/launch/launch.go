// Package launch starts a sandbox's helper in its namespaces, and for
// `bailey run` does so before anything else happens in the process.
//
// A child in a user namespace of its own is made by a full fork: from then on
// every page that the parent writes is copied first. Early in its life a Go
// program has few pages and writes them seldom; after its packages are
// initialised it has many. And the helper's program needs as long to start as
// the command line needs to be understood, so the two go side by side. The
// helper only waits: it is told what to do, or it goes away with its parent.
//
// It decides nothing about a sandbox. internal/engine/local uses it.
package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/firstproc"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/memfd"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/role"
)

// Helper is a helper that has been started and knows nothing yet. Its parent
// holds the other ends of its two sockets.
type Helper struct {
	ID      bailey.SandboxID
	Process *os.Process
	Control int  // descriptor: non-blocking
	Wire    int  // descriptor: non-blocking
	Host    IDs  // its ids on the host
	Small   bool // it is the embedded small program, which is the first process's too

	// IDMap is a user namespace that shows files of the owner of the current
	// folder as the helper's, for a root caller; it may be nil.
	IDMap *os.File
	Owner IDs // of the current folder
}

// IDs are a user and a group.
type IDs struct{ UID, GID int }

// rootCallerID stands for uid and gid 0 inside.
const rootCallerID = 1000

// Inside returns the ids in the sandbox of a caller's: its own, so that `id`
// says the same inside and out, but never 0.
func Inside(uid, gid int) IDs {
	if uid <= 0 {
		return IDs{rootCallerID, rootCallerID}
	}
	if gid <= 0 {
		gid = uid
	}
	return IDs{uid, gid}
}

// first is the helper that init started, until somebody takes it.
var first struct { //nolint:gochecknoglobals // between init and main
	helper *Helper
	err    error
	there  bool
}

//nolint:gochecknoinits // the point of the package: as early as can be
func init() {
	if wanted(os.Args) {
		first.there = true
		// The caller's own descriptors are nobody's business in a sandbox.
		if first.err = harden.KeepDescriptors(); first.err == nil {
			first.helper, first.err = start()
		}
		if first.err == nil && os.Getuid() == 0 {
			first.helper.mapOwner()
		}
	}
}

// wanted reports whether the process is a `bailey run` with something to run, the
// runner of a task, or a unit of a phase.
func wanted(args []string) bool {
	switch {
	case len(args) == 1:
		return args[0] == role.Runner || args[0] == role.Unit
	case len(args) < 3 || args[1] != "run":
		return false
	case args[0] == role.Holder:
		return true
	}
	return !isRole(args[0]) && !HandsOver(args)
}

// HandsOver reports whether a command line of run has another process hold the
// sandbox (role.Holder). A word that only looks like that costs some time.
func HandsOver(args []string) bool {
	for _, a := range args {
		switch a {
		case "--detach", "-d", "--detachable":
			return true
		case "--":
			return false
		}
	}
	return false
}

// isRole reports whether argv[0] is the name of a role and not of a command.
func isRole(argv0 string) bool {
	return len(argv0) > 7 && (argv0[:7] == "bailey-" || argv0[:6] == "runsc-") || argv0 == "/proc/self/exe"
}

// Take returns the helper that was started first, or starts one.
func Take() (*Helper, error) {
	if first.there {
		first.there = false
		h, err := first.helper, first.err
		first.helper = nil
		return h, err
	}
	// The kernel ties the death signal to the thread that forks: one that
	// nothing else uses, and that lasts.
	type result struct {
		h   *Helper
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		h, err := start()
		done <- result{h, err}
		if err == nil {
			select {} // the thread lasts as long as the process
		}
	}()
	r := <-done
	return r.h, r.err
}

func start() (*Helper, error) {
	h := &Helper{ID: bailey.NewSandboxID()}
	uid, gid := os.Getuid(), os.Getgid()
	in := Inside(uid, gid)
	h.Host = IDs{uid, gid}
	if uid == 0 {
		harden.MakeRoom()
		n := UnusedID(h.ID)
		h.Host = IDs{n, n}
	}
	control, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	wire, guest, err := socketpair()
	if err != nil {
		return nil, errors.Join(err, closeAll(control, theirs))
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, closeAll(control, theirs, wire, guest))
	}
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, errors.Join(err, null.Close(), closeAll(control, theirs, wire, guest))
	}
	path, small := Program()
	h.Small = small
	ends := []*os.File{os.NewFile(uintptr(theirs), "control"), os.NewFile(uintptr(guest), "wire"), exe}
	attr := &os.ProcAttr{Dir: "/", Env: []string{}, Files: append([]*os.File{null, null, null}, ends...), Sys: namespaces(uid, in, h.Host)}
	h.Process, err = os.StartProcess(path, helperArgs(os.Args), attr)
	closeErr := errors.Join(null.Close(), ends[0].Close(), ends[1].Close(), exe.Close())
	if err != nil {
		return nil, errors.Join(err, closeErr, closeAll(control, wire))
	}
	h.Control, h.Wire = control, wire
	return h, closeErr
}

// helperArgs are the helper's arguments: whether it may well do without gVisor
// is worth to know before anything is understood (role.HelperNative).
func helperArgs(args []string) []string {
	for i, a := range args {
		switch {
		case a == "--":
			return []string{role.Helper}
		case a == "--runtime=native", a == "--runtime" && i+1 < len(args) && args[i+1] == "native":
			return []string{role.Helper, role.HelperNative}
		}
	}
	return []string{role.Helper}
}

// Program returns the path of the program that plays the small roles: the
// embedded one, or where that cannot be executed, this one.
func Program() (path string, small bool) {
	small = program() != nil
	if !small {
		return "/proc/self/exe", false
	}
	return memfd.Path(program()), true
}

// program is the embedded program as a file, or nil. It stays open: its pages
// are those of the processes that run from it.
var program = sync.OnceValue(func() *os.File {
	if firstproc.Image == "" {
		return nil
	}
	f, err := memfd.Executable("bailey", firstproc.Image)
	if err != nil {
		return nil
	}
	return f
})

func namespaces(uid int, in, out IDs) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: in.UID, HostID: out.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: in.GID, HostID: out.GID, Size: 1}},
		AmbientCaps: userns.AllCaps(),
		Pdeathsig:   syscall.SIGKILL,
		Setsid:      true,
	}
	if uid == 0 {
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: uint32(in.UID), Gid: uint32(in.GID)}
	}
	return attr
}

// mapOwner prepares the id map that a root caller's workspace most often
// needs. Whatever fails here is tried again, and reported, where it is needed.
func (h *Helper) mapOwner() {
	var st syscall.Stat_t
	if syscall.Stat(".", &st) != nil {
		return
	}
	h.Owner = IDs{int(st.Uid), int(st.Gid)}
	if f, err := userns.MapFD(h.Owner.UID, h.Host.UID, h.Owner.GID, h.Host.GID); err == nil {
		h.IDMap = f
	}
}

// unusedBase starts a range of ids far above what distributions, systemd and
// subordinate id files give out (systemd's UIDS-GIDS page; login.defs).
const unusedBase = 0x70000000

// UnusedID is the host id of a root caller's sandbox: 24 bits of its random id
// above unusedBase. A root caller is never mapped into a sandbox: to the
// kernel it would be host root there (docs/adr/0008).
func UnusedID(id bailey.SandboxID) int {
	n := 0
	for i := len("sbx_"); i < len(id); i++ {
		digit := int(id[i] - '0')
		if id[i] >= 'a' {
			digit = int(id[i]-'a') + 10
		}
		n = (n*16 + digit) & 0xffffff
	}
	return unusedBase + n
}

// IsUnused reports whether n is of the range of UnusedID.
func IsUnused(n int) bool { return n&^0xffffff == unusedBase }

// proxyBit sets the proxy's id apart from its sandbox's.
const proxyBit = 0x800000

// ProxyID is the host id of a root caller's proxy whose sandbox has the id n.
func ProxyID(n int) int { return n ^ proxyBit }

// gatewayBit sets the model gateway's id apart from both.
const gatewayBit = 0x400000

// GatewayID is the host id of a root caller's model gateway whose sandbox has
// the id n.
func GatewayID(n int) int { return n ^ gatewayBit }

// ControlID is the host id of the control role of root's service. It is always
// the same, so that its folder can stay its own, and outside of the range of
// UnusedID.
const ControlID = unusedBase + 1<<24

// socketpair returns our end, non-blocking, and the end that a child inherits.
func socketpair() (ours, theirs int, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("make socket: %w", err)
	}
	return fds[0], fds[1], syscall.SetNonblock(fds[0], true)
}

func closeAll(fds ...int) error {
	var errs []error
	for _, fd := range fds {
		errs = append(errs, syscall.Close(fd))
	}
	return errors.Join(errs...)
}
