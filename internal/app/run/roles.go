package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/launch"
)

// proxyRole is a running proxy.
type proxyRole struct {
	Sandbox *os.File // the end of its socket that the helper gets
	steer   *steer
	cmd     *exec.Cmd
	events  chan struct{} // closed when it has said everything
	ended   sync.Once
}

// startProxy starts the role that parses what the sandbox sends out. Under
// root it runs as an id that owns nothing.
func startProxy(s gate.Settings, uid int, signer *os.File, sink func(bailey.Event)) (*proxyRole, error) {
	settings, settingsIn, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make settings pipe: %w", err)
	}
	defer settings.Close() // twice does no harm
	defer settingsIn.Close()
	eventsOut, events, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make event pipe: %w", err)
	}
	defer events.Close()
	_, _ = unix.FcntlInt(events.Fd(), unix.F_SETPIPE_SZ, smallPipe) // or it is larger, and holds more
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make proxy socket: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "proxy")
	defer theirs.Close()
	p := &proxyRole{Sandbox: os.NewFile(uintptr(fds[0]), "proxy"), events: make(chan struct{})}
	steer, control, err := newSteer()
	if err != nil {
		return nil, errors.Join(err, p.Sandbox.Close())
	}
	defer control.Close()
	p.steer = steer
	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{gate.Argv0}, Env: gate.Env(), Dir: "/",
		ExtraFiles:  []*os.File{settings, theirs, events, control},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if signer != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, signer)
	}
	if uid == 0 {
		id := uint32(launch.ProxyID(launch.UnusedID(s.Sandbox)))
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	if err := startTied(p.cmd); err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	go p.follow(eventsOut, sink)
	_ = settings.Close() // or a write would wait for ever for a proxy that has ended
	_ = events.Close()
	if err := hand(settingsIn, "proxy", s, settingsPatience); err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.Sandbox.Close()
		return nil, err
	}
	return p, nil
}

// settingsPatience is how long a proxy may take to read what it is told.
const settingsPatience = 10 * time.Second

// hand tells a role its settings.
func hand(to *os.File, who string, s any, patience time.Duration) error {
	err := to.SetWriteDeadline(time.Now().Add(patience))
	if err == nil {
		err = json.NewEncoder(to).Encode(s)
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("hand the %s its settings: %w", who, err)
	}
	return nil
}

// startTied starts a child that the kernel kills when this process dies. The
// death signal is tied to the thread, which therefore lives as long.
func startTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return <-started
}

// maxRecord bounds one record of the proxy's: it parses what is hostile.
const maxRecord = 64 << 10

func (p *proxyRole) follow(r *os.File, sink func(bailey.Event)) {
	defer close(p.events)
	followEvents(r, sink)
	_ = r.Close()
}

// followEvents hands on every record until the end. One that cannot be read is
// said, since it may have been a refusal, and does not cost those after it.
func followEvents(r io.Reader, sink func(bailey.Event)) {
	lines := bufio.NewReaderSize(r, maxRecord)
	for {
		line, err := lines.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		var e bailey.Event
		switch {
		case tooLong:
			sink(bailey.Event{Type: bailey.EventWarning, Message: fmt.Sprintf("a record of the proxy's exceeds %d bytes and is left out", maxRecord)})
		case len(line) > 0 && json.Unmarshal(line, &e) != nil:
			sink(bailey.Event{Type: bailey.EventWarning, Message: "a record of the proxy's cannot be read and is left out"})
		case len(line) > 0:
			sink(e)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			sink(bailey.Event{Type: bailey.EventError, Message: "its records cannot be read any more: " + err.Error()})
			return
		}
	}
}

// finish waits a little for the last events; the proxy ends by itself when
// the sandbox's helper is gone.
func (p *proxyRole) finish() {
	p.ended.Do(func() {
		defer p.steer.close()
		if p.quiet() {
			return
		}
		_ = p.cmd.Process.Kill()
		p.quiet() // or nobody reads what it said: that must not keep us
	})
}

// quiet reports whether the proxy has said everything, now or within a second.
func (p *proxyRole) quiet() bool {
	select {
	case <-p.events:
		return true
	case <-time.After(time.Second):
		return false
	}
}
