package userns_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/testkit/tier"
)

// The test's program plays two parts: it gives up capabilities in the way that
// this variable names, then executes itself and says what that one has.
const partVariable = "TEST_USERNS_PART"

func TestMain(m *testing.M) {
	if os.Getenv(partVariable) == "" {
		os.Exit(m.Run())
	}
	var err error
	switch os.Getenv(partVariable) {
	case "tell":
		tell()
		return
	case "all":
		err = userns.DropAll()
	case "keep":
		err = userns.Keep(1 << 5)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{partVariable + "=tell"}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	tell()
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func tell() {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fmt.Println(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "CapPrm") || strings.HasPrefix(line, "CapEff") {
			fmt.Print(strings.ReplaceAll(line, "\t", " "))
		}
	}
}

// TestDrop_ExecAddsNothing: the bounding set stays, and the kernel gives a
// program that root executes all of it, unless no-new-privs is set. The twin
// gives nothing up, and its child has everything.
func TestDrop_ExecAddsNothing(t *testing.T) {
	tier.Root(t)
	program := withoutCgo(t)
	for part, want := range map[string]string{
		"all":  strings.Repeat("CapPrm: 0000000000000000\nCapEff: 0000000000000000\n", 2),
		"keep": strings.Repeat("CapPrm: 0000000000000020\nCapEff: 0000000000000020\n", 2),
	} {
		if got := play(t, program, part); got != want {
			t.Errorf("%s: %q, want %q", part, got, want)
		}
	}
	if got := play(t, program, "nothing"); strings.Contains(got, "0000000000000000") {
		t.Errorf("the twin: %q", got)
	}
}

// withoutCgo builds this test once more: under the race detector it has cgo,
// and a program with that cannot reach all its threads.
func withoutCgo(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "userns.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-vet=off", "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func play(t *testing.T, program, part string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{partVariable + "=" + part}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", part, err, out)
	}
	return string(out)
}
