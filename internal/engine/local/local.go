package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/firstproc"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// startTimeout bounds how long a helper may take to say that gVisor runs.
const startTimeout = 20 * time.Second

// Config is what the engine needs to make one sandbox.
type Config struct {
	Spec       sandbox.Spec
	Executable string              // host path of this binary
	Proxy      *os.File            // the proxy's socket for listeners; nil in mode none
	Enroll     func(pid int) error // puts the helper into its limits before it does anything
	DebugDir   string              // writable folder of the host for gVisor's logs; empty for none
}

// Caller is the identity that bailey was started with.
type Caller struct {
	UID, GID int
	Home     string
	Inside   IDs // what it is in the sandbox
}

// IDs are a user and a group.
type IDs struct{ UID, GID int }

// Sandbox is one that runs. Close ends it.
type Sandbox struct {
	Wire    *os.File // our end; the caller closes it
	Private *os.File // the folder of private copies, nil if there are none
	Pid     int      // of the helper

	process *os.Process
	control *os.File
	exited  chan struct{}
	closed  func() error // once
	mu      sync.Mutex
	exit    Exit
}

// Exit is how gVisor itself ended; the command's own end comes over the wire.
type Exit struct {
	Code    int    // gVisor's exit code; -1 if a signal ended it
	Log     string // the end of what it said
	Message string // why the helper failed, if it did
}

// Pending is a helper that has its namespaces, and waits to be told what to
// make in them. Making the namespaces and starting a program takes as long as
// deciding what to run; so a caller that is going to start a sandbox launches
// the helper first.
type Pending struct {
	ID     bailey.SandboxID
	caller Caller
	sb     *Sandbox
	err    error // why there is no helper
}

// Launch starts the helper of one sandbox. A failure is kept and returned by
// Start, where there is more to say about it.
func Launch(caller Caller) *Pending {
	p := &Pending{ID: bailey.NewSandboxID(), caller: caller}
	ours, theirs, err := socketpair("control")
	if err != nil {
		p.err = err
		return p
	}
	defer theirs.Close() //nolint:errcheck // the helper has its own
	wire, guest, err := socketpair("wire")
	if err != nil {
		p.err = errors.Join(err, ours.Close())
		return p
	}
	defer guest.Close() //nolint:errcheck // the helper has its own
	p.sb = &Sandbox{Wire: wire, control: ours, exited: make(chan struct{}), closed: sync.OnceValue(ours.Close)}
	if err := p.sb.launch(namespaces(p), []*os.File{theirs, guest}); err != nil {
		p.err = errors.Join(err, ours.Close(), wire.Close())
		p.sb = nil
	}
	return p
}

// Abandon ends a helper that is not going to be used. It does nothing after a
// Start.
func (p *Pending) Abandon() {
	if p.sb != nil {
		_ = p.sb.Close()
		_ = p.sb.Wire.Close()
		p.sb = nil
	}
}

// Start makes the sandbox. On any error nothing of it is left.
func (p *Pending) Start(ctx context.Context, cfg Config) (*Sandbox, error) {
	if p.err != nil {
		return nil, p.err
	}
	sb := p.sb
	p.sb = nil
	if err := sb.make(ctx, p, cfg); err != nil {
		return nil, errors.Join(err, sb.Close(), sb.Wire.Close())
	}
	return sb, nil
}

func (sb *Sandbox) make(ctx context.Context, p *Pending, cfg Config) error {
	if firstproc.Image == "" { // else the helper writes the program that is embedded
		cfg.Spec.Mounts = append(cfg.Spec.Mounts, bailey.Mount{Source: cfg.Executable, Target: sandbox.FirstPath})
	}
	if err := cfg.Spec.Validate(); err != nil {
		return err
	}
	if cfg.Enroll != nil {
		if err := cfg.Enroll(sb.Pid); err != nil {
			return err
		}
	}
	if _, err := sb.control.Write([]byte{Enrolled}); err != nil {
		return bailey.WrapError(bailey.Unsupported, "the sandbox's helper is gone", err, "see bailey doctor")
	}
	var cl cleanup
	defer cl.run()
	settings, files, err := prepare(p, &cfg, &cl)
	if err != nil {
		return err
	}
	return sb.begin(ctx, settings, files)
}

// prepare turns the specification into settings and the descriptors that go
// with them.
func prepare(p *Pending, cfg *Config, cl *cleanup) (*Settings, []*os.File, error) {
	s := &Settings{Spec: cfg.Spec, DebugDir: cfg.DebugDir, MountFDs: make([]int, len(cfg.Spec.Mounts))}
	var files []*os.File
	if cfg.Proxy != nil {
		s.Proxy = true
		files = append(files, cfg.Proxy)
	}
	for i := range s.MountFDs {
		s.MountFDs[i] = -1
	}
	if p.caller.UID != 0 {
		return s, files, nil
	}
	prep := preparer{pending: p, maps: map[owner]*os.File{}}
	for i, m := range cfg.Spec.Mounts {
		f, err := prep.open(m)
		if err != nil {
			return nil, nil, err
		}
		cl.add(f)
		s.MountFDs[i] = len(files)
		files = append(files, f)
	}
	for _, f := range prep.maps {
		cl.add(f)
	}
	return s, files, nil
}

// launch starts the helper in its namespaces. The thread that does it lives
// as long as the helper: the kernel ties the parent-death signal to it.
func (sb *Sandbox) launch(sys *syscall.SysProcAttr, files []*os.File) error {
	attr := &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: append([]*os.File{nil, nil, nil}, files...),
		Sys: sys,
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	attr.Files[0], attr.Files[1], attr.Files[2] = null, null, null
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		p, err := os.StartProcess("/proc/self/exe", []string{HelperArgv0}, attr)
		if err != nil {
			started <- startError(err)
			return
		}
		sb.process, sb.Pid = p, p.Pid
		started <- nil
		_, _ = p.Wait()
		close(sb.exited)
	}()
	return <-started
}

func namespaces(p *Pending) *syscall.SysProcAttr {
	in := p.caller.Inside
	out := p.hostIDs()
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: in.UID, HostID: out.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: in.GID, HostID: out.GID, Size: 1}},
		AmbientCaps: userns.AllCaps(),
		Pdeathsig:   syscall.SIGKILL,
		Setsid:      true,
	}
	if p.caller.UID == 0 {
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: uint32(in.UID), Gid: uint32(in.GID)}
	}
	return attr
}

func startError(err error) error {
	what, fix := userns.Restriction()
	if what == "" {
		fix = "see bailey doctor"
		if errors.Is(err, syscall.EACCES) {
			fix = "the bailey binary must be executable for other users: chmod 755"
		}
		return bailey.WrapError(bailey.Unsupported, "make the sandbox's user namespace", err, fix)
	}
	return bailey.WrapError(bailey.Unsupported, "make the sandbox's user namespace: "+what, err, fix)
}

// begin tells the helper what to make, and waits until it says that gVisor
// runs.
func (sb *Sandbox) begin(ctx context.Context, s *Settings, files []*os.File) error {
	if err := WriteSettings(sb.control, s, files); err != nil {
		return err
	}
	type answer struct {
		report Report
		err    error
	}
	got := make(chan answer, 1)
	go func() {
		r, fds, err := readReport(sb.control)
		if len(fds) > 0 {
			sb.Private = os.NewFile(uintptr(fds[0]), "private copies")
		}
		got <- answer{r, err}
		if err == nil && r.Event == Started {
			sb.follow()
		}
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case a := <-got:
		return startFailure(a.report, a.err)
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return bailey.NewError(bailey.Unavailable, fmt.Sprintf("the sandbox did not start within %v", startTimeout), "see bailey doctor")
	}
}

func startFailure(r Report, err error) error {
	switch {
	case err != nil:
		return bailey.WrapError(bailey.Unsupported, "the sandbox's helper ended before the sandbox ran", err, "see bailey doctor")
	case r.Event == Started:
		return nil
	case r.Event == Exited:
		return bailey.NewError(bailey.Unsupported, "gvisor ended before the sandbox ran: "+strings.TrimSpace(r.Log), "see bailey doctor")
	default:
		return bailey.NewError(bailey.Unsupported, "cannot put "+r.Layer+" in place: "+r.Message, r.Hint)
	}
}

// follow reads what the helper says after the start.
func (sb *Sandbox) follow() {
	r, _, err := readReport(sb.control)
	if err != nil {
		return
	}
	sb.mu.Lock()
	sb.exit = Exit{Code: r.Code, Log: r.Log, Message: r.Message}
	sb.mu.Unlock()
}

// Done is closed when the sandbox is gone, every process of it included.
func (sb *Sandbox) Done() <-chan struct{} { return sb.exited }

// Exit tells how gVisor ended, as far as the helper could say.
func (sb *Sandbox) Exit() Exit {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.exit
}

// Kill ends every process of the sandbox at once. Safe to call twice.
func (sb *Sandbox) Kill() {
	if sb.process != nil {
		_ = sb.process.Kill()
	}
}

// Close kills the sandbox, waits until it is gone and lets go of it.
func (sb *Sandbox) Close() error {
	sb.Kill()
	<-sb.exited
	return sb.closed()
}

func readReport(f *os.File) (Report, []int, error) {
	var r Report
	buf := make([]byte, 1<<20)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, err := recv(f, buf, oob)
	if err != nil {
		return r, nil, err
	}
	if n == 0 {
		return r, nil, errors.New("it said nothing")
	}
	var fds []int
	if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil {
		for i := range msgs {
			if got, err := unix.ParseUnixRights(&msgs[i]); err == nil {
				fds = append(fds, got...)
			}
		}
	}
	return r, fds, json.Unmarshal(buf[:n], &r)
}

// send sends one message with descriptors.
func send(f *os.File, msg, rights []byte) (err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	ctlErr := c.Write(func(fd uintptr) bool {
		err = unix.Sendmsg(int(fd), msg, rights, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(err, unix.EAGAIN)
	})
	return errors.Join(ctlErr, err)
}

func recv(f *os.File, buf, oob []byte) (n, oobn int, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	ctlErr := c.Read(func(fd uintptr) bool {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	return n, oobn, errors.Join(ctlErr, err)
}

// socketpair returns our end, ready for the runtime's poller, and the end
// that a child inherits.
func socketpair(name string) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make %s socket: %w", name, err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

// cleanup closes what only the start needed, in reverse.
type cleanup struct{ files []*os.File }

func (c *cleanup) add(f *os.File) { c.files = append(c.files, f) }

func (c *cleanup) run() {
	for i := len(c.files) - 1; i >= 0; i-- {
		_ = c.files[i].Close()
	}
}
