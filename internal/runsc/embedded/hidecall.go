package embedded

import (
	"runtime"
	"strings"

	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
	"gvisor.dev/gvisor/pkg/sentry/vfs"

	"github.com/bailey-dev/bailey/internal/hide"
	"github.com/bailey-dev/bailey/internal/wire"
)

// Number of prctl(2).
const (
	prctlAMD64 = 157
	prctlARM64 = 167
)

// answerFirst has gVisor's kernel answer hide.Call and wire.PassCalls.
func answerFirst() {
	table, number := linux.AMD64, uintptr(prctlAMD64)
	if runtime.GOARCH == "arm64" {
		table, number = linux.ARM64, prctlARM64
	}
	call := table.Table[number]
	next := call.Fn
	call.Fn = func(t *kernel.Task, sysno uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		switch args[0].Uint64() {
		case hide.Call:
			return 0, nil, takeRules(t, args)
		case wire.PassCalls:
			return 0, nil, passCalls(t, args)
		}
		return next(t, sysno, args)
	}
	table.Table[number] = call
	table.Init() // the table is looked up in a copy that was made before
}

// takeRules puts rules between a mount and everybody. The first process may ask
// for that while it is the only one: before anything runs in the sandbox.
func takeRules(t *kernel.Task, args arch.SyscallArguments) error {
	if err := mayAsk(t); err != nil {
		return err
	}
	target, err := copyIn(t, args[1], args[2])
	if err != nil {
		return err
	}
	text, err := copyIn(t, args[3], args[4])
	if err != nil {
		return err
	}
	rules, err := hide.Parse(text)
	if err != nil || !strings.HasPrefix(string(target), "/") {
		return linuxerr.EINVAL
	}
	return apply(t, string(target), rules)
}

// mayAsk lets the sandbox's first process ask while it is the only one.
func mayAsk(t *kernel.Task) error {
	root := t.Kernel().RootPIDNamespace()
	if t.PIDNamespace() != root || root.IDOfThreadGroup(t.ThreadGroup()) != 1 {
		return linuxerr.EINVAL // as of an option that is not known
	}
	if len(root.ThreadGroups()) != 1 {
		return linuxerr.EBUSY
	}
	return nil
}

func copyIn(t *kernel.Task, addr, size arch.SyscallArgument) ([]byte, error) {
	if size.Uint64() > hide.MaxText {
		return nil, linuxerr.E2BIG
	}
	b := make([]byte, size.Uint64())
	_, err := t.CopyInBytes(addr.Pointer(), b)
	return b, err
}

// apply gives the file system that is mounted at target another implementation,
// which asks rules first. It stays the same mount, with what is mounted below
// it, and what lies beneath cannot be reached by way of any other.
func apply(t *kernel.Task, target string, rules *hide.Rules) error {
	v := t.Kernel().VFS()
	root := t.FSContext().RootDirectory()
	defer root.DecRef(t)
	p := fspath.Parse(target)
	at, err := v.GetDentryAt(t, t.Credentials(), &vfs.PathOperation{Root: root, Start: root, Path: p}, &vfs.GetDentryOptions{})
	if err != nil {
		return err
	}
	defer at.DecRef(t)
	fs := at.Mount().Filesystem()
	if _, again := fs.Impl().(*hiding); again || at.Dentry() != at.Mount().Root() || at.Mount() == root.Mount() {
		return linuxerr.EINVAL
	}
	held := fs.ReadRefs()
	fs.Init(v, fs.FilesystemType(), &hiding{inner: fs.Impl(), rules: rules})
	for range held - 1 { // Init begins to count anew
		fs.IncRef()
	}
	return nil
}
