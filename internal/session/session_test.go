package session_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/wire"
)

// input is a pipe that holds text and then ends.
func input(t *testing.T, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(w, text)
		_ = w.Close()
	}()
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestRun_PassesEverythingAndAddsNothing(t *testing.T) {
	t.Parallel()
	host, _ := startHost(t)
	big := strings.Repeat("0123456789abcde\n", 1<<16)
	for name, c := range map[string]struct {
		script, in, out, errs string
		status                int
	}{
		"plain":             {"echo hi", "", "hi\n", "", 0},
		"apart":             {"echo a; echo b >&2; exit 3", "", "a\n", "b\n", 3},
		"signal":            {"kill -TERM $$", "", "", "", 143},
		"input and its end": {"cat; echo end", "x\ny", "x\nyend\n", "", 0},
		"large both ways":   {"cat", big, big, "", 0},
		"input not read":    {"exit 5", big, "", "", 5},
		"escapes pass":      {`printf '\033]52;c;eA==\007\005\377'`, "", "\x1b]52;c;eA==\a\x05\xff", "", 0},
		"no terminal":       {"tty; test -t 1", "", "not a tty\n", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			pid := 0
			res, err := session.Run(t.Context(), host, session.Options{
				Command: command("sh", "-c", c.script),
				Stdin:   input(t, c.in), Stdout: &out, Stderr: &errs,
				Started: func(p int) { pid = p },
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.out, out.String()); diff != "" {
				t.Errorf("stdout, -want +got:\n%.500s", diff)
			}
			if errs.String() != c.errs || res.Status() != c.status || res.TTY || pid <= 1 {
				t.Errorf("stderr %q, status %d, TTY %v, pid %d", errs.String(), res.Status(), res.TTY, pid)
			}
		})
	}
	t.Run("A9: 10 MB and a byte", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		_, err := session.Run(t.Context(), host, session.Options{
			Command: command("sh", "-c", "head -c 10485760 /dev/zero; printf x"), Stdout: &out,
		})
		if err != nil || out.Len() != 10485761 {
			t.Errorf("%d bytes, %v", out.Len(), err)
		}
	})
}

func TestRun_SaysWhyACommandDoesNotStart(t *testing.T) {
	t.Parallel()
	host, _ := startHost(t)
	plain := t.TempDir() + "/plain"
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		argv   []string
		status int
		says   string
	}{
		"not found":           {[]string{"no-such\x1b[31m"}, 127, `no-such\x1b[31m`},
		"not executable":      {[]string{plain}, 126, "not executable"},
		"empty":               {[]string{""}, 0, "empty command"},
		"too large for wires": {[]string{"true", strings.Repeat("x", 1<<20)}, 0, "1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := session.Run(t.Context(), host, session.Options{Command: command(c.argv...)})
			e, ok := errors.AsType[*bailey.Error](err)
			if !ok || !strings.Contains(e.Error(), c.says) || res.Status() != c.status {
				t.Errorf("status %d, error %v", res.Status(), err)
			}
		})
	}
}

func TestRun_ClosedOutputEndsTheCommand(t *testing.T) {
	t.Parallel()
	host, _ := startHost(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	go func() {
		buf := make([]byte, 10)
		_, _ = io.ReadFull(r, buf)
		_ = r.Close()
	}()
	res, err := session.Run(t.Context(), host, session.Options{Command: command("yes"), Stdout: w})
	if err != nil || res.Signal != syscall.SIGPIPE {
		t.Errorf("%v, %v", res.Exit, err)
	}
	t.Run("its own standard output", func(t *testing.T) {
		cmd, errs, out := runCLI(t, "yes")
		buf := make([]byte, 3)
		if _, err := io.ReadFull(out, buf); err != nil {
			t.Fatal(err, errs)
		}
		_ = out.(io.Closer).Close()
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 141 {
			t.Errorf("code %d, err %q", code, errs)
		}
	})
	t.Run("full disk is told", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		_, err = session.Run(t.Context(), host, session.Options{Command: command("echo", "x"), Stdout: full})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error = %v", err)
		}
	})
}

func TestRun_TellsALostSandbox(t *testing.T) {
	t.Parallel()
	host, sandbox := startHost(t)
	_, err := session.Run(t.Context(), host, session.Options{
		Command: command("sleep", "100"),
		Started: func(int) { _ = sandbox.Process.Kill() },
	})
	if !errors.Is(err, session.ErrLost) {
		t.Errorf("error = %v", err)
	}
	if _, err := session.Run(t.Context(), host, session.Options{Command: command("true")}); !errors.Is(err, session.ErrLost) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestRun_EndsWithTheContext(t *testing.T) {
	t.Parallel()
	host, _ := startHost(t)
	why := errors.New("deadline of the test")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	_, err := session.Run(ctx, host, session.Options{
		Command: command("sleep", "100"), Started: func(int) { cancel(why) },
	})
	if !errors.Is(err, why) {
		t.Errorf("error = %v", err)
	}
}

func TestRun_RefusesAHostileSandbox(t *testing.T) {
	t.Parallel()
	frame := func(typ byte, payload ...byte) []byte {
		return append([]byte{typ, 0, 0, 0, byte(len(payload))}, payload...)
	}
	started := frame(byte(wire.Started), 0, 0, 0, 9)
	for name, says := range map[string][]byte{
		"nothing":           {},
		"zero":              make([]byte, 100),
		"host's own type":   frame(byte(wire.Stdin), 'x'),
		"unknown type":      frame(200, 'x'),
		"huge length":       {byte(wire.Stdout), 0xff, 0xff, 0xff, 0xff},
		"cut frame":         {byte(wire.Stdout), 0, 0, 0, 9, 'x'},
		"started twice":     append(started, started...),
		"signal 65":         frame(byte(wire.Exited), 0, 65),
		"code and signal":   frame(byte(wire.Exited), 1, 9),
		"ready":             frame(byte(wire.Ready)),
		"failure of kind 9": frame(byte(wire.Failed), 9, 'x'),
		"credit, garbage":   append(frame(byte(wire.Credit), 255, 255, 255, 255), 77, 77, 77, 77, 77),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := session.Run(t.Context(), fakeSandbox(t, says), session.Options{
				Command: command("true"), Stdin: input(t, "typed"),
			})
			if !errors.Is(err, session.ErrLost) || res.Status() != 0 {
				t.Errorf("status %d, error %v", res.Status(), err)
			}
		})
	}
	t.Run("twin: the truth is taken", func(t *testing.T) {
		t.Parallel()
		says := append(started, frame(byte(wire.Exited), 6, 0)...)
		res, err := session.Run(t.Context(), fakeSandbox(t, says), session.Options{Command: command("true")})
		if err != nil || res.Status() != 6 {
			t.Errorf("status %d, error %v", res.Status(), err)
		}
	})
}

// fakeSandbox answers the first stream with the given bytes.
func fakeSandbox(t *testing.T, says []byte) *wire.Host {
	t.Helper()
	hostEnd, inner, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	host, err := wire.NewHost(hostEnd)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := wire.NewSandbox(inner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = host.Close()
		_ = sandbox.Close()
	})
	go func() {
		stream, err := sandbox.Accept()
		if err != nil {
			return
		}
		_, _ = wire.ReadHeader(stream)
		_, _ = stream.Write(says)
		_ = stream.Close()
	}()
	return host
}

func TestServe_IsTheSameForAnotherProcess(t *testing.T) {
	t.Parallel()
	host, _ := startHost(t)
	run := func(t *testing.T, adjust func(*wire.Exec) error, x wire.Exec, in string) (string, session.Result, error) {
		t.Helper()
		listener, err := net.Listen("unix", t.TempDir()+"/s")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		served := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				err = session.Serve(t.Context(), conn, host, adjust)
			}
			served <- err
		}()
		conn, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		res, err := session.Run(t.Context(), session.Dial(conn), session.Options{Command: x, Stdin: input(t, in), Stdout: &out})
		select {
		case <-served:
		case <-time.After(patience):
			t.Error("Serve does not return")
		}
		return out.String(), res, err
	}
	t.Run("output, input, code", func(t *testing.T) {
		t.Parallel()
		big := strings.Repeat("x", 1<<20)
		out, res, err := run(t, nil, command("sh", "-c", "cat; exit 9"), big)
		if err != nil || out != big || res.Status() != 9 {
			t.Errorf("%d bytes, status %d, %v", len(out), res.Status(), err)
		}
	})
	t.Run("adjusted", func(t *testing.T) {
		t.Parallel()
		adjust := func(x *wire.Exec) error {
			if x.Main {
				t.Error("a client's command is the main one")
			}
			x.Env = append(x.Env, "ADDED=1")
			return nil
		}
		out, _, err := run(t, adjust, command("sh", "-c", "echo $ADDED"), "")
		if err != nil || out != "1\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		out, res, err := run(t, func(*wire.Exec) error { return errors.New("not today") }, command("echo", "x"), "")
		if out != "" || err == nil || !strings.Contains(err.Error(), "not today") || res.Status() != bailey.ExitBailey {
			t.Errorf("%q, status %d, %v", out, res.Status(), err)
		}
	})
	t.Run("only commands", func(t *testing.T) {
		t.Parallel()
		client, server := net.Pipe()
		go func() {
			_ = wire.WriteHeader(client, &wire.Header{Op: wire.OpShutdown})
			_, _ = io.Copy(io.Discard, client)
		}()
		if err := session.Serve(t.Context(), server, host, nil); err == nil {
			t.Error("a client may shut the sandbox down")
		}
		if err := host.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("client killed", func(t *testing.T) {
		t.Parallel()
		client, server := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- session.Serve(t.Context(), server, host, nil) }()
		x := command("sh", "-c", "echo up; sleep 100")
		if err := wire.WriteHeader(client, &wire.Header{Op: wire.OpExec, Exec: x}); err != nil {
			t.Fatal(err)
		}
		if _, err := wire.NewReader(client, wire.FromSandbox).Next(); err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
		select {
		case <-served:
		case <-time.After(patience):
			t.Error("Serve does not return")
		}
	})
}

// runCLI starts the cli role without a terminal.
func runCLI(t *testing.T, argv ...string) (*exec.Cmd, *bytes.Buffer, io.Reader) {
	t.Helper()
	end, _ := startSandbox(t)
	cmd := exec.Command("/proc/self/exe", argv...)
	cmd.Env = append(os.Environ(), role+"=cli")
	cmd.ExtraFiles = []*os.File{end}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &errs, out
}

func TestA6_SignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	for s, name := range map[syscall.Signal]string{
		syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP",
		syscall.SIGQUIT: "QUIT", syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, errs, out := runCLI(t, "sh", "-c", "trap 'echo got; exit 7' "+name+"; echo up; while :; do sleep 0.05; done")
			buf := make([]byte, 3)
			if _, err := io.ReadFull(out, buf); err != nil {
				t.Fatal(err, errs)
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(out)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 7 || string(rest) != "got\n" {
				t.Errorf("code %d, out %q, err %q", code, rest, errs)
			}
		})
	}
	t.Run("a command that ignores SIGTERM", func(t *testing.T) {
		t.Parallel()
		cmd, errs, out := runCLI(t, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
		buf := make([]byte, 3)
		if _, err := io.ReadFull(out, buf); err != nil {
			t.Fatal(err, errs)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 143 {
			t.Errorf("code %d, err %q", code, errs)
		}
	})
}

func TestRun_SurvivesAPanic(t *testing.T) {
	t.Parallel()
	host, _ := startHost(t)
	_, err := session.Run(t.Context(), host, session.Options{
		Command: command("sleep", "100"), Started: func(int) { panic("boom") },
	})
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("error = %v", err)
	}
}

func TestRun_LeavesNoGoroutine(t *testing.T) {
	host, _ := startHost(t)
	if err := host.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	idle := goleak.IgnoreCurrent()
	for range 3 {
		_, err := session.Run(t.Context(), host, session.Options{
			Command: command("sh", "-c", "cat; exit 3"), Stdin: input(t, "x"), Stdout: io.Discard,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	goleak.VerifyNone(t, idle)
}
