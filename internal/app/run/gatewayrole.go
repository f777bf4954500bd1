package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/keybearer"
	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/vault"
	"github.com/bailey-dev/bailey/internal/wire"
)

// gatewayRole is a running model gateway.
type gatewayRole struct {
	Sandbox *os.File // the end of its wire that the helper gets
	cmd     *exec.Cmd
	keys    *os.File      // our end of the pipe for keys, for those who carry them
	days    *os.File      // our end of the socket by which it asks for ledgers
	events  chan struct{} // closed when it has said everything
	ended   sync.Once
}

// pipes are the gateway's ends; the starter closes them.
type pipes struct{ settings, wire, events, days, keys, record *os.File }

func (p *pipes) files() []*os.File {
	return []*os.File{p.settings, p.wire, p.events, p.days, p.keys, p.record}
}

func (p *pipes) close() {
	for _, f := range p.files() {
		if f != nil {
			_ = f.Close()
		}
	}
}

// startGateway starts the role that answers the sandbox's model calls. Under
// root it runs as an id that owns nothing.
func startGateway(s modelgate.Settings, uid int, record *os.File, sink func(bailey.Event)) (*gatewayRole, error) {
	theirs := &pipes{record: record}
	defer theirs.close()
	g := &gatewayRole{events: make(chan struct{})}
	var settings, events *os.File
	var err error
	steps := []func() error{
		func() error { theirs.settings, settings, err = os.Pipe(); return err },
		func() error { theirs.wire, g.Sandbox, err = wire.Pair(); return err },
		func() error { events, theirs.events, err = os.Pipe(); return err },
		func() error { g.days, theirs.days, err = packetPair(); return err },
		func() error { theirs.keys, g.keys, err = os.Pipe(); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, errors.Join(fmt.Errorf("make the model gateway's descriptors: %w", err), g.abandon())
		}
	}
	_, _ = unix.FcntlInt(events.Fd(), unix.F_SETPIPE_SZ, smallPipe) // or it is larger, and holds more
	g.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{modelgate.Argv0}, Env: modelgate.Env(), Dir: "/",
		ExtraFiles: theirs.files(), SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if uid == 0 {
		id := uint32(launch.GatewayID(launch.UnusedID(s.Sandbox)))
		g.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	if err := startTied(g.cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("start the model gateway: %w", err), g.abandon())
	}
	go func() {
		defer close(g.events)
		followEvents(events, sink)
		_ = events.Close()
	}()
	theirs.close()
	if err := hand(settings, "model gateway", s, settingsPatience); err != nil {
		_ = g.cmd.Process.Kill()
		return nil, errors.Join(err, g.abandon())
	}
	return g, nil
}

// packetPair is a pair of sockets for packets with descriptors.
func packetPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "days"), os.NewFile(uintptr(fds[1]), "days"), nil
}

// abandon closes our ends of a gateway that is not started.
func (g *gatewayRole) abandon() error {
	var errs []error
	for _, f := range []*os.File{g.Sandbox, g.days, g.keys} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// finish waits a little for the last events: the gateway books what is open
// and ends by itself when the sandbox's end of the wire is gone.
func (g *gatewayRole) finish() {
	g.ended.Do(func() {
		if !g.quiet() {
			_ = g.cmd.Process.Kill()
			g.quiet() // or nobody reads what it said: that must not keep us
		}
		_ = g.days.Close()
		_ = g.keys.Close()
	})
}

// lastBooks is how long a gateway may take to book and to say what is left.
const lastBooks = 2 * time.Second

func (g *gatewayRole) quiet() bool {
	select {
	case <-g.events:
		return true
	case <-time.After(lastBooks):
		return false
	}
}

// carryKey has another process carry the provider's key from the vault to the
// gateway. This one never holds it: it faces the terminal, and what agents print.
func (g *gatewayRole) carryKey(ctx context.Context, h Host, of models.Provider, changed bool) error {
	task, err := json.Marshal(modelgate.KeyTask{
		Secret: of.Secret, Provider: of.Name, Changed: changed, Config: h.Dirs.Config, Data: h.Dirs.Data, State: h.Dirs.State,
	})
	if err != nil {
		return fmt.Errorf("encode the task of the key's carrier: %w", err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Dir, cmd.Env = []string{modelgate.KeyArgv0}, "/", keyEnv(h)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(task), g.keys, &limited{&said, 64 << 10}
	cmd.ExtraFiles = inherited(h)
	err = cmd.Run()
	if err == nil {
		return nil
	}
	var p keybearer.Problem
	if json.Unmarshal(said.Bytes(), &p) != nil || p.Message == "" {
		return fmt.Errorf("carry the key of the provider: %w", err)
	}
	return bailey.NewError(p.Kind, p.Message, p.Hint)
}

// keyEnv is what opens a vault: where its key is, and the session's keyring.
func keyEnv(h Host) []string {
	var out []string
	for _, name := range []string{"HOME", "PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", vault.KeyVariable, vault.IdentityVariable} {
		if v := h.Env.Get(name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// inherited are the descriptors for a process that is to have the vault's key
// where the caller has handed it over (BAILEY_VAULT_KEY=fd:N), at its number.
func inherited(h Host) []*os.File {
	digits, ok := strings.CutPrefix(h.Env.Get(vault.KeyVariable), "fd:")
	n, err := vault.ParseDescriptor(digits)
	if !ok || err != nil {
		return nil
	}
	const first = 3
	fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, first)
	if err != nil {
		return nil // who opens the vault says so
	}
	_, _ = unix.Seek(fd, 0, io.SeekStart) // a file may have been read already, for other secrets
	files := make([]*os.File, n-first+1)
	files[n-first] = os.NewFile(uintptr(fd), "vault key")
	return files
}

// limited keeps the first bytes of what is written.
type limited struct {
	to   io.Writer
	left int
}

// Write never fails.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	_, _ = l.to.Write(p[:n])
	return len(p), nil
}
