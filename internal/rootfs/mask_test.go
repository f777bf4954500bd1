package rootfs_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/rootfs"
)

// TestMasks_NamesAndBits: what is masked is found by its name among commands
// and by its mode among helpers, and nothing else is.
func TestMasks_NamesAndBits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(path string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("x"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
	}
	put("usr/bin/apt", 0o755)
	put("usr/bin/cat", 0o755)
	put("usr/bin/mount", 0o755|os.ModeSetuid)
	put("usr/bin/wall", 0o755|os.ModeSetgid)
	put("usr/lib/apt", 0o755) // no command
	put("usr/lib/multi/utempter/utempter", 0o755|os.ModeSetgid)
	put("usr/lib/a/b/c/deep", 0o755|os.ModeSetuid)
	put("opt/tool/bin/su", 0o755)
	if err := os.Symlink("../lib/a", filepath.Join(dir, "usr/bin/sudo")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "usr/local/bin/yum"), 0o755); err != nil { // a folder
		t.Fatal(err)
	}
	mounts := []bailey.Mount{{Source: "/usr", Target: "/usr"}}
	want := []string{"/usr/bin/apt", "/usr/bin/mount", "/usr/bin/sudo", "/usr/bin/wall", "/usr/lib/multi/utempter/utempter"}
	if got := rootfs.Masks(dir, mounts); !slices.Equal(got, want) {
		t.Errorf("masked %q, want %q", got, want)
	}
	all := []string{"/usr/bin/mount", "/usr/bin/wall", "/usr/lib/a/b/c/deep", "/usr/lib/multi/utempter/utempter"}
	if got := rootfs.SetIDs(dir); !slices.Equal(got, all) {
		t.Errorf("there are %q, want %q", got, all)
	}
	if got := rootfs.Masks(dir, nil); len(got) != 0 { // nothing is shown, so nothing need be covered
		t.Errorf("masked %q without a mount", got)
	}
}
