package watchdog

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/watch"
)

// The workspace's growth is measured by walking it, which costs; so how full
// its file system is says when a walk is worth while. That number is everybody's:
// what others delete can hide what the sandbox writes, so once in a while a
// walk happens anyway.

const (
	minWalkGap  = time.Second
	slowWalkGap = 5 * time.Second
	// A walk may take this part of the time: its duration × busy passes first.
	busy     = 10
	slowBusy = 30
)

// growth is what is known of the workspace's size.
type growth struct {
	base  size      // when the sandbox started
	known bool      // whether base is
	last  size      // the last walk
	at    time.Time // its end
	took  time.Duration
	room  size // of the file system, used then

	baseRoom size // of the file system, used at the start
	baseDeep int  // folders too deep to look into, of the caller's own
}

// size counts what is in a folder, or used of a file system.
type size struct {
	bytes  int64
	inodes int64
}

func (a size) minus(b size) size { return size{a.bytes - b.bytes, a.inodes - b.inodes} }

func (d *dog) watchesDisk() bool {
	return d.workspace != nil && (d.set.DiskBytes > 0 || d.set.Inodes > 0)
}

// used asks the file system how full it is.
func (d *dog) used() size {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(d.workspace.Fd()), &s); err != nil {
		return size{}
	}
	return size{
		bytes:  int64(s.Blocks-s.Bfree) * s.Bsize,
		inodes: int64(s.Files - s.Ffree), // 0 where the file system does not count
	}
}

// startBaseline walks the workspace as it was when the sandbox started: what was
// born later is the sandbox's, however late this process comes to look.
func (d *dog) startBaseline() {
	born := d.set.Started
	if born.IsZero() {
		born = time.Now()
	}
	d.growth.baseRoom = d.used()
	d.startWalk(walkConfig{bornBefore: born, gently: true})
}

func (d *dog) startWalk(c walkConfig) {
	d.walking = true
	c.root, c.used, c.helper = int(d.workspace.Fd()), d.used(), d.helper.PID
	// Only if the file system has taken more than is allowed can as much be
	// hidden from a plain walk.
	c.thorough = d.growth.known && exceeds(c.used.minus(d.growth.baseRoom), size{d.set.DiskBytes, d.set.Inodes}, 1, d.set)
	go func() { d.walks <- runWalk(c) }()
}

// checkDisk decides whether it is time for a walk.
func (d *dog) checkDisk(now time.Time) {
	g := &d.growth
	if d.walking || d.doomed || !g.known {
		return
	}
	since := now.Sub(g.at)
	more := d.used().minus(g.room)
	left := size{d.set.DiskBytes, d.set.Inodes}.minus(g.last.minus(g.base))
	switch {
	case exceeds(more, left, 2, d.set):
		d.startWalk(walkConfig{})
	case exceeds(more, left, 8, d.set) && since >= max(minWalkGap, busy*g.took),
		more != size{} && since >= max(slowWalkGap, slowBusy*g.took):
		d.startWalk(walkConfig{gently: true})
	}
}

// exceeds reports whether more is over the given part of what is left, in a
// number that has a limit.
func exceeds(more, left size, part int64, s watch.Settings) bool {
	return s.DiskBytes > 0 && more.bytes > left.bytes/part || s.Inodes > 0 && more.inodes > left.inodes/part
}

// judge takes the result of a walk.
func (d *dog) judge(w walk) {
	g := &d.growth
	g.last, g.at, g.took, g.room = w.size, w.end, w.took, w.used
	if !g.known {
		g.base, g.baseDeep, g.known = w.size, w.deep, true
		return
	}
	grown := w.size.minus(g.base)
	switch {
	case d.set.DiskBytes > 0 && grown.bytes > d.set.DiskBytes:
		d.condemn(watch.Disk, grown.bytes, fmt.Sprintf("the workspace has grown by %d bytes, more than the limit of %d", grown.bytes, d.set.DiskBytes))
	case d.set.Inodes > 0 && grown.inodes > d.set.Inodes:
		d.condemn(watch.Inodes, grown.inodes, fmt.Sprintf("the workspace has grown by %d files, more than the limit of %d", grown.inodes, d.set.Inodes))
	case w.deep > g.baseDeep:
		d.condemn(watch.Inodes, grown.inodes, fmt.Sprintf("the workspace has folders nested more than %d deep, where nothing can be counted", maxDepth))
	}
}
