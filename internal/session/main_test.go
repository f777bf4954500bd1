package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/creack/pty"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/sandboxd"
	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/wire"
)

// role names the variable that makes this test binary act as something else.
const role = "SESSION_TEST_ROLE"

// patience is how long a wait may take on a busy machine.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "sandboxd":
		os.Exit(sandboxd.Main(nil))
	case "cli":
		os.Exit(cli(os.Args[1:]))
	case "deaf":
		os.Exit(deaf())
	case "sti":
		os.Exit(inject())
	}
	os.Exit(m.Run())
}

// cli is what `bailey run` is to a session: it runs its arguments over the
// wire that it inherited.
func cli(argv []string) int {
	host, err := wire.NewHost(os.NewFile(wire.FD, "wire"))
	if err != nil {
		panic(err)
	}
	return exitCode(session.Run(context.Background(), host, session.Options{
		Command: command(argv...),
		Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}))
}

func exitCode(res session.Result, err error) int {
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		fmt.Fprintln(os.Stderr, e)
		return res.Status()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return bailey.ExitBailey
	}
	return res.Status()
}

// deaf runs a command in a sandbox that starts it and then takes nothing any
// more, not even the end of the stream.
func deaf() int {
	ours, theirs := net.Pipe() // a write waits for its reader
	go func() {
		if _, err := wire.ReadHeader(theirs); err != nil {
			panic(err)
		}
		w := wire.NewWriter(theirs)
		for _, err := range []error{w.Send(wire.Started, wire.NumberPayload(2)), w.Send(wire.Stdout, []byte("up"))} {
			if err != nil {
				panic(err)
			}
		}
	}()
	return exitCode(session.Run(context.Background(), session.Dial(unclosable{ours}), session.Options{
		Command: command("sh"), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}))
}

// unclosable is a stream whose Close waits for the other end for ever.
type unclosable struct{ io.ReadWriter }

// Close does not return.
func (unclosable) Close() error { select {} }

// inject tries to type into its terminal from inside (ioctl_tty(2), TIOCSTI).
func inject() int {
	for _, c := range []byte("echo INJECTED\n") {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		if errno != 0 {
			fmt.Println("TIOCSTI:", errno)
			return 1
		}
	}
	fmt.Println("TIOCSTI accepted")
	return 0
}

func command(argv ...string) wire.Exec {
	return wire.Exec{Argv: argv, Env: append(os.Environ(), role+"="), Dir: "/", Main: true}
}

// startSandbox starts sandboxd as the first process of a pid namespace and
// returns the host's end of its wire.
func startSandbox(t *testing.T) (*os.File, *exec.Cmd) {
	t.Helper()
	hostEnd, inner, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), role+"=sandboxd")
	cmd.ExtraFiles = []*os.File{inner}
	cmd.Stderr = os.Stderr
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = inner.Close()
	t.Cleanup(func() {
		_ = hostEnd.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return hostEnd, cmd
}

func startHost(t *testing.T) (*wire.Host, *exec.Cmd) {
	t.Helper()
	end, cmd := startSandbox(t)
	host, err := wire.NewHost(end)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	return host, cmd
}

// person is somebody at a terminal of 40 rows and 120 columns.
type person struct {
	t       *testing.T
	tty     *os.File // the person's side
	other   *os.File // the programs' side
	sandbox *exec.Cmd
	cmd     *exec.Cmd
	ended   chan error
	blind   atomic.Bool // the person looks away: soon the terminal takes nothing

	mu      sync.Mutex
	seen    bytes.Buffer
	changed chan struct{}
}

// sitDown makes a terminal and starts argv on it, with the wire of a fresh
// sandbox as descriptor 3.
func sitDown(t *testing.T, env string, argv ...string) *person {
	t.Helper()
	tty, other, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	end, sandbox := startSandbox(t)
	p := &person{t: t, tty: tty, other: other, sandbox: sandbox, ended: make(chan error, 1), changed: make(chan struct{}, 1)}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = append(os.Environ(), env)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = other, other, other
	p.cmd.ExtraFiles = []*os.File{end}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	go func() { p.ended <- p.cmd.Wait() }()
	go p.watch()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = tty.Close()
		_ = other.Close()
	})
	return p
}

// atCLI is a person who runs argv in the sandbox.
func atCLI(t *testing.T, argv ...string) *person {
	t.Helper()
	return sitDown(t, role+"=cli", append([]string{"/proc/self/exe"}, argv...)...)
}

func (p *person) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := p.tty.Read(buf)
		if err != nil || p.blind.Load() {
			return
		}
		p.mu.Lock()
		p.seen.Write(buf[:n])
		p.mu.Unlock()
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
}

func (p *person) screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

func (p *person) sees(text string) *person {
	p.t.Helper()
	return p.waits(fmt.Sprintf("%q on the terminal", text), func() bool { return strings.Contains(p.screen(), text) })
}

// waits waits until ok holds; it looks again at least every 20 ms.
func (p *person) waits(what string, ok func() bool) *person {
	p.t.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-p.changed:
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			p.t.Fatalf("no %s; the terminal shows %q", what, p.screen())
		}
	}
	return p
}

func (p *person) types(keys string) *person {
	p.t.Helper()
	if _, err := p.tty.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
	return p
}

// leaves waits for the end of what was started and returns its exit code.
func (p *person) leaves() int {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		if err != nil {
			p.t.Fatal(err)
		}
		return 0
	case <-time.After(patience):
		p.t.Fatalf("it does not end; the terminal shows %q", p.screen())
		return -1
	}
}
