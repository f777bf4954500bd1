package spec_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// commonAttack makes the host's git take its configuration, and with it a
// program to run, from a folder of the tree; and leaves a link where git
// writes. $1 is what shows that the program ran.
const commonAttack = `mkdir .cache; cp -r .git/objects .git/refs .git/info .git/index .cache/
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = "touch %s; false"\n' "$1" > .cache/config
echo ../.cache > .git/commondir; ln -s ../../.cache/config .git/logs/link; `

// TestRES02_HoweverItEnds: a sandbox that does not end as its command does,
// but by the end of its first process, from its own command or from another,
// or since its output cannot be written, leaves nothing that the host's git
// takes commands from; and the run says so, its last event as always. The
// twin does the same natively, and git runs its program.
func TestRES02_HoweverItEnds(t *testing.T) {
	t.Attr("claim", "RES-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		repository(t, y, y.Dir)
		mark := filepath.Join(y.Home, "ran")
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		argv := func(flag, then string) []string {
			return []string{"run", flag, "--name", "ends", "--", "sh", "-c", commonAttack + then, "-", mark}
		}
		for name, attack := range map[string]func(flag string) yard.Result{
			"its first process killed": func(flag string) yard.Result { return y.Run(t, argv(flag, "kill -9 1; sleep 5")...) },
			"killed by another command": func(flag string) yard.Result {
				r := y.Start(t, argv(flag, "echo up; sleep 5")...)
				y.Run(t, "exec", "ends", "--", "sh", "-c", "until test -e .git/commondir; do :; done; kill -9 1")
				return r.Wait(t, yard.Timeout)
			},
			"its output lost": func(flag string) yard.Result {
				return y.RunWith(t, func(c *exec.Cmd) { c.Stdout = full }, argv(flag, "echo out; exit 0")...)
			},
			"by itself": func(flag string) yard.Result { return y.Run(t, argv(flag, "exit 3")...) },
		} {
			for _, flag := range []string{"--json", "--memory=4G"} {
				r := attack(flag)
				if r.Code == 0 || !strings.Contains(r.Stderr, y.Dir+"/.git/") {
					t.Errorf("%s: exit code %d, said %s", name, r.Code, r.Stderr)
				}
				for _, made := range []string{"commondir", "logs/link"} {
					if _, err := os.Lstat(filepath.Join(y.Dir, ".git", made)); err == nil {
						t.Errorf("%s: .git/%s is left", name, made)
					}
				}
				if did := useGit(t, y, y.Dir); exists(mark) {
					t.Errorf("%s: git on the host ran the sandbox's program:\n%s", name, did)
				}
				if flag == "--json" {
					list := events(t, r.Stderr)
					if last := list[len(list)-1]; last.Type != "sandbox.exited" || last.ExitCode == nil || *last.ExitCode != r.Code {
						t.Errorf("%s: the last event is %+v, the exit code %d", name, last, r.Code)
					}
				}
				y.Host(t, "rm", "-rf", filepath.Join(y.Dir, ".cache"))
			}
		}
		y.Host(t, "sh", "-c", `cd "$0" && rm -rf .cache && `+commonAttack, y.Dir, mark)
		if did := useGit(t, y, y.Dir); !exists(mark) {
			t.Errorf("the twin: natively the attack has no effect:\n%s", did)
		}
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestISO09_WhoeverReadsItNot: neither a reader that stalls nor a full pipe
// keeps the deadline, the cleaning up or the release of the name.
func TestISO09_WhoeverReadsItNot(t *testing.T) {
	t.Attr("claim", "ISO-09")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		repository(t, y, y.Dir)
		for _, flag := range []string{"--json", "--memory=4G"} {
			t.Run(flag, func(t *testing.T) {
				clean := nothingLeft(t, y)
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				cmd := y.Command(t.Context(), "run", flag, "--name", "stalled", "--timeout", "3s", "--", "sh", "-c",
					"mkdir -p .git/logs/refs/new; ln -s /etc .git/logs/refs/new/link; exec cat /dev/zero >&2")
				cmd.Stderr = w
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				_ = w.Close()
				yard.Eventually(t, yard.Timeout, func() bool { return strings.Contains(y.Run(t, "ps").Stdout, "stalled") },
					func() string { return "the sandbox does not come up" })
				yard.Eventually(t, yard.Timeout, func() bool {
					return !strings.Contains(y.Run(t, "ps").Stdout, "stalled") && !exists(filepath.Join(y.Dir, ".git/logs/refs/new/link"))
				}, func() string { return "it is still there: " + y.Run(t, "ps").Stdout })
				said, err := io.ReadAll(r)
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != 124 || err != nil {
					t.Errorf("exit code %d, %v", code, err)
				}
				if text := string(said); !strings.Contains(text, "the deadline of 3s passed") || !strings.Contains(text, "refs/new/link") {
					t.Errorf("who reads it at last reads %.300q", strings.Trim(text, "\x00"))
				}
				clean()
			})
		}
	})
}

// TestISO11_EachTerminalIsFiltered: what goes to a terminal is filtered though
// the other standard files are none, for run and for exec.
func TestISO11_EachTerminalIsFiltered(t *testing.T) {
	t.Attr("claim", "ISO-11")
	t.Parallel()
	const attack = `printf 'A\033]52;c;eA==\007Z'; printf 'A\033]52;c;eA==\007Z' >&2`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		host := y.Start(t, "run", "-q", "--name", "other", "--", "sh", "-c", "echo up; cat")
		host.Await(t, "up")
		for _, start := range [][]string{{"run", "-q", "--"}, {"run", "--json", "--"}, {"exec", "other", "--"}} {
			for _, which := range [][3]bool{{false, true, true}, {false, true, false}, {false, false, true}, {true, true, false}, {true, false, true}} {
				t.Run(fmt.Sprintf("%s %v", strings.Join(start, " "), which), func(t *testing.T) {
					shown, piped := mixed(t, y.Command(t.Context(), slices.Concat(start, []string{"sh", "-c", attack})...), which)
					if strings.Contains(shown, "\x1b]52") || !strings.Contains(shown, "AZ") {
						t.Errorf("the terminal got %q", shown)
					}
					if both := which[1] && which[2]; !both && !strings.Contains(piped, "A\x1b]52;c;eA==\aZ") {
						t.Errorf("twin: the pipe got %q", piped)
					}
				})
			}
		}
	})
}

// mixed runs a command with a terminal for some of its standard files, and
// pipes for the others. It returns what came out at each.
func mixed(t *testing.T, cmd *exec.Cmd, which [3]bool) (shown, piped string) {
	t.Helper()
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
	cmd.Stdout, cmd.Stderr = w, w
	if which[0] {
		cmd.Stdin = other
	}
	if which[1] {
		cmd.Stdout = other
	}
	if which[2] {
		cmd.Stderr = other
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Close(), other.Close()
	screen := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(tty) // EIO when the last of them is gone
		screen <- string(b)
	}()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return <-screen, string(b)
}

// TestEvents_AreLinesOfTheirOwn: a command that leaves a line open swallows no
// event, and what it forges does not name the sandbox: its id is not known
// inside.
func TestEvents_AreLinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		script := `cat /proc/self/environ /proc/self/cgroup /proc/self/mountinfo /proc/1/cmdline /proc/1/environ /etc/hostname /etc/hosts 2>/dev/null
echo '{"type":"sandbox.exited","sandbox":"sbx_0000000000000000","exit_code":0}' >&2; printf '{"type":"x","message":"' >&2; exit 3`
		r := y.Sh(t, script, "--json").Exit(t, 3)
		var started, last runEvent
		for line := range strings.Lines(r.Stderr) {
			var e runEvent
			if json.Unmarshal([]byte(line), &e) == nil && (started.Sandbox == "" || e.Sandbox == started.Sandbox) {
				if last = e; started.Sandbox == "" {
					started = e
				}
			}
		}
		if started.Type != "sandbox.starting" || last.Type != "sandbox.exited" || last.ExitCode == nil || *last.ExitCode != 3 {
			t.Errorf("first %+v, last %+v in %s", started, last, r.Stderr)
		}
		if id := strings.TrimPrefix(started.Sandbox, "sbx_"); len(id) != 16 || strings.Contains(r.Stdout, id) {
			t.Errorf("the id %q is known inside: %s", id, r.Stdout)
		}
	})
}

// TestStop_OfAHolderThatIsStopped: a sandbox whose bailey was stopped, as by
// Ctrl-Z, is in sight, and who asked it to stop and gave up does not end it
// later.
func TestStop_OfAHolderThatIsStopped(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		r := y.Start(t, "run", "-q", "--name", "asleep", "--", "sh", "-c", "echo up; cat; exit 7")
		r.Await(t, "up")
		pid := r.Cmd.Process.Pid
		signal(t, pid, syscall.SIGSTOP)
		if out := y.Run(t, "ps").OK(t).Stdout; !strings.Contains(out, "asleep") || !strings.Contains(out, "not answering") || !strings.Contains(out, fmt.Sprint(pid)) {
			t.Errorf("ps: %s", out)
		}
		if res := y.Run(t, "stop", "asleep").Exit(t, 125); !strings.Contains(res.Stderr, fmt.Sprintf("kill -CONT %d", pid)) || strings.Contains(res.Stderr, "timeout") {
			t.Errorf("stop: %s", res.Stderr)
		}
		signal(t, pid, syscall.SIGCONT)
		if out := y.Run(t, "ps").OK(t).Stdout; !strings.Contains(out, "running") {
			t.Errorf("ps, when it goes on: %s", out)
		}
		_ = r.Stdin.Close()
		if res := r.Wait(t, yard.Timeout); res.Code != 7 {
			t.Errorf("it ended with %+v", res)
		}
	})
}
