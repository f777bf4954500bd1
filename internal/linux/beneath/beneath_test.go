package beneath_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

func yard(t *testing.T) (string, *os.File) {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := beneath.Dir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return path, dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestReadFile_FollowsNoLink(t *testing.T) {
	t.Parallel()
	path, dir := yard(t)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "s")
	write(t, path+"/a/file", "text")
	for name, target := range map[string]string{"link": secret, "a/inner": "file", "up": "..", "dir": "a"} {
		if err := os.Symlink(target, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(path+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	got, info, err := beneath.ReadFile(dir, "a/file", 4)
	if err != nil || string(got) != "text" || info.Size != 4 || info.Born.IsZero() || time.Since(info.Changed) > time.Minute {
		t.Errorf("plain file: %q %+v %v", got, info, err)
	}
	for _, rel := range []string{"link", "a/inner", "dir/file", "up/x", "../x", "pipe", "a", "a/../../x", "/etc/hostname", secret} {
		if _, _, err := beneath.ReadFile(dir, rel, 100); err == nil {
			t.Errorf("%s was read", rel)
		}
	}
	if _, _, err := beneath.ReadFile(dir, "a/file", 3); !errors.Is(err, beneath.ErrStrange) {
		t.Errorf("too long a file: %v", err)
	}
	if info, err := beneath.Lstat(dir, "link"); err != nil || info.Mode.Type() != fs.ModeSymlink {
		t.Errorf("a link is described as %v, %v", info.Mode, err)
	}
	if _, err := beneath.Dir(path + "/dir"); err == nil {
		t.Error("a linked folder was opened")
	}
}

func TestHead_FollowsNoLinkAndWaitsForNothing(t *testing.T) {
	t.Parallel()
	path, _ := yard(t)
	write(t, path+"/a/file", "text")
	for name, target := range map[string]string{"link": "a/file", "dir": "a"} {
		if err := os.Symlink(target, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(path+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{0: "", 2: "te", 4: "text", 9: "text"} {
		if got, info, err := beneath.Head(path+"/a/file", limit); err != nil || string(got) != want || info.Size != 4 {
			t.Errorf("%d bytes: %q %+v %v", limit, got, info, err)
		}
	}
	for _, name := range []string{"/link", "/dir/file", "/pipe", "/a", "/gone"} {
		if _, _, err := beneath.Head(path+name, 9); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if _, _, err := beneath.Head("a/file", 9); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a relative path: %v", err)
	}
}

func TestReadDir_IsSortedAndBounded(t *testing.T) {
	t.Parallel()
	path, dir := yard(t)
	for _, name := range []string{"c", "a", "b/x"} {
		write(t, filepath.Join(path, name), "")
	}
	got, err := beneath.ReadDir(dir, "", 3)
	if diff := cmp.Diff([]beneath.Entry{{Name: "a"}, {Name: "b", Type: fs.ModeDir}, {Name: "c"}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := beneath.ReadDir(dir, "", 2); !errors.Is(err, beneath.ErrStrange) {
		t.Errorf("three entries of two: %v", err)
	}
}

func TestRemove_TakesAnyTreeAndNothingElse(t *testing.T) {
	t.Parallel()
	path, dir := yard(t)
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside+"/kept", "x")
	deep := path + "/hooks"
	for range 60 {
		deep += "/" + strings.Repeat("d", 50)
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path+"/hooks/one/two/three/file", "x")
	write(t, path+"/hooks/one/two/four/file", "x")
	write(t, path+"/kept", "x")
	for _, name := range []string{"hooks/link", "hooks/one/two/link"} {
		if err := os.Symlink(outside, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"hooks/one/two/three", "hooks/one/two", "hooks/one"} {
		if err := os.Chmod(filepath.Join(path, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := beneath.Remove(dir, "hooks", 10); !errors.Is(err, beneath.ErrStrange) {
		t.Errorf("with a small budget: %v", err)
	}
	if err := beneath.Remove(dir, "hooks", 10_000); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path + "/hooks"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	for _, file := range []string{path + "/kept", outside + "/kept"} {
		if _, err := os.Lstat(file); err != nil {
			t.Error(err)
		}
	}
	if err := beneath.Remove(dir, "hooks", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("twice: %v", err)
	}
}

func TestRemove_TakesALinkAndNotItsEnd(t *testing.T) {
	t.Parallel()
	path, dir := yard(t)
	write(t, path+"/end/file", "x")
	if err := os.Symlink("end", path+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := beneath.Remove(dir, "link/file", 10); err == nil {
		t.Error("removed through a link")
	}
	if err := beneath.Remove(dir, "link", 10); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path + "/end/file"); err != nil {
		t.Error(err)
	}
}
