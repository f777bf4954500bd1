package watchdog

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/watch"
)

// checkMemory compares the sandbox's memory with its limit. The sum of RSS is
// never less than that of PSS, but for the few megabytes it lags, and is far
// cheaper to read: as long as it is well below the limit, it will do.
func (d *dog) checkMemory() {
	if d.helper.PID == 0 || d.doomed {
		return
	}
	ids, err := proc.Descendants(d.helper.PID)
	if err != nil {
		return // of no use to kill for; the next look may succeed
	}
	if d.set.CountHelper {
		ids = append(ids, d.helper)
	}
	limit := d.set.MemoryBytes
	file, kept := int64(0), int64(0)
	if len(d.set.Memories) > 0 {
		kept = d.inMemory(ids)
	} else {
		file = d.memoryFile(ids)
	}
	if max(file, sum(ids, proc.RSS))+kept <= limit-limit/8 {
		return
	}
	used := max(file, sum(ids, share)) + kept
	if used > limit {
		d.condemn(watch.Memory, used, fmt.Sprintf("out of memory: the sandbox used %d MiB of %d", (used+1<<20-1)>>20, limit>>20))
	}
}

// gvisorMemory is the name of the file in memory that holds what the programs
// of a sandbox use (runsc/boot). A page of it that no process maps just now is
// in no process's share.
const gvisorMemory = "/memfd:runsc-memory"

// memoryFile returns how many bytes that file has, or 0 if it is not found.
func (d *dog) memoryFile(ids []proc.Identity) int64 {
	if n := allocated(d.memory); n > 0 {
		return n
	}
	for _, id := range ids {
		dir := "/proc/" + strconv.Itoa(id.PID) + "/fd/"
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if name, err := os.Readlink(dir + e.Name()); err == nil && strings.HasPrefix(name, gvisorMemory) {
				d.memory = dir + e.Name()
				return allocated(d.memory)
			}
		}
	}
	return 0
}

// inMemory returns what a sandbox without gVisor keeps in its memory file
// systems and in files in memory that have no name (memfd_create(2)). What is
// mapped of that is in a process's share as well, and counts twice.
func (d *dog) inMemory(ids []proc.Identity) int64 { //nolint:gocognit // one file after the other
	var total int64
	for _, at := range d.set.Memories {
		for _, id := range ids { // the first has it, unless it has just ended
			var st unix.Statfs_t
			if unix.Statfs("/proc/"+strconv.Itoa(id.PID)+"/root"+at, &st) == nil {
				total += int64(st.Blocks-st.Bfree) * st.Bsize
				break
			}
		}
	}
	seen := map[uint64]bool{}
	for _, id := range ids {
		dir := "/proc/" + strconv.Itoa(id.PID) + "/fd/"
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if name, err := os.Readlink(dir + e.Name()); err != nil || !strings.HasPrefix(name, "/memfd:") {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(dir+e.Name(), &st) == nil && !seen[st.Ino] {
				seen[st.Ino] = true
				total += st.Blocks * 512 // stat(2)
			}
		}
	}
	return total
}

// allocated returns how many bytes a file takes, or 0.
func allocated(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return st.Blocks * 512 // stat(2)
}

// share is a process's PSS or, where that may not be read, its RSS.
func share(pid int) (int64, error) {
	if n, err := proc.PSS(pid); err == nil {
		return n, nil
	}
	return proc.RSS(pid)
}

// sum adds up a measure; a process that has ended has none.
func sum(ids []proc.Identity, of func(int) (int64, error)) int64 {
	var total int64
	for _, id := range ids {
		if n, err := of(id.PID); err == nil {
			total += n
		}
	}
	return total
}
