package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Size is how much a file system holds, and whose its top folder is.
type Size struct {
	Bytes, Files int64
	UID, GID     int
}

// Format makes a file that holds an empty ext4 file system. The file is sparse:
// it takes what is written. It must not be there yet. Errors are *bailey.Error:
// of kind Unsupported where the machine has no mkfs.ext4. Run runs that, for a
// caller that keeps account of its children; nil for cmd.Run.
//
// The file system keeps no journal: it lives as long as one task, and what a
// crash of the whole machine leaves of it is not worth the writes.
func Format(ctx context.Context, image string, size Size, run func(*exec.Cmd) error) error {
	mkfs, err := find("mkfs.ext4")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(image, os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "make a file for a file system", err, "")
	}
	if err = errors.Join(f.Truncate(size.Bytes), f.Close()); err == nil {
		err = format(ctx, mkfs, image, size, run)
	}
	if err != nil {
		return errors.Join(bailey.WrapError(bailey.Unavailable, "make a file system of its own for the work", err, ""), os.Remove(image))
	}
	return nil
}

// Check sets right what a crash of the machine has left of the file system in an
// image that nobody has mounted (e2fsck(8), -p). An error says that it is more
// than can be set right without losing something.
func Check(ctx context.Context, image string, run func(*exec.Cmd) error) error {
	fsck, err := find("e2fsck")
	if err != nil {
		return err
	}
	err = tool(ctx, run, fsck, "-p", image)
	const corrected = 3 // the bits of what is no damage any more
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 && exit.ExitCode()&^corrected == 0 {
		return nil
	}
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "set right the file system of the work after a crash of the machine", err, "")
	}
	return nil
}

// find looks where the system has a program: a service may have a PATH without
// folders of administrators.
func find(name string) (string, error) {
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", bailey.NewError(bailey.Unsupported, "this machine has no "+name, "install e2fsprogs")
}

func format(ctx context.Context, mkfs, image string, size Size, run func(*exec.Cmd) error) error {
	return tool(ctx, run, mkfs, "-q", "-F", "-m", "0", "-O", "^has_journal", "-N", strconv.FormatInt(size.Files, 10),
		"-E", fmt.Sprintf("lazy_itable_init=1,nodiscard,root_owner=%d:%d", size.UID, size.GID), image)
}

// tool runs a program of e2fsprogs.
func tool(ctx context.Context, run func(*exec.Cmd) error, path string, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir, cmd.Stderr = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, "/", &said
	if run == nil {
		run = (*exec.Cmd).Run
	}
	if err := run(cmd); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(path), err, strings.TrimSpace(said.String()))
	}
	return nil
}

// kind tells what a machine lacks from what went wrong.
func kind(err error) bailey.Kind {
	for _, lacks := range []error{unix.ENOENT, unix.EPERM, unix.EACCES, unix.ENODEV, unix.ENXIO} {
		if errors.Is(err, lacks) {
			return bailey.Unsupported
		}
	}
	return bailey.Unavailable
}

// Mount shows the file system in an image at a folder, which is absolute and has
// no link on its way: nosuid, nodev, without times of access. Nothing of it lies
// in the folder but what was put there. The device goes away with the mount. An
// error is of kind Unsupported where there is no device to be had.
func Mount(image, dir string) error {
	at, err := beneath.Path(dir)
	if err != nil {
		return fmt.Errorf("mount %s: %w", image, err)
	}
	defer func() { _ = at.Close() }() // O_PATH: nothing to lose
	dev, err := attach(image)
	if err != nil {
		return bailey.WrapError(kind(err), "take a loop device", err, "modprobe loop, or pass /dev/loop-control and loop devices to the container")
	}
	defer func() { _ = dev.Close() }() // the mount holds it
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME
	target := "/proc/self/fd/" + strconv.Itoa(int(at.Fd()))
	// Without noinit_itable the kernel would write all inodes out, hundreds of
	// mebibytes, for a task of which most uses a few.
	if err := unix.Mount(dev.Name(), target, "ext4", flags, "noinit_itable"); err != nil {
		return bailey.WrapError(kind(err), "mount a file system of its own for the work", err, "")
	}
	// A folder that mkfs makes for lost files; a clone wants an empty place.
	if err := os.Remove(filepath.Join(dir, "lost+found")); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return errors.Join(fmt.Errorf("clear the file system: %w", err), Unmount(dir))
	}
	return nil
}

// Unmount takes it away again, at once: who still uses it keeps it, and when the
// last of those is gone all that was written is in the image.
func Unmount(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) { // which is not mounted
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// Sync returns when what was written is in the image, or the error of what did
// not get there: the file system below may be full.
func Sync(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err == nil {
		err = errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
	}
	if err != nil {
		return fmt.Errorf("write out %s: %w", dir, err)
	}
	return nil
}

// Room is how much of the file system at a folder is free: bytes, and files.
func Room(dir string) (bytes, files int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("look how full %s is: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Ffree), nil
}

// Leave takes space of the file system at a folder away until no more than so
// many bytes are free, by a file of that name, which costs the image nothing.
func Leave(dir, name string, bytes int64) error {
	free, _, err := Room(dir)
	if err != nil || free <= bytes {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("bound the file system: %w", err)
	}
	if err := errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, free-bytes), f.Close()); err != nil {
		return fmt.Errorf("bound the file system: %w", err)
	}
	return nil
}

// mostTries is how often another device is asked for when somebody else was
// sooner.
const mostTries = 16

// attached is the device that an image is already, or nil. Whoever copies a
// mount namespace, as the start of any sandbox does, holds a mount for a moment
// after it was taken away. The kernel shows what is on one device as one file
// system, however often it is mounted; by a second device there would be two,
// and each would write over the other's.
func attached(image *os.File) *os.File {
	var st unix.Stat_t
	if unix.Fstat(int(image.Fd()), &st) != nil {
		return nil
	}
	blocks, _ := filepath.Glob("/sys/block/loop*/loop/backing_file") // of those that are in use
	for _, file := range blocks {
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		dev, err := os.OpenFile("/dev/"+name, os.O_RDONLY, 0) // closing one that can be written has it probed again
		if err != nil {
			continue // it is gone, or nobody's to open
		}
		info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
		if err == nil && info.Inode == st.Ino && info.Device == encoded(st.Dev) {
			return dev
		}
		_ = dev.Close()
	}
	return nil
}

// encoded is a device number as the kernel's huge_encode_dev makes it, which is
// how LOOP_GET_STATUS64 tells it.
func encoded(dev uint64) uint64 {
	major, minor := uint64(unix.Major(dev)), uint64(unix.Minor(dev))
	return minor&0xff | major<<8 | (minor&^0xff)<<12
}

// attach makes an image a block device that goes away with its last user.
func attach(image string) (*os.File, error) {
	back, err := os.OpenFile(image, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	defer func() { _ = back.Close() }() // the device holds it
	if dev := attached(back); dev != nil {
		return dev, nil
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open loop control: %w", err)
	}
	defer func() { _ = control.Close() }() // a question only
	for range mostTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		dev, err := os.OpenFile("/dev/loop"+strconv.Itoa(n), os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("open loop device: %w", err)
		}
		config := unix.LoopConfig{Fd: uint32(back.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &config)
		if err == nil {
			// A kernel may not mount what somebody could write to.
			reader, err := os.OpenFile(dev.Name(), os.O_RDONLY, 0)
			return reader, errors.Join(err, dev.Close())
		}
		if err = errors.Join(err, dev.Close()); !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("set up loop device: %w", err)
		}
	}
	return nil, errors.New("find a free loop device: somebody else was always sooner")
}
