package spec_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestRolesSkipGVisor holds ADR 0007: a role that is not gVisor's does not
// pay for the initialisation of gVisor's packages, apart from the few that
// need less of the standard library than the package that skips the others.
// When another version of Go keeps its list of initialisers in another form
// this test fails, and nothing else does. The twin is gVisor itself, which
// initialises them all.
func TestRolesSkipGVisor(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	const (
		few    = 20
		most   = 100
		tables = "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
	)
	for _, tc := range []struct {
		argv    []string
		runtime bool
	}{
		{argv: []string{"runsc", "--version"}, runtime: true},
		{argv: []string{"/proc/self/exe", "--version"}, runtime: true},
		{argv: []string{"/proc/self/exe", "umount"}},
		{argv: []string{"bailey", "version"}},
		{argv: []string{"bailey-watchdog"}},
		{argv: []string{"bailey-helper"}},
		{argv: []string{"bailey-proxy"}},
		{argv: []string{"/.bailey/bailey", "sandboxd"}},
	} {
		t.Run(strings.Join(tc.argv, " "), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, bin)
			cmd.Args, cmd.Env, cmd.Dir = tc.argv, []string{"GODEBUG=inittrace=1"}, t.TempDir()
			out, _ := cmd.CombinedOutput() // without its descriptors a role ends with an error
			trace := string(out)
			if !strings.Contains(trace, "init runtime ") {
				t.Fatalf("no trace of the initialisation:\n%s", trace)
			}
			n := strings.Count(trace, "init gvisor.dev/gvisor/")
			if got := strings.Contains(trace, "init "+tables+" "); got != tc.runtime {
				t.Errorf("%s initialised: %v, want %v", tables, got, tc.runtime)
			}
			if tc.runtime && n < most || !tc.runtime && n > few {
				t.Errorf("%d packages of gVisor initialised; a role has at most %d, gVisor at least %d", n, few, most)
			}
		})
	}
}
