package sandboxd_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/testkit/tier"
	"github.com/bailey-dev/bailey/internal/wire"
)

func TestSandboxd_RunsCommands(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	if err := y.host.Ping(timeout(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		script string
		out    string
		errs   string
		exit   wire.Exit
	}{
		"success":       {"true", "", "", wire.Exit{}},
		"code":          {"exit 7", "", "", wire.Exit{Code: 7}},
		"highest code":  {"exit 255", "", "", wire.Exit{Code: 255}},
		"signal":        {"kill -TERM $$", "", "", wire.Exit{Signal: syscall.SIGTERM}},
		"killed":        {"kill -KILL $$", "", "", wire.Exit{Signal: syscall.SIGKILL}},
		"outputs apart": {"echo out; echo err >&2", "out\n", "err\n", wire.Exit{}},
		"no newline":    {"printf x", "x", "", wire.Exit{}},
		"pid 1's child": {"echo $PPID", "1\n", "", wire.Exit{}},
		"no terminal":   {"exec </dev/tty", "", "sh: 1: cannot open /dev/tty: No such device or address\n", wire.Exit{Code: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := y.sh(t, c.script)
			exit := j.wait()
			if diff := cmp.Diff(c.exit, exit); diff != "" {
				t.Errorf("exit, -want +got:\n%s", diff)
			}
			if j.out.String() != c.out || j.errs.String() != c.errs {
				t.Errorf("out %q err %q, want %q %q", j.out.String(), j.errs.String(), c.out, c.errs)
			}
		})
	}
}

func TestSandboxd_GivesWhatTheHeaderSays(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	if err := os.WriteFile(kept, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := y.exec(t, wire.Exec{ // its limits are lowered in the instant after its start
		Argv:   []string{"sh", "-c", `until [ "$(ulimit -Hn)" = 333 ]; do :; done; pwd; umask; ulimit -Sn; ulimit -Hn; stat -c '%a %s' "$F"; printf '%s|' "$@"; env`, "a0", "b c", "\xff\"'$x"},
		Env:    []string{"PATH=/usr/bin:/bin", "A=1 2", "RAW=\xfe\n=", "F=" + dir + "/new/folder/file"},
		Dir:    dir,
		Umask:  0o27,
		Limits: []wire.Limit{{Resource: 7, Value: 333}, {Resource: 7, Value: 1 << 40}},
		Files:  []wire.File{{Path: dir + "/new/folder/file", Mode: 0o666, Data: []byte("hello")}, {Path: kept, Mode: 0o600, Data: []byte("new")}},
	})
	if exit := j.wait(); exit.Code != 0 {
		t.Fatal(exit, j.errs.String())
	}
	lines := strings.SplitN(j.out.String(), "\n", 6)
	if diff := cmp.Diff([]string{dir, "0027", "333", "333", "666 5"}, lines[:5]); diff != "" {
		t.Errorf("directory, umask, limits, file; -want +got:\n%s", diff)
	}
	if b, err := os.ReadFile(kept); err != nil || string(b) != "old" {
		t.Errorf("a file that was there now holds %q, %v", b, err)
	}
	for _, want := range []string{"b c|\xff\"'$x|", "A=1 2\n", "RAW=\xfe\n=\n"} {
		if !strings.Contains(lines[5], want) {
			t.Errorf("%q is missing in %q", want, lines[5])
		}
	}
	if strings.Contains(lines[5], role) {
		t.Error("sandboxd's own environment reached the command")
	}
}

func TestSandboxd_SaysWhyACommandDoesNotStart(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := write("plain", "x", 0o644)
	garbage := write("garbage", "\x7fNOT", 0o755)
	lost := write("lost", "#!/no/such/interpreter\n", 0o755)
	for name, c := range map[string]struct {
		x    wire.Exec
		kind wire.FailKind
		says string
	}{
		"not in PATH":        {wire.Exec{Argv: []string{"no-such-command"}}, wire.FailNotFound, "not found"},
		"no such file":       {wire.Exec{Argv: []string{"/no/such"}}, wire.FailNotFound, "does not exist"},
		"below a file":       {wire.Exec{Argv: []string{plain + "/x"}}, wire.FailNotFound, "does not exist"},
		"interpreter":        {wire.Exec{Argv: []string{lost}}, wire.FailNotFound, "interpreter"},
		"not executable":     {wire.Exec{Argv: []string{plain}}, wire.FailNotExecutable, "not executable"},
		"in PATH, not exec.": {wire.Exec{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, wire.FailNotExecutable, "not executable"},
		"folder":             {wire.Exec{Argv: []string{dir}}, wire.FailNotExecutable, "not executable"},
		"format":             {wire.Exec{Argv: []string{garbage}}, wire.FailNotExecutable, "#!"},
		"directory":          {wire.Exec{Argv: []string{"true"}, Dir: "/no/such/dir"}, wire.FailOther, "/no/such/dir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, message := y.exec(t, c.x).fails()
			if kind != c.kind || !strings.Contains(message, c.says) {
				t.Errorf("kind %d, message %q; want kind %d, message with %q", kind, message, c.kind, c.says)
			}
		})
	}
	t.Run("twin: relative to Dir", func(t *testing.T) {
		t.Parallel()
		write("ok", "#!/bin/sh\necho ran\n", 0o755)
		j := y.exec(t, wire.Exec{Argv: []string{"./ok"}, Dir: dir})
		if j.wait(); j.out.String() != "ran\n" {
			t.Errorf("out = %q", j.out.String())
		}
	})
}

func TestSandboxd_CarriesLargeOutputAndInput(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	j := y.sh(t, "head -c 10485760 /dev/zero | tr '\\0' x; printf y")
	j.wait()
	if got := j.out.Len(); got != 10485761 || j.out.String()[10485760] != 'y' {
		t.Errorf("%d bytes of output, want 10485761", got)
	}
	in := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	j = y.sh(t, "sha256sum")
	for rest := in; len(rest) > 0; {
		for j.credit+wire.StdinWindow <= len(in)-len(rest) {
			j.until(func(f wire.Frame) bool { return f.Type == wire.Credit })
		}
		n := min(len(rest), j.credit+wire.StdinWindow-(len(in)-len(rest)), wire.MaxPayload)
		j.send(wire.Stdin, rest[:n])
		rest = rest[n:]
	}
	j.send(wire.StdinEOF, nil)
	j.wait()
	if want := fmt.Sprintf("%x  -\n", sha256.Sum256(in)); j.out.String() != want {
		t.Errorf("checksum of the input %q, want %q", j.out.String(), want)
	}
}

func TestSandboxd_SlowReaderLosesNothing(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	// What fits between the command and a host that does not read: the window
	// of the wire with a frame in the pump's hand, and most of the pipe. The
	// process in the background holds the pipe open.
	const size = 256<<10 + 40<<10
	j := y.sh(t, fmt.Sprintf("head -c %d /dev/zero; sleep 30 & exit 3", size)).started()
	within(t, 30*time.Second, "only sleep is left", func() bool { return y.only(t, "sleep") })
	// Far longer than a silent output is waited for.
	time.Sleep(700 * time.Millisecond) // the passing of time is what is tested
	if exit := j.wait(); exit.Code != 3 || j.out.Len() != size {
		t.Errorf("exit %v with %d bytes, want 3 with %d", exit, j.out.Len(), size)
	}
}

func TestSandboxd_InputNobodyReadsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	j := y.sh(t, "echo up; sleep 100").says("up")
	for range wire.StdinWindow / wire.MaxPayload {
		j.send(wire.Stdin, make([]byte, wire.MaxPayload))
	}
	j.send(wire.Signal, []byte{byte(syscall.SIGTERM)})
	if exit := j.wait(); exit.Signal != syscall.SIGTERM {
		t.Errorf("exit = %v", exit)
	}
	// Twin: more than the window and the pipe behind it ends the command.
	j = y.sh(t, "trap '' HUP; echo up; sleep 100").says("up")
	for range wire.StdinWindow/wire.MaxPayload + 2 {
		j.send(wire.Stdin, make([]byte, wire.MaxPayload))
	}
	within(t, 5*time.Second, "the command ends", func() bool { return len(y.family(t)) == 0 })
}

func TestSandboxd_BackgroundChildDoesNotHoldTheEnd(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	for name, script := range map[string]string{
		"silent": "echo done; sleep 100 &",
		"noisy":  "echo done; yes &",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			j := y.sh(t, script)
			if exit := j.wait(); exit.Code != 0 || !strings.HasPrefix(j.out.String(), "done\n") {
				t.Errorf("exit %v, out %.20q", exit, j.out.String())
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if len(y.family(t)) == 0 {
				t.Error("the background process did not outlive its command")
			}
		})
	}
}

func TestA7_NoZombies(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	j := y.sh(t, "i=0; while [ $i -lt 1000 ]; do sh -c 'sleep 0.1 &'; i=$((i+1)); done; exit 9")
	j.patience = 5 * time.Minute // 3,000 processes on a busy machine
	if exit := j.wait(); exit.Code != 9 {
		t.Fatal(exit)
	}
	within(t, time.Second+200*time.Millisecond, "no process left", func() bool { return len(y.family(t)) == 0 })
}

func TestA7_ExitCodesStayExact(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	noise := y.sh(t, "while :; do sh -c 'sh -c \"exit 77\" & exit 66' ; done").started()
	for round := range 40 {
		jobs := make([]*job, 6)
		for i := range jobs {
			jobs[i] = y.sh(t, fmt.Sprintf("exit %d", round+i))
		}
		for i, j := range jobs {
			if exit := j.wait(); exit.Code != round+i || exit.Signal != 0 {
				t.Fatalf("exit %v, want %d", exit, round+i)
			}
		}
	}
	noise.send(wire.Signal, []byte{byte(syscall.SIGKILL)})
}

func TestA5_SignalsAreDefaultInside(t *testing.T) {
	t.Parallel()
	y := startYard(t, "ignoring")
	j := y.sh(t, "grep -E '^Sig(Ign|Blk)' /proc/self/status")
	j.wait()
	want := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
	if j.out.String() != want {
		t.Errorf("a child has %q, want %q", j.out.String(), want)
	}
	j = y.exec(t, wire.Exec{Argv: []string{"sleep", "100"}}).started()
	j.send(wire.Signal, []byte{byte(syscall.SIGINT)})
	if exit := j.wait(); exit.Signal != syscall.SIGINT {
		t.Errorf("exit = %v", exit)
	}
}

func TestISO10_NoDescriptorIsInherited(t *testing.T) {
	t.Parallel()
	secret, err := os.Open("/etc/hostname")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	y := startYard(t, "sandboxd", secret)
	for _, tty := range []bool{false, true} {
		j := y.exec(t, wire.Exec{Argv: []string{"sh", "-c", "for f in /proc/self/fd/*; do printf '%s ' ${f##*/}; done"}, TTY: tty, Rows: 9, Cols: 9})
		j.wait()
		// sh itself has the folder open while it expands the name.
		if got := strings.Fields(j.out.String()); len(got) > 4 || strings.Join(got[:3], "") != "012" {
			t.Errorf("tty %v: descriptors %q", tty, got)
		}
	}
}

func TestISO10_SandboxdShowsNothing(t *testing.T) {
	t.Parallel()
	tier.Root(t) // sandboxd is started as somebody else
	const nobody = 65534
	y := startYard(t, "nobody")
	j := y.exec(t, wire.Exec{Argv: []string{"sleep", "100"}}).started()
	owner := func(pid int) uint32 {
		var st syscall.Stat_t
		if err := syscall.Stat(fmt.Sprintf("/proc/%d/mem", pid), &st); err != nil {
			t.Fatal(err)
		}
		return st.Uid
	}
	// proc(5): the files of a process that is not dumpable are root's, so its
	// own user cannot open them.
	if got := owner(y.cmd.Process.Pid); got != 0 {
		t.Errorf("sandboxd's memory belongs to %d", got)
	}
	for pid := range y.family(t) { // twin
		if got := owner(pid); got != nobody {
			t.Errorf("the memory of its child belongs to %d", got)
		}
	}
	j.send(wire.Signal, []byte{byte(syscall.SIGKILL)}).wait()
}

func TestSandboxd_LivesThroughAForkBomb(t *testing.T) {
	t.Parallel()
	tier.Root(t) // sandboxd is started as somebody else, whose processes are counted
	y := startYard(t, "bombed")
	const most = 60
	limits := []wire.Limit{{Resource: 6, Value: most}}
	bomb := y.exec(t, wire.Exec{Argv: []string{"python3", "-uc", bombScript}, Limits: limits}).says("full")
	var jobs []*job
	for range 10 { // each needs threads of sandboxd, more than it has so far
		jobs = append(jobs, y.exec(t, wire.Exec{Argv: []string{"sleep", "100"}, Limits: limits}).started())
	}
	for _, j := range jobs {
		j.send(wire.Signal, []byte{byte(syscall.SIGTERM)})
		if exit := j.wait(); exit.Signal != syscall.SIGTERM {
			t.Errorf("exit = %v", exit)
		}
	}
	bomb.send(wire.Signal, []byte{byte(syscall.SIGKILL)}).wait()
}

const bombScript = `
import os, time
try:
    while True:
        if os.fork() == 0: time.sleep(100); os._exit(0)
except OSError: print("full")
time.sleep(100)
`

func TestSandboxd_EndsEverythingWhenTheWireCloses(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	y.sh(t, "sleep 100 & setsid sh -c 'trap \"\" TERM HUP; echo up; sleep 100; sleep 100' & wait").says("up")
	if err := y.host.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- y.wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(3 * time.Second):
		t.Error("sandboxd lives 3 s after the wire closed")
	}
}

func TestSandboxd_ShutsDown(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	j := y.sh(t, "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done").says("up")
	start := time.Now()
	if err := y.host.Shutdown(timeout(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 1500*time.Millisecond {
		t.Errorf("took %v though everything ends by itself", took)
	}
	if exit := j.wait(); exit.Code != 5 || !strings.Contains(j.out.String(), "bye") {
		t.Errorf("exit %v, out %q", exit, j.out.String())
	}
	if err := y.wait(); err != nil {
		t.Error(err)
	}
}

func TestSandboxd_SurvivesSignalsFromInside(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	y.sh(t, "for s in HUP INT QUIT TERM USR1 USR2 ALRM SEGV BUS FPE ILL ABRT TRAP SYS PIPE TSTP KILL STOP; do kill -$s 1; done").wait()
	if err := y.host.Ping(timeout(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
}

func TestSandboxd_HandsItsSignalsToTheMainCommand(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	j := y.exec(t, wire.Exec{Argv: []string{"sh", "-c", "trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done"}, Main: true}).says("up")
	if err := y.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := j.wait(); exit.Code != 4 {
		t.Errorf("exit = %v", exit)
	}
}

func TestSandboxd_ClosedOutputIsSIGPIPE(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	j := y.exec(t, wire.Exec{Argv: []string{"yes"}}).says("y\n")
	j.send(wire.CloseOut, []byte{1})
	if exit := j.wait(); exit.Signal != syscall.SIGPIPE {
		t.Errorf("exit = %v", exit)
	}
}

func TestSandboxd_AbandonsWhenTheClientIsGone(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	j := y.sh(t, "trap '' HUP; echo up; while :; do sleep 0.05; done").says("up")
	if err := j.stream.Close(); err != nil {
		t.Fatal(err)
	}
	within(t, 3*time.Second, "the command ends", func() bool { return len(y.family(t)) == 0 })
	if err := y.host.Ping(timeout(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
}

func TestSandboxd_Terminal(t *testing.T) {
	t.Parallel()
	y := startYard(t, "sandboxd")
	tty := func(script string) *job {
		return y.exec(t, wire.Exec{Argv: []string{"bash", "-c", script}, TTY: true, Rows: 40, Cols: 120})
	}
	t.Run("A1: size and resize", func(t *testing.T) {
		j := tty(`stty size; trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done`).says("ready")
		if !strings.HasPrefix(j.out.String(), "40 120\r\n") {
			t.Errorf("first size: %q", j.out.String())
		}
		j.send(wire.Resize, wire.ResizePayload(50, 200)).says("50 200")
		j.wait()
	})
	t.Run("it is the controlling terminal", func(t *testing.T) {
		j := tty(`tty; echo x >/dev/tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all`)
		j.wait()
		if !strings.Contains(j.out.String(), "x\r\nall\r\n") {
			t.Errorf("out = %q", j.out.String())
		}
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		j := tty(`echo ready; exec sleep 100`).says("ready")
		j.send(wire.Stdin, []byte{3})
		if exit := j.wait(); exit.Signal != syscall.SIGINT {
			t.Errorf("exit = %v", exit)
		}
	})
	t.Run("Ctrl-C behind a typed line", func(t *testing.T) {
		j := tty(`echo ready; exec sleep 100`).says("ready")
		j.send(wire.Stdin, []byte("typed\nahead\x03"))
		if exit := j.wait(); exit.Signal != syscall.SIGINT {
			t.Errorf("exit = %v", exit)
		}
	})
	t.Run("signal to the foreground group", func(t *testing.T) {
		j := y.exec(t, wire.Exec{Argv: []string{"bash", "--norc", "-i"}, TTY: true, Rows: 9, Cols: 99})
		j.send(wire.Stdin, []byte("bash -c 'trap \"echo got; exit\" TERM; echo re''ady; while :; do sleep 0.02; done'\n"))
		j.says("ready")
		j.send(wire.Signal, []byte{byte(syscall.SIGTERM)}).says("got")
		j.send(wire.Stdin, []byte("exit 3\n"))
		if exit := j.wait(); exit.Code != 3 {
			t.Errorf("exit = %v", exit)
		}
	})
	t.Run("stopped and continued", func(t *testing.T) {
		j := tty(`echo ready; kill -STOP $$; echo again`).says("ready")
		j.until(func(f wire.Frame) bool {
			if f.Type != wire.Stopped {
				return false
			}
			if s, err := f.SignalNumber(); err != nil || s != syscall.SIGSTOP {
				t.Errorf("stopped by %v, %v", s, err)
			}
			return true
		})
		j.send(wire.Signal, []byte{byte(syscall.SIGCONT)}).says("again")
		j.wait()
	})
	t.Run("Ctrl-Z and a child that stops alone", func(*testing.T) {
		// As a child in vfork does in gVisor: the first process runs on, waits
		// for one that was stopped, and nobody is told.
		j := tty(`stty susp ^Z; trap '' TSTP; sh -c 'kill -STOP $$; echo again' & echo ready; wait`).says("ready")
		j.send(wire.Stdin, []byte{0x1a}).says("again")
		j.wait()
	})
	t.Run("job control inside", func(t *testing.T) {
		j := y.exec(t, wire.Exec{Argv: []string{"bash", "--norc", "-i"}, TTY: true, Rows: 9, Cols: 99})
		j.send(wire.Stdin, []byte("sleep 100\n"))
		within(t, 20*time.Second, "sleep has the terminal", func() bool { // which it gets before its exec
			for pid := range y.family(t) {
				if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "sleep\n" {
					return true
				}
			}
			return false
		})
		j.send(wire.Stdin, []byte{0x1a}).says("Stopped")
		j.send(wire.Stdin, []byte("echo; echo con''tinue; fg\n")).says("continue\r\nsleep 100\r\n")
		j.send(wire.Stdin, []byte{3})
		j.send(wire.Stdin, []byte("echo do''ne; exit\n")).says("done")
		j.wait()
	})
	t.Run("large output", func(t *testing.T) {
		j := tty(`stty -opost; head -c 3000000 /dev/zero | tr '\0' x`)
		j.wait()
		if j.out.Len() != 3000000 {
			t.Errorf("%d bytes, want 3000000", j.out.Len())
		}
	})
}
