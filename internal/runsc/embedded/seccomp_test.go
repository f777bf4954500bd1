package embedded_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestFilters_AreWhatGVisorCompiles compiles the filters anew.
func TestFilters_AreWhatGVisorCompiles(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("no filters are compiled for this architecture")
	}
	out := filepath.Join(t.TempDir(), "filters.go")
	if msg, err := exec.CommandContext(t.Context(), "../../../tools/filters", out).CombinedOutput(); err != nil {
		t.Fatalf("gen: %v\n%s", err, msg)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("filters_amd64.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatal("filters_amd64.go is not what gVisor compiles: run make gen")
	}
}
