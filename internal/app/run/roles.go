package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/gate"
)

// proxyRole is a running proxy.
type proxyRole struct {
	Sandbox *os.File // the end of its socket that the helper gets
	cmd     *exec.Cmd
	events  chan struct{} // closed when it has said everything
}

// startProxy starts the role that parses what the sandbox sends out. Under
// root it runs as an id that owns nothing.
func startProxy(s gate.Settings, uid int, sink func(bailey.Event)) (*proxyRole, error) {
	settings, settingsIn, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make settings pipe: %w", err)
	}
	defer settings.Close()
	eventsOut, events, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make event pipe: %w", err)
	}
	defer events.Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make proxy socket: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "proxy")
	defer theirs.Close()
	p := &proxyRole{Sandbox: os.NewFile(uintptr(fds[0]), "proxy"), events: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{gate.Argv0}, Env: []string{}, Dir: "/",
		ExtraFiles:  []*os.File{settings, theirs, events},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if uid == 0 {
		id := uint32(local.UnusedID(s.Sandbox)) ^ 0x800000 // not the sandbox's own
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	if err := startTied(p.cmd); err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	go p.follow(eventsOut, sink)
	err = json.NewEncoder(settingsIn).Encode(s)
	return p, errors.Join(err, settingsIn.Close())
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

func (p *proxyRole) follow(r *os.File, sink func(bailey.Event)) {
	defer close(p.events)
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 64<<10)
	for sc.Scan() {
		var e bailey.Event
		if json.Unmarshal(sc.Bytes(), &e) == nil {
			sink(e)
		}
	}
	_ = r.Close()
}

// finish waits a little for the last events; the proxy ends by itself when
// the sandbox's helper is gone.
func (p *proxyRole) finish() {
	select {
	case <-p.events:
	case <-time.After(time.Second):
		_ = p.cmd.Process.Kill()
		<-p.events
	}
}
