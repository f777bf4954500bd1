package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// TestOpenBeside_Refuses what no sandbox sees, and with Writable what programs
// of the host act upon; what lies beside them it shows.
func TestOpenBeside_Refuses(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"home/.ssh", "home/.claude", "home/data", "home/.m2/repository", "ws/sub", "own", "kept/skills", "plain"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(base+"/plain", base+"/ws/out"); err != nil {
		t.Fatal(err)
	}
	open := func(name string, writable bool) (*workspace.Beside, error) {
		return workspace.OpenBeside(workspace.Named{
			Name: filepath.Join(base, name), Target: "/mnt/x", Writable: writable, Workspace: base + "/ws", Kept: []string{base + "/kept"},
			Home: base + "/home", Passwd: "/dev/null", Own: []string{base + "/own"},
		})
	}
	for name, shown := range map[string]string{ // "": never, "ro", or "rw"
		"home": "", "": "", "home/.ssh": "", "own": "", "ws/out": "", "none": "",
		"home/.claude": "ro", "home/.m2": "ro", "ws/sub": "ro", "ws": "ro", "kept": "ro", "kept/skills": "ro",
		"home/data": "rw", "home/.m2/repository": "rw", "plain": "rw",
	} {
		for _, writable := range []bool{false, true} {
			b, err := open(name, writable)
			if want := shown == "rw" || shown == "ro" && !writable; (err == nil) != want {
				t.Errorf("%q, writable %v: %v", name, writable, err)
			}
			if err != nil && bailey.KindOf(err) == bailey.Internal {
				t.Errorf("%q: %v", name, err)
			}
			if err == nil && (b.Mounts[0].Writable != writable || b.Mounts[0].Is == (bailey.FileID{}) || !strings.HasPrefix(b.Path, base)) {
				t.Errorf("%q: %+v", name, b)
			}
		}
	}
}
