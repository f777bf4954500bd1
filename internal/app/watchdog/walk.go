package watchdog

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/linux/thread"
)

// maxDepth bounds the descriptors of a walk: one a level.
const maxDepth = 500

// maxSeen bounds the memory for what a walk has seen. Folders beyond it are
// still remembered, or a walk of folders that are moved about has no end.
const maxSeen = 2_000_000

// coarse is how far the time that a file system writes down may lie behind the
// clock: it is that of the last tick, at the slowest 100 a second.
const coarse = 20 * time.Millisecond

// walkConfig says how to walk.
type walkConfig struct {
	roots      []int         // descriptors of folders, and of single files
	bornBefore time.Time     // what was made later is not old; zero: all is
	released   *atomic.Int64 // nanoseconds: since when the command may run; nil or 0: not yet
	steer      *steering     // what the one who waits can do; may be nil
	deadline   time.Time     // the walk ends there, finished or not; zero for none
	gently     bool          // rest as long as working, once the command may run
	frozen     bool          // stop the sandbox meanwhile, and look also where it could hide things
	helper     int           // whose descendants are the sandbox's; 0 if nobody
	used       size          // passed on
}

// steering is how a walk that is under way is spoken to.
type steering struct{ hurry, stop atomic.Bool }

// walk is what one walk found.
type walk struct {
	all      size // what is there
	old      size // the part of it that was there before the command ran
	deep     int  // folders that were too deep to look into
	oldDeep  int  // the old ones of them
	finished bool // else the numbers are too small
	frozen   bool
	end      time.Time
	took     time.Duration
	used     size // of the file systems, before the walk
}

// runWalk counts what lies under a folder, other file systems that are mounted
// there included, since the sandbox can write to them too. It follows no
// symbolic link and opens nothing but folders, so that a hostile tree can
// neither lead it elsewhere nor hold it up.
func runWalk(c walkConfig) (w walk) {
	_ = thread.Run(func() error { // a thread of low priority cannot go back
		w = walkAll(c)
		return nil
	})
	return w
}

func walkAll(c walkConfig) walk {
	begin := time.Now()
	if c.frozen {
		defer freeze(c.helper)()
	}
	w := walker{walkConfig: c, seen: map[inode]struct{}{}, burst: begin}
	for _, root := range c.roots {
		w.root(root)
	}
	if c.frozen && c.helper > 0 {
		w.nameless()
	}
	end := time.Now()
	w.found.finished, w.found.frozen = !w.over, c.frozen
	w.found.end, w.found.took, w.found.used = end, end.Sub(begin), c.used
	return w.found
}

// root counts what is in a folder, or a file.
func (w *walker) root(at int) {
	if fd, err := openDir(at, "."); err == nil {
		w.folder(fd, 0)
		return
	}
	var st unix.Statx_t
	if err := unix.Statx(at, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		w.add(&st)
	}
}

// niceness leaves a walk a tenth of a busy CPU: with less, a sandbox that keeps
// all CPUs busy would not be measured.
const niceness = 10

// lowPriority makes the calling thread give way, for the CPU and for the disk.
// Best effort.
func lowPriority() {
	const ioprioWhoProcess, ioprioIdle = 1, 3 << 13 // linux/ioprio.h
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, ioprioIdle)
}

// inode names a file on this machine.
type inode struct {
	device uint64
	number uint64
}

func inodeOf(st *unix.Statx_t) inode { return inode{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino} }

type walker struct {
	walkConfig
	found  walk
	seen   map[inode]struct{} // what was counted
	over   bool               // the walk is to end
	lowly  bool               // the thread's priority is low
	device uint64             // of the folder that was looked at last
	hollow bool               // which keeps nothing on a disk
	count  int
	burst  time.Time
}

func openDir(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
}

// folder counts the entries of one folder and closes it. What changes
// meanwhile is counted or not.
func (w *walker) folder(fd, depth int) {
	f := os.NewFile(uintptr(fd), "")
	defer func() { _ = f.Close() }()
	for !w.over {
		names, err := f.Readdirnames(128)
		for _, name := range names {
			if w.pace(); w.over {
				return
			}
			w.entry(fd, name, depth)
		}
		if err != nil { // io.EOF, or the folder is gone
			return
		}
	}
}

func (w *walker) entry(dir int, name string, depth int) {
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	if err != nil || !w.add(&st) || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	if depth+1 >= maxDepth {
		w.found.deep++
		if w.wasThere(&st) {
			w.found.oldDeep++
		}
		return
	}
	fd, err := openDir(dir, name)
	if errors.Is(err, unix.EACCES) && w.frozen && int(st.Uid) == os.Geteuid() {
		fd, err = openLocked(dir, name, uint32(st.Mode))
	}
	if err != nil {
		return
	}
	if w.isHollow(fd, inodeOf(&st).device) {
		_ = unix.Close(fd)
		return
	}
	w.folder(fd, depth+1)
}

// isHollow reports whether a folder is on a file system that keeps nothing,
// such as /proc, whose entries come and go without anybody's doing.
func (w *walker) isHollow(fd int, device uint64) bool {
	if device != w.device {
		w.device, w.hollow = device, isHollow(fd)
	}
	return w.hollow
}

func isHollow(fd int) bool {
	var s unix.Statfs_t
	if err := unix.Fstatfs(fd, &s); err != nil {
		return false
	}
	return s.Blocks == 0 && s.Type != unix.TMPFS_MAGIC && s.Type != unix.RAMFS_MAGIC // which may have no size
}

// openLocked opens a folder of the own user that has no permission to read: a
// sandbox can write in it all the same. The permission is given for the
// moment of the open.
func openLocked(dir int, name string, mode uint32) (int, error) {
	hold, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(hold) }()
	self := "/proc/self/fd/" + strconv.Itoa(hold)
	if err := unix.Chmod(self, mode&0o7777|unix.S_IRUSR|unix.S_IXUSR); err != nil {
		return -1, err
	}
	fd, err := openDir(hold, ".")
	_ = unix.Chmod(self, mode&0o7777)
	return fd, err
}

// nameless adds the files of these file systems that the sandbox has removed
// but holds open.
func (w *walker) nameless() {
	ids, err := proc.Descendants(w.helper)
	if err != nil {
		return
	}
	devices := map[uint64]bool{}
	for _, at := range w.roots {
		var root unix.Stat_t
		if err := unix.Fstat(at, &root); err == nil {
			devices[root.Dev] = true
		}
	}
	for i := range w.seen {
		devices[i.device] = true
	}
	for _, id := range ids {
		dir := "/proc/" + strconv.Itoa(id.PID) + "/fd"
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range fds {
			var st unix.Statx_t
			err := unix.Statx(unix.AT_FDCWD, dir+"/"+e.Name(), 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
			if err == nil && st.Nlink == 0 && devices[inodeOf(&st).device] {
				w.add(&st)
			}
		}
	}
}

// add counts what an entry takes of the disk, which of a sparse file is less
// than its length, and reports whether it had not been counted yet. One with
// several names counts once, and so does one that is moved while the walk is
// under way: folders that are moved ahead of a walk would give it no end.
func (w *walker) add(st *unix.Statx_t) bool {
	id, bytes := inodeOf(st), int64(st.Blocks)*512
	if _, again := w.seen[id]; again {
		return false
	}
	folder := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case len(w.seen) < maxSeen || folder:
		w.seen[id] = struct{}{}
	case st.Nlink > 1: // each name its part
		bytes /= int64(st.Nlink)
	}
	w.found.all.bytes += bytes
	w.found.all.inodes++
	if w.wasThere(st) {
		w.found.old.inodes++
		if !w.wasChanged(st) {
			w.found.old.bytes += bytes
		}
	}
	return true
}

// wasThere reports whether an entry is older than the sandbox.
func (w *walker) wasThere(st *unix.Statx_t) bool {
	return w.bornBefore.IsZero() || st.Mask&unix.STATX_BTIME == 0 && !w.wasChanged(st) ||
		st.Mask&unix.STATX_BTIME != 0 && moment(st.Btime).Before(w.bornBefore)
}

// wasChanged reports whether an entry was changed since the command may run:
// how large it was before cannot be known. No program can set that time (it is
// the ctime of inode(7)).
func (w *walker) wasChanged(st *unix.Statx_t) bool {
	if w.released == nil {
		return false
	}
	since := w.released.Load()
	return since != 0 && !moment(st.Ctime).Before(time.Unix(0, since).Add(-coarse))
}

func moment(t unix.StatxTimestamp) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

// pace ends a walk that has to end and, if it is to be gentle, sleeps after
// every thousand entries as long as they took.
func (w *walker) pace() {
	if w.count++; w.count%100 != 0 {
		return
	}
	if w.steer != nil && w.steer.stop.Load() || !w.deadline.IsZero() && time.Now().After(w.deadline) {
		w.over = true
		return
	}
	if w.count%1000 != 0 || !w.mayRest() {
		return
	}
	if !w.lowly {
		w.lowly = true
		lowPriority()
	}
	<-time.After(min(time.Since(w.burst), 100*time.Millisecond))
	w.burst = time.Now()
}

// mayRest: while the start waits for the walk, and once there is a suspicion,
// there is no time to lose.
func (w *walker) mayRest() bool {
	return w.gently && (w.released == nil || w.released.Load() != 0) && (w.steer == nil || !w.steer.hurry.Load())
}
