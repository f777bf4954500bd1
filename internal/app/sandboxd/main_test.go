package sandboxd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/app/sandboxd"
	"github.com/bailey-dev/bailey/internal/wire"
)

// role names the variable that makes this test binary act as something else.
const role = "SANDBOXD_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "sandboxd", "nobody":
		os.Exit(sandboxd.Main(nil))
	case "bombed":
		limit := &syscall.Rlimit{Cur: 60 + wire.ThreadReserve, Max: 60 + wire.ThreadReserve}
		if err := syscall.Setrlimit(6 /* RLIMIT_NPROC */, limit); err != nil {
			panic(err)
		}
		os.Exit(sandboxd.Main(nil))
	case "ignoring": // as from a shell's background job
		signal.Ignore(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGHUP, syscall.SIGCHLD)
		err := syscall.Exec("/proc/self/exe", os.Args, []string{role + "=sandboxd"})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// yard is a sandboxd as the first process of a pid namespace of its own.
type yard struct {
	host *wire.Host
	cmd  *exec.Cmd
	wait func() error // until sandboxd has ended
}

// startYard starts sandboxd, natively: what differs in gVisor is the kernel.
func startYard(t *testing.T, as string, extra ...*os.File) *yard {
	t.Helper()
	hostEnd, inner, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), role+"="+as)
	cmd.ExtraFiles = append([]*os.File{inner}, extra...)
	cmd.Stderr = os.Stderr
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	if uid, ok := map[string]uint32{"nobody": 65534, "bombed": 64999}[as]; ok {
		attr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	host, err := wire.NewHost(hostEnd)
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{host: host, cmd: cmd, wait: sync.OnceValue(cmd.Wait)}
	t.Cleanup(func() {
		_ = host.Close()
		_ = cmd.Process.Kill()
		_ = y.wait()
	})
	return y
}

// job is one command as the wire shows it.
type job struct {
	t        *testing.T
	stream   io.ReadWriteCloser
	w        *wire.Writer
	r        *wire.Reader
	out      strings.Builder
	errs     strings.Builder
	credit   int
	patience time.Duration
	pid      int
}

func (y *yard) exec(t *testing.T, x wire.Exec) *job {
	t.Helper()
	if x.Dir == "" {
		x.Dir = "/"
	}
	if x.Env == nil {
		x.Env = []string{"PATH=" + os.Getenv("PATH")}
	}
	stream, err := y.host.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	if err := wire.WriteHeader(stream, &wire.Header{Op: wire.OpExec, Exec: x}); err != nil {
		t.Fatal(err)
	}
	return &job{t: t, stream: stream, w: wire.NewWriter(stream), r: wire.NewReader(stream, wire.FromSandbox)}
}

func (y *yard) sh(t *testing.T, script string) *job {
	t.Helper()
	return y.exec(t, wire.Exec{Argv: []string{"sh", "-c", script}})
}

// until reads frames until stop says so.
func (j *job) until(stop func(wire.Frame) bool) {
	j.t.Helper()
	type deadliner interface{ SetReadDeadline(time.Time) error }
	if err := j.stream.(deadliner).SetReadDeadline(time.Now().Add(max(j.patience, 45*time.Second))); err != nil {
		j.t.Fatal(err)
	}
	for {
		f, err := j.r.Next()
		if err != nil {
			j.t.Fatalf("after output %.200q and errors %.200q: %v", j.out.String(), j.errs.String(), err)
		}
		switch f.Type {
		case wire.Started:
			j.pid = int(f.Number())
		case wire.Stdout:
			j.out.Write(f.Payload)
		case wire.Stderr:
			j.errs.Write(f.Payload)
		case wire.Credit:
			j.credit += int(f.Number())
		}
		if stop(f) {
			return
		}
	}
}

func (j *job) started() *job {
	j.t.Helper()
	j.until(func(f wire.Frame) bool { return f.Type == wire.Started })
	return j
}

// says waits until the output holds text.
func (j *job) says(text string) *job {
	j.t.Helper()
	j.until(func(wire.Frame) bool { return strings.Contains(j.out.String(), text) })
	return j
}

func (j *job) send(typ wire.Type, payload []byte) *job {
	j.t.Helper()
	if err := j.w.Send(typ, payload); err != nil {
		j.t.Fatal(err)
	}
	return j
}

func (j *job) wait() wire.Exit {
	j.t.Helper()
	var exit wire.Exit
	j.until(func(f wire.Frame) bool {
		switch f.Type {
		case wire.Failed:
			_, message, _ := f.Failure()
			j.t.Fatalf("did not start: %s", message)
		case wire.Exited:
			var err error
			if exit, err = f.Exit(); err != nil {
				j.t.Fatal(err)
			}
			return true
		}
		return false
	})
	return exit
}

func (j *job) fails() (wire.FailKind, string) {
	j.t.Helper()
	var kind wire.FailKind
	var message string
	j.until(func(f wire.Frame) bool {
		if f.Type == wire.Exited || f.Type == wire.Started {
			j.t.Fatal("the command started")
		}
		var err error
		if kind, message, err = f.Failure(); err != nil {
			j.t.Fatal(err)
		}
		return true
	})
	return kind, message
}

// family returns the states of sandboxd's descendants, by pid on the host.
func (y *yard) family(t *testing.T) map[int]string {
	t.Helper()
	parent, state := map[int]int{}, map[int]string{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has just ended
		}
		rest := string(b[strings.LastIndexByte(string(b), ')')+2:])
		fields := strings.Fields(rest)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		parent[pid], _ = strconv.Atoi(fields[1])
		state[pid] = fields[0]
	}
	found := map[int]string{}
	for pid := range parent {
		for p := parent[pid]; p > 0; p = parent[p] {
			if p == y.cmd.Process.Pid {
				found[pid] = state[pid]
				break
			}
		}
	}
	return found
}

// only reports whether sandboxd has one descendant, of that name.
func (y *yard) only(t *testing.T, name string) bool {
	t.Helper()
	family := y.family(t)
	for pid := range family {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return err == nil && len(family) == 1 && string(comm) == name+"\n"
	}
	return false
}

// within waits until ok holds.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond) // polling /proc: nothing there to wait on
	}
}

func timeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("test took too long"))
	t.Cleanup(cancel)
	return ctx
}
