package leak_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/leak"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

const canary = "t = ghp_" + mixed36 + "\n"

func put(t *testing.T, dir, rel, text string) {
	t.Helper()
	path := filepath.Join(dir, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, ctx context.Context, dir string) (paths []string, seen leak.Seen, steps int, err error) { //nolint:revive // t comes first in a helper
	t.Helper()
	root, err := beneath.Follow(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	seen, err = leak.Folder(ctx, root, func(f leak.Finding) { paths = append(paths, f.Path) }, func(leak.Seen) { steps++ })
	return paths, seen, steps, err
}

func TestFolder_LooksAtWhatASandboxSees(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, rel := range []string{".env", "a/b/c/deep.txt", ".git/config", "z\nz\x1b[2J.txt", ".gitignore"} {
		put(t, dir, rel, canary)
	}
	for _, rel := range []string{"node_modules/x/.env", "a/node_modules/y.txt", ".git/objects/pack/x", ".git/lfs/x"} {
		put(t, dir, rel, canary)
	}
	put(t, dir, "clean.txt", "nothing\n")
	put(t, dir, "binary", "\x00"+canary)
	put(t, dir, "large.txt", canary+strings.Repeat("x", leak.MaxFile))
	put(t, dir, "largest.txt", canary+strings.Repeat("x\n", leak.MaxFile/2-len(canary)/2-1))
	paths, seen, steps, err := look(t, t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".env", ".git/config", ".gitignore", "a/b/c/deep.txt", "largest.txt", "z\nz\x1b[2J.txt"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(leak.Seen{Files: 7, Large: 1, Binary: 1, Folders: 4}, seen); diff != "" {
		t.Error(diff)
	}
	if steps != 9 {
		t.Errorf("%d steps", steps)
	}
	if got := seen.LeftOut(); got != "1 over 1 MiB, 1 binary, 4 folders of fetched things" {
		t.Error(got)
	}
}

// TestFolder_IsNotLedAway gives the folder everything that leads out of it or
// keeps a reader waiting. The positive twin is the file beside them.
func TestFolder_IsNotLedAway(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	put(t, outside, "secret.txt", canary)
	dir := t.TempDir()
	put(t, dir, "here.txt", canary)
	for name, target := range map[string]string{
		"file": outside + "/secret.txt", "folder": outside, "up": "..", "loop": "loop", "self": ".", "inner": "here.txt", "proc": "/proc/self/environ",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	paths, seen, _, err := look(t, t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"here.txt"}, paths); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(leak.Seen{Files: 1, Links: 7, Special: 1}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestFolder_FollowsTheLinkThatAPersonNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "real/x.txt", canary)
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if paths, _, _, err := look(t, t.Context(), filepath.Join(dir, "link")); err != nil || len(paths) != 1 {
		t.Error(paths, err)
	}
}

func TestFolder_GoesAsDeepAsPathsDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, strings.Repeat("d/", 1000)+"x.txt", canary)
	if paths, _, _, err := look(t, t.Context(), dir); err != nil || len(paths) != 1 {
		t.Error(paths, err)
	}
}

// What cannot be read is told apart from what is not looked at: a folder whose
// path is longer than the kernel takes is closed to root too.
func TestFolder_CountsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "x.txt", "nothing\n")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 { // a path of 6000 bytes
		name := strings.Repeat("d", 200)
		if err := root.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot(name)
		_ = root.Close()
		if err != nil {
			t.Fatal(err)
		}
		root = next
	}
	_ = root.Close()
	want := leak.Seen{Files: 1, Unreadable: 1}
	if os.Geteuid() != 0 {
		put(t, dir, "shut.txt", canary)
		if err := os.Chmod(filepath.Join(dir, "shut.txt"), 0); err != nil {
			t.Fatal(err)
		}
		want.Unreadable++
	}
	paths, seen, _, err := look(t, t.Context(), dir)
	if err != nil || len(paths) > 0 {
		t.Fatal(paths, err)
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

func TestFolder_EndsWhenItIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "x.txt", canary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if paths, _, _, err := look(t, ctx, dir); !errors.Is(err, context.Canceled) || len(paths) != 0 {
		t.Error(paths, err)
	}
}
