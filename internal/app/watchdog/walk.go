package watchdog

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/linux/thread"
)

// maxDepth bounds the descriptors of a walk: one a level.
const maxDepth = 500

// maxLinked bounds the memory for files with several names.
const maxLinked = 200_000

// walkConfig says how to walk.
type walkConfig struct {
	root       int       // descriptor of the folder
	bornBefore time.Time // leave out what was made later; zero counts all
	gently     bool      // rest as long as working
	thorough   bool      // look also where a sandbox could hide things
	helper     int       // whose descendants may hold files without a name; 0 if nobody
	used       size      // passed on
}

// walk is what one walk found.
type walk struct {
	size size
	deep int // folders that were too deep to look into
	end  time.Time
	took time.Duration
	used size // of the file system, before the walk
}

// runWalk counts what lies under a folder, on its file system. It follows no
// symbolic link and opens nothing but folders, so that a hostile tree can
// neither lead it elsewhere nor hold it up.
func runWalk(c walkConfig) (w walk) {
	_ = thread.Run(func() error { // a thread of low priority cannot go back
		if c.gently {
			lowPriority()
		}
		w = walkAll(c)
		return nil
	})
	return w
}

func walkAll(c walkConfig) walk {
	begin := time.Now()
	w := walker{walkConfig: c, linked: map[uint64]bool{}, burst: begin}
	var st unix.Statx_t
	if err := unix.Statx(c.root, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err == nil {
		w.device = [2]uint32{st.Dev_major, st.Dev_minor}
		if fd, err := openDir(c.root, "."); err == nil {
			w.folder(fd, 0)
		}
		if c.thorough && c.helper > 0 {
			w.nameless()
		}
	}
	end := time.Now()
	return walk{size: w.size, deep: w.deep, end: end, took: end.Sub(begin), used: c.used}
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

type walker struct {
	walkConfig
	device [2]uint32
	size   size
	deep   int
	linked map[uint64]bool // inodes with several names that were counted
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
	for {
		names, err := f.Readdirnames(128)
		for _, name := range names {
			w.entry(fd, name, depth)
		}
		if err != nil { // io.EOF, or the folder is gone
			return
		}
	}
}

func (w *walker) entry(dir int, name string, depth int) {
	w.rest()
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	if err != nil || w.device != [2]uint32{st.Dev_major, st.Dev_minor} {
		return
	}
	w.add(&st)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	if depth+1 >= maxDepth {
		w.deep++
		return
	}
	fd, err := openDir(dir, name)
	if errors.Is(err, unix.EACCES) && w.thorough && int(st.Uid) == os.Geteuid() {
		fd, err = openLocked(dir, name, uint32(st.Mode))
	}
	if err == nil {
		w.folder(fd, depth+1)
	}
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

// nameless adds the files of the file system that the sandbox has removed but
// holds open.
func (w *walker) nameless() {
	ids, err := proc.Descendants(w.helper)
	if err != nil {
		return
	}
	seen := map[uint64]bool{}
	for _, id := range ids {
		dir := "/proc/" + strconv.Itoa(id.PID) + "/fd"
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range fds {
			var st unix.Statx_t
			err := unix.Statx(unix.AT_FDCWD, dir+"/"+e.Name(), 0, unix.STATX_BASIC_STATS, &st)
			if err == nil && st.Nlink == 0 && !seen[st.Ino] && w.device == [2]uint32{st.Dev_major, st.Dev_minor} {
				seen[st.Ino] = true
				w.size.bytes += int64(st.Blocks) * 512
				w.size.inodes++
			}
		}
	}
}

// add counts what the entry takes of the disk, which of a sparse file is less
// than its length. A file with several names counts once.
func (w *walker) add(st *unix.Statx_t) {
	if !w.bornBefore.IsZero() && st.Mask&unix.STATX_BTIME != 0 && !time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).Before(w.bornBefore) {
		return
	}
	bytes := int64(st.Blocks) * 512
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		switch {
		case w.linked[st.Ino]:
			return
		case len(w.linked) < maxLinked:
			w.linked[st.Ino] = true
		default: // each name its part
			bytes /= int64(st.Nlink)
		}
	}
	w.size.bytes += bytes
	w.size.inodes++
}

// rest sleeps, if the walk is to be gentle, after every thousand entries as
// long as they took.
func (w *walker) rest() {
	if w.count++; !w.gently || w.count%1000 != 0 {
		return
	}
	<-time.After(min(time.Since(w.burst), 100*time.Millisecond))
	w.burst = time.Now()
}
