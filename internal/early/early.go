// Package early spares each of bailey's roles the initialisation of packages
// that it does not use.
//
// One binary holds gVisor and everything else. Go runs the initialisers of
// every linked package before main, whatever main is going to do: gVisor's
// system-call tables, protocol descriptors and statistics cost each process
// 20 to 30 ms and 10 MB here, the libraries of the command line and of the
// planner's protocol some milliseconds more, and one sandbox starts half a dozen
// processes. So the first package to be initialised, this one, looks at the
// arguments, and marks as done the initialisers of whatever the role cannot
// reach by imports. Nothing else changes; docs/adr/0007 weighs it.
//
// Which role reaches what is a table that is generated from the imports (see
// tableFile in spec).
//
// An initialiser is known by the name of its symbol, which the linker resolves.
// With another version of Go that names it otherwise this package does nothing
// rather than something wrong; a test then fails. The linker lets nobody name
// those of the standard library.
//
// It imports next to nothing, because whatever it imports is initialised, and
// can be no more spared, before it runs.
package early

import _ "unsafe" // for go:linkname

// arguments are what os.Args is made of. The name is the runtime's for package
// os, which is initialised later.
//
//go:linkname arguments os.runtime_args
func arguments() []string

// parts are the roles, as bits, that can spare what they do not reach.
type parts uint16

// The bits of the table.
const (
	gvisor  parts = 1 << iota // Runtime
	umount                    // Umount
	inside                    // the first process of a sandbox
	helper                    // bailey-helper
	keeper                    // bailey-watchdog
	proxy                     // bailey-proxy
	gateway                   // bailey-gateway
	bearer                    // bailey-key
	carrier                   // bailey-git
	signer                    // bailey-signer
	running                   // the command line of run, exec, shell and attach
	other                     // every other command line
)

// spare says which roles do not reach a package.
type spare struct {
	task *task
	by   parts
}

// part tells the role of a process.
func part(args []string) parts {
	switch {
	case len(args) == 0:
		return other
	case RoleOf(args) == Runtime:
		return gvisor
	case RoleOf(args) == Umount:
		return umount
	}
	switch args[0] {
	case "/.bailey/bailey": // sandbox.FirstPath
		return inside
	case "bailey-helper":
		return helper
	case "bailey-watchdog":
		return keeper
	case "bailey-proxy":
		return proxy
	case "bailey-gateway":
		return gateway
	case "bailey-key":
		return bearer
	case "bailey-git":
		return carrier
	case "bailey-holder":
		return running
	case "bailey-signer":
		return signer
	}
	if hasPrefix(args[0], "bailey-") {
		return other
	}
	if len(args) > 1 {
		switch args[1] {
		case "run", "exec", "shell", "attach":
			return running
		}
	}
	return other
}

// task is the head of the runtime's initTask (runtime/proc.go).
type task struct {
	state uint32 // 0 not begun, 1 in progress, 2 done
	_     uint32 // how many functions follow
}

const done = 2

//nolint:gochecknoinits // the point of the package
func init() {
	skip(part(arguments()))
}

// IsRun reports whether a process is the command line of run, exec, shell or
// attach.
func IsRun(args []string) bool { return part(args) == running }

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
	base := args[0]
	for i := range len(base) {
		if args[0][i] == '/' {
			base = args[0][i+1:]
		}
	}
	switch {
	case hasPrefix(base, "runsc"):
		return Runtime
	case args[0] != "/proc/self/exe":
		return Other
	case len(args) > 1 && args[1] == "umount":
		return Umount
	}
	return Runtime
}

// skip marks as done what the role does not reach.
func skip(role parts) {
	for _, s := range table {
		if s.by&role != 0 && s.task.state == 0 {
			s.task.state = done
		}
	}
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }
