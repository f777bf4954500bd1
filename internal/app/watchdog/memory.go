package watchdog

import (
	"fmt"

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
	if sum(ids, proc.RSS) <= limit-limit/8 {
		return
	}
	used := sum(ids, share)
	if used > limit {
		d.condemn(watch.Memory, used, fmt.Sprintf("out of memory: the sandbox used %d bytes of %d", used, limit))
	}
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
