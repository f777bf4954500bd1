package memfd_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/memfd"
)

func TestExecutable_Runs(t *testing.T) {
	t.Parallel()
	image, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	f, err := memfd.Executable("quiet", string(image))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := exec.CommandContext(t.Context(), memfd.Path(f)).Run(); err != nil {
		t.Error(err)
	}
	if _, err := f.WriteString("other"); !errors.Is(err, unix.EPERM) {
		t.Errorf("the program can be changed: %v", err)
	}
}

// A table of 64 descriptors is what a process is born with; a larger one costs
// one with threads a wait.
func TestExecutable_FitsTheTableThatThereIs(t *testing.T) {
	t.Parallel()
	f, err := memfd.Executable("empty", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if fd := f.Fd(); fd < 16 || fd > 63 {
		t.Errorf("descriptor %d: below what a child is given, or beyond the first table", fd)
	}
}
