package launcher

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/linux/loop"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/linux/thread"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

// A scratch clone of root's service is on a file system of its own, in a file:
// it ends at its size. It is mounted in the service's mount namespace, so that
// the machine never sees the mount, and the kernel takes all of it away when the
// service dies; the file is still there then, and is mounted again by the next
// one that has a use for it.

// disk is what a task's work is on.
type disk struct {
	Bounded bool   `json:"bounded,omitempty"` // it is a file system of its own
	Why     string `json:"why,omitempty"`     // it is none, or less than it should be
	Boot    string `json:"boot,omitempty"`    // of the machine, in which it was last mounted
}

// Of the file system: room for the largest commit that is taken, for its history
// as two packs, and for what the work may grow by. It takes as much of the disk
// below as was written.
const (
	diskBytes = 256 << 30
	diskFiles = carry.MostTreeNames + taskrun.WorkFiles

	reserveName = "reserve"

	diskFull = "disk" // the limit, as a watchdog names it
)

// disks are the file systems that are mounted.
type disks struct {
	can bool   // the service has a mount namespace of its own
	why string // or why not

	mu    sync.Mutex
	shown map[task.ID]bool
}

// mount mounts a task's file system, if it is not mounted.
func (d *disks) mount(id task.ID, image, at string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shown[id] {
		return nil
	}
	if err := loop.Mount(image, at); err != nil {
		return err
	}
	if d.shown == nil {
		d.shown = make(map[task.ID]bool)
	}
	d.shown[id] = true
	return nil
}

// unmount takes a task's file system away, if it is mounted.
func (d *disks) unmount(id task.ID, at string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shown[id] {
		return nil
	}
	if err := loop.Unmount(at); err != nil {
		return err
	}
	delete(d.shown, id)
	return nil
}

// fill makes the folders of a task, has them filled, and bounds what they may
// grow by from then on.
func (e *engine) fill(ctx context.Context, id task.ID, with func() error) (disk, error) {
	if err := e.store.makeWork(id); err != nil {
		return disk{}, err
	}
	d, err := e.makeDisk(ctx, id)
	if err != nil {
		return d, err
	}
	if err := with(); err != nil || !d.Bounded {
		return d, err
	}
	at := e.placeOf(id).disk
	if err := loop.Leave(at, reserveName, taskrun.WorkBytes); err != nil {
		return d, err
	}
	if free, _, err := loop.Room(at); err == nil && free < taskrun.WorkBytes/2 {
		d.Why = fmt.Sprintf("the work may grow by %d MB: what the commit's history takes is most of its disk", free/1e6)
	}
	return d, nil
}

// makeDisk makes a file system for a task, where the machine has that.
func (e *engine) makeDisk(ctx context.Context, id task.ID) (disk, error) {
	if !e.disks.can {
		return disk{Why: e.disks.why}, nil
	}
	// What a file in a file is promised and does not get is lost, where the writer
	// of a plain one is told.
	if free, _, err := loop.Room(e.store.path); err != nil || free < taskrun.WorkBytes {
		return disk{Why: "the disk of the service has less room than the work may take"}, err
	}
	image := e.store.pathOf(id, imageName)
	if err := e.store.remove(id, imageName); err != nil { // of a try that broke off
		return disk{}, err
	}
	err := loop.Format(ctx, image, loop.Size{Bytes: diskBytes, Files: diskFiles}, e.home.run)
	if err == nil {
		err = e.disks.mount(id, image, e.placeOf(id).disk)
	}
	if bailey.KindOf(err) == bailey.Unsupported {
		return disk{Why: oneLine(err)}, e.store.remove(id, imageName)
	}
	return disk{Bounded: err == nil, Boot: proc.BootID()}, err
}

// oneLine is what an error says, for a sentence.
func oneLine(err error) string {
	const most = 400
	text := strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "?")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// show mounts a task's file system, if it has one that is not mounted: after a
// start of the service none is. One that a crash of the machine has left is set
// right before.
func (e *engine) show(ctx context.Context, u *unit) error {
	rec := u.record()
	if !rec.Disk.Bounded {
		return nil
	}
	image := e.store.pathOf(rec.ID, imageName)
	if boot := proc.BootID(); rec.Disk.Boot != boot {
		if err := loop.Check(ctx, image, e.home.run); err != nil {
			return err
		}
		if err := e.change(u, func(r *record) { r.Disk.Boot = boot }); err != nil {
			return err
		}
	}
	return e.disks.mount(rec.ID, image, e.placeOf(rec.ID).disk)
}

// settled has all that was written to a task's file system be there, or returns
// a sentence about what is not.
func (e *engine) settled(u *unit) string {
	rec := u.record()
	if !rec.Disk.Bounded {
		return ""
	}
	if err := loop.Sync(e.placeOf(rec.ID).disk); err != nil {
		return "some of what was written last is lost, for the disk of the service was full: " + oneLine(err)
	}
	return ""
}

// hide takes it away again, when nothing reads it any more.
func (e *engine) hide(ctx context.Context, id task.ID) {
	if err := e.disks.unmount(id, e.placeOf(id).disk); err != nil { // it goes with the service
		e.log.LogAttrs(ctx, slog.LevelWarn, "unmount", slog.String("task", string(id)), slog.String("why", err.Error()))
	}
}

// mountsArg says to a launcher that its mount namespace is its own.
const mountsArg = "own-mounts"

// tiedArg says that it has to die with who started it.
const tiedArg = "tied"

// ownMounts has this program begin again in a mount namespace of its own, which
// has what the machine's has, and what is mounted there later where that is
// shared. It returns only where that is not to be had, with the reason. A death
// signal is a thread's, and has to be asked for by the one that is left.
func ownMounts(tied bool) string {
	if os.Getuid() != 0 {
		return "only root can mount one"
	}
	parent := os.Getppid()
	err := thread.Run(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("set up a mount namespace: %w", err)
		}
		if tied {
			if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
				return fmt.Errorf("ask for a death signal: %w", err)
			}
			if os.Getppid() != parent { // it came too late
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			}
		}
		return syscall.Exec(self, []string{role.Launcher, mountsArg}, []string{})
	})
	return oneLine(err)
}

// full reports whether a task has filled its file system.
func (e *engine) full(u *unit) bool {
	const little, few = 1 << 20, 16
	rec := u.record()
	if !rec.Disk.Bounded {
		return false
	}
	bytes, files, err := loop.Room(e.placeOf(rec.ID).disk)
	return err == nil && (bytes < little || files < few)
}
