package spec_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestRolesSkipGVisor holds ADR 0007: a role does not pay for the
// initialisation of packages that it does not reach. When another version of Go
// names initialisers otherwise this test fails, and nothing else does. The twin
// is gVisor itself, which initialises its own, and the command that serves
// planners, which initialises what speaks with them.
func TestRolesSkipGVisor(t *testing.T) {
	t.Parallel()
	bin := yard.Binary(t)
	const (
		most    = 100
		tables  = "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
		line    = "github.com/alecthomas/kong"
		planner = "github.com/google/jsonschema-go/jsonschema"
	)
	for _, tc := range []struct {
		argv                   []string
		gvisor, line, planners bool
	}{
		{argv: []string{"runsc", "--version"}, gvisor: true},
		{argv: []string{"/proc/self/exe", "--version"}, gvisor: true},
		{argv: []string{"/proc/self/exe", "umount"}},
		{argv: []string{"bailey", "version"}, line: true, planners: true},
		{argv: []string{"bailey", "run", "--help"}, line: true},
		{argv: []string{"bailey", "exec", "--help"}, line: true},
		{argv: []string{role.Control}, line: true, planners: true},
		{argv: []string{role.Launcher}, line: true, planners: true},
		{argv: []string{role.Watchdog}},
		{argv: []string{role.Helper}},
		{argv: []string{role.Proxy}},
		{argv: []string{role.Gateway}},
		{argv: []string{role.Key}},
		{argv: []string{role.Git}},
		{argv: []string{role.Signer}},
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
			for pkg, want := range map[string]bool{tables: tc.gvisor, line: tc.line, planner: tc.planners} {
				if got := strings.Contains(trace, "init "+pkg+" "); got != want {
					t.Errorf("%s initialised: %v, want %v", pkg, got, want)
				}
			}
			if n := strings.Count(trace, "init gvisor.dev/gvisor/"); tc.gvisor && n < most || !tc.gvisor && n > 0 {
				t.Errorf("%d packages of gVisor initialised; gVisor has at least %d, another role none", n, most)
			}
		})
	}
}

// TestStart_TablesOfDescriptors holds ADR 0007: gVisor's processes are born
// with a table for all descriptors that they will have, and are not left with
// the descriptors that were there for the start alone. The kernel's table shows
// nothing, for it needs the place in any case; the gofer has few descriptors.
func TestStart_TablesOfDescriptors(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		r := y.Start(t, "run", "--quiet", "--", "sh", "-c", "echo up; exec cat")
		r.Await(t, "up")
		list, err := (posture.Reader{}).Run(r.Cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		const (
			enough  = 256   // gVisor's own descriptors go up to 255
			high    = "200" // makes the table large
			program = "5"   // was the path of gVisor's program
		)
		if n := tableSize(t, find(t, list, posture.Gofer).PID); n < enough {
			t.Errorf("the gofer was born with %d places for descriptors", n)
		}
		for _, role := range []posture.Role{posture.Runsc, posture.Gofer, posture.Sentry} {
			pid := find(t, list, role).PID
			held := descriptors(t, pid)
			if to := held[high]; to != "" && role != posture.Runsc {
				t.Errorf("%s holds descriptor %s: %s", role, high, to)
			}
			for n, to := range held {
				if to == y.Bin && role != posture.Runsc || n == program && to == y.Bin {
					t.Errorf("%s holds bailey's program as descriptor %s", role, n)
				}
			}
		}
		_ = r.Stdin.Close()
		r.Wait(t, yard.Timeout)
	})
}

// TestStart_HugePages holds ADR 0007: the heap of the processes that touch the
// most memory stands on huge pages, where the kernel has them. The twin is the
// helper, whose memory is to stay small.
func TestStart_HugePages(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	r := y.Start(t, "run", "--quiet", "--", "sh", "-c", "echo up; exec cat")
	r.Await(t, "up")
	list, err := (posture.Reader{}).Run(r.Cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[posture.Role]bool{posture.CLI: true, posture.Sentry: true, posture.Gofer: true, posture.Helper: false} {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(find(t, list, role).PID) + "/smaps")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(b), " hg "); got != want {
			t.Errorf("%s has advice for huge pages: %v, want %v", role, got, want)
		}
	}
	_ = r.Stdin.Close()
	r.Wait(t, yard.Timeout)
}

// tableSize is how many descriptors fit without a larger table.
func tableSize(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "FDSize:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no FDSize in status")
	return 0
}

// descriptors are the descriptors of a process and what they lead to.
func descriptors(t *testing.T, pid int) map[string]string {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatalf("descriptors of %d: %d, %v", pid, len(entries), err)
	}
	held := map[string]string{}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			held[e.Name()] = to
		}
	}
	return held
}
