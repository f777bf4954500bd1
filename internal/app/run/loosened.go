package run

import (
	"fmt"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/runsc"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Loosened is what a person has loosened, each by a flag of its own. None
// implies another.
type Loosened struct {
	KeepRoot     bool     // --insecure-keep-root
	Unenforced   bool     // --insecure-unenforced
	NestedUserns bool     // --allow-nested-userns
	RuntimeArgs  []string // --runtime-arg
}

// spec is the part of it that the engine is told.
func (l Loosened) spec(runtime bailey.Runtime) (sandbox.Loose, error) {
	if flags := l.ofGvisor(); runtime == bailey.RuntimeNative && len(flags) > 0 {
		return sandbox.Loose{}, bailey.NewError(bailey.Invalid, "--"+flags[0]+" is about gVisor, and this run has --runtime native", "leave one of the two out")
	}
	out := sandbox.Loose{Root: l.KeepRoot, UserNamespaces: l.NestedUserns}
	for _, arg := range l.RuntimeArgs {
		checked, err := runsc.CheckArg(arg)
		if err != nil {
			return out, err
		}
		out.RuntimeArgs = append(out.RuntimeArgs, checked)
	}
	return out, nil
}

// lines are for the header.
func (l Loosened) lines() (lines []string) {
	if l.KeepRoot {
		lines = append(lines, "LOOSENED by --insecure-keep-root: the command is user 0 inside, and may write to a throw-away layer over the system; on this machine it is who it is without")
	}
	if l.NestedUserns {
		lines = append(lines, "LOOSENED by --allow-nested-userns: programs inside may make namespaces and mounts of their own, which are gVisor's")
	}
	if len(l.RuntimeArgs) > 0 {
		lines = append(lines, "LOOSENED by --runtime-arg: gVisor runs with "+strings.Join(l.RuntimeArgs, " "))
	}
	if l.Unenforced {
		lines = append(lines, "LOOSENED by --insecure-unenforced: limits that nothing here can keep do not stop the run")
	}
	return lines
}

// ofGvisor are the flags that nothing but gVisor can follow.
func (l Loosened) ofGvisor() []string {
	l.Unenforced = false
	return l.listed()
}

// KeepRootFlag is how `bailey ps` shows --insecure-keep-root.
const KeepRootFlag = "insecure-keep-root"

// listed is what `bailey ps` shows.
func (l Loosened) listed() (list []string) {
	if l.KeepRoot {
		list = append(list, KeepRootFlag)
	}
	if l.Unenforced {
		list = append(list, "insecure-unenforced")
	}
	if l.NestedUserns {
		list = append(list, "allow-nested-userns")
	}
	if len(l.RuntimeArgs) > 0 {
		list = append(list, "runtime-arg")
	}
	return list
}

// unkept refuses a limit that was asked for and that nothing keeps, nor
// watches: the processors', where no cgroup can be had.
func (u *running) unkept() error {
	if u.req.Loose.Unenforced || u.req.Task != nil || u.req.Limits.CPUs == 0 || u.cpuQuota() == 0 {
		return nil
	}
	for _, s := range u.limits.watched() {
		if s.Limit == cgroup.CPU {
			return bailey.NewError(bailey.Unsupported, fmt.Sprintf("--cpus cannot be enforced here, nor watched: %s", s.Why),
				"bailey doctor says how to mend it; leave --cpus out, or run without that limit by --insecure-unenforced")
		}
	}
	return nil
}
