package spec_test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey/internal/role"
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
					if err := syscall.Kill(childNamed(t, cmd.Process.Pid, role.Watchdog), syscall.SIGKILL); err != nil {
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
				if strings.Contains(said.String(), "tell watchdog") {
					t.Errorf("its end is said twice: %s", said.String())
				}
			})
		}
	})
}
