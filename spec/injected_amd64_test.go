package spec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/testkit/carrying"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// injected is a system call that a process is made to make, and what the kernel
// said. Arguments that are missing make no sense.
type injected struct {
	Name  string
	Call  uintptr
	Args  []uintptr
	Value int
	Errno syscall.Errno
}

// injection is what the program that injects reads; it answers with the calls.
type injection struct {
	PID   int
	Calls []injected
}

// injector is the name of the test's own program when it injects: the one that
// tests waits for its children, and would take a traced one for ended.
const injector = "injector"

// inject has a process make system calls, as the code of somebody would who has
// taken it over. The process goes on where it was.
func inject(t *testing.T, pid int, calls []injected) []injected {
	t.Helper()
	order, err := json.Marshal(injection{PID: pid, Calls: calls})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), carrying.OwnProgram(t))
	cmd.Args, cmd.Stdin = []string{injector}, bytes.NewReader(order)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("inject into process %d: %v: %s", pid, err, out)
	}
	var done []injected
	if err := json.Unmarshal(out, &done); err != nil || len(done) != len(calls) {
		t.Fatalf("inject into process %d: %v: %s", pid, err, out)
	}
	return done
}

// injecting is that program.
func injecting() {
	if os.Args[0] != injector {
		return
	}
	runtime.LockOSThread() // who traces is a thread
	var todo injection
	err := json.NewDecoder(os.Stdin).Decode(&todo)
	for done := false; err == nil && !done; {
		if done, err = tryInject(todo); !done {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(todo.Calls)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// tryInject reports whether the thread was found in a system call, whose
// instruction is what is executed.
func tryInject(todo injection) (done bool, err error) {
	pid := todo.PID
	if err := syscall.PtraceAttach(pid); err != nil {
		return false, fmt.Errorf("attach: %w", err)
	}
	var late []syscall.Signal // what came meanwhile, and was kept from it
	defer func() {
		err = errors.Join(err, syscall.PtraceDetach(pid))
		for _, s := range late {
			_ = unix.Tgkill(pid, pid, s)
		}
	}()
	if late, err = stopped(pid, late); err != nil {
		return false, err
	}
	var was syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(pid, &was); err != nil {
		return false, fmt.Errorf("read registers: %w", err)
	}
	var code [2]byte
	if _, err := syscall.PtracePeekText(pid, uintptr(was.Rip)-2, code[:]); err != nil || code != [2]byte{0x0f, 0x05} {
		return false, err
	}
	for i := range todo.Calls {
		c := &todo.Calls[i]
		if late, err = c.step(pid, was, late); err != nil {
			return false, err
		}
		if c.Call == unix.SYS_SOCKET && c.Errno == 0 {
			open := injected{Call: unix.SYS_CLOSE, Args: []uintptr{uintptr(c.Value)}}
			if late, err = open.step(pid, was, late); err != nil {
				return false, err
			}
		}
	}
	return true, syscall.PtraceSetRegs(pid, &was)
}

// step makes the one call.
func (c *injected) step(pid int, was syscall.PtraceRegs, late []syscall.Signal) ([]syscall.Signal, error) {
	now := was
	now.Rip, now.Rax, now.Orig_rax = was.Rip-2, uint64(c.Call), ^uint64(0)
	for i, r := range []*uint64{&now.Rdi, &now.Rsi, &now.Rdx, &now.R10, &now.R8, &now.R9} {
		if *r = ^uint64(0); i < len(c.Args) {
			*r = uint64(c.Args[i])
		}
	}
	if err := syscall.PtraceSetRegs(pid, &now); err != nil {
		return late, fmt.Errorf("write registers: %w", err)
	}
	for now.Rip != was.Rip { // a signal may come first
		err := syscall.PtraceSingleStep(pid)
		if err == nil {
			late, err = stopped(pid, late)
		}
		if err == nil {
			err = syscall.PtraceGetRegs(pid, &now)
		}
		if err != nil {
			return late, fmt.Errorf("step: %w", err)
		}
	}
	const lastErrno = 4095 // linux/err.h
	if c.Value = int(now.Rax); c.Value < 0 && c.Value >= -lastErrno {
		c.Value, c.Errno = -1, syscall.Errno(-c.Value)
	}
	return late, nil
}

// stopped waits until the thread is. A signal that stopped it, and is none of
// tracing, is added to the others.
func stopped(pid int, others []syscall.Signal) ([]syscall.Signal, error) {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return others, err
		case !ws.Stopped():
			return others, fmt.Errorf("it ended: %v", ws)
		case ws.StopSignal() != syscall.SIGTRAP && ws.StopSignal() != syscall.SIGSTOP:
			others = append(others, ws.StopSignal())
		}
		return others, nil
	}
}

// TestPRV04_ControlTakenOver: who runs code of their own in the role that reads
// what agents print has no socket to anywhere, no program, and no way to the
// other processes of the user. The launcher, which has no filter, is the twin.
func TestPRV04_ControlTakenOver(t *testing.T) {
	t.Attr("claim", "PRV-04")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		s := serveTasks(t, y)
		if code, b, err := s.ask(t.Context(), http.MethodGet, "/v1/hello", struct{}{}); err != nil || code != http.StatusOK { // it is confined before it answers
			t.Fatalf("control does not answer: %d %s %v", code, b, err)
		}
		list := s.await(t, posture.Control)
		control, launcher := find(t, list, posture.Control).PID, find(t, list, posture.Launcher).PID
		for _, c := range inject(t, control, takenOver(launcher)) {
			if c.Errno != unix.EPERM {
				t.Errorf("control, %s: %d, %v", c.Name, c.Value, c.Errno)
			}
		}
		other := control
		if y.UID == 0 { // who may lack the right to another id's limits in a container
			other = launcher
		}
		for _, c := range inject(t, launcher, takenOver(other)) {
			if c.Errno == unix.EPERM {
				t.Errorf("twin: the launcher, %s: %v", c.Name, c.Errno)
			}
		}
		if code, b, err := s.ask(t.Context(), http.MethodGet, "/v1/hello", struct{}{}); err != nil || code != http.StatusOK {
			t.Errorf("control does not answer any more: %d %s %v", code, b, err)
		}
	})
}

// takenOver are calls that succeed without a filter, or fail and then not for
// want of a right. Other is a process.
func takenOver(other int) []injected {
	pid := uintptr(other)
	return []injected{
		{Name: "a Unix socket", Call: unix.SYS_SOCKET, Args: []uintptr{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}},
		{Name: tcpSocket, Call: unix.SYS_SOCKET, Args: []uintptr{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}},
		{Name: udpSocket, Call: unix.SYS_SOCKET, Args: []uintptr{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0}},
		{Name: "a program", Call: unix.SYS_EXECVE},
		{Name: "a process", Call: unix.SYS_CLONE, Args: []uintptr{unix.CLONE_SIGHAND, 0, 0, 0, 0}}, // EINVAL without CLONE_VM
		{Name: "a namespace", Call: unix.SYS_UNSHARE},
		{Name: "a mount", Call: unix.SYS_MOUNT},
		{Name: "another's memory", Call: unix.SYS_PROCESS_VM_READV},
		{Name: "another's files", Call: unix.SYS_PIDFD_GETFD},
		{Name: "another's limits", Call: unix.SYS_PRLIMIT64, Args: []uintptr{pid, 0, 0, 0}},
		{Name: "a signal to another", Call: unix.SYS_KILL, Args: []uintptr{pid, 0}},
		{Name: "keys", Call: unix.SYS_KEYCTL},
		{Name: "memory with code", Call: unix.SYS_MMAP, Args: []uintptr{0, 0, unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_ANON, ^uintptr(0), 0}}, // EINVAL of no length
		{Name: "a ring of calls", Call: unix.SYS_IO_URING_SETUP},
	}
}

const tcpSocket, udpSocket = "a TCP socket", "a UDP socket"

// TestPRV04_ProxyAndGatewayTakenOver: nor has who takes over the roles that read
// what a sandbox and its hosts send, but for the sockets that they dial with.
func TestPRV04_ProxyAndGatewayTakenOver(t *testing.T) {
	t.Attr("claim", "PRV-04")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		newModelWorld(t, y, "anthropic", nil, provider.Say("done"))
		r := y.Start(t, "run", "--quiet", "--allow", "example.com", "--model", "small", "--", "sh", "-c", "echo up; sleep 600")
		r.Await(t, "up\n")
		list, err := posture.Reader{}.Run(r.Cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range []posture.Role{posture.Proxy, posture.Gateway} { // both are confined before they serve
			pid := find(t, list, role).PID
			yard.Eventually(t, yard.Timeout, func() bool { return strings.Contains(readProc(t, pid, "status"), "\nSeccomp:\t2\n") }, func() string {
				return string(role) + " has no filter"
			})
		}
		run := find(t, list, posture.CLI).PID
		for _, role := range []posture.Role{posture.Proxy, posture.Gateway} {
			pid := find(t, list, role).PID
			for _, c := range inject(t, pid, takenOver(run)) {
				dials := c.Name == tcpSocket || c.Name == udpSocket
				if dials != (c.Errno == 0) || !dials && c.Errno != unix.EPERM {
					t.Errorf("%s, %s: %d, %v", role, c.Name, c.Value, c.Errno)
				}
			}
			other := pid
			if y.UID == 0 { // as above
				other = run
			}
			for _, c := range inject(t, run, takenOver(other)) {
				if c.Errno == unix.EPERM {
					t.Errorf("twin: the run, %s: %v", c.Name, c.Errno)
				}
			}
		}
		_ = r.Cmd.Process.Signal(syscall.SIGTERM)
		r.Wait(t, yard.Timeout)
	})
}
