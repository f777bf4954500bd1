package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/cli"
)

// TestMain_SaysThatItCannotPrint: a command whose output is lost fails.
func TestMain_SaysThatItCannotPrint(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"ps"}, {"--help"}, {"run", "--help"}, {"completion", "bash"}, {"man"}} {
		stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		if err != nil {
			t.Fatal(err)
		}
		code := cli.Main(t.Context(), append([]string{"bailey"}, args...), nil, full, stderr)
		_ = stderr.Close()
		said, err := os.ReadFile(stderr.Name())
		if err != nil {
			t.Fatal(err)
		}
		if code != 125 || !strings.Contains(string(said), "no space left") {
			t.Errorf("%q: exit code %d, said %q", args, code, said)
		}
		if out, _, code := bailey(t, args...); code != 0 || out == "" {
			t.Errorf("twin: %q: exit code %d, printed %q", args, code, out)
		}
	}
}

// TestMain_NeedsNoFolder: what has nothing to do with the current folder works
// where there is none; what has names it.
func TestMain_NeedsNoFolder(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"version"}, {"ps"}, {"--help"}} {
		if out, errs, code := bailey(t, args...); code != 0 || out == "" {
			t.Errorf("%q: exit code %d, printed %q, said %q", args, code, out, errs)
		}
	}
	if _, errs, code := bailey(t, "stop", "nobody"); code != 125 || !strings.Contains(errs, "no sandbox named") {
		t.Errorf("stop: exit code %d, said %q", code, errs)
	}
	if _, errs, code := bailey(t, "doctor"); code != 125 || !strings.Contains(errs, "current folder") {
		t.Errorf("doctor: exit code %d, said %q", code, errs)
	}
}
