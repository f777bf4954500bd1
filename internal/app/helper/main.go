package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/ocispec"
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
	if err := harden.NoCore(); err != nil { // gVisor's processes inherit it
		return bailey.ExitBailey
	}
	for fd := local.ControlFD; fd < local.ExtraFD; fd++ {
		unix.CloseOnExec(fd)
	}
	control := os.NewFile(local.ControlFD, "control")
	if err := run(control); err != nil {
		report(control, failure(err))
		return bailey.ExitBailey
	}
	return 0
}

func failure(err error) local.Report {
	r := local.Report{Event: local.Failed, Layer: "sandbox", Message: err.Error(), Kind: bailey.KindOf(err)}
	if l, ok := errors.AsType[*layer](err); ok {
		r.Layer, r.Hint = l.name, l.hint
	}
	if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
		r.Hint = e.Hint
	}
	return r
}

func report(control *os.File, r local.Report, fds ...int) {
	b, err := json.Marshal(r)
	if err != nil {
		return
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	// A parent that is gone takes this process with it.
	_ = unix.Sendmsg(int(control.Fd()), append(b, '\n'), rights, nil, unix.MSG_NOSIGNAL)
}

func run(control *os.File) error {
	s, err := local.ReadSettings(control)
	if err != nil {
		return err
	}
	sources, err := pin(s)
	if err != nil {
		return layerError("mounts", err, "")
	}
	st, err := stage(s, sources)
	if err != nil {
		if _, ok := errors.AsType[*layer](err); ok {
			return err
		}
		return layerError("file system", err, "")
	}
	proxy, err := network(s, st)
	if err != nil {
		return layerError("airlock", err, "")
	}
	defer runtime.KeepAlive(proxy) // the proxy serves until this process's end of its socket is gone
	st.FileBytes = s.Spec.Limits.DiskBytes
	if err := writeBundle(s, st); err != nil {
		return err
	}
	return start(control, s, st)
}

// network builds the airlock, hands its listeners to the proxy, and leaves
// the sandbox's namespace where gVisor finds it.
func network(s *local.Settings, st *ocispec.Staged) (*os.File, error) {
	if s.Spec.Net == bailey.NetNone {
		return nil, nil
	}
	if !s.Proxy {
		return nil, errors.New("a network mode without a proxy")
	}
	unix.CloseOnExec(local.ExtraFD)
	lock, err := airlock.Build(airlock.Config{})
	if err != nil {
		return nil, err
	}
	proxy := os.NewFile(local.ExtraFD, "proxy")
	if err := fdpass.SendListeners(proxy, lock.TCP, lock.DNSUDP, lock.DNSTCP); err != nil {
		return nil, fmt.Errorf("hand listeners to the proxy: %w", err)
	}
	st.NetworkNS, err = netnsPath(lock.Sandbox)
	return proxy, errors.Join(err, lock.Close())
}

// start runs gVisor and waits for its end, or for the parent to let go.
func start(control *os.File, s *local.Settings, st *ocispec.Staged) error {
	log := &tail{max: 16 << 10}
	cfg := runsc.Config{
		ID: s.Spec.ID, Root: stateDir, Bundle: bundleDir, Net: s.Spec.Net,
		WireFD: 3, GuestFD: 3,
	}
	if s.DebugDir != "" {
		cfg.DebugLog = debugDir
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		return err
	}
	wire := os.NewFile(local.WireFD, "wire")
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: runsc.RunArgs(cfg), Env: []string{}, Dir: "/",
		Stdin: null, Stdout: log, Stderr: log,
		ExtraFiles:  []*os.File{wire},
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
		WaitDelay:   stopGrace,
	}
	if err := cmd.Start(); err != nil {
		return layerError("gvisor", err, "")
	}
	_ = null.Close()
	_ = wire.Close() // the parent's end must see the end of the sandbox
	private := openPrivate(s)
	report(control, local.Report{Event: local.Started}, private...)
	go watchParent(control, cmd.Process)
	if err := errors.Join(userns.DropAll(), harden.Undumpable()); err != nil {
		return err
	}
	err = cmd.Wait()
	r := local.Report{Event: local.Exited, Log: log.String()}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		r.Message = err.Error()
	}
	r.Code = cmd.ProcessState.ExitCode()
	report(control, r)
	return nil
}

// openPrivate returns a descriptor of the folder of private copies: it keeps
// them readable for the parent after this namespace is gone.
func openPrivate(s *local.Settings) []int {
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
	os.Exit(bailey.ExitBailey) // process 1: everything in the PID namespace ends with it
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
