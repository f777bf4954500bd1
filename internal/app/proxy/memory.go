package proxy

import (
	"runtime/debug"

	"github.com/bailey-dev/bailey/internal/linux/harden"
)

// What a sandbox can have the role hold is bounded piece by piece, far below
// these. They are for what those bounds leave out: no cgroup holds the role where
// bailey runs as root. Past the first the collector works as hard as it may; past
// hardEnd the role ends, and the run with it.
const softEnd = 512 << 20 // bytes

// boundMemory is called before the role has anything to do.
func boundMemory() error {
	debug.SetMemoryLimit(softEnd)
	harden.FirstToGo()
	return harden.BoundData(hardEnd)
}
