package launcher_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
)

// TestClaim: one holds it, and whoever comes second is told which process.
func TestClaim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if pid, err := launcher.Holder(dir); pid != 0 || err != nil {
		t.Errorf("before anybody has it: %d, %v", pid, err)
	}
	f, err := launcher.Claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := launcher.Holder(dir); pid != os.Getpid() || err != nil {
		t.Errorf("held by %d, %v", pid, err)
	}
	if _, err := launcher.Claim(dir); bailey.KindOf(err) != bailey.Conflict || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("a second: %v", err)
	}
	_ = f.Close()
	if err := launcher.AwaitEnd(t.Context(), dir); err != nil {
		t.Error(err)
	}
	f, err = launcher.Claim(dir)
	if err != nil {
		t.Errorf("twin: after the first: %v", err)
	}
	_ = f.Close()
}
