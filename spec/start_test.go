package spec_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestRolesStartBeforeGVisor holds ADR 0007: a role that is not gVisor's does
// not pay for the initialisation of gVisor's largest packages. The twin is the
// runtime itself, which does.
func TestRolesStartBeforeGVisor(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	const tables = "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
	for _, tc := range []struct {
		argv []string
		late bool
	}{
		{argv: []string{"runsc", "--version"}, late: true},
		{argv: []string{"bailey-watchdog"}},
		{argv: []string{"bailey-helper"}},
		{argv: []string{"/.bailey/bailey", "sandboxd"}},
	} {
		t.Run(tc.argv[0], func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, bin)
			cmd.Args, cmd.Env, cmd.Dir = tc.argv, []string{"GODEBUG=inittrace=1"}, t.TempDir()
			out, _ := cmd.CombinedOutput() // without its descriptors the role ends with an error
			if !strings.Contains(string(out), "init runtime ") {
				t.Fatalf("no trace of the initialisation:\n%s", out)
			}
			if got := strings.Contains(string(out), "init "+tables+" "); got != tc.late {
				t.Errorf("%v: %s initialised: %v, want %v", tc.argv, tables, got, tc.late)
			}
		})
	}
}
