// Package yard runs the built bailey binary for tests, from outside, as root
// and as an ordinary user, in workspaces of the test's own.
package yard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// User is the unprivileged user of the tests; .ci/deps creates it.
const User = "tester"

// runtimeVariable names the runtime that every `bailey run` of a yard gets, but
// for those that name one themselves; empty leaves it to bailey.
const runtimeVariable = "BAILEY_RUNTIME_UNDER_TEST"

// Native reports whether the sandboxes of the tests have the host's kernel.
func Native() bool { return os.Getenv(runtimeVariable) == "native" }

// withRuntime adds the runtime under test to a `bailey run`.
func withRuntime(args []string) []string {
	under := os.Getenv(runtimeVariable)
	if under == "" || len(args) == 0 || args[0] != "run" {
		return args
	}
	for _, a := range args {
		if a == "--" {
			break
		}
		if a == "--runtime" || strings.HasPrefix(a, "--runtime=") {
			return args
		}
	}
	return slices.Concat([]string{"run", "--runtime", under}, args[1:])
}

// Timeout bounds one run, so that a sandbox that hangs fails its test.
const Timeout = 90 * time.Second

// Binary returns the path of the bailey under test: $BAILEY_BIN, else
// bin/bailey of this tree, which `make build` makes.
func Binary(t testing.TB) string {
	t.Helper()
	bin := os.Getenv("BAILEY_BIN")
	if bin == "" {
		_, file, _, _ := runtime.Caller(0)
		bin = filepath.Join(filepath.Dir(file), "..", "..", "..", "bin", "bailey")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("no bailey to test: %v (run make build)", err)
	}
	return reachable(t, bin)
}

var (
	copyOnce sync.Once
	copied   string
	errCopy  error
)

// reachable returns a copy of the binary in a folder that every user can
// enter: a checkout in a private home cannot be entered by the test's user.
func reachable(t testing.TB, bin string) string {
	t.Helper()
	copyOnce.Do(func() {
		var dir string
		if dir, errCopy = os.MkdirTemp("", "bailey-bin-"); errCopy != nil {
			return
		}
		if errCopy = os.Chmod(dir, 0o755); errCopy != nil {
			return
		}
		copied = filepath.Join(dir, "bailey")
		errCopy = copyFile(bin, copied)
	})
	if errCopy != nil {
		t.Fatal(errCopy)
	}
	return copied
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, src.Close(), dst.Close(), os.Chmod(to, 0o755))
}

// Clean removes what Binary copied. Call it from TestMain after m.Run.
func Clean() {
	if copied != "" {
		_ = os.RemoveAll(filepath.Dir(copied))
	}
}

// Yard is a workspace and the identity that uses it.
type Yard struct {
	Bin  string
	Dir  string // the workspace; owned by the identity
	Home string // the identity's home, outside of the workspace
	UID  int
	GID  int
	// Wrap, if set, changes each command before it starts (to enter a network
	// namespace, say).
	Wrap func(*exec.Cmd)

	runtime string
}

// Each runs f as sub-tests "root" and "user", each with a yard of its own.
func Each(t *testing.T, f func(t *testing.T, y *Yard)) {
	t.Helper()
	t.Run("root", func(t *testing.T) { f(t, Root(t)) })
	t.Run("user", func(t *testing.T) { f(t, Unprivileged(t)) })
}

// InTurn runs f as one sub-test, "root" or "user" by the number: of cases that
// do not depend on who runs them, every other one is tried as the other.
func InTurn(t *testing.T, i int, f func(t *testing.T, y *Yard)) {
	t.Helper()
	if i%2 == 0 {
		t.Run("root", func(t *testing.T) { f(t, Root(t)) })
		return
	}
	t.Run("user", func(t *testing.T) { f(t, Unprivileged(t)) })
}

// Turn reports whether the case of that number, of a list that both identities
// go through, is this one's: each takes every other. It is for forms of one
// attack that do not depend on who runs them.
func (y *Yard) Turn(i int) bool { return (i%2 == 0) == (y.UID == 0) }

// Root returns a yard of the caller, which must be root: the tests prove the
// root case as well as the other.
func Root(t testing.TB) *Yard {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test runs as root (see docs/testing.md)")
	}
	return newYard(t, 0, 0)
}

// Unprivileged returns a yard of the ordinary user.
func Unprivileged(t testing.TB) *Yard {
	t.Helper()
	if os.Getuid() != 0 {
		return newYard(t, os.Getuid(), os.Getgid())
	}
	u, err := user.Lookup(User)
	if err != nil {
		t.Fatalf("no unprivileged user to test as: %v (run .ci/deps)", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return newYard(t, uid, gid)
}

func newYard(t testing.TB, uid, gid int) *Yard {
	t.Helper()
	base, err := os.MkdirTemp("", "yard-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	y := &Yard{
		Bin: Binary(t), UID: uid, GID: gid,
		Dir: filepath.Join(base, "work"), Home: filepath.Join(base, "home"), runtime: filepath.Join(base, "run"),
	}
	for _, d := range []string{y.Dir, y.Home, y.runtime} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	return y
}

// Command prepares `bailey args…` in the workspace with an environment of its
// own: the identity's home, a plain PATH, nothing of the test's.
func (y *Yard) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, y.Bin, withRuntime(args)...)
	cmd.Dir = y.Dir
	cmd.Env = []string{
		"HOME=" + y.Home, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"XDG_RUNTIME_DIR=" + y.runtime, "LANG=C.UTF-8", "TERM=xterm-256color",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if y.UID != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(y.UID), Gid: uint32(y.GID)}
	}
	cmd.WaitDelay = 30 * time.Second // a hundred at once starve this process too
	if y.Wrap != nil {
		y.Wrap(cmd)
	}
	return cmd
}

// Variable returns a variable of the environment that commands have.
func (y *Yard) Variable(name string) string {
	for _, kv := range y.Command(context.Background()).Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// Result is how a run ended.
type Result struct {
	Stdout, Stderr string
	Code           int
	Took           time.Duration
}

// Run runs `bailey args…` to its end.
func (y *Yard) Run(t testing.TB, args ...string) Result {
	t.Helper()
	return y.RunWith(t, nil, args...)
}

// RunWith is Run with a chance to change the command before it starts.
func (y *Yard) RunWith(t testing.TB, change func(*exec.Cmd), args ...string) Result {
	t.Helper()
	return y.RunFor(t, Timeout, change, args...)
}

// RunFor is RunWith for a command that may take longer, a real agent's say.
func (y *Yard) RunFor(t testing.TB, limit time.Duration, change func(*exec.Cmd), args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := y.Command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if change != nil {
		change(cmd)
	}
	began := time.Now()
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("run bailey %s: %v", strings.Join(args, " "), err)
	}
	if ctx.Err() != nil {
		t.Fatalf("bailey %s did not end within %v\nstdout: %s\nstderr: %s", strings.Join(args, " "), limit, out.String(), errOut.String())
	}
	return Result{Stdout: out.String(), Stderr: errOut.String(), Code: cmd.ProcessState.ExitCode(), Took: time.Since(began)}
}

// Sh runs a shell script in a sandbox: `bailey run flags… -- sh -c script`.
func (y *Yard) Sh(t testing.TB, script string, flags ...string) Result {
	t.Helper()
	return y.Run(t, append(append([]string{"run"}, flags...), "--", "sh", "-c", script)...)
}

// OK fails the test unless the run ended with code 0.
func (r Result) OK(t testing.TB) Result {
	t.Helper()
	return r.Exit(t, 0)
}

// Exit fails the test unless the run ended with the code.
func (r Result) Exit(t testing.TB, code int) Result {
	t.Helper()
	if r.Code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.Code, code, r.Stdout, r.Stderr)
	}
	return r
}

// Write puts a file into the workspace, owned by the identity.
func (y *Yard) Write(t testing.TB, name, text string) string {
	t.Helper()
	return y.Put(t, filepath.Join(y.Dir, name), text)
}

// WriteHome puts a file into the identity's home on the host.
func (y *Yard) WriteHome(t testing.TB, name, text string) string {
	t.Helper()
	return y.Put(t, filepath.Join(y.Home, name), text)
}

// Put writes a file at an absolute path, and makes folders up to it, all of them
// the caller's.
func (y *Yard) Put(t testing.TB, path, text string) string {
	t.Helper()
	var missing []string
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, y.UID, y.GID)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, y.UID, y.GID); err != nil {
		t.Fatal(err)
	}
	return path
}

// Host runs a program on the host as the identity, in the workspace.
func (y *Yard) Host(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = y.Dir
	cmd.Env = []string{"HOME=" + y.Home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LANG=C.UTF-8"}
	if y.UID != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(y.UID), Gid: uint32(y.GID)}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Running is a bailey that has been started and not waited for.
type Running struct {
	Cmd    *exec.Cmd
	Stdin  io.WriteCloser
	stdout *buffer
	stderr *buffer
	done   chan struct{}
}

// Start starts `bailey args…`. It is killed at the end of the test.
func (y *Yard) Start(t testing.TB, args ...string) *Running {
	t.Helper()
	cmd := y.Command(context.Background(), args...)
	r := &Running{Cmd: cmd, stdout: new(buffer), stderr: new(buffer), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = r.stdout, r.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Stdin = stdin
	if err := cmd.Start(); err != nil {
		t.Fatalf("start bailey %s: %v", strings.Join(args, " "), err)
	}
	go func() {
		defer close(r.done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-r.done
	})
	return r
}

// Output returns what it has said so far.
func (r *Running) Output() (stdout, stderr string) { return r.stdout.String(), r.stderr.String() }

// Await waits until stdout holds the text.
func (r *Running) Await(t testing.TB, text string) {
	t.Helper()
	Eventually(t, Timeout, func() bool { return strings.Contains(r.stdout.String(), text) || r.ended() }, func() string {
		return "stdout: " + r.stdout.String() + "\nstderr: " + r.stderr.String()
	})
	if !strings.Contains(r.stdout.String(), text) {
		t.Fatalf("ended without saying %q\nstdout: %s\nstderr: %s", text, r.stdout.String(), r.stderr.String())
	}
}

func (r *Running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Wait waits for its end and returns the exit code.
func (r *Running) Wait(t testing.TB, within time.Duration) Result {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(within):
		t.Fatalf("did not end within %v\nstdout: %s\nstderr: %s", within, r.stdout.String(), r.stderr.String())
	}
	return Result{Stdout: r.stdout.String(), Stderr: r.stderr.String(), Code: r.Cmd.ProcessState.ExitCode()}
}

// Eventually waits until the condition holds.
func Eventually(t testing.TB, within time.Duration, holds func() bool, describe func() string) {
	t.Helper()
	begun := time.Now()
	for !holds() {
		passed := time.Since(begun)
		if passed > within {
			t.Fatalf("not within %v: %s", within, describe())
		}
		// Looking costs the processors that what is waited for runs on.
		time.Sleep(min(max(passed/10, 5*time.Millisecond), 100*time.Millisecond))
	}
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns everything so far.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
