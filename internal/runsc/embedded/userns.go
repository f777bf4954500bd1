package embedded

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// usernsFlag is the descriptor that gVisor's gofer and sandbox wait on when
// they were started by somebody who is not user 0.
const usernsFlag = "--sync-userns-fd="

// skipReexec takes the flags out of args that make gVisor's gofer and sandbox
// switch to their id on one thread and then start anew, which costs both of
// them a second start of the whole program.
//
// The switch is needed where the id map is written after the start. Ours has
// one id, which maps to itself, and is written before: the process has its id
// already, on every thread, and gVisor then drops its capabilities in place,
// as it does when it is started by user 0 (sandboxsetup.ApplyCapsAllThreads).
// Where the id is not the wanted one the arguments stay as they are.
func skipReexec(args []string, uid, gid int) []string {
	var out []string
	fd := -1
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, usernsFlag):
			n, err := strconv.Atoi(strings.TrimPrefix(a, usernsFlag))
			if err != nil {
				return args
			}
			fd = n
		case strings.HasPrefix(a, "--uid="):
			if a != "--uid="+strconv.Itoa(uid) {
				return args
			}
			out = append(out, a)
		case strings.HasPrefix(a, "--gid="):
			if a != "--gid="+strconv.Itoa(gid) {
				return args
			}
			out = append(out, a)
		default:
			out = append(out, a)
		}
	}
	if fd < 0 || uid == 0 {
		return args
	}
	_ = syscall.Close(fd)
	return out
}

// userNamespace applies skipReexec to this process.
func userNamespace() { os.Args = skipReexec(os.Args, os.Getuid(), os.Getgid()) }
