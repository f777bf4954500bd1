package session_test

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// attack is what a terminal must not get, between letters that it must.
const attack = `A\033]52;c;eA==\007B\033]0;title\007C\005D\033[21tE\033[31mF\033[mG`

// TestISO11_EachTerminalIsFiltered: whichever of the standard files are
// terminals, what goes to one is filtered, and what does not is as it was
// written. The two streams do not make a sequence together.
func TestISO11_EachTerminalIsFiltered(t *testing.T) {
	t.Parallel()
	const clean, raw = "ABCDE\x1b[31mF\x1b[mG", "A\x1b]52;c;eA==\aB\x1b]0;title\aC\x05D\x1b[21tE\x1b[31mF\x1b[mG"
	for name, c := range map[string]struct {
		tty                   [3]bool
		script                string
		onTerminal, elsewhere string
	}{
		"stdin is none":   {[3]bool{false, true, true}, "printf '" + attack + "'; printf '" + attack + "' >&2", clean + clean, ""},
		"stdout alone":    {[3]bool{false, true, false}, "printf '" + attack + "'; printf '" + attack + "' >&2", clean, raw},
		"stderr alone":    {[3]bool{false, false, true}, "printf '" + attack + "'; printf '" + attack + "' >&2", clean, raw},
		"stderr is none":  {[3]bool{true, true, false}, "printf '" + attack + "'; printf '" + attack + "' >&2", clean, raw},
		"stdout is none":  {[3]bool{true, false, true}, "printf '" + attack + "'; printf '" + attack + "' >&2", clean, raw},
		"none":            {[3]bool{false, false, false}, "printf '" + attack + "'", "", raw},
		"in two halves":   {[3]bool{false, true, true}, `printf '\033]52;'; sleep 0.2; printf 'c;eA==\007' >&2; sleep 0.2; printf 'x\007y'`, "c;eA==\ay", ""},
		"what it left on": {[3]bool{false, true, false}, `printf '\033[?25l\033[?1049h'`, "\x1b[?25l\x1b[?1049h\x1b[?1049l\x1b[?25h", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tty, other, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer tty.Close()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			end, _ := startSandbox(t)
			cmd := exec.Command("/proc/self/exe", "sh", "-c", c.script)
			cmd.Env = append(os.Environ(), role+"=cli")
			cmd.ExtraFiles = []*os.File{end}
			if c.tty[0] {
				cmd.Stdin = other
			}
			cmd.Stdout, cmd.Stderr = w, w
			if c.tty[1] {
				cmd.Stdout = other
			}
			if c.tty[2] {
				cmd.Stderr = other
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_, _, _ = end.Close(), w.Close(), other.Close()
			shown := make(chan string, 1)
			go func() {
				b, _ := io.ReadAll(tty) // EIO at the end
				shown <- string(b)
			}()
			piped, err := io.ReadAll(r)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if got := <-shown; got != c.onTerminal {
				t.Errorf("the terminal got %q, want %q", got, c.onTerminal)
			}
			if string(piped) != c.elsewhere || err != nil {
				t.Errorf("the pipe got %q, want %q, %v", piped, c.elsewhere, err)
			}
		})
	}
}

// TestRun_LeavesIgnoredSignalsAlone: what the caller of bailey has ignored, as
// nohup does, is nothing to the command. The twin ends by it.
func TestRun_LeavesIgnoredSignalsAlone(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		for shell, want := range map[string]int{"trap '' HUP INT; exec \"$0\" \"$@\"": 7, "exec \"$0\" \"$@\"": 128 + int(s)} {
			in, feed, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			out, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			end, _ := startSandbox(t)
			cmd := exec.Command("sh", "-c", shell, "/proc/self/exe", "sh", "-c", "echo up; read x; exit 7")
			cmd.Args[3] = executable(t)
			cmd.Env = append(os.Environ(), role+"=cli")
			cmd.ExtraFiles, cmd.Stdin, cmd.Stdout = []*os.File{end}, in, w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_, _, _ = end.Close(), w.Close(), in.Close()
			if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if want == 7 { // the signal came before the line
				_, _ = feed.WriteString("go on\n")
			}
			_ = cmd.Wait()
			_, _ = feed.Close(), out.Close()
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("%v, %s: exit code %d, want %d", s, shell, got, want)
			}
		}
	}
}

func executable(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}
