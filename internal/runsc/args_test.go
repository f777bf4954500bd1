package runsc_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/runsc"
)

// TestMain is also the runtime that waits for its arguments: it prints them,
// and writes to each descriptor that comes with them.
func TestMain(m *testing.M) {
	if os.Args[0] != runsc.WaitArgv0 {
		os.Exit(m.Run())
	}
	args, joins, err := runsc.ReceiveArgs()
	if err != nil {
		os.Exit(3)
	}
	_, _ = os.Stdout.WriteString(strings.Join(args, "|"))
	for _, fd := range joins {
		_, _ = os.NewFile(uintptr(fd), "join").WriteString("joined")
	}
	os.Exit(0)
}

// waiting starts it.
func waiting(t *testing.T) (cmd *exec.Cmd, ours *os.File, out *strings.Builder) {
	t.Helper()
	theirs, ours, err := runsc.ArgsPair()
	if err != nil {
		t.Fatal(err)
	}
	out = &strings.Builder{}
	cmd = exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = []string{runsc.WaitArgv0}
	cmd.Stdout, cmd.ExtraFiles = out, []*os.File{nil, theirs} // ArgsFD is 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	return cmd, ours, out
}

func TestArgs_ArriveWithTheirDescriptors(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd, ours, out := waiting(t)
	want := []string{"runsc", "--net", "none", strings.Repeat("long", 10000)}
	if err := runsc.SendArgs(ours, want, []int{int(w.Fd())}, -1); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	_ = ours.Close()
	if err := cmd.Wait(); err != nil || !slices.Equal(strings.Split(out.String(), "|"), want) {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	b := make([]byte, 10)
	if n, _ := r.Read(b); string(b[:n]) != "joined" {
		t.Errorf("the descriptor got %q", b[:n])
	}
}

// TestArgs_NoneEndIt: who starts it is gone, or has too much to say.
func TestArgs_NoneEndIt(t *testing.T) {
	t.Parallel()
	cmd, ours, _ := waiting(t)
	if err := runsc.SendArgs(ours, []string{strings.Repeat("x", 1<<20)}, nil, -1); err == nil {
		t.Error("arguments without an end were sent")
	}
	_ = ours.Close()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("it went on without arguments: %v", err)
	}
}
