// Package embedded links gVisor's runtime into the binary and runs it. Only
// cmd/bailey imports it; it registers the commands that are used and no more,
// which keeps gVisor's embedded extra binaries out of ours.
package embedded

import (
	"fmt"
	"os"
	"syscall"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"

	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/runsc"
)

// Main runs gVisor's command line with the process's own arguments. It does
// not return. Boot, Gofer and Umount are started by gVisor itself.
func Main() {
	withoutRseq()
	if os.Args[0] == runsc.WaitArgv0 {
		syscall.CloseOnExec(runsc.HighFD)
		syscall.CloseOnExec(runsc.ModelFD)
		_ = syscall.Close(runsc.ExeFD)
		awaitArgs()
	} else if err := sparePasses(); err != nil {
		fmt.Fprintln(os.Stderr, "runsc:", err)
		os.Exit(1)
	}
	userNamespace()
	useCompiledFilters()
	withoutTracePoints()
	collectLater()
	answerFirst()
	cli.Run(nil, map[util.SubCommand]string{
		new(cmd.Run):          "",
		new(cmd.Gofer):        "internal",
		new(sentrycmd.Boot):   "internal",
		new(sentrycmd.Umount): "internal",
	}, nil)
}

// awaitArgs replaces the process's arguments by those that come on
// runsc.ArgsFD, and moves the process into the sandbox's cgroup; it ends the
// process if none do.
func awaitArgs() {
	args, joins, err := runsc.ReceiveArgs()
	if err != nil {
		os.Exit(1)
	}
	if err := cgroup.Join(joins); err != nil {
		fmt.Fprintln(os.Stderr, "runsc:", err)
		os.Exit(1)
	}
	for _, fd := range joins {
		_ = syscall.Close(fd)
	}
	os.Args = args
}
