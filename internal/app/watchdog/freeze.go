package watchdog

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/proc"
)

// A sandbox that moves its files about while they are counted can hide them
// from any walk. So where the file system says that more was written than is
// allowed, the sandbox is stopped for as long as one walk takes.

// frozenLevels is how far below the helper processes are stopped: gVisor's
// command, and below it its kernel and its file server. The kernel's own
// children execute the programs inside and reach no file; what they are doing
// waits for the kernel.
const frozenLevels = 2

// freezeTime bounds the wait until system calls under way have ended.
const freezeTime = 300 * time.Millisecond

// freeze stops a sandbox and returns what lets it go on.
func freeze(helper int) (thaw func()) {
	var stopped []proc.Identity
	if helper > 0 {
		stopped = upper(helper)
	}
	for _, id := range stopped {
		_ = id.Signal(syscall.SIGSTOP)
	}
	for end := time.Now().Add(freezeTime); !areStopped(stopped) && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	return func() {
		for _, id := range stopped {
			_ = id.Signal(syscall.SIGCONT)
		}
	}
}

// upper lists the helper and what is at most frozenLevels below it.
func upper(helper int) []proc.Identity {
	top, err := proc.Identify(helper)
	if err != nil {
		return nil
	}
	list, level := []proc.Identity{top}, map[int]int{helper: 0}
	below, _ := proc.Descendants(helper) // those nearer come first
	for _, id := range below {
		st, err := proc.ReadStat(id.PID)
		if err != nil {
			continue
		}
		parent, known := level[st.PPID]
		if !known || parent >= frozenLevels {
			continue
		}
		level[id.PID] = parent + 1
		list = append(list, id)
	}
	return list
}

// areStopped reports whether every thread of every process has stopped or ended.
func areStopped(ids []proc.Identity) bool {
	for _, id := range ids {
		tasks, err := os.ReadDir("/proc/" + strconv.Itoa(id.PID) + "/task")
		if err != nil {
			continue // it is gone
		}
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			st, err := proc.ReadStat(tid)
			if err == nil && st.State != 'T' && st.State != 't' && st.State != 'Z' && st.State != 'X' {
				return false
			}
		}
	}
	return true
}
