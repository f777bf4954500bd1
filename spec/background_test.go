package spec_test

import (
	stdcontext "context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// background starts a command in the background, without a terminal, and stops
// it at the end of the test.
func background(t *testing.T, y *yard.Yard, name, script string, flags ...string) {
	t.Helper()
	args := append(append([]string{"run", "--detach", "--quiet", "--name", name}, flags...), "--", "sh", "-c", script)
	if out := y.Run(t, args...).OK(t).Stdout; out != name+"\n" {
		t.Errorf("it printed %q", out)
	}
	t.Cleanup(func() { stopName(y, name) })
}

// stopName stops a sandbox if it is there. It works also when a test is over.
func stopName(y *yard.Yard, name string) {
	cmd := y.Command(stdcontext.Background(), "stop", name)
	_ = cmd.Run()
}

// seat starts a command in the background that has a terminal, and leaves it.
func seat(t *testing.T, y *yard.Yard, name, script string, flags ...string) {
	t.Helper()
	args := append(append([]string{"run", "--detach", "--quiet", "--name", name}, flags...), "--", "bash", "-c", script)
	p := sit(t, y, args...)
	if code := p.leaves(); code != 0 {
		t.Fatalf("code %d: %q", code, p.screen())
	}
	t.Cleanup(func() { stopName(y, name) })
}

func resize(t *testing.T, p *person, rows, cols uint16) {
	t.Helper()
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		t.Fatal(err)
	}
}

// holderOf returns the pid of the bailey that holds a sandbox.
func holderOf(t *testing.T, y *yard.Yard, name string) int {
	t.Helper()
	var rows []struct {
		Name     string
		PID      int
		Detached bool
		Attached int
	}
	if err := json.Unmarshal([]byte(y.Run(t, "ps", "--json").OK(t).Stdout), &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Name == name {
			return r.PID
		}
	}
	t.Fatalf("no %s in %v", name, rows)
	return 0
}

func attachedTo(t *testing.T, y *yard.Yard, name string, n int) {
	t.Helper()
	want := fmt.Sprintf("%d attached", n)
	if n == 0 {
		want = "running, detached"
	}
	yard.Eventually(t, yard.Timeout, func() bool { return strings.Contains(y.Run(t, "ps").Stdout, want) },
		func() string { return name + ": " + y.Run(t, "ps").Stdout })
}

func TestBackground_WithoutATerminal(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		clean := nothingLeft(t, y)
		background(t, y, "bg", `echo one; echo bad >&2; read x; echo "[$x]"; until [ -e go ]; do sleep 0.05; done; echo two; printf open; exit 7`)
		if out := y.Run(t, "ps").OK(t).Stdout; !strings.Contains(out, "running, detached") {
			t.Errorf("ps: %s", out)
		}
		yard.Eventually(t, yard.Timeout, func() bool { return y.Run(t, "logs", "bg").Stdout == "one\n[]\n" },
			func() string { return y.Run(t, "logs", "bg").Stdout })
		follow := y.Start(t, "logs", "-f", "bg")
		att := y.Start(t, "attach", "bg")
		attachedTo(t, y, "bg", 1)
		y.Write(t, "go", "")
		if res := att.Wait(t, yard.Timeout); res.Code != 7 || res.Stdout != "two\nopen" {
			t.Errorf("attach: %+v", res)
		}
		if res := follow.Wait(t, yard.Timeout); res.Code != 0 || res.Stdout != "one\n[]\ntwo\nopen\n" || res.Stderr != "bad\n" {
			t.Errorf("logs -f: %+v", res)
		}
		clean()
		if res := y.Run(t, "logs", "--tail", "2", "bg").OK(t); res.Stdout != "two\nopen\n" {
			t.Errorf("afterwards: %+v", res)
		}
		if res := y.Run(t, "logs", "--raw", "bg").OK(t); res.Stdout != "one\n[]\ntwo\nopen" || res.Stderr != "bad\n" {
			t.Errorf("raw: %+v", res)
		}
		if res := y.Run(t, "logs", "--since", "1ms", "bg").OK(t); res.Stdout != "" {
			t.Errorf("since: %+v", res)
		}
		if res := y.Run(t, "logs", "--since", "1h", "--json", "bg").OK(t); !strings.Contains(res.Stdout, `"stream":"stderr","text":"bad\n"`) {
			t.Errorf("json: %+v", res)
		}
		if res := y.Run(t, "attach", "bg").Exit(t, 125); !strings.Contains(res.Stderr, `sandbox "bg" has ended, with exit code 7`) || !strings.Contains(res.Stderr, "hint: bailey logs bg") {
			t.Errorf("attach to what has ended: %+v", res)
		}
		for _, args := range [][]string{{"stop", "bg"}, {"exec", "bg", "--", "true"}, {"shell", "bg"}} {
			if res := y.Run(t, args...).Exit(t, 125); !strings.Contains(res.Stderr, `sandbox "bg" has ended, with exit code 7`) {
				t.Errorf("%v of what has ended: %s", args, res.Stderr)
			}
		}
	})
}

// TestBackground_EndsAreKnown asks how a sandbox ended: while it runs,
// afterwards, and of one whose holder was killed. Twins: one that was never
// there, and one in the foreground.
func TestBackground_EndsAreKnown(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		background(t, y, "three", "sleep 1; exit 3")
		if out := y.Run(t, "wait", "three").OK(t).Stdout; out != "3\n" {
			t.Errorf("while it ran: %q", out)
		}
		held := y.Start(t, "run", "--quiet", "--name", "three", "--", "sh", "-c", "echo up; exec cat") // newer, and not in the background
		held.Await(t, "up")
		if r := y.Run(t, "wait", "three"); r.Code != 125 || r.Stdout != "" || !strings.Contains(r.Stderr, "is not in the background") {
			t.Errorf("%+v", r)
		}
		_ = held.Cmd.Process.Signal(syscall.SIGTERM)
		_ = held.Wait(t, yard.Timeout)
		if out := y.Run(t, "wait", "three", "three").OK(t).Stdout; out != "3\n3\n" {
			t.Errorf("afterwards: %q", out)
		}
		for _, args := range [][]string{{"cp", "x", "three:"}, {"cp", "three:x", "."}, {"stats", "--no-stream", "three"}, {"net", "why", "--sandbox", "three", "example.com"}, {"net", "allow", "--sandbox", "three", "example.com"}, {"stop", "three"}, {"exec", "three", "true"}, {"doctor", "--live", "three"}} {
			if r := y.Run(t, args...); r.Code == 0 || !strings.Contains(r.Stderr, "has ended, with exit code 3") {
				t.Errorf("%v: %+v", args, r)
			}
		}
		background(t, y, "killed", "sleep 60")
		if err := syscall.Kill(holderOf(t, y, "killed"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if r := y.Run(t, "wait", "killed", "nobody", "three"); r.Code != 125 || r.Stdout != "3\n" || !strings.Contains(r.Stderr, "its bailey was killed") || !strings.Contains(r.Stderr, `no sandbox named "nobody"`) {
			t.Errorf("%d, %q, %q", r.Code, r.Stdout, r.Stderr)
		}
		var rows []struct {
			Name, Status string
			ExitCode     *int `json:"exit_code"`
		}
		if err := json.Unmarshal([]byte(y.Run(t, "ps", "--all", "--json").OK(t).Stdout), &rows); err != nil {
			t.Fatal(err)
		}
		if len(rows) != 2 || rows[0].Name != "killed" || rows[0].Status != "lost" || rows[0].ExitCode != nil || rows[1].Status != "exited" || rows[1].ExitCode == nil || *rows[1].ExitCode != 3 {
			t.Errorf("%+v", rows)
		}
		if out := y.Run(t, "ps", "--all").OK(t).Stdout; !strings.Contains(out, "exited (3)") || !strings.Contains(out, "lost") {
			t.Errorf("%s", out)
		}
		if out := y.Run(t, "ps").OK(t).Stdout; strings.Contains(out, "three") {
			t.Errorf("among those that run: %s", out)
		}
		if out := y.Run(t, "logs"); out.Code != 0 { // the last of this folder
			t.Errorf("%+v", out)
		}
	})
}

// TestBackground_NothingHalf: what cannot begin is told to who started it, with
// the exit code of a run in the foreground, and leaves nothing.
func TestBackground_NothingHalf(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		clean := nothingLeft(t, y)
		for _, c := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"--", "no-such-command"}, 127, "no-such-command"},
			{[]string{"--", "/etc/passwd"}, 126, "/etc/passwd"},
			{[]string{"--memory", "1", "--", "true"}, 125, "--memory: 1 is too little"},
			{[]string{"--env", "NOT_SET", "--", "true"}, 125, "NOT_SET"},
			{[]string{"--detach-keys", "ctrl-", "--", "true"}, 125, "--detach-keys"},
			{[]string{"--detachable", "--", "true"}, 125, "give one"},
		} {
			if res := y.Run(t, append([]string{"run", "--detach"}, c.args...)...); res.Code != c.code || !strings.Contains(res.Stderr, c.says) || strings.Contains(res.Stderr, "in the background") || res.Stdout != "" {
				t.Errorf("%v: %+v", c.args, res)
			}
		}
		background(t, y, "taken", "sleep 60")
		if res := y.Run(t, "run", "--detach", "--name", "taken", "--", "true").Exit(t, 125); !strings.Contains(res.Stderr, `a sandbox named "taken" is running`) {
			t.Errorf("a name twice: %+v", res)
		}
		if kept, _ := filepath.Glob(filepath.Join(y.Home, ".local/state/bailey/logs/*")); len(kept) != 1 {
			t.Errorf("kept: %v", kept)
		}
		y.Run(t, "stop", "taken").OK(t)
		if res := y.Run(t, "run", "--detach", "--name", "told", "--", "true").OK(t); !strings.Contains(res.Stderr, "in the background: bailey attach told, bailey logs told") {
			t.Errorf("twin: what runs: %+v", res)
		}
		y.Run(t, "wait", "told").OK(t)
		clean()
		for _, args := range [][]string{{"run", "--log-size", "1M", "--", "true"}, {"logs", "nobody"}, {"attach", "nobody"}, {"shell", "nobody"}, {"shell"}, {"logs", "--tail", "-1", "taken"}, {"logs", "--since", "noon", "taken"}} {
			if res := y.Run(t, args...).Exit(t, 125); !strings.Contains(res.Stderr, "hint: ") {
				t.Errorf("%v: no advice: %s", args, res.Stderr)
			}
		}
		// One whose starter goes away before it begins does not begin.
		go func() {
			cmd := y.Command(stdcontext.Background(), "run", "--detach", "--name", "orphan", "--", "sleep", "60")
			if cmd.Start() == nil {
				time.Sleep(30 * time.Millisecond)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}()
		time.Sleep(time.Second)
		if strings.Contains(y.Run(t, "ps").Stdout, "orphan") { // its start was quicker
			y.Run(t, "stop", "orphan")
		}
		clean()
	})
}

// TestAttach_SizeAndKeys has rows A1 and A2 for a command that is attached to.
func TestAttach_SizeAndKeys(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		const sizes = `stty size; trap 'stty size' WINCH; echo ready; while :; do if read -rt 0.5 x; then x=$l$x l=; [ "$x" = end ] && exit 9; echo "got <$x>"; else l=$l$x; fi; done`
		t.Run("A2: started detached", func(t *testing.T) {
			seat(t, y, "a2", sizes)
			p := sit(t, y, "attach", "a2").sees("40 120\r\nready")
			before := p.modes()
			resize(t, p, 50, 200)
			p.sees("50 200")
			p.types("hello\r").sees("got <hello>").types("end\r")
			if code := p.leaves(); code != 9 {
				t.Errorf("code %d: %q", code, p.screen())
			}
			if p.modes() == before {
				t.Error("the terminal was not raw while attached: the test shows nothing")
			}
		})
		t.Run("detachable from the start", func(t *testing.T) {
			p := sit(t, y, "run", "--detachable", "--quiet", "--name", "a1", "--", "bash", "-c", sizes)
			t.Cleanup(func() { stopName(y, "a1") })
			before := p.modes()
			p.sees("40 120\r\nready").types("\x10\x11")
			if code := p.sees("sandbox a1 goes on; bailey attach a1").leaves(); code != 0 {
				t.Errorf("code %d: %q", code, p.screen())
			}
			if p.modes() != before {
				t.Error("the settings are not as before")
			}
			attachedTo(t, y, "a1", 0)
			if code := sit(t, y, "attach", "a1").sees("ready").types("end\r").leaves(); code != 9 {
				t.Error(code)
			}
		})
		t.Run("keys", func(t *testing.T) {
			seat(t, y, "keys", `stty raw -echo; echo up; exec cat -v`)
			for keys, want := range map[string]string{
				"\x10x":        "^Px", // the first of the two, and another
				"\x10\x10y":    "^P^Py",
				"\x1b[112;5uz": "^[[112;5uz",
				"\x1b[Aq":      "^[[Aq",
				"\x10":         "^P", // by itself, after a moment
			} {
				p := sit(t, y, "attach", "keys").sees("up").types(keys)
				p.sees(want)
				p.types("\x10\x11")
				if code := p.leaves(); code != 0 {
					t.Errorf("%q: code %d", keys, code)
				}
			}
			for _, keys := range []string{"\x1b[112;5u\x1b[113;5u", "\x1b[112;5u\x1b[112;5:3u\x1b[113;5u", "\x1b[27;5;112~\x1b[27;5;113~"} {
				if code := sit(t, y, "attach", "keys").sees("up").types(keys).leaves(); code != 0 {
					t.Errorf("%q: code %d", keys, code)
				}
			}
			if code := sit(t, y, "attach", "--detach-keys", "ctrl-a,d", "keys").sees("up").types("\x01d").leaves(); code != 0 {
				t.Error(code)
			}
			p := sit(t, y, "attach", "--detach-keys", "none", "keys").sees("up").types("\x10\x11")
			p.sees("^P^Q") // twin: without keys they are the command's
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			if code := p.leaves(); code != 0 {
				t.Errorf("SIGTERM: code %d", code)
			}
			attachedTo(t, y, "keys", 0)
		})
	})
}

// TestAttach_Several: one writes and three look; the smallest size holds.
func TestAttach_Several(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		seat(t, y, "several", `exec python3 -c '
import fcntl, os, signal, struct, sys, termios
def size(*_):
    rows, cols = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, b"12345678"))[:2]
    os.write(1, b"%d %d\n" % (rows, cols))
signal.signal(signal.SIGWINCH, size)
os.write(1, b"ready\n")
for line in iter(sys.stdin.readline, "end\n"):
    os.write(1, b"got <%s>\n" % line.strip().encode())
sys.exit(3)
'`)
		var all []*person
		for range 3 {
			all = append(all, sit(t, y, "attach", "several").sees("ready"))
		}
		looks := sit(t, y, "attach", "--no-stdin", "several").sees("ready")
		attachedTo(t, y, "several", 4)
		for i, p := range all {
			p.types(fmt.Sprintf("from %d\r", i))
			for _, q := range append(all, looks) {
				q.sees(fmt.Sprintf("got <from %d>", i))
			}
		}
		looks.types("not this\r")
		resize(t, all[0], 30, 100)
		all[2].sees("30 100")
		resize(t, all[1], 20, 150)
		all[2].sees("20 100")
		all[1].types("\x10\x11").leaves()
		all[2].sees("30 100\r\n")
		all[0].types("end\r")
		for _, p := range []*person{all[0], all[2], looks} {
			if code := p.leaves(); code != 3 {
				t.Errorf("code %d: %q", code, p.screen())
			}
		}
		if strings.Contains(y.Run(t, "logs", "several").Stdout, "not this") {
			t.Error("what was typed with --no-stdin came in")
		}
	})
}

// TestAttach_PaintsTheScreenAgain looks at what one sees that comes later.
func TestAttach_PaintsTheScreenAgain(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		const full = `exec python3 -c '
import fcntl, os, signal, struct, termios, tty
os.write(1, b"\033[?1049h\033[?25l\033[?1002h\033[?2004h\033[>1u\033[31m")
tty.setraw(0)
def paint(*_):
    rows, cols = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, b"12345678"))[:2]
    os.write(1, b"\033[Hpainted %d %d" % (rows, cols))
signal.signal(signal.SIGWINCH, paint)
os.write(1, b"up\n")
while os.read(0, 1): pass
'`
		seat(t, y, "full", full)
		yard.Eventually(t, yard.Timeout, func() bool { return strings.Contains(y.Run(t, "logs", "full").Stdout, "up") }, func() string { return "" })
		for range 2 {
			p := sit(t, y, "attach", "full")
			before := p.modes()
			// The size is the one that it had: it is told of another for a moment.
			p.sees("\x1b[?1049h").sees("painted 40 120")
			for _, on := range []string{"\x1b[?25l", "\x1b[?1002h", "\x1b[?2004h", "\x1b[>1u"} {
				p.sees(on)
			}
			p.types("\x10\x11")
			if code := p.leaves(); code != 0 {
				t.Fatalf("code %d: %q", code, p.screen())
			}
			for _, undo := range []string{"\x1b[?1049l", "\x1b[?25h", "\x1b[?1002l", "\x1b[?2004l", "\x1b[<1u"} { // row A10
				p.sees(undo)
			}
			if p.modes() != before {
				t.Error("the settings are not as before")
			}
		}
	})
}

// TestAttach_EndsOfWhoIsAttached: rows A6 and A10. Whatever happens to them, the
// command goes on, and their terminal is as it was.
func TestAttach_EndsOfWhoIsAttached(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		seat(t, y, "lasts", `printf '\033[?2004h'; stty -echo; echo up; while read -r x; do echo "got <$x>"; done`)
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
			p := sit(t, y, "attach", "lasts")
			before := p.modes()
			p.sees("up")
			attachedTo(t, y, "lasts", 1)
			if err := p.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if code := p.leaves(); code != 0 || p.modes() != before {
				t.Errorf("%v: code %d", s, code)
			}
			p.sees("\x1b[?2004l")
		}
		killed := sit(t, y, "attach", "lasts").sees("up")
		_ = killed.cmd.Process.Kill()
		gone := sit(t, y, "attach", "lasts").sees("up")
		if err := unix.IoctlSetInt(int(gone.other.Fd()), unix.TIOCVHANGUP, 0); err != nil { // the terminal's window is closed
			t.Fatal(err)
		}
		attachedTo(t, y, "lasts", 0)
		sit(t, y, "attach", "lasts").sees("up").types("still there\r").sees("got <still there>")
		y.Run(t, "stop", "lasts").OK(t)
	})
}

// TestAttach_StuckReader: one that is attached and reads nothing holds up
// neither the command, nor the others, nor the end.
func TestAttach_StuckReader(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		const much = `until [ -e go ]; do sleep 0.05; done; i=0; while [ $i -lt 3000 ]; do printf '%01000d\n' $i; i=$((i+1)); done; echo done; until [ -e end ]; do sleep 0.05; done; exit 4`
		for _, tty := range []bool{true, false} {
			name := fmt.Sprintf("stuck-%v", tty)
			_ = os.Remove(filepath.Join(y.Dir, "go"))
			_ = os.Remove(filepath.Join(y.Dir, "end"))
			if tty {
				seat(t, y, name, much)
			} else {
				background(t, y, name, much)
			}
			stuck := sit(t, y, "attach", name)
			reads := sit(t, y, "attach", name)
			attachedTo(t, y, name, 2)
			if err := stuck.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			y.Write(t, "go", "")
			reads.sees("done")
			if tty { // it is painted anew when it reads again
				_ = stuck.cmd.Process.Signal(syscall.SIGCONT)
				stuck.sees("bytes of output are left out here").sees("done")
				_ = stuck.cmd.Process.Signal(syscall.SIGSTOP)
			}
			y.Write(t, "end", "")
			began := time.Now()
			if code := reads.leaves(); code != 4 || time.Since(began) > 10*time.Second {
				t.Errorf("code %d after %v", code, time.Since(began))
			}
			yard.Eventually(t, 10*time.Second, func() bool { return !strings.Contains(y.Run(t, "ps").Stdout, name) }, func() string { return "it goes on" })
			_ = stuck.cmd.Process.Signal(syscall.SIGCONT)
			if code := stuck.leaves(); code != 4 {
				t.Errorf("the stuck one: code %d", code)
			}
		}
	})
}

// TestBackground_KillOfTheHolder leaves nothing but the log, and says so.
func TestBackground_KillOfTheHolder(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		clean := nothingLeft(t, y)
		seat(t, y, "kill", `sleep 300 & echo up; read x`)
		p := sit(t, y, "attach", "kill")
		before := p.modes()
		p.sees("up")
		signal(t, holderOf(t, y, "kill"), syscall.SIGKILL)
		if code := p.sees("was killed").leaves(); code != 125 || p.modes() != before {
			t.Errorf("code %d: %q", code, p.screen())
		}
		clean()
		if out := y.Run(t, "logs", "-f", "kill").OK(t).Stdout; !strings.Contains(out, "up") {
			t.Errorf("logs: %q", out)
		}
		background(t, y, "term", `trap 'echo told; exit 5' TERM; echo up; while :; do sleep 0.05; done`)
		signal(t, holderOf(t, y, "term"), syscall.SIGTERM)
		yard.Eventually(t, 10*time.Second, func() bool { return strings.Contains(y.Run(t, "logs", "term").Stdout, "told") }, func() string { return y.Run(t, "logs", "term").Stdout })
		clean()
	})
}

// TestISO11_LogsAndAttach: what a command in the background writes can drive
// neither the terminal of who attaches nor of who reads its log.
func TestISO11_LogsAndAttach(t *testing.T) {
	t.Attr("claim", "ISO-11")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		attacks := []string{`\033]52;c;eA==\007`, `\033]0;evil\007`, `\033[21t`, `\005`, `\033P$qm\033\\`, `\033]1337;File=name=eA==:AAAA\007`, `\033_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\033\\`, `\302\23552;c;eA==\007`, `\033[5i`}
		seat(t, y, "evil", `printf 'A`+strings.Join(attacks, "B")+`Z\n'; read x; printf 'A`+strings.Join(attacks, "B")+`Y\n'; read x`)
		p := sit(t, y, "attach", "evil").sees("Z").types("\r").sees("Y")
		for _, bad := range []string{"\x1b]52", "\x1b]0;", "\x1b[21t", "\x05", "\x1bP", "\x1b]1337", "\x1b_", "\u009d", "\x1b[5i"} {
			if strings.Contains(p.screen(), bad) {
				t.Errorf("attached: %q of %q", bad, p.screen())
			}
		}
		log := sit(t, y, "logs", "evil").sees("Z")
		if log.leaves(); strings.ContainsAny(log.screen(), "\x1b\x05\a\u009d") {
			t.Errorf("logs: %q", log.screen())
		}
		if out := y.Run(t, "logs", "--json", "evil").OK(t).Stdout; strings.ContainsAny(out, "\x1b\x05\a\u009d") {
			t.Errorf("as JSON: %q", out)
		}
		raw := sit(t, y, "logs", "--raw", "evil")
		if code := raw.leaves(); code != 125 || strings.Contains(raw.screen(), "AB") {
			t.Errorf("raw to a terminal: %d %q", code, raw.screen())
		}
		// Twin: the log has them.
		if out := y.Run(t, "logs", "--raw", "evil").OK(t).Stdout; !strings.Contains(out, "\x1b]52;c;eA==\a") || !strings.Contains(out, "\x05") {
			t.Errorf("the log lacks them: %q", out)
		}
	})
}

// TestLogs_AreBounded is row A9.
func TestLogs_AreBounded(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		const limit = 1 << 20
		for more, missing := range map[string]bool{"": false, "x": true} {
			name := "bounded" + more
			background(t, y, name, fmt.Sprintf(`head -c %d /dev/zero | tr '\0' a; printf '%s'`, limit, more), "--log-size", "1M")
			yard.Eventually(t, yard.Timeout, func() bool { return !strings.Contains(y.Run(t, "ps").Stdout, name) }, func() string { return "it goes on" })
			res := y.Run(t, "logs", "--raw", name).OK(t)
			skipped := 0
			if res.Stderr != "" {
				if _, err := fmt.Sscanf(res.Stderr, "bailey: the %d bytes before this are not kept", &skipped); err != nil {
					t.Errorf("%q", res.Stderr)
				}
			}
			if skipped > 0 != missing || skipped+len(res.Stdout) != limit+len(more) || len(res.Stdout) > limit {
				t.Errorf("%q: %d kept, %d missing", more, len(res.Stdout), skipped)
			}
			if as := y.Run(t, "logs", "--json", name).OK(t).Stdout; strings.Contains(as, fmt.Sprintf(`{"bytes":%d,"type":"truncated"}`, skipped)) != missing {
				t.Error("the flag of the JSON form is another")
			}
		}
	})
}

// TestShell opens shells beside a command in the foreground.
func TestShell(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		r := y.Start(t, "run", "-q", "--name", "shelled", "--", "sh", "-c", "echo up; cat")
		r.Await(t, "up")
		y.Write(t, "sub/file", "x")
		in := func(dir, own string) func(*exec.Cmd) {
			return func(c *exec.Cmd) {
				c.Dir, c.Env = filepath.Join(y.Dir, dir), append(c.Env, "SHELL="+own)
				c.Stdin = strings.NewReader("pwd; echo $BAILEY_SANDBOX $0; exit 6\n")
			}
		}
		for own, want := range map[string]string{"": "/bin/bash", "/bin/sh": "/bin/sh", "/usr/sbin/nologin": "/bin/bash", "/no/such": "/bin/bash", "bash": "/bin/bash"} {
			if res := y.RunWith(t, in("sub", own), "shell").Exit(t, 6); res.Stdout != filepath.Join(y.Dir, "sub")+"\nshelled "+want+"\n" {
				t.Errorf("SHELL=%s: %+v", own, res)
			}
		}
		if res := y.RunWith(t, func(c *exec.Cmd) { in("sub", "")(c); c.Dir = "/" }, "shell", "shelled").Exit(t, 6); !strings.HasPrefix(res.Stdout, y.Dir+"\n") {
			t.Errorf("from elsewhere: %+v", res)
		}
		if res := y.RunWith(t, func(c *exec.Cmd) { c.Dir = "/" }, "shell").Exit(t, 125); !strings.Contains(res.Stderr, "shelled (sh -c") {
			t.Errorf("no list to choose from: %s", res.Stderr)
		}
		var all []*person
		for range 3 {
			all = append(all, sit(t, y, "shell").sees("$ "))
		}
		for i, p := range all {
			p.types(fmt.Sprintf("stty size; echo sh''ell %d; exit %d\r", i, i)).sees("40 120").sees(fmt.Sprintf("shell %d", i))
			if code := p.leaves(); code != i {
				t.Errorf("code %d of %d", code, i)
			}
		}
		if res := y.Run(t, "attach", "shelled").Exit(t, 125); !strings.Contains(res.Stderr, "bailey shell shelled") {
			t.Errorf("attach to one in the foreground: %s", res.Stderr)
		}
		background(t, y, "second", "sleep 60")
		if res := y.Run(t, "shell").Exit(t, 125); !strings.Contains(res.Stderr, "second (sleep 60)") && !strings.Contains(res.Stderr, "second (sh -c") {
			t.Errorf("two: %s", res.Stderr)
		}
		y.Run(t, "stop", "second").OK(t)
		_ = r.Stdin.Close()
		r.Wait(t, yard.Timeout).OK(t)
	})
}
