package local

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/userns"
)

const (
	// leastFiles is above every descriptor number that a helper hands to
	// gVisor (runsc.HighFD).
	leastFiles = 256
	// leastSpace is what gVisor's kernel was seen to need of addresses, which is
	// far more than it uses of memory: it ends without a word with 3 GB.
	leastSpace = 4_000_000_000
)

// hindrance says what of the caller's own, its capabilities or its resource
// limits (getrlimit(2)), keeps any sandbox from starting. Without it a failure
// in one process shows as something else in another.
func hindrance(uid int) error {
	if lacks := userns.Lacks(); uid == 0 && len(lacks) > 0 {
		return bailey.NewError(bailey.Unsupported, "make the sandbox's user namespace: this root has not "+strings.Join(lacks, ", "),
			"start bailey with them (docker run --cap-add), or as an ordinary user")
	}
	for _, l := range []struct {
		resource   int
		least      uint64
		name, mend string
	}{
		{unix.RLIMIT_NOFILE, leastFiles, "open files are", "ulimit -n 4096"},
		{unix.RLIMIT_AS, leastSpace, "bytes of address space are", "ulimit -v unlimited; --memory bounds the sandbox"},
	} {
		var r unix.Rlimit
		if err := unix.Getrlimit(l.resource, &r); err == nil && r.Cur < l.least {
			return bailey.NewError(bailey.Unsupported, fmt.Sprintf("start gvisor: only %d %s allowed here", r.Cur, l.name), l.mend)
		}
	}
	return nil
}
