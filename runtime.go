package bailey

import "fmt"

// Runtime is what carries out the system calls of a sandbox.
type Runtime uint8

// The runtimes of this version, the stricter first.
const (
	RuntimeGvisor Runtime = iota // gVisor's kernel, in user space
	RuntimeNative                // the host's kernel, behind namespaces, a filter of calls and Landlock
)

// String returns the runtime as it is written on the command line.
func (r Runtime) String() string {
	switch r {
	case RuntimeGvisor:
		return "gvisor"
	case RuntimeNative:
		return "native"
	}
	return fmt.Sprintf("Runtime(%d)", uint8(r))
}

// ParseRuntime reads a runtime as it is written on the command line.
func ParseRuntime(s string) (Runtime, error) {
	for _, r := range []Runtime{RuntimeGvisor, RuntimeNative} {
		if r.String() == s {
			return r, nil
		}
	}
	return RuntimeGvisor, NewError(Invalid, fmt.Sprintf("--runtime: %q is not a runtime", s), "use gvisor (the default) or native")
}
