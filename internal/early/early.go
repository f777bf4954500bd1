// Package early spares bailey's own roles the initialisation of gVisor's
// packages.
//
// One binary holds gVisor and everything else. Go runs the initialisers of
// every linked package before main, whatever main is going to do: gVisor's
// system-call tables, protocol descriptors and statistics cost each process
// 20 to 30 ms and 10 MB here, and one sandbox starts four or five processes
// that never call gVisor. So the first package to be initialised, this one,
// looks at argv[0], and unless the process is gVisor's it marks gVisor's
// initialisers as done. Nothing else changes; docs/adr/0007 weighs it.
//
// The list of initialisers belongs to the Go runtime. It is found by what it
// must look like (see tasks) and not by an offset, so another version of Go
// makes this package do nothing rather than something wrong; a test then
// fails. A role that used gVisor without initialising it would be a bug: a
// test holds the import graphs of the roles to that.
//
// It imports only what is initialised before any package of gVisor.
package early

import (
	"os"
	"runtime"
	"strings"
	"unsafe"
)

//go:linkname lastmoduledatap runtime.lastmoduledatap
var lastmoduledatap unsafe.Pointer //nolint:gochecknoglobals // the runtime's

// skipped are the import paths, as prefixes, that only gVisor's roles need.
var skipped = [...]string{"gvisor.dev/gvisor/", "google.golang.org/protobuf/", "github.com/cilium/ebpf"} //nolint:gochecknoglobals // read once, before main

// inside are those that only roles outside of a sandbox need; the program of a
// sandbox's first process has them for the others that it plays.
var inside = [...]string{"github.com/google/nftables", "github.com/vishvananda/netlink", "github.com/mdlayher/"} //nolint:gochecknoglobals // read once, before main

// beside are those that a proxy does not need: it has little memory of its own.
var beside = [...]string{ //nolint:gochecknoglobals // read once, before main
	"debug/dwarf", "filippo.io/age", "github.com/alecthomas/kong", "github.com/bailey-dev/bailey/internal/mirror", "github.com/bailey-dev/bailey/internal/netlog",
	"github.com/bailey-dev/bailey/internal/rootfs", "github.com/bailey-dev/bailey/internal/settings", "github.com/klauspost/compress/internal/snapref",
	"github.com/godbus/dbus/", "github.com/google/nftables", "github.com/vishvananda/netlink", "go.yaml.in/yaml/",
}

// firstPath is where that program lies (sandbox.FirstPath; a test compares).
const firstPath = "/.bailey/bailey"

// The names of the roles for requests (role.Proxy, role.Gateway;
// TestRolesSkipGVisor in spec).
const (
	proxy   = "bailey-proxy"
	gateway = "bailey-gateway"
)

// task is the head of the runtime's initTask (runtime/proc.go): the functions
// follow it.
type task struct {
	state uint32 // 0 not begun, 1 in progress, 2 done
	nfns  uint32
	first uintptr
}

const (
	inProgress = 1
	done       = 2
)

//nolint:gochecknoinits // the point of the package
func init() {
	if RoleOf(os.Args) != Runtime {
		skip(skipped[:])
	}
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case firstPath:
		skip(inside[:])
	case proxy, gateway:
		skip(beside[:])
	}
}

// Role is what the first look at a process's arguments tells.
type Role uint8

// The roles that matter before main.
const (
	Other   Role = iota // one of bailey's own; main tells them apart
	Runtime             // gVisor: our own start, or one of its children
	Umount              // gVisor's helper that unmounts a folder; it needs nothing of gVisor
)

// RoleOf tells the role. gVisor names its processes "runsc-sandbox" and so on,
// but starts some as /proc/self/exe; one that ran bailey's own command line
// instead would hang its sandbox for ever.
func RoleOf(args []string) Role {
	if len(args) == 0 {
		return Other
	}
	base := args[0][strings.LastIndexByte(args[0], '/')+1:]
	switch {
	case strings.HasPrefix(base, "runsc"):
		return Runtime
	case args[0] != "/proc/self/exe":
		return Other
	case len(args) > 1 && args[1] == "umount":
		return Umount
	}
	return Runtime
}

func skip(prefixes []string) {
	for _, t := range tasks() {
		if t.state != 0 {
			continue
		}
		f := runtime.FuncForPC(t.first)
		if f == nil {
			continue
		}
		for _, prefix := range prefixes {
			if strings.HasPrefix(f.Name(), prefix) {
				t.state = done
			}
		}
	}
}

// words is how far into the runtime's module data the list is looked for; it
// is the 60th word in Go 1.26.
const words = 100

// tasks returns the program's initialisers, or nothing if there is no list in
// the module data that looks exactly as it must.
func tasks() []*task {
	md := lastmoduledatap
	if md == nil {
		return nil
	}
	for i := range words {
		s := (*slice)(unsafe.Add(md, i*8))
		if list := s.tasks(uintptr(md)); list != nil {
			return list
		}
	}
	return nil
}

// slice is a slice's header in memory.
type slice struct {
	array unsafe.Pointer
	len   int
	cap   int
}

// Bounds of a list of initialisers that is believed.
const (
	fewest   = 30
	most     = 5000
	image    = 64 << 20 // static data lies this close together
	mostInit = 10000
)

// tasks reads s as the list of initialisers. Each entry must point to aligned
// static data near md and look like a task, and exactly one must be in
// progress: the one that is running, ours.
func (s *slice) tasks(md uintptr) []*task {
	if s.len != s.cap || s.len < fewest || s.len > most || !near(uintptr(s.array), md) {
		return nil
	}
	running := 0
	for _, p := range unsafe.Slice((*uintptr)(s.array), s.len) {
		if !near(p, md) {
			return nil
		}
	}
	list := unsafe.Slice((**task)(s.array), s.len)
	for _, t := range list {
		if t.state > done || t.nfns == 0 || t.nfns > mostInit {
			return nil
		}
		if t.state == inProgress {
			running++
		}
	}
	if running != 1 {
		return nil
	}
	return list
}

func near(p, md uintptr) bool {
	return p%8 == 0 && p+image > md && p < md+image && p > image/64
}
