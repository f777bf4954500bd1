package spec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestCLI_ArgumentsAreBytes holds that a command gets its arguments and
// variables as they were written: a name that is no text must not become that
// of another file.
func TestCLI_ArgumentsAreBytes(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "a\xffb", "")
		y.Write(t, "a\uFFFDb", "")
		y.Run(t, "run", "--quiet", "--", "rm", "a\xffb").OK(t)
		if _, err := os.Lstat(filepath.Join(y.Dir, "a\uFFFDb")); err != nil {
			t.Errorf("another file was removed: %v", err)
		}
		if _, err := os.Lstat(filepath.Join(y.Dir, "a\xffb")); err == nil {
			t.Error("the file that was named is still there")
		}
		r := y.RunWith(t, func(c *exec.Cmd) { c.Env = append(c.Env, "SECOND=\xfd") },
			"run", "--quiet", "--env", "FIRST=\xfe\U0010ff41", "--env", "SECOND", "--", "sh", "-c", `printf %s "$0$FIRST$SECOND"`, "\xff")
		if want := "\xff\xfe\U0010ff41\xfd"; r.Code != 0 || r.Stdout != want {
			t.Errorf("%d %q, want %q: %s", r.Code, r.Stdout, want, r.Stderr)
		}
	})
}

// TestCLI_ManyArguments holds that they cost what they are, not their square.
func TestCLI_ManyArguments(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		const many = 100_000
		args := []string{"run", "--quiet", "--", "sh", "-c", "echo $#"}
		for i := range many {
			args = append(args, strconv.Itoa(i))
		}
		r := y.Run(t, args...)
		if want := strconv.Itoa(many-1) + "\n"; r.Code != 0 || r.Stdout != want {
			t.Errorf("%d %q, want %q: %s", r.Code, r.Stdout, want, r.Stderr)
		}
	})
}
