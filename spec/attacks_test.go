package spec_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestAttacks_WatchdogKilled kills the watchdog of a run. The run ends, says
// why, and leaves nothing; its twin, a run that nobody touches, goes on for
// longer than that takes.
func TestAttacks_WatchdogKilled(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, kill := range []bool{true, false} {
			t.Run(fmt.Sprintf("kill=%t", kill), func(t *testing.T) {
				cmd := y.Command(t.Context(), "run", "--", "sh", "-c", "echo up; sleep 3; echo survived")
				var out, said bytes.Buffer
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				cmd.Stderr = &said
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if _, err := stdout.Read(make([]byte, 3)); err != nil {
					t.Fatalf("the command did not start: %v: %s", err, said.String())
				}
				if kill {
					if err := syscall.Kill(childNamed(t, cmd.Process.Pid, "bailey-watchdog"), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
				_, _ = out.ReadFrom(stdout)
				code := 0
				if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok {
					code = exit.ExitCode()
				}
				survived, want := strings.Contains(out.String(), "survived"), 125
				if !kill {
					want = 0
				}
				if survived == kill || code != want || strings.Contains(said.String(), "the watchdog ended") != kill {
					t.Errorf("survived %t, exit code %d, said %s", survived, code, said.String())
				}
			})
		}
	})
}

// childNamed finds a child of a process by the name it was started under.
func childNamed(t *testing.T, parent int, name string) int {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range stats {
			text, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			var pid, ppid int
			var state string
			_, _ = fmt.Sscanf(string(text), "%d", &pid)
			_, after, _ := strings.Cut(string(text), ") ")
			_, _ = fmt.Sscanf(after, "%s %d", &state, &ppid)
			argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if ppid == parent && strings.HasPrefix(string(argv), name) {
				return pid
			}
		}
	}
	t.Fatalf("process %d has no child %s", parent, name)
	return 0
}
