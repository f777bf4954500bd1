package session_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	creack "github.com/creack/pty"

	"github.com/bailey-dev/bailey/internal/linux/pty"
)

func TestTerminal_PlainOutputStaysPlain(t *testing.T) {
	t.Parallel()
	p := atCLI(t, "echo", "hi")
	if code := p.leaves(); code != 0 {
		t.Error(code)
	}
	p.sees("hi")
	if got := p.screen(); got != "hi\r\n" {
		t.Errorf("terminal shows %q", got)
	}
}

func TestA1_SizeAtFirstAndAfterResize(t *testing.T) {
	t.Parallel()
	p := atCLI(t, "bash", "-c", `stty size; trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done`)
	p.sees("ready")
	if got := p.screen(); !strings.HasPrefix(got, "40 120\r\n") {
		t.Errorf("first: %q", got)
	}
	if err := creack.Setsize(p.tty, &creack.Winsize{Rows: 50, Cols: 200}); err != nil {
		t.Fatal(err)
	}
	p.sees("50 200").leaves()
}

func TestTerminal_KeysReachTheCommand(t *testing.T) {
	t.Parallel()
	t.Run("Ctrl-C", func(t *testing.T) {
		t.Parallel()
		p := atCLI(t, "sh", "-c", "echo up; exec sleep 100").sees("up").types("\x03")
		if code := p.leaves(); code != 130 {
			t.Error(code)
		}
	})
	t.Run("Ctrl-C is a byte for who wants bytes", func(t *testing.T) {
		t.Parallel()
		p := atCLI(t, "sh", "-c", "stty raw -echo; echo up; head -c 3 | od -An -tx1").sees("up").types("\x03\x1a\x1c")
		if p.sees("03 1a 1c"); p.leaves() != 0 {
			t.Error(p.screen())
		}
	})
	t.Run("end of input", func(t *testing.T) {
		t.Parallel()
		p := atCLI(t, "sh", "-c", "echo up; cat; echo end").sees("up").types("line\r\x04").sees("end")
		if p.leaves() != 0 {
			t.Error(p.screen())
		}
	})
}

// modes are the terminal's settings now.
func (p *person) modes() *pty.Modes {
	p.t.Helper()
	m, err := pty.ReadModes(p.other)
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// fullScreen is what a full-screen program turns on.
const fullScreen = `printf '\033[?1049h\033[?25l\033[?1002h\033[?1006h\033[?2004h\033[?1004h\033[>1u\033[31m\033[2;5r'; stty raw -echo; echo up;`

func TestA10_TerminalIsRestored(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		script string
		act    func(*person) error
		code   int
	}{
		"exit":                {"sleep 0.1; exit 3", nil, 3},
		"command killed":      {"kill -KILL $$", nil, 137},
		"sandbox killed":      {"sleep 100", func(p *person) error { return p.sandbox.Process.Kill() }, 125},
		"SIGTERM to the CLI":  {"exec sleep 100", func(p *person) error { return p.cmd.Process.Signal(syscall.SIGTERM) }, 143},
		"SIGHUP to the CLI":   {"trap '' HUP; while :; do sleep 0.1; done", func(p *person) error { return p.cmd.Process.Signal(syscall.SIGHUP) }, 129},
		"SIGINT to the CLI":   {"exec sleep 100", func(p *person) error { return p.cmd.Process.Signal(syscall.SIGINT) }, 130},
		"unfinished sequence": {`printf '\033]11;#000000\007\033]8;;http://x\007\303\033[3'`, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := atCLI(t, "bash", "-c", fullScreen+end.script)
			p.sees("up")
			if end.act != nil {
				raw := p.modes()
				if !raw.Equal(raw.Raw()) {
					t.Error("the terminal was not raw: the test shows nothing")
				}
				if err := end.act(p); err != nil {
					t.Fatal(err)
				}
			}
			code := p.leaves()
			if code != end.code {
				t.Errorf("code %d, want %d: %q", code, end.code, p.screen())
			}
			for _, want := range []string{"\x1b[?1049l", "\x1b[?25h", "\x1b[?1002l", "\x1b[?1006l", "\x1b[?2004l", "\x1b[?1004l", "\x1b[<1u", "\x1b[m", "\x1b7\x1b[r\x1b8"} {
				p.sees(want)
			}
			fresh, other, err := creack.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer fresh.Close()
			defer other.Close()
			want, err := pty.ReadModes(other)
			if err != nil {
				t.Fatal(err)
			}
			if !p.modes().Equal(want) {
				t.Error("settings are not those of a fresh terminal")
			}
		})
	}
}

// full reports whether so much waits at the terminal that it takes no more:
// most of its 4096 bytes (tty_ioctl(2), TIOCINQ).
func (p *person) full() bool {
	var n int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, p.tty.Fd(), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	return errno == 0 && n > 4000
}

// TestTerminal_IsRestoredWhateverIsStuck: neither a sandbox that takes nothing
// nor a terminal that shows nothing keeps a person from ending it.
func TestTerminal_IsRestoredWhateverIsStuck(t *testing.T) {
	t.Parallel()
	fresh := func(p *person, before *pty.Modes) {
		p.t.Helper()
		if raw := p.modes(); !raw.Equal(raw.Raw()) {
			p.t.Error("the terminal was not raw: the test shows nothing")
		}
		began := time.Now()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			p.t.Fatal(err)
		}
		if code := p.leaves(); code != 143 {
			p.t.Errorf("code %d", code)
		}
		if took := time.Since(began); took > 20*time.Second {
			p.t.Errorf("it took %v", took)
		}
		if !p.modes().Equal(before) {
			p.t.Error("the settings are not as before")
		}
	}
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		p := sitDown(t, role+"=deaf", "/proc/self/exe")
		before := p.modes()
		p.sees("up").types("nobody reads this")
		fresh(p, before)
	})
	t.Run("terminal", func(t *testing.T) {
		t.Parallel()
		p := atCLI(t, "sh", "-c", "echo up; read x; exec yes")
		before := p.modes()
		p.sees("up")
		p.blind.Store(true)
		p.types("\r")
		p.waits("full terminal", p.full)
		fresh(p, before)
	})
}

func TestISO11_AttachedTerminalIsFiltered(t *testing.T) {
	t.Parallel()
	p := atCLI(t, "printf", `A\033]52;c;eA==\007B\033]0;title\007C\005D\033[21tE\033[31mF\033[mG`)
	p.leaves()
	p.sees("G")
	if got, want := p.screen(), "ABCDE\x1b[31mF\x1b[mG"; got != want {
		t.Errorf("terminal got %q, want %q", got, want)
	}
}

func TestTerminal_TypedAheadStays(t *testing.T) {
	t.Parallel()
	p := atCLI(t, "sh", "-c", "stty -echo; echo up; read x; echo got $x").sees("up").types("first\r").sees("got first")
	p.leaves()
	p.types("ls\n")
	buf := make([]byte, 10)
	n, err := p.other.Read(buf)
	if err != nil || string(buf[:n]) != "ls\n" {
		t.Errorf("the shell would read %q, %v", buf[:n], err)
	}
}

func TestTerminal_TypedAheadStaysWhenItComesEarly(t *testing.T) {
	t.Parallel()
	// Typed the moment before the command ends, again and again: what the
	// command did not get is all there.
	for range 5 {
		p := atCLI(t, "sh", "-c", "stty raw -echo; echo up; head -c 1 >/dev/null").sees("up").types("x")
		if code := p.leaves(); code != 0 {
			t.Fatal(code)
		}
		p.types("y\n")
		buf := make([]byte, 10)
		if n, err := p.other.Read(buf); err != nil || string(buf[:n]) != "y\n" {
			t.Errorf("the shell would read %q, %v", buf[:n], err)
		}
	}
}

func TestA3_InjectedKeysStayInside(t *testing.T) {
	t.Parallel()
	exe, err := filepath.EvalSymlinks("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	p := atCLI(t, "env", role+"=sti", exe)
	p.leaves()
	p.sees("TIOCSTI")
	// Whether the kernel inside took them or not (gVisor and
	// dev.tty.legacy_tiocsti=0 do not): nothing is in the user's terminal.
	p.types("mine\n")
	buf := make([]byte, 100)
	if n, err := p.other.Read(buf); err != nil || string(buf[:n]) != "mine\n" {
		t.Errorf("the shell would read %q, %v", buf[:n], err)
	}
}

func TestTerminal_StopsAndContinuesWithItsShell(t *testing.T) {
	t.Parallel()
	exe, err := filepath.EvalSymlinks("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	p := sitDown(t, "PS1=shell$ ", "bash", "--norc", "--noediting", "-i")
	p.sees("shell$").types(role + "=cli " + exe + ` bash -c 'printf "\033[?1049h"; stty raw -echo; printf "re%s" ady; kill -STOP $$; printf "a%s" gain; head -c1 | od -An -tx1'` + "\n")
	p.sees("ready").sees("Stopped")
	if got := p.screen(); !strings.Contains(got, "\x1b[?1049l") {
		t.Errorf("full screen was not left at the stop: %q", got)
	}
	p.types("echo at\"\"work\n").sees("atwork\r\n")
	p.types("fg\n").sees("again").types("k").sees("6b").prompts(4)
	if got := p.screen(); strings.Count(got, "\x1b[?1049h") < 2 {
		t.Errorf("full screen was not taken again: %q", got)
	}
	p.types("exit 4\n")
	if code := p.leaves(); code != 4 {
		t.Error(code, p.screen())
	}
}

func TestTerminal_StopWithoutAShellGoesOn(t *testing.T) {
	t.Parallel()
	p := atCLI(t, "bash", "-c", "echo up; kill -STOP $$; echo again").sees("again")
	if p.leaves() != 0 {
		t.Error(p.screen())
	}
}

func TestTerminal_SuspendedFromOutside(t *testing.T) {
	t.Parallel()
	exe, err := filepath.EvalSymlinks("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	p := sitDown(t, "PS1=shell$ ", "bash", "--norc", "--noediting", "-i")
	before := p.sees("shell$").modes()
	p.types(role + "=cli " + exe + ` bash -c 'echo pid $PPID; stty raw -echo; printf "re%s" ady; head -c1 | od -An -tx1'` + "\n").sees("ready")
	child := childOf(t, p.cmd.Process.Pid)
	if err := syscall.Kill(child, syscall.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	p.sees("Stopped")
	p.waits("restored settings", func() bool { return p.modes().Equal(before) })
	p.types("fg\n")
	p.waits("raw settings", func() bool { m := p.modes(); return m.Equal(m.Raw()) })
	p.types("k").sees("6b").prompts(3).types("exit 4\n")
	if code := p.leaves(); code != 4 {
		t.Error(code)
	}
}

// prompts waits until the shell has shown its prompt n times.
func (p *person) prompts(n int) *person {
	p.t.Helper()
	return p.waits("prompt", func() bool { return strings.Count(p.screen(), "shell$ ") >= n })
}

// childOf returns the one child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
		if fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if err != nil {
				t.Fatal(err)
			}
			return child
		}
	}
	t.Fatal("no child")
	return 0
}
