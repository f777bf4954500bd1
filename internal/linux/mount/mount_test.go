package mount_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/linux/thread"
	"github.com/bailey-dev/bailey/internal/linux/userns"
)

// TestFollowsNoLink: a folder on the way that somebody has exchanged for a
// link leads neither a source nor a target elsewhere.
func TestFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"real/sub", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	err = thread.Run(func() error { // in a mount namespace of its own
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			return err
		}
		if err := mount.Private(); err != nil {
			return err
		}
		if _, err := mount.Clone(dir + "/link/sub"); !errors.Is(err, unix.ELOOP) {
			t.Errorf("clone through a link: %v", err)
		}
		f, err := mount.Clone(dir + "/real/sub") // the twin
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if err := mount.Attach(f, dir+"/link/sub"); !errors.Is(err, unix.ELOOP) {
			t.Errorf("attach through a link: %v", err)
		}
		return mount.Attach(f, dir+"/other")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestClone_OfALink clones the link itself, and what it is put over shows it.
func TestClone_OfALink(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/file", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	err = thread.Run(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			return err
		}
		if err := mount.Private(); err != nil {
			return err
		}
		f, err := mount.Clone(dir + "/link")
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if err := mount.Attach(f, dir+"/file"); err != nil {
			return err
		}
		if to, err := os.Readlink(dir + "/file"); err != nil || to != "/nowhere" {
			t.Errorf("what the file is covered with leads to %q %v", to, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestIDMap_ExchangesTwoAndKeepsTheRest shows a folder through a map and looks
// at the owners there.
func TestIDMap_ExchangesTwoAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const owner, seen = 1234, 0x70001234
	for name, id := range map[string]int{"root": 0, "owner": owner, "other": 33, "seen": seen} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(filepath.Join(dir, name), id, id); err != nil {
			t.Fatal(err)
		}
	}
	m, err := userns.MapFD(owner, seen, owner, seen)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	f, err := mount.Clone(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := mount.SetAttr(f, mount.Attr{NoSuid: true, IDMap: m}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{"root": 0, "owner": seen, "other": 33, "seen": owner} {
		var st syscall.Stat_t
		if err := syscall.Stat(fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), name), &st); err != nil || st.Uid != want || st.Gid != want {
			t.Errorf("%s is shown as %d:%d (%v), want %d", name, st.Uid, st.Gid, err, want)
		}
	}
}
