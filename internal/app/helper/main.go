package helper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/engine/handoff"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/ocispec"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/runsc"
)

// stopGrace is how long gVisor may take to end after it was told to.
const stopGrace = 2 * time.Second

// layer is an error with the name of what could not be put in place.
type layer struct {
	name string
	hint string
	err  error
}

func (l *layer) Error() string { return l.err.Error() }
func (l *layer) Unwrap() error { return l.err }

func layerError(name string, err error, hint string) error {
	if err == nil {
		return nil
	}
	return &layer{name: name, hint: hint, err: err}
}

// Main plays the role and returns its exit code.
func Main() int {
	// gVisor's death signal follows the thread that starts it, and the airlock
	// throws threads away: this one stays.
	runtime.LockOSThread()
	if err := harden.NoDump(); err != nil { // gVisor's processes inherit it, or the sandbox's own
		return bailey.ExitBailey
	}
	unix.Umask(0) // what is made here has the mode it is given; the caller's mask travels with each command
	unix.CloseOnExec(handoff.ControlFD)
	unix.CloseOnExec(handoff.WireFD)
	unix.CloseOnExec(handoff.ExeFD)
	control := os.NewFile(handoff.ControlFD, "control")
	// gVisor's program takes as long to start as all that follows here; it waits
	// for its arguments.
	if err := run(control, !slices.Contains(os.Args, role.HelperNative)); err != nil {
		_ = handoff.WriteReport(control, failure(err)) // a parent that is gone takes this process with it
		return bailey.ExitBailey
	}
	return 0
}

func failure(err error) handoff.Report {
	r := handoff.Report{Event: handoff.Failed, Layer: "sandbox", Message: err.Error()}
	if l, ok := errors.AsType[*layer](err); ok {
		r.Layer, r.Hint = l.name, l.hint
	}
	if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
		r.Hint = e.Hint
	}
	return r
}

// born are what a helper is born with, beside the control socket.
type born struct {
	wire *os.File // the sandbox's end
	exe  *os.File // bailey's own binary
}

func run(control *os.File, gvisorFirst bool) error { //nolint:gocognit // the order is the point
	in := born{wire: os.NewFile(handoff.WireFD, "wire"), exe: os.NewFile(handoff.ExeFD, "exe")}
	var g *gvisor
	if gvisorFirst {
		var err error
		if g, err = launched(control, in); err != nil {
			return err
		}
	}
	s, files, err := handoff.ReadSettings(control)
	if err != nil {
		return err
	}
	if s.Spec.Runtime == bailey.RuntimeNative {
		if g == nil {
			err = handoff.WriteReport(control, handoff.Report{Event: handoff.Launched})
		} else {
			err = g.abandon()
		}
		if err != nil {
			return err
		}
		return native(control, in, s, files)
	}
	if g == nil { // what was asked for looked like another runtime
		if g, err = launched(control, in); err != nil {
			return err
		}
	}
	if s.Model >= 0 {
		g.model = files[s.Model]
	}
	proxy, err := prepare(s, files)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(proxy) // the proxy serves until this process's end of its socket is gone
	joins, err := handoff.ReadEnrolled(control)
	if err != nil {
		return err
	}
	return g.run(control, s, joins)
}

// launched starts gVisor's program and says so.
func launched(control *os.File, in born) (*gvisor, error) {
	g, err := launch(in)
	if err != nil {
		return nil, layerError("gvisor", err, "")
	}
	return g, handoff.WriteReport(control, handoff.Report{Event: handoff.Launched})
}

// prepareFiles makes the file system that the sandbox is made of.
func prepareFiles(s *handoff.Settings, files []*os.File) (*ocispec.Staged, error) {
	if !s.CopySelf { // the small program can
		if err := userns.CanDrop(); err != nil {
			return nil, layerError("capabilities", err, "")
		}
	}
	sources, err := pin(s, files)
	if err != nil {
		return nil, layerError("mounts", err, "")
	}
	debug, err := pinDebug(s, files)
	if err != nil {
		return nil, layerError("debug folder", err, "")
	}
	st, err := stage(s, sources, debug)
	if _, ok := errors.AsType[*layer](err); ok {
		return nil, err
	}
	return st, layerError("file system", err, "")
}

// prepare makes everything that gVisor is to find.
func prepare(s *handoff.Settings, files []*os.File) (*os.File, error) {
	st, err := prepareFiles(s, files)
	if err != nil {
		return nil, err
	}
	var proxy *os.File
	if s.Spec.Net != bailey.NetNone {
		if !s.Proxy {
			return nil, errors.New("a network mode without a proxy")
		}
		proxy = files[0]
		if err := network(proxy, st); err != nil {
			return nil, layerError("airlock", err, "")
		}
	}
	st.FileBytes = s.Spec.Limits.DiskBytes
	return proxy, writeBundle(s, st)
}

// network builds the airlock, hands its listeners to the proxy, and leaves
// the sandbox's namespace where gVisor finds it.
func network(proxy *os.File, st *ocispec.Staged) error {
	lock, err := airlock.Build()
	if err != nil {
		return err
	}
	if err := fdpass.SendListeners(proxy, lock.TCP, lock.DNSUDP, lock.DNSTCP); err != nil {
		return fmt.Errorf("hand listeners to the proxy: %w", errors.Join(err, lock.Close()))
	}
	st.NetworkNS, err = netnsPath(lock.Sandbox)
	return errors.Join(err, lock.Close())
}

// gvisor is gVisor's program, started and waiting for its arguments.
type gvisor struct {
	cmd   *exec.Cmd
	args  *os.File
	model *os.File // the sandbox's end of the wire to the model gateway, or nil
	born  born     // it was given these
	log   *tail
}

func launch(in born) (*gvisor, error) {
	g := &gvisor{log: &tail{max: 16 << 10}, born: in}
	null, err := os.Open("/dev/null")
	if err != nil {
		return nil, err
	}
	argsOut, argsIn, err := runsc.ArgsPair()
	if err != nil {
		return nil, err
	}
	g.args = argsIn
	g.cmd = &exec.Cmd{
		Path: fmt.Sprintf("/proc/self/fd/%d", runsc.ExeFD), Args: []string{runsc.WaitArgv0}, Env: []string{}, Dir: "/",
		Stdin: null, Stdout: g.log, Stderr: g.log,
		ExtraFiles:  make([]*os.File, runsc.HighFD-2),
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
		WaitDelay:   stopGrace,
	}
	for fd, f := range map[int]*os.File{runsc.WireFD: in.wire, runsc.ArgsFD: argsOut, runsc.ExeFD: in.exe, runsc.ModelFD: null, runsc.HighFD: null} {
		g.cmd.ExtraFiles[fd-3] = f
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	return g, errors.Join(argsOut.Close(), null.Close())
}

// abandon ends it: the sandbox is not gVisor's.
func (g *gvisor) abandon() error {
	err := errors.Join(g.args.Close(), g.cmd.Process.Kill())
	_ = g.cmd.Wait() // killed
	return err
}

// run lets gVisor go and waits for its end, or for the parent to let go.
func (g *gvisor) run(control *os.File, s *handoff.Settings, joins []*os.File) error {
	cfg := runsc.Config{ID: s.Spec.ID, Root: stateDir, Bundle: bundleDir, Net: s.Spec.Net, Shared: !s.Spec.Exclusive, Model: g.model != nil, Writable: s.Spec.Loose.Root}
	if s.DebugDir != "" {
		cfg.DebugLog = debugDir
	}
	for _, arg := range s.Spec.Loose.RuntimeArgs {
		checked, err := runsc.CheckArg(arg)
		if err != nil {
			return layerError("gvisor", err, "")
		}
		cfg.Args = append(cfg.Args, checked)
	}
	if err := g.letGo(runsc.RunArgs(cfg), joins); err != nil {
		return layerError("gvisor", err, "")
	}
	if err := handoff.WriteReport(control, handoff.Report{Event: handoff.Started}, openPrivate(s)...); err != nil {
		return err
	}
	go watchParent(control, g.cmd.Process)
	if err := errors.Join(userns.DropAll(), harden.Undumpable()); err != nil {
		return err
	}
	return g.wait(control)
}

// letGo hands gVisor its arguments, and with them the cgroup that it is to move
// itself into, as does this process: what gVisor starts is in there then.
func (g *gvisor) letGo(args []string, joins []*os.File) error {
	// The parent's end of the wire must see the end of the sandbox.
	_, _ = g.born.wire.Close(), g.born.exe.Close()
	fds := make([]int, len(joins))
	for i, f := range joins {
		fds[i] = int(f.Fd())
	}
	model := -1
	if g.model != nil {
		model = int(g.model.Fd())
		defer g.model.Close() // the gateway must see the end of the sandbox
	}
	err := runsc.SendArgs(g.args, args, fds, model)
	if err = errors.Join(err, g.args.Close()); err != nil {
		return err
	}
	err = cgroup.Join(fds)
	for _, f := range joins {
		err = errors.Join(err, f.Close())
	}
	return err
}

func (g *gvisor) wait(control *os.File) error {
	err := g.cmd.Wait()
	r := handoff.Report{Event: handoff.Exited, Log: g.log.String()}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		r.Message = err.Error()
	}
	return handoff.WriteReport(control, r)
}

// openPrivate returns a descriptor of the folder of private copies: it keeps
// them readable for the parent after this namespace is gone.
func openPrivate(s *handoff.Settings) []int {
	if len(s.Spec.Shadows) == 0 {
		return nil
	}
	fd, err := unix.Open(privateDir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return []int{fd}
}

// watchParent ends the sandbox when the parent lets go of the control socket.
// Pdeathsig covers a parent that was killed.
func watchParent(control *os.File, p *os.Process) {
	_, _ = io.Copy(io.Discard, control)
	_ = p.Kill()
	os.Exit(bailey.ExitBailey) //nolint:forbidigo // process 1: everything in the PID namespace ends with it
}

// tail keeps the last max bytes written to it.
type tail struct {
	max int
	buf []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > t.max {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.max:]...)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string { return string(t.buf) }
