package gitdata_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gitdata"
)

// tree makes folders, each with the empty files named.
func tree(tb testing.TB, folders, files int) string {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	for d := range folders {
		sub := filepath.Join(dir, fmt.Sprintf("d%d", d), "e")
		if err := os.MkdirAll(sub, 0o755); err != nil {
			tb.Fatal(err)
		}
		for f := range files {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%d", f)), nil, 0o600); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return dir
}

func TestNested(t *testing.T) {
	t.Parallel()
	dir := tree(t, 2, 3)
	for _, name := range []string{
		".git", "d0/.git", "d1/e/.git", "a/b/c/.git", "a/b/c/d/.git", "node_modules/x/.git", "d0/.git/x/.git",
	} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir+"/file", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/file/.git", []byte("gitdir: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{dir + "/linked", dir + "/file2"} {
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
	}
	got, err := gitdata.Nested(dir, 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d0", "file", "d1/e", "a/b/c"}, got); diff != "" {
		t.Error(diff)
	}
	if got, err := gitdata.Nested(dir, 2); err != nil || len(got) != 2 {
		t.Errorf("with a limit of 2: %v %v", got, err)
	}
}

// BenchmarkNested is of a tree that is larger than what is looked at, and of
// one ten times that: the time must be the same.
func BenchmarkNested(b *testing.B) {
	for _, folders := range []int{50, 500, 5000} {
		b.Run(fmt.Sprint(folders*12), func(b *testing.B) {
			dir := tree(b, folders, 10)
			for b.Loop() {
				if _, err := gitdata.Nested(dir, 16); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
