package mount

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Attr says how a mount is restricted. The zero value restricts nothing.
type Attr struct {
	ReadOnly bool
	NoSuid   bool
	NoDev    bool
	NoExec   bool
	IDMap    *os.File // a user namespace whose map is applied; nil for none
}

// Clone makes a detached copy of the mount tree at an absolute path, submounts
// included. No symbolic link is followed, neither on the way nor at the end: a
// link at the end is cloned as itself, so that whoever can write to a folder
// on the way cannot lead the mount elsewhere. The caller closes the file; an
// unattached clone goes away with it.
func Clone(path string) (*os.File, error) {
	return clone(path, unix.AT_RECURSIVE)
}

// CloneTop is Clone without submounts. It needs the mount to have none that
// the kernel has locked.
func CloneTop(path string) (*os.File, error) {
	return clone(path, 0)
}

func clone(path string, extra uint) (*os.File, error) {
	at, err := beneath.Path(path)
	if err != nil {
		return nil, fmt.Errorf("clone mount: %w", err)
	}
	defer func() { _ = at.Close() }() // O_PATH: nothing to lose
	flags := uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH) | extra
	fd, err := unix.OpenTree(int(at.Fd()), "", flags)
	if err != nil {
		return nil, fmt.Errorf("clone mount %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// SetAttr applies a to the mount tree behind f, submounts included.
func SetAttr(f *os.File, a Attr) error {
	return setAttr(f, a, unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
}

// SetTopAttr is SetAttr for the top of the tree alone.
func SetTopAttr(f *os.File, a Attr) error { return setAttr(f, a, unix.AT_EMPTY_PATH) }

// Restrict applies a to the one mount at an absolute path.
func Restrict(path string, a Attr) error {
	at, err := beneath.Path(path)
	if err != nil {
		return fmt.Errorf("restrict mount: %w", err)
	}
	defer func() { _ = at.Close() }() // O_PATH: nothing to lose
	return SetTopAttr(at, a)
}

func setAttr(f *os.File, a Attr, flags uint) error {
	var ma unix.MountAttr
	if a.ReadOnly {
		ma.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if a.NoSuid {
		ma.Attr_set |= unix.MOUNT_ATTR_NOSUID
	}
	if a.NoDev {
		ma.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if a.NoExec {
		ma.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	if a.IDMap != nil {
		ma.Attr_set |= unix.MOUNT_ATTR_IDMAP
		ma.Userns_fd = uint64(a.IDMap.Fd())
	}
	if ma.Attr_set == 0 {
		return nil
	}
	if err := unix.MountSetattr(int(f.Fd()), "", flags, &ma); err != nil {
		return fmt.Errorf("set attributes of mount %s: %w", f.Name(), err)
	}
	return nil
}

// Attach puts the detached mount f at the absolute path target. No symbolic
// link on the way is followed; one at the end is covered itself.
func Attach(f *os.File, target string) error {
	at, err := beneath.Path(target)
	if err != nil {
		return fmt.Errorf("attach mount: %w", err)
	}
	defer func() { _ = at.Close() }() // O_PATH: nothing to lose
	err = unix.MoveMount(int(f.Fd()), "", int(at.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("attach mount at %s: %w", target, err)
	}
	return nil
}

// Tmpfs mounts a memory file system at target. opts is the kernel's option
// string, such as "size=64m,mode=0700"; it is always nosuid and nodev.
func Tmpfs(target, opts string) error {
	if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return fmt.Errorf("mount tmpfs at %s: %w", target, err)
	}
	return nil
}

// Proc mounts the process file system of the caller's PID namespace.
func Proc(target string) error {
	if err := unix.Mount("proc", target, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount proc at %s: %w", target, err)
	}
	return nil
}

// Devpts mounts a file system of pseudo terminals that holds none but those
// that are opened through it.
func Devpts(target string) error {
	const options = "newinstance,ptmxmode=0666,mode=0620"
	if err := unix.Mount("devpts", target, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("mount devpts at %s: %w", target, err)
	}
	return nil
}

// Private stops mounts and unmounts from propagating to or from the caller's
// mount namespace.
func Private() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	return nil
}

// Pivot makes dir, a mount point, the root of the caller's mount namespace
// and detaches everything that was there before.
func Pivot(dir string) error {
	if err := unix.Chdir(dir); err != nil {
		return fmt.Errorf("enter new root %s: %w", dir, err)
	}
	// pivot_root(".", ".") stacks the old root on the new one, so that no
	// folder for it is needed (pivot_root(2), NOTES).
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root to %s: %w", dir, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach old root: %w", err)
	}
	return unix.Chdir("/")
}

// Supported reports why this kernel cannot do what the package needs, or nil.
func Supported() error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) {
		return errors.New("kernel has no open_tree (needs Linux 5.12)")
	}
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	return unix.Close(fd)
}
