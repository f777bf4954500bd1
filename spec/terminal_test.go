package spec_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// person is somebody at a terminal of 40 rows and 120 columns.
type person struct {
	t     *testing.T
	tty   *os.File // the person's side
	other *os.File // the programs' side
	cmd   *exec.Cmd
	ended chan error

	mu   sync.Mutex
	seen bytes.Buffer
}

// sit makes a terminal and runs `bailey args…` on it.
func sit(t *testing.T, y *yard.Yard, args ...string) *person {
	t.Helper()
	tty, other, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, tty: tty, other: other, cmd: y.Command(t.Context(), args...), ended: make(chan error, 1)}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = other, other, other
	p.cmd.SysProcAttr.Setpgid, p.cmd.SysProcAttr.Setsid, p.cmd.SysProcAttr.Setctty = false, true, true
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	go p.watch()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = tty.Close()
		_ = other.Close()
	})
	return p
}

// sitRun runs a command in a sandbox, and shows nothing else.
func sitRun(t *testing.T, y *yard.Yard, argv ...string) *person {
	t.Helper()
	return sit(t, y, append([]string{"run", "--quiet", "--"}, argv...)...)
}

func (p *person) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := p.tty.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.seen.Write(buf[:n])
		p.mu.Unlock()
	}
}

func (p *person) screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

func (p *person) sees(text string) *person {
	p.t.Helper()
	yard.Eventually(p.t, yard.Timeout, func() bool { return strings.Contains(p.screen(), text) },
		func() string { return fmt.Sprintf("no %q on the terminal, but %q", text, p.screen()) })
	return p
}

func (p *person) types(keys string) *person {
	p.t.Helper()
	if _, err := p.tty.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
	return p
}

// leaves waits for the end of bailey and returns its exit code.
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
	case <-time.After(yard.Timeout):
		p.t.Fatalf("bailey does not end; the terminal shows %q", p.screen())
		return -1
	}
}

// shellReads returns what the next program at the terminal reads.
func (p *person) shellReads() string {
	p.t.Helper()
	buf := make([]byte, 100)
	n, err := p.other.Read(buf)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(buf[:n])
}

func (p *person) modes() term.State {
	p.t.Helper()
	s, err := term.GetState(int(p.other.Fd()))
	if err != nil {
		p.t.Fatal(err)
	}
	return *s
}

func TestISO11_OutputCannotDriveTheTerminal(t *testing.T) {
	t.Attr("claim", "ISO-11")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for name, attack := range map[string]string{
			"clipboard":               `\033]52;c;eA==\007`,
			"clipboard, pass-through": `\033Ptmux;\033\033]52;c;eA==\007\033\\`,
			"title":                   `\033]0;evil\007`,
			"title report":            `\033[21t`,
			"answerback":              `\005`,
			"settings report":         `\033P$qm\033\\`,
			"screen report":           `\033[1;1;1;1;24;80*y`,
			"file transfer":           `\033]1337;File=name=eA==:AAAA\007`,
			"kitty file":              `\033_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\033\\`,
			"file link":               `\033]8;;file:///etc/passwd\033\\`,
			"printer":                 `\033[5i`,
			"C1 as UTF-8":             `\302\23552;c;eA==\007`,
		} {
			t.Run(name, func(t *testing.T) {
				p := sitRun(t, y, "printf", "A"+attack+"Z")
				p.leaves()
				p.sees("Z")
				got := strings.NewReplacer("\ufffd52;c;eA==\a", "").Replace(p.screen())
				if got != "AZ" {
					t.Errorf("the terminal got %q", p.screen())
				}
				// Twin: where nobody's terminal is attached, bytes are bytes.
				if out := y.Run(t, "run", "--quiet", "--", "printf", "A"+attack+"Z").OK(t).Stdout; out == "AZ" {
					t.Errorf("nothing was sent: %q", out)
				}
			})
		}
		t.Run("what programs need passes", func(t *testing.T) {
			p := sitRun(t, y, "printf", `A\033[31mB\033[m\033[6n\033]8;;https://example.com\033\\C\033]8;;\033\\`)
			p.leaves()
			want := "A\x1b[31mB\x1b[m\x1b[6n\x1b]8;;https://example.com\x1b\\C\x1b]8;;\x1b\\"
			if p.sees("C"); p.screen() != want {
				t.Errorf("the terminal got %q, want %q", p.screen(), want)
			}
		})
		t.Run("TIOCSTI", func(t *testing.T) {
			const inject = `import fcntl, termios
try:
    for c in "echo X\n": fcntl.ioctl(0, termios.TIOCSTI, c)
except OSError: pass
print("tried")`
			p := sitRun(t, y, "python3", "-c", inject)
			p.leaves()
			if got := p.sees("tried").types("mine\n").shellReads(); got != "mine\n" {
				t.Errorf("the shell reads %q", got)
			}
		})
	})
}

// TestISO11_PrintedNamesAreHarmless names a workspace, files and a program so
// that a terminal would act on them, and looks at all that bailey prints of
// them: footer, errors, events, ps and doctor.
func TestISO11_PrintedNamesAreHarmless(t *testing.T) {
	t.Attr("claim", "ISO-11")
	t.Parallel()
	const bad = "w\x1b]0;evil\a\u009b31m\u202e"
	const script = `mkdir "$1" && git init -q "$1" && git config core.fsmonitor "$1" && echo up && cat`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, bad+"/file", "x")
		y.Host(t, "git", "init", "-q", ".")
		printed := map[string]string{}
		for name, flags := range map[string][]string{"for people": nil, "events": {"--json"}} {
			inside := bad + name[:1]
			r := y.Start(t, slices.Concat([]string{"run", "--name", "named"}, flags, []string{"--", "env", "-u", bad, "sh", "-c", script, "-", inside})...)
			r.Await(t, "up")
			printed["ps, "+name] = y.Run(t, append([]string{"ps"}, flags...)...).OK(t).Stdout
			_ = r.Stdin.Close()
			printed[name] = r.Wait(t, 20*time.Second).OK(t).Stderr
		}
		printed["not found"] = y.Run(t, "run", "--", bad).Exit(t, 127).Stderr
		printed["no such sandbox"] = y.Run(t, "stop", bad).Exit(t, 125).Stderr
		printed["no such flag"] = y.Run(t, "run", "--"+bad).Exit(t, 125).Stderr
		there := func(c *exec.Cmd) { c.Dir = filepath.Join(y.Dir, bad) }
		printed["workspace"] = y.RunWith(t, there, "run", "--", "true").Exit(t, 125).Stderr
		printed["doctor"] = y.RunWith(t, there, "doctor").Stdout
		printed["doctor, events"] = y.RunWith(t, there, "doctor", "--json").Stdout
		for where, text := range printed {
			if !strings.Contains(text, "evil") {
				t.Errorf("twin: %s: no name is printed: %q", where, text)
			}
			if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%s: %q at %d of %q", where, text[i:i+1], i, text)
			}
		}
	})
}

func TestTerminal_SizeAndKeys(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		t.Run("A1: size", func(t *testing.T) {
			p := sitRun(t, y, "bash", "-c", `stty size; trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done`)
			if p.sees("ready"); !strings.HasPrefix(p.screen(), "40 120\r\n") {
				t.Errorf("first: %q", p.screen())
			}
			if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 50, Cols: 200}); err != nil {
				t.Fatal(err)
			}
			p.sees("50 200").leaves()
		})
		t.Run("Ctrl-C behind a typed line", func(t *testing.T) {
			p := sitRun(t, y, "sh", "-c", "echo up; exec sleep 100").sees("up").types("typed\r")
			if code := p.sees("typed").types("ahead\x03").leaves(); code != 130 {
				t.Error(code)
			}
		})
		t.Run("Ctrl-Z without a shell", func(t *testing.T) {
			p := sitRun(t, y, "sh", "-c", "echo up; sleep 1; echo again").sees("up").types("\x1a").sees("again")
			if code := p.leaves(); code != 0 {
				t.Error(code)
			}
		})
		t.Run("job control inside", func(t *testing.T) {
			// No exec after the word: gVisor's execve cancels a stop that comes just then.
			p := sitRun(t, y, "bash", "--norc", "-i").sees("$ ").types("sh -c 'echo o\"\"ne; read a; echo got $a; read b'\r").sees("one")
			p.types("\x1a").sees("Stopped").types("echo tw''o; fg\r").sees("two\r\nsh -c")
			p.types("me\r").sees("got me") // it has the terminal: bash names it before that
			p.types("\x03echo thre''e; exit 5\r").sees("three")
			if code := p.leaves(); code != 5 {
				t.Error(code)
			}
		})
		t.Run("typed ahead stays", func(t *testing.T) {
			p := sitRun(t, y, "sh", "-c", "stty -echo; echo up; read x; echo got $x").sees("up").types("first\r").sees("got first")
			p.leaves()
			if got := p.types("ls\n").shellReads(); got != "ls\n" {
				t.Errorf("the shell reads %q", got)
			}
		})
	})
}

func TestTerminal_IsRestored(t *testing.T) {
	t.Parallel()
	const full = `printf '\033[?1049h\033[?25l\033[?1002h\033[?2004h\033[>1u\033[31m'; stty raw -echo; echo up; `
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		signals := func(s syscall.Signal) func(*person) error {
			return func(p *person) error { return p.cmd.Process.Signal(s) }
		}
		for name, c := range map[string]struct {
			script string
			flags  []string
			act    func(*person) error
			code   int
		}{
			"exit":            {"exit 3", nil, nil, 3},
			"killed":          {"kill -KILL $$", nil, nil, 137},
			"SIGTERM":         {"exec sleep 100", nil, signals(syscall.SIGTERM), 143},
			"SIGTERM ignored": {"trap '' TERM; while :; do sleep 0.1; done", nil, signals(syscall.SIGTERM), 143},
			"SIGHUP":          {"exec sleep 100", nil, signals(syscall.SIGHUP), 129},
			"SIGINT":          {"exec sleep 100", nil, signals(syscall.SIGINT), 130},
			"deadline":        {"trap '' TERM; while :; do sleep 0.1; done", []string{"--timeout", "4s"}, nil, 124},
			"out of memory":   {`python3 -c "b = bytearray(1 << 30)"; exec tail -f /dev/null`, []string{"--memory", "256M"}, nil, 137},
			"bailey stop": {"exec sleep 100", []string{"--name", "seat"}, func(*person) error {
				y.Run(t, "stop", "seat").OK(t)
				return nil
			}, 143},
		} {
			t.Run(name, func(t *testing.T) {
				p := sit(t, y, append(append([]string{"run", "--quiet"}, c.flags...), "--", "bash", "-c", full+c.script)...)
				before := p.modes()
				p.sees("up")
				if c.act != nil {
					if p.modes() == before {
						t.Error("the terminal was not raw: the test shows nothing")
					}
					if err := c.act(p); err != nil {
						t.Fatal(err)
					}
				}
				if code := p.leaves(); code != c.code {
					t.Errorf("code %d, want %d: %q", code, c.code, p.screen())
				}
				for _, undo := range []string{"\x1b[?1049l", "\x1b[?25h", "\x1b[?1002l", "\x1b[?2004l", "\x1b[<1u", "\x1b[m"} {
					p.sees(undo)
				}
				if p.modes() != before {
					t.Error("the settings are not as before")
				}
			})
		}
	})
}
