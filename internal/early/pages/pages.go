//go:build amd64

package pages

import (
	"runtime"
	"unsafe"

	"github.com/bailey-dev/bailey/internal/early"
)

// arguments are what os.Args is made of (see package early).
//
//go:linkname arguments os.runtime_args
func arguments() []string

const (
	smallPage = 4 << 10
	hugePage  = 2 << 20
	arena     = 64 << 20 // the runtime's unit of addresses (heapArenaBytes)

	// What one of gVisor's processes allocates while it starts.
	gvisorHeap = 14 << 20
)

// The advices of madvise(2).
const (
	hugepage      = 14
	populateRead  = 22 // since Linux 5.14; EINVAL before
	populateWrite = 23
)

// madvise is madvise(2). It returns 0 or an error's negative number.
func madvise(addr, length, advice uintptr) uintptr

// sections are the bounds of the program's code and of its constants.
func sections() (text, etext, rodata, erodata uintptr)

// All of it is advice: where the kernel does not take one, the pages come by
// themselves.
//
//nolint:gochecknoinits // before what it is for
func init() {
	args := arguments()
	if len(args) == 0 {
		return
	}
	heap := uintptr(unsafe.Pointer(unsafe.SliceData(args)))
	switch {
	case early.RoleOf(args) == early.Runtime:
		code()
		grow(heap, gvisorHeap)
	case early.IsRun(args):
		code()
		grow(heap, 0)
	}
}

// code maps the program's file as it stands in the page cache.
func code() {
	text, etext, rodata, erodata := sections()
	text, rodata = text&^(smallPage-1), rodata&^(smallPage-1)
	madvise(text, etext-text, populateRead)
	madvise(rodata, erodata-rodata, populateRead)
}

// grown is what the heap is grown by.
var grown []byte //nolint:gochecknoglobals // on the heap for that

// grow has the heap stand on huge pages, as far as it is mapped and up to n
// bytes more. Where some small ones were touched already, the others of their
// huge page are mapped at once. The address is of anything on the heap.
//
// The runtime maps a heap that grows by a few megabytes at a time, and advice
// ends where a mapping does; so it is grown by one allocation, which is
// collected untouched.
func grow(heap uintptr, n int) {
	first := heap &^ (arena - 1)
	if n > 0 {
		grown = make([]byte, n)
		last := uintptr(unsafe.Pointer(unsafe.SliceData(grown))) &^ (arena - 1)
		grown = nil
		if last != first {
			madvise(last, arena, hugepage)
		}
	}
	madvise(first, arena, hugepage)
	extent := heap &^ (hugePage - 1)
	madvise(extent, hugePage, populateWrite)
	if extent > first {
		madvise(extent-hugePage, hugePage, populateWrite)
	}
	if n > 0 {
		runtime.GC()
	}
}
