package runsc

import (
	"strconv"

	"github.com/bailey-dev/bailey"
)

// Argv0 is the name under which the binary runs as gVisor's runtime. gVisor
// names its own children "runsc-sandbox", "runsc-gofer" and so on.
const Argv0 = "runsc"

// WaitArgv0 is the name of a runtime that reads its arguments from ArgsFD,
// separated by NUL bytes, when it has started; nothing means to go away.
const WaitArgv0 = Argv0 + "-wait"

// The descriptors of a runtime that is started so.
const (
	WireFD = 3 // the sandbox's end of the wire
	ArgsFD = 4
	ExeFD  = 5 // its own program, which was its path

	// ModelFD is the null device until the sandbox's end of the wire to the
	// model gateway takes its place, which comes with the arguments.
	ModelFD = 6

	// HighFD is the null device. It is there for its number alone: whoever has
	// it has a table for 256 descriptors, and so has every child. gVisor's kernel
	// moves its standard streams up to 253, and would wait 5 to 20 ms for the
	// host's kernel to enlarge the table of a process with threads.
	HighFD = 200
)

// The numbers of the wires in the sandbox's first process (wire.FD,
// wire.ModelFD).
const (
	guestWireFD  = 3
	guestModelFD = 4
)

// Config is what differs from sandbox to sandbox.
type Config struct {
	ID       bailey.SandboxID
	Root     string // state folder, on a tmpfs of the helper
	Bundle   string // folder of config.json, on the same tmpfs
	Net      bailey.NetMode
	Shared   bool     // the host may change what is mounted, and that is to be seen
	Model    bool     // ModelFD is the sandbox's end of the wire to the model gateway
	Writable bool     // the root file system has a throw-away layer in memory
	Args     []string // further flags, each of which CheckArg has passed
	DebugLog string   // folder for gVisor's own logs; empty for none
}

// RunArgs returns the arguments of one `runsc run`, argv[0] included.
//
// --file-access-mounts=shared: edits by the host must be seen. Without them
// gVisor need not ask for what it has seen, which makes file work about three
// times as fast; what the sandbox writes reaches the host at once all the same.
// --overlay2=none: the root file system is read-only; an overlay would only
// slow it down. Where it is to be writable, what is written is gVisor's memory. Its files are cached without asking the host again
// (--file-access=exclusive, the default for the root).
// --host-uds stays at its default none: a socket that happens to lie in the
// workspace must not become a way out.
func RunArgs(c Config) []string {
	args := []string{
		Argv0,
		"--root=" + c.Root,
		"--platform=systrap",
		"--directfs=true",
		"--overlay2=" + overlay(c.Writable),
		"--file-access-mounts=" + access(c.Shared),
		"--ignore-cgroups",
		"--host-settings=ignore",
		"--oci-seccomp",
		"--sidecar-usage-policy=DEFAULT",
	}
	if c.Net == bailey.NetNone {
		args = append(args, "--network=none")
	} else {
		args = append(args, "--network=sandbox", "--gvisor-gro")
	}
	if c.DebugLog != "" {
		args = append(args, "--debug", "--debug-log="+c.DebugLog+"/")
	}
	args = append(args, c.Args...)
	args = append(args, "run", "--bundle="+c.Bundle, passFD(WireFD, guestWireFD))
	if c.Model {
		args = append(args, passFD(ModelFD, guestModelFD))
	}
	return append(args, string(c.ID))
}

func access(shared bool) string {
	if shared {
		return "shared"
	}
	return "exclusive"
}

func passFD(ours, inside int) string {
	return "--pass-fd=" + strconv.Itoa(ours) + ":" + strconv.Itoa(inside)
}

func overlay(writable bool) string {
	if writable {
		return "root:memory"
	}
	return "none"
}
