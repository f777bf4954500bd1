package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// TestScratch_IsTheFolderAndNothingElse: one mount, which is the folder that was
// looked at, and nothing of it guarded; no link leads elsewhere.
func TestScratch_IsTheFolderAndNothingElse(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, link := filepath.Join(base, "clone"), filepath.Join(base, "link")
	if err := os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Scratch(dir, "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	if len(ws.Mounts) != 1 || ws.Mounts[0].Source != dir || ws.Mounts[0].Target != "/workspace" || !ws.Mounts[0].Writable || ws.Mounts[0].Is == (bailey.FileID{}) {
		t.Errorf("%+v", ws.Mounts)
	}
	if ws.Seen() != "/workspace" || ws.Path != dir || len(ws.Shadows)+len(ws.Guard.GitDirs) != 0 || ws.Guard.Root != "" {
		t.Errorf("%+v", ws)
	}
	for _, bad := range []string{link, filepath.Join(link, ".git"), filepath.Join(base, "absent"), "relative", base + "/./clone"} {
		if _, err := workspace.Scratch(bad, "/workspace"); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
