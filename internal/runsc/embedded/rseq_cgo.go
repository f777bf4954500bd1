//go:build cgo

package embedded

import (
	"os"
	"strings"
	"syscall"
)

// noRseq switches two things of glibc off: restartable sequences, and heaps for
// single threads, whose number glibc reads from a file when a filter already
// forbids it to open one.
const noRseq = "GLIBC_TUNABLES=glibc.pthread.rseq=0:glibc.malloc.arena_max=1"

// withoutRseq starts the sandbox's kernel anew without glibc's restartable
// sequences: they are registered memory that systrap's stub processes unmap,
// which the host's kernel answers by killing them. gVisor does the same where
// it knows that it was built with cgo (runsc/sandbox, sentryUsesCgo).
func withoutRseq() {
	if !strings.HasPrefix(os.Args[0], "runsc-sandbox") {
		return
	}
	env := os.Environ() //nolint:forbidigo // handed on as it is
	for _, e := range env {
		if e == noRseq {
			return
		}
	}
	_ = syscall.Exec("/proc/self/exe", os.Args, append(env, noRseq)) // on an error gVisor goes on, and fails by itself
}
