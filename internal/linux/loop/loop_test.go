package loop_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/loop"
	"github.com/bailey-dev/bailey/internal/testkit/tier"
)

// place makes an image of 8 MiB and an empty folder.
func place(t *testing.T) (image, dir string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	image, dir = filepath.Join(base, "image"), filepath.Join(base, "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := loop.Format(t.Context(), image, loop.Size{Bytes: 8 << 20, Files: 1000, UID: 4711, GID: 4712}, nil); err != nil {
		t.Fatal(err)
	}
	return image, dir
}

// TestMount_EndsAtItsSize: what is written ends at the size, by bytes and by
// files; it belongs to whom it is for, and outlives the mount.
func TestMount_EndsAtItsSize(t *testing.T) {
	tier.Root(t)
	image, dir := place(t)
	if err := loop.Mount(image, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = loop.Unmount(dir) })
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil || st.Uid != 4711 || st.Gid != 4712 {
		t.Errorf("%d:%d %v", st.Uid, st.Gid, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kept"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 9<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("nine mebibytes: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "large")); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; i < 3000 && err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, "many"+string(rune('a'+i%26))+filepath.Base(t.Name())+string(rune(0x4e00+i))), nil, 0o600)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("three thousand files: %v", err)
	}
	// It can be taken away and shown again, also while somebody still has it:
	// there it is the same.
	other := filepath.Join(filepath.Dir(dir), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := loop.Mount(image, other); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = loop.Unmount(other) })
	if err := loop.Unmount(dir); err != nil {
		t.Fatal(err)
	}
	if err := loop.Mount(image, dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "seen"), nil, 0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	var one, two syscall.Stat_t
	if err := errors.Join(syscall.Stat(dir, &one), syscall.Stat(other, &two)); err != nil || one.Dev != two.Dev {
		t.Errorf("two file systems on one image: %x %x %v", one.Dev, two.Dev, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "kept")); err != nil || string(b) != "x" {
		t.Errorf("%q %v", b, err)
	}
}

// TestFormat_RefusesWhatIsThere: no file of anybody's is overwritten, and no
// link is followed.
func TestFormat_RefusesWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{there, link} {
		if err := loop.Format(t.Context(), path, loop.Size{Bytes: 8 << 20, Files: 100}, nil); bailey.KindOf(err) == bailey.Internal {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := os.ReadFile(there); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
}

// TestLeave_BoundsWhatIsFree: what is taken away is not free, and the image is
// no larger for it.
func TestLeave_BoundsWhatIsFree(t *testing.T) {
	tier.Root(t)
	image, dir := place(t)
	if err := loop.Mount(image, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = loop.Unmount(dir) })
	const left = 2 << 20
	before, files, err := loop.Room(dir)
	if err != nil || before <= left || files < 900 {
		t.Fatalf("%d bytes, %d files, %v", before, files, err)
	}
	if err := loop.Leave(dir, "reserve", left); err != nil {
		t.Fatal(err)
	}
	if after, _, err := loop.Room(dir); err != nil || after > left || after < left-left/8 {
		t.Errorf("%d bytes, %v", after, err)
	}
	if err := loop.Leave(dir, "reserve", before); err != nil {
		t.Errorf("where there is less: %v", err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(image, &st); err != nil || st.Blocks*512 > left {
		t.Errorf("the image takes %d bytes, %v", st.Blocks*512, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, left+1), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("more than was left: %v", err)
	}
}
