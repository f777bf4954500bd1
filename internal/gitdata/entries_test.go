package gitdata_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gitdata"
)

// TestParseEntries compares with what the real git lists, and with what the
// file system says of the files.
func TestParseEntries_ListsWhatGitLists(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+" "+version, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				run := func(args ...string) string {
					t.Helper()
					cmd := exec.CommandContext(t.Context(), "git", args...)
					cmd.Dir = dir
					cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
					out, err := cmd.CombinedOutput()
					if err != nil {
						t.Fatalf("git %v: %v\n%s", args, err, out)
					}
					return string(out)
				}
				run("init", "-q", "--object-format="+format)
				for _, name := range []string{"a", "d/b", "d/e/c", "dd/b", "later", "é"} {
					file := filepath.Join(dir, name)
					if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				run("add", "a", "d", "dd", "é")
				run("add", "--intent-to-add", "later")
				run("update-index", "--assume-unchanged", "a")
				run("update-index", "--skip-worktree", "d/b")
				run("update-index", "--index-version="+version)
				data, err := os.ReadFile(filepath.Join(dir, ".git/index"))
				if err != nil {
					t.Fatal(err)
				}
				hash := 20
				if format == "sha256" {
					hash = 32
				}
				entries, _, err := gitdata.ParseEntries(data, hash)
				if err != nil {
					t.Fatal(err)
				}
				var got strings.Builder
				for _, e := range entries {
					fmt.Fprintf(&got, "%o %s %d\t%s\x00", e.Mode, e.ID, e.Stage, e.Path)
					if e.Unchanged != (e.Path == "a") || e.SkipWorktree != (e.Path == "d/b") || e.IntentToAdd != (e.Path == "later") {
						t.Errorf("%+v", e)
					}
					info, err := os.Stat(filepath.Join(dir, e.Path))
					if err != nil {
						t.Fatal(err)
					}
					if !e.IntentToAdd && (!info.ModTime().Equal(e.Modified) || info.Size() != int64(e.Size)) {
						t.Errorf("%+v, the file is of %v", e, info.ModTime())
					}
				}
				if diff := cmp.Diff(run("ls-files", "--stage", "-z"), got.String()); diff != "" {
					t.Errorf("differs from git (-git +bailey):\n%s", diff)
				}
			})
		}
	}
}

func FuzzParseEntries(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00"+strings.Repeat("\x00", 20)), true)
	f.Add([]byte("DIRC\x00\x00\x00\x03\x00\x00\x00\x01"+strings.Repeat("\x40", 120)), false)
	f.Fuzz(func(t *testing.T, data []byte, long bool) {
		hash := 20
		if long {
			hash = 32
		}
		entries, _, err := gitdata.ParseEntries(data, hash)
		_, again := gitdata.ParseIndex(data, hash)
		if (err == nil) != (again == nil) || err != nil && entries != nil {
			t.Errorf("%v, %v", err, again)
		}
	})
}
