package firstproc_test

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/firstproc"
)

// TestImage_IsWhatTheSourceBuilds holds the embedded program to its source:
// built anew it must be the same, byte for byte.
func TestImage_IsWhatTheSourceBuilds(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("no image is embedded for this architecture")
	}
	info, err := buildinfo.Read(strings.NewReader(firstproc.Image))
	if err != nil {
		t.Fatal(err)
	}
	if info.GoVersion != runtime.Version() {
		t.Skipf("the image was built by %s, this is %s: only the same Go builds the same bytes", info.GoVersion, runtime.Version())
	}
	out := filepath.Join(t.TempDir(), "sandboxd")
	if msg, err := exec.CommandContext(t.Context(), "../../tools/firstproc", out).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, msg)
	}
	built, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(built, []byte(firstproc.Image)) {
		t.Fatal("internal/firstproc/image is not what cmd/sandboxd builds: run make gen")
	}
}
