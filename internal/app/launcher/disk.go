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
	"github.com/bailey-dev/bailey/internal/linux/thread"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

// A scratch clone of root's service is on a file system of its own, in a file:
// it ends at its size. It is mounted in the service's mount namespace, so that
// the machine never sees it, and the kernel takes all of it away when the
// service dies; the file is still there then, and is mounted again by the next
// one that has a use for it.

// disk is what a task's work is on.
type disk struct {
	Bounded bool   `json:"bounded,omitempty"` // it is a file system of its own
	Why     string `json:"why,omitempty"`     // it is none
}

// Of the file system: room for the largest commit that is taken, written out
// and as two packs, and for what the work may grow by. It takes as much of the
// disk below as was written.
const (
	diskBytes = 3*carry.MostTreeBytes + taskrun.WorkBytes + diskOverhead
	diskFiles = carry.MostTreeNames + taskrun.WorkFiles

	diskOverhead = 1 << 30 // tables of inodes, folders
	reserveName  = "reserve"

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

// unmount takes a task's file system away, if it is mounted. Nobody does two
// things with one task, and others need not wait until all of it is written.
func (d *disks) unmount(id task.ID, how func() error) error {
	d.mu.Lock()
	shown := d.shown[id]
	delete(d.shown, id)
	d.mu.Unlock()
	if !shown {
		return nil
	}
	return how()
}

// forget is for one whose image is about to be removed.
func (d *disks) forget(id task.ID, at string) {
	_ = d.unmount(id, func() error { return loop.Forget(at) }) // what is in the way of the removal says so
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
	return d, loop.Leave(e.placeOf(id).disk, reserveName, taskrun.WorkBytes)
}

// makeDisk makes a file system for a task, where the machine has that.
func (e *engine) makeDisk(ctx context.Context, id task.ID) (disk, error) {
	if !e.disks.can {
		return disk{Why: e.disks.why}, nil
	}
	image := e.store.pathOf(id, imageName)
	if err := e.store.remove(id, imageName); err != nil { // of a try that broke off
		return disk{}, err
	}
	err := loop.Format(ctx, image, loop.Size{Bytes: diskBytes, Files: diskFiles})
	if err == nil {
		err = e.disks.mount(id, image, e.placeOf(id).disk)
	}
	if bailey.KindOf(err) == bailey.Unsupported {
		return disk{Why: oneLine(err)}, e.store.remove(id, imageName)
	}
	return disk{Bounded: err == nil}, err
}

// oneLine is what an error says, for a sentence.
func oneLine(err error) string {
	const most = 400
	text := strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "?")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// show mounts a task's file system, if it has one that is not mounted: after a
// start of the service none is.
func (e *engine) show(u *unit) error {
	rec := u.record()
	if !rec.Disk.Bounded {
		return nil
	}
	return e.disks.mount(rec.ID, e.store.pathOf(rec.ID, imageName), e.placeOf(rec.ID).disk)
}

// hide takes it away again.
func (e *engine) hide(ctx context.Context, id task.ID) {
	err := e.disks.unmount(id, func() error { return loop.Unmount(e.placeOf(id).disk) })
	if err != nil { // it goes with the service
		e.log.LogAttrs(ctx, slog.LevelWarn, "unmount", slog.String("task", string(id)), slog.String("why", err.Error()))
	}
}

// mountsArg says to a launcher that its mount namespace is its own.
const mountsArg = "own-mounts"

// ownMounts has this program begin again in a mount namespace of its own, which
// sees what the machine mounts and which the machine does not see. It returns
// only where that is not to be had, with the reason.
func ownMounts() string {
	if os.Getuid() != 0 {
		return "only root can mount one"
	}
	err := thread.Run(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("set up a mount namespace: %w", err)
		}
		return syscall.Exec(self, []string{role.Launcher, mountsArg}, []string{})
	})
	return err.Error()
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
