package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Kernel is the part of a Request that says whose kernel the sandbox has.
type Kernel struct {
	Runtime string // --runtime; empty is gVisor
}

// chooseRuntime takes what was asked for. Nothing but the flag asks for less
// than gVisor.
func (p *plan) chooseRuntime(r *Request) error {
	if r.Runtime == "" {
		return nil
	}
	var err error
	p.spec.Runtime, err = bailey.ParseRuntime(r.Runtime)
	return err
}

// shareKernel says what it means that the sandbox has this machine's kernel, and
// takes out of its reach what gVisor would not connect it to.
func (p *plan) shareKernel() error {
	if p.spec.Runtime != bailey.RuntimeNative {
		return nil
	}
	leave, err := harden.CoresLeave()
	if err != nil {
		return bailey.WrapError(bailey.Unsupported, "look where core dumps of this machine go", err, "mount /proc")
	}
	if leave {
		return bailey.NewError(bailey.Unsupported, "core dumps of what runs inside would go to a program of this machine (kernel.core_pattern), and the hard limit of 0 on them keeps that from nobody", "raise the hard limit (ulimit -Hc, /etc/security/limits.conf), or leave --runtime native out")
	}
	sockets, err := proc.UnixSockets()
	if err != nil {
		return bailey.WrapError(bailey.Unsupported, "look for sockets of this machine in the workspace", err, "mount /proc")
	}
	served := socketsWithin(sockets, p.spec.Mounts)
	p.spec.Covers = append(p.spec.Covers, served...)
	p.notes = append([]string{"kernel: shared with this machine (--runtime native): a hole in it is a hole in the sandbox"}, p.notes...)
	for _, c := range served {
		p.notes = append(p.notes, fmt.Sprintf("covered: %s is a socket that a program of this machine listens at", c))
	}
	return nil
}

// socketsWithin returns where sockets of the host are to be seen in mounts. Who
// connects to one reaches a program outside of the sandbox: no namespace is about
// sockets that have a path, and no mount that is read-only keeps from it.
func socketsWithin(sockets []string, mounts []bailey.Mount) []string {
	var list []string
	for _, path := range sockets {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			continue // it was removed, or is in another mount namespace
		}
		path = filepath.Join(dir, filepath.Base(path))
		for _, m := range mounts {
			inside := m.Target + strings.TrimPrefix(path, m.Source)
			if path == m.Source || !sandbox.Within(path, m.Source) || slices.Contains(list, inside) {
				continue
			}
			if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
				list = append(list, inside)
			}
		}
	}
	return list
}
