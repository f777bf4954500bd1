package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/handoff"
	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// startTimeout bounds how long a helper may take to say that gVisor runs: a
// hundred sandboxes that start at once on two cores take half of it.
const startTimeout = 60 * time.Second

// Config is what the engine needs to make one sandbox.
type Config struct {
	Spec       sandbox.Spec
	Executable string   // host path of this binary
	Proxy      *os.File // the proxy's socket for listeners; nil in mode none
	Model      *os.File // the sandbox's end of the wire to the model gateway; nil for none
	// Enroll puts the helper, first, and what it has started into their limits,
	// or returns the files by which they move there themselves (cgroup.Join).
	Enroll   func(pids []int) ([]*os.File, error)
	DebugDir string // writable folder of the host for gVisor's logs; empty for none
}

// Caller is the identity that bailey was started with.
type Caller struct {
	UID, GID int
	Home     string
}

// Sandbox is one that runs. Close ends it.
type Sandbox struct {
	Wire    *os.File // our end; the caller closes it
	Private *os.File // the folder of private copies, nil if there are none
	Pid     int      // of the helper

	runtime bailey.Runtime
	process *os.Process
	control *os.File
	exited  chan struct{}
	heard   chan struct{} // closed when all that the helper said is read; nil before the start
	closed  func() error  // once
	mu      sync.Mutex
	exit    Exit
}

// Exit is how gVisor itself ended; the command's own end comes over the wire.
type Exit struct {
	Log     string // the end of what it said
	Message string // why the helper failed, if it did
	Hint    string // what mends that
}

// Pending is a helper that has its namespaces, and waits to be told what to
// make in them. Making the namespaces and starting a program takes as long as
// deciding what to run; so a caller that is going to start a sandbox launches
// the helper first.
type Pending struct {
	ID     bailey.SandboxID
	caller Caller
	helper *launch.Helper
	sb     *Sandbox
	err    error // why there is no helper
}

// Launch starts the helper of one sandbox, or takes the one that was started
// with the process. A failure is kept and returned by Start, where there is
// more to say about it.
func Launch(caller Caller) *Pending {
	h, err := launch.Take()
	if err != nil {
		return &Pending{ID: bailey.NewSandboxID(), caller: caller, err: startError(caller, err)}
	}
	err = hindrance(caller.UID)
	control := os.NewFile(uintptr(h.Control), "control")
	sb := &Sandbox{
		Wire: os.NewFile(uintptr(h.Wire), "wire"), Pid: h.Process.Pid,
		process: h.Process, control: control, exited: make(chan struct{}), closed: sync.OnceValue(control.Close),
	}
	go func() {
		_, _ = h.Process.Wait()
		close(sb.exited)
	}()
	return &Pending{ID: h.ID, caller: caller, sb: sb, helper: h, err: err}
}

// Err is why Start would fail, as far as that is known before.
func (p *Pending) Err() error { return p.err }

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
	if !p.helper.Small { // else the helper writes its own program there
		cfg.Spec.Mounts = append(cfg.Spec.Mounts, bailey.Mount{Source: cfg.Executable, Target: sandbox.FirstPath})
	}
	if err := cfg.Spec.Validate(); err != nil {
		return err
	}
	var cl cleanup
	defer cl.run()
	settings, files, err := prepare(p, &cfg, &cl)
	if err != nil {
		return err
	}
	sb.runtime = cfg.Spec.Runtime
	return sb.begin(ctx, cfg.Enroll, settings, files)
}

// resolveDebug makes DebugDir a path without links: a mount's source has none.
func (c *Config) resolveDebug() error {
	if c.DebugDir == "" {
		return nil
	}
	dir, err := filepath.Abs(c.DebugDir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		err = unix.Access(dir, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return bailey.WrapError(bailey.Invalid, "use the folder of gVisor's logs "+c.DebugDir, err, "BAILEY_DEBUG names a folder that you may write to")
	}
	c.DebugDir = dir
	return nil
}

// prepare turns the specification into settings and the descriptors that go
// with them.
func prepare(p *Pending, cfg *Config, cl *cleanup) (*handoff.Settings, []*os.File, error) {
	if err := cfg.resolveDebug(); err != nil {
		return nil, nil, err
	}
	s := &handoff.Settings{Spec: cfg.Spec, CopySelf: p.helper.Small, DebugDir: cfg.DebugDir, DebugFD: -1, Model: -1, MountFDs: make([]int, len(cfg.Spec.Mounts))}
	var files []*os.File
	if cfg.Proxy != nil {
		s.Proxy = true
		files = append(files, cfg.Proxy)
	}
	if cfg.Model != nil {
		s.Model = len(files)
		files = append(files, cfg.Model)
	}
	for i := range s.MountFDs {
		s.MountFDs[i] = -1
	}
	if p.caller.UID != 0 {
		return s, files, nil
	}
	prep := preparer{pending: p, maps: map[launch.IDs]*os.File{}}
	if p.helper.IDMap != nil {
		prep.maps[p.helper.Owner] = p.helper.IDMap
	}
	for i, m := range cfg.Spec.Mounts {
		f, err := prep.open(m)
		if err != nil {
			return nil, nil, err
		}
		cl.add(f)
		s.MountFDs[i] = len(files)
		files = append(files, f)
	}
	if cfg.DebugDir != "" { // gVisor, which runs as another id, writes there as the folder's owner
		f, err := prep.open(bailey.Mount{Source: cfg.DebugDir, Writable: true, Owned: true})
		if err != nil {
			return nil, nil, err
		}
		cl.add(f)
		s.DebugFD = len(files)
		files = append(files, f)
	}
	for _, f := range prep.maps {
		cl.add(f)
	}
	return s, files, nil
}

func startError(caller Caller, err error) error {
	if why := hindrance(caller.UID); why != nil {
		return why
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno // of a path in /proc that says nothing
	}
	what, fix := userns.Switches{UID: caller.UID}.Restriction()
	if what != "" {
		return bailey.WrapError(bailey.Unsupported, "make the sandbox's user namespace: "+what, err, fix)
	}
	return bailey.WrapError(bailey.Unsupported, "make the sandbox's user namespace", err, startFix(err))
}

// startFix is what mends a user namespace that the kernel refuses for a reason
// that no switch tells (clone(2), user_namespaces(7)).
func startFix(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES):
		return "the bailey binary must be executable for other users: chmod 755"
	case errors.Is(err, syscall.EROFS):
		return "/proc is read-only here, and the namespace's ids are written there: mount it writable (docker run --security-opt systempaths=unconfined)"
	case errors.Is(err, syscall.EPERM):
		return "in a chroot the kernel allows none: enter the folder with pivot_root instead, or use a container whose seccomp filter allows clone and unshare"
	case errors.Is(err, syscall.EAGAIN):
		return "there are too many processes (ulimit -u)"
	case errors.Is(err, syscall.ENOSPC):
		return "there are too many user namespaces (sysctl user.max_user_namespaces)"
	}
	return "see bailey doctor"
}

// begin tells the helper what to make, puts it under its limits meanwhile, and
// waits until it says that gVisor runs.
func (sb *Sandbox) begin(ctx context.Context, enroll enroller, s *handoff.Settings, files []*os.File) error {
	said := make(chan said, 4) // more than a helper says
	sb.heard = make(chan struct{})
	go sb.listen(said)
	if err := handoff.WriteSettings(sb.control, s, files); err != nil {
		err = bailey.WrapError(bailey.Unsupported, "the sandbox's helper is gone", err, "see bailey doctor")
		return sb.cause(err, said) //nolint:contextcheck // it looks at what was said already
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		bailey.NewError(bailey.Unavailable, fmt.Sprintf("the sandbox did not start within %v", startTimeout), "see bailey doctor"))
	defer cancel()
	if _, err := await(ctx, said, handoff.Launched); err != nil {
		return err
	}
	if err := sb.enroll(enroll); err != nil {
		return sb.cause(err, said) //nolint:contextcheck // it looks at what was said already
	}
	private, err := await(ctx, said, handoff.Started)
	sb.Private = private
	return err
}

type enroller = func(pids []int) ([]*os.File, error)

// enroll puts the helper and gVisor's program, which waits for its arguments,
// under their limits, and lets the helper hand those arguments over.
func (sb *Sandbox) enroll(enroll enroller) error {
	var joins []*os.File
	if enroll != nil {
		pids, err := sb.first()
		if err != nil {
			return err
		}
		if joins, err = enroll(pids); err != nil {
			return err
		}
	}
	err := handoff.WriteEnrolled(sb.control, joins)
	for _, f := range joins {
		_ = f.Close()
	}
	return err
}

// first lists the processes that everything else of the sandbox descends from.
func (sb *Sandbox) first() ([]int, error) {
	if sb.runtime == bailey.RuntimeNative { // the helper starts nothing before it is enrolled
		return []int{sb.Pid}, nil
	}
	children, err := proc.Descendants(sb.Pid)
	if err != nil || len(children) != 1 {
		return nil, fmt.Errorf("look for gVisor's process: %d children: %w", len(children), err)
	}
	return []int{sb.Pid, children[0].PID}, nil
}

// cause returns what a helper that has ended said before, which is why an
// attempt to enroll it failed; for one that lives it returns err.
func (sb *Sandbox) cause(err error, from <-chan said) error {
	select {
	case <-sb.exited:
	case <-time.After(100 * time.Millisecond):
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords) //nolint:forbidigo // the reason is told whoever gave up
	defer cancel()
	if _, why := await(ctx, from, handoff.Started); why != nil {
		return why
	}
	return err
}

// said is one report of the helper's, or why there is none.
type said struct {
	report handoff.Report
	with   *os.File
	err    error
}

// listen passes on what the helper says until it is gone.
func (sb *Sandbox) listen(to chan<- said) {
	defer close(sb.heard)
	reports := handoff.NewReports(sb.control)
	for {
		r, with, err := reports.Next()
		if r.Event == handoff.Exited || r.Event == handoff.Failed {
			sb.mu.Lock()
			sb.exit = Exit{Log: r.Log, Message: r.Message, Hint: r.Hint}
			sb.mu.Unlock()
		}
		select {
		case to <- said{r, with, err}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// await waits for the helper to say one thing; anything else is a failure.
func await(ctx context.Context, from <-chan said, event string) (*os.File, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case m := <-from:
		switch r := m.report; {
		case m.err != nil:
			return nil, bailey.WrapError(bailey.Unsupported, "the sandbox's helper ended before the sandbox ran", m.err, "see bailey doctor")
		case r.Event == event:
			return m.with, nil
		case r.Event == handoff.Exited:
			return nil, bailey.NewError(bailey.Unsupported, "gvisor ended before the sandbox ran: "+strings.TrimSpace(r.Log), "see bailey doctor")
		default:
			return nil, bailey.NewError(bailey.Unsupported, "cannot put "+r.Layer+" in place: "+r.Message, r.Hint)
		}
	}
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

// lastWords bounds the reading of what a helper said before its end.
const lastWords = time.Second

// Close kills the sandbox, waits until it is gone and lets go of it. Exit is
// complete then.
func (sb *Sandbox) Close() error {
	sb.Kill()
	<-sb.exited
	if sb.heard != nil {
		_ = sb.control.SetReadDeadline(time.Now().Add(lastWords)) //nolint:forbidigo // the kernel's clock decides; refused where it is closed already
		<-sb.heard
	}
	return sb.closed()
}

// cleanup closes what only the start needed, in reverse.
type cleanup struct{ files []*os.File }

func (c *cleanup) add(f *os.File) { c.files = append(c.files, f) }

func (c *cleanup) run() {
	for _, f := range slices.Backward(c.files) {
		_ = f.Close()
	}
}
