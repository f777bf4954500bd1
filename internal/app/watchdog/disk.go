package watchdog

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/watch"
)

// The workspace's growth is measured by walking it, which costs; so how full
// its file systems are says when a walk is worth while. That number is
// everybody's: what others delete can hide what the sandbox writes, so once in
// a while a walk happens anyway; and what others write is no reason to end a
// sandbox. But a sandbox can keep a walk from seeing what it wrote, by moving
// it about. So where the file systems have taken more than is allowed, one walk
// is made with the sandbox stopped, and if not even that can be finished, the
// limit counts as passed.

const (
	minWalkGap  = time.Second
	slowWalkGap = 5 * time.Second
	// A walk may take this part of the time: its duration × busy passes first.
	busy     = 10
	slowBusy = 30

	// quickBase is how long the start of a sandbox waits for the first walk.
	quickBase = 400 * time.Millisecond
	// slowest bounds a walk that nothing hurries.
	slowest = 5 * time.Minute
	// patience is what a walk under way may take once the file systems have
	// taken more than is allowed.
	patience = time.Second
	// frozenTime bounds a walk for which the sandbox is stopped.
	frozenTime = 8 * time.Second
	// sureGap is the longest that passes before the next such walk.
	sureGap = 10 * time.Second
	// stuckTime is how long a walk that was told to end may take.
	stuckTime = 5 * time.Second
)

// growth is what is known of the workspace's size.
type growth struct {
	base  size      // when the sandbox started
	known bool      // whether base is
	last  size      // the last walk
	at    time.Time // its end
	took  time.Duration
	room  size // of the file systems, used then

	baseRoom size // of the file systems, used by what is not the sandbox's growth
	baseDeep int  // folders too deep to look into, of the caller's own

	steer     *steering // of the walk under way; else nil
	frozen    bool      // that walk has the sandbox stopped
	overSince time.Time // since when the file systems have taken too much while a walk is under way
	sure      time.Time // when the last walk ended with the sandbox stopped
	sureTook  time.Duration
	released  atomic.Int64 // when the command was let run, in nanoseconds; 0 before
}

// size counts what is in a folder, or used of a file system.
type size struct {
	bytes  int64
	inodes int64
}

func (a size) minus(b size) size { return size{a.bytes - b.bytes, a.inodes - b.inodes} }
func (a size) plus(b size) size  { return size{a.bytes + b.bytes, a.inodes + b.inodes} }
func (a size) least(b size) size { return size{min(a.bytes, b.bytes), min(a.inodes, b.inodes)} }

func (d *dog) watchesDisk() bool {
	return d.workspace != nil && (d.set.DiskBytes > 0 || d.set.Inodes > 0)
}

// allowed is the limits as a size.
func (d *dog) allowed() size { return size{d.set.DiskBytes, d.set.Inodes} }

// used asks the file systems how full they are.
func used(roots []*os.File) size {
	var sum size
	for _, f := range roots {
		var s unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
			continue
		}
		sum = sum.plus(size{
			bytes:  int64(s.Blocks-s.Bfree) * s.Bsize,
			inodes: int64(s.Files - s.Ffree), // 0 where the file system does not count
		})
	}
	return sum
}

// looks asks every diskPeriod. It is a goroutine of its own because a file
// system of the network may not answer, which is not to hold up the loop.
func looks(roots []*os.File) <-chan size {
	ch := make(chan size)
	go func() {
		for range time.Tick(diskPeriod) {
			ch <- used(roots)
		}
	}()
	return ch
}

// fileSystems opens those that what is watched lies on and each other one that
// is mounted in it, once each; what keeps nothing is left out.
func fileSystems(watched ...*os.File) []*os.File {
	var roots []*os.File
	devices := map[uint64]bool{}
	for _, f := range watched {
		if dev := deviceOf(f); !devices[dev] {
			devices[dev] = true
			roots = append(roots, f)
		}
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return roots
	}
	for line := range strings.Lines(string(text)) {
		at := mountPoint(line)
		if !slices.ContainsFunc(watched, func(f *os.File) bool { return strings.HasPrefix(at, strings.TrimSuffix(f.Name(), "/")+"/") }) {
			continue
		}
		f, err := beneath.Path(at)
		if err != nil {
			continue
		}
		dev := deviceOf(f)
		if devices[dev] || isHollow(int(f.Fd())) {
			_ = f.Close()
			continue
		}
		devices[dev] = true
		roots = append(roots, f)
	}
	return roots
}

// mountPoint is the fifth field of a line of mountinfo (proc_pid_mountinfo(5)).
func mountPoint(line string) string {
	f := strings.Fields(line)
	if len(f) < 5 {
		return ""
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(f[4])
}

func deviceOf(f *os.File) uint64 {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0
	}
	return st.Dev
}

// startBaseline walks the workspace as it was when the sandbox started: what was
// born later is the sandbox's, however late this process comes to look.
func (d *dog) startBaseline(now time.Time) {
	if d.set.Started.IsZero() {
		d.set.Started = now
	}
	d.growth.baseRoom = used(d.roots)
	d.growth.room = d.growth.baseRoom
	d.startWalk(walkConfig{gently: true, deadline: now.Add(slowest)}, d.growth.baseRoom)
}

func (d *dog) startWalk(c walkConfig, room size) {
	g := &d.growth
	g.steer, g.frozen = &steering{}, c.frozen
	c.roots, c.used, c.helper = []int{int(d.workspace.Fd())}, room, d.helper.PID
	for _, f := range d.also {
		c.roots = append(c.roots, int(f.Fd()))
	}
	c.bornBefore, c.released, c.steer = d.set.Started, &g.released, g.steer
	go func() { d.walks <- runWalk(c) }()
}

// checkDisk decides, from what the file systems have taken, whether it is time
// for a walk.
func (d *dog) checkDisk(now time.Time, room size) {
	g := &d.growth
	if d.doomed {
		return
	}
	g.baseRoom = g.baseRoom.least(room) // what is deleted can be written again
	over := exceeds(room.minus(g.baseRoom), d.allowed(), 1, d.set)
	switch {
	case g.steer != nil:
		d.hurry(now, room, over)
	case over && now.Sub(g.sure) >= max(minWalkGap, min(sureGap, busy*g.sureTook)):
		d.startWalk(walkConfig{frozen: true, deadline: now.Add(frozenTime)}, room)
	default:
		d.plainWalk(now, room)
	}
}

// plainWalk starts a walk beside the sandbox if one is due.
func (d *dog) plainWalk(now time.Time, room size) {
	g := &d.growth
	gentle := walkConfig{gently: true, deadline: now.Add(slowest)}
	since := now.Sub(g.at)
	if !g.known {
		if since >= slowWalkGap {
			d.startWalk(gentle, room)
		}
		return
	}
	more := room.minus(g.room)
	left := d.allowed().minus(g.last.minus(g.base))
	switch {
	case exceeds(more, left, 2, d.set):
		d.startWalk(walkConfig{deadline: now.Add(slowest)}, room)
	case exceeds(more, left, 8, d.set) && since >= max(minWalkGap, busy*g.took),
		more != size{} && since >= max(slowWalkGap, slowBusy*g.took):
		d.startWalk(gentle, room)
	}
}

// hurry sees to it that a walk under way keeps nothing from being noticed.
func (d *dog) hurry(now time.Time, room size, over bool) {
	g := &d.growth
	if !over {
		g.overSince = time.Time{}
		return
	}
	if g.overSince.IsZero() {
		g.overSince = now
	}
	g.steer.hurry.Store(true)
	limit := patience
	if g.frozen {
		limit = frozenTime
	}
	waited := now.Sub(g.overSince)
	if waited >= limit {
		g.steer.stop.Store(true)
	}
	if waited >= limit+stuckTime { // it hangs in the kernel
		d.uncounted(room)
	}
}

// exceeds reports whether more is over the given part of what is left, in a
// number that has a limit.
func exceeds(more, left size, part int64, s watch.Settings) bool {
	return s.DiskBytes > 0 && more.bytes > left.bytes/part || s.Inodes > 0 && more.inodes > left.inodes/part
}

// judge takes the result of a walk. One that was not finished has seen too
// little, never too much: what it found may condemn, and clears of nothing.
func (d *dog) judge(w walk) {
	g := &d.growth
	g.steer, g.overSince = nil, time.Time{}
	g.at, g.took = w.end, w.took
	if w.frozen {
		g.sure, g.sureTook = w.end, w.took
	}
	base, baseDeep := g.base, g.baseDeep
	if !g.known {
		base, baseDeep = w.old, w.oldDeep
	}
	grown := w.all.minus(base)
	if w.finished {
		g.base, g.baseDeep, g.known = base, baseDeep, true
		g.last, g.room = w.all, w.used
	}
	d.ready() // which is the first thing said
	d.compare(grown, w.deep > baseDeep)
	switch {
	case w.frozen && w.finished: // the rest of what the file systems have taken is others'
		g.baseRoom = w.used.minus(grown)
	case w.frozen:
		d.uncounted(w.used)
	}
}

// compare condemns a sandbox whose workspace has grown too much.
func (d *dog) compare(grown size, deeper bool) {
	switch {
	case d.set.DiskBytes > 0 && grown.bytes > d.set.DiskBytes:
		d.condemn(watch.Disk, grown.bytes, fmt.Sprintf("the workspace has grown by %d bytes, more than the limit of %d", grown.bytes, d.set.DiskBytes))
	case d.set.Inodes > 0 && grown.inodes > d.set.Inodes:
		d.condemn(watch.Inodes, grown.inodes, fmt.Sprintf("the workspace has grown by %d files, more than the limit of %d", grown.inodes, d.set.Inodes))
	case deeper:
		d.condemn(watch.Inodes, grown.inodes, fmt.Sprintf("the workspace has folders nested more than %d deep, where nothing can be counted", maxDepth))
	}
}

// uncounted condemns a sandbox of which nothing better is known than what its
// file systems have taken.
func (d *dog) uncounted(room size) {
	const why = "the file systems of the workspace hold %d %s more than at the start, over the limit of %d, and the workspace could not be counted in time"
	more := room.minus(d.growth.baseRoom)
	if d.set.DiskBytes > 0 && more.bytes > d.set.DiskBytes {
		d.condemn(watch.Disk, more.bytes, fmt.Sprintf(why, more.bytes, "bytes", d.set.DiskBytes))
		return
	}
	d.condemn(watch.Inodes, more.inodes, fmt.Sprintf(why, more.inodes, "files", d.set.Inodes))
}
