// Command bailey runs untrusted agents in a sandbox with one guarded way out.
//
// The binary plays several roles, told apart by argv[0].
//
// The Go runtime would keep the files of the process's CPU cgroup open; a role
// has no use for a descriptor into the host's cgroups, nor for the time.
//
//go:debug containermaxprocs=0
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/carrier"
	"github.com/bailey-dev/bailey/internal/app/catalog"
	"github.com/bailey-dev/bailey/internal/app/control"
	"github.com/bailey-dev/bailey/internal/app/gateway"
	"github.com/bailey-dev/bailey/internal/app/helper"
	"github.com/bailey-dev/bailey/internal/app/keybearer"
	"github.com/bailey-dev/bailey/internal/app/launcher"
	"github.com/bailey-dev/bailey/internal/app/native"
	"github.com/bailey-dev/bailey/internal/app/proxy"
	"github.com/bailey-dev/bailey/internal/app/runner"
	"github.com/bailey-dev/bailey/internal/app/sandboxd"
	"github.com/bailey-dev/bailey/internal/app/signer"
	"github.com/bailey-dev/bailey/internal/app/watchdog"
	"github.com/bailey-dev/bailey/internal/cli"
	"github.com/bailey-dev/bailey/internal/early"
	_ "github.com/bailey-dev/bailey/internal/early/pages" // before all that allocates
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/runsc"
	"github.com/bailey-dev/bailey/internal/runsc/embedded"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

func main() {
	switch early.RoleOf(os.Args) {
	case early.Runtime:
		embedded.Main()
	case early.Umount:
		os.Exit(runsc.Umount(os.Args[2:]))
	case early.Other:
		os.Exit(play(os.Args))
	}
}

// runTask plays the runner, which is whoever starts it.
func runTask() int {
	host, err := cli.FindHost(os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bailey:", err)
		return bailey.ExitBailey
	}
	return runner.Main(host)
}

// play runs the role that argv[0] names and returns its exit code.
func play(args []string) int {
	switch args[0] {
	case role.Helper:
		return helper.Main()
	case role.Native:
		return native.Main()
	case gate.Argv0:
		return proxy.Main(args[1:])
	case modelgate.Argv0:
		return gateway.Main(args[1:])
	case modelgate.KeyArgv0:
		return keybearer.Main()
	case role.Signer:
		return signer.Main()
	case taskrun.Argv0:
		return runTask()
	case role.Unit:
		return cli.Unit(context.Background())
	case role.Git:
		return carrier.Main(args[1:])
	case watchdog.Argv0:
		return watchdog.Main(args)
	case role.Control:
		return control.Main(args[1:])
	case role.Launcher:
		return launcher.Main(args[1:])
	case role.Catalog:
		return catalog.Main()
	case userns.Argv0: // held by its parent at its first instruction
		return 0
	case sandbox.FirstPath: // inside a sandbox
		if len(args) == 3 && args[1] == sandbox.OpenArg {
			return sandboxd.Open(args[2])
		}
		if len(args) == 2 && args[1] == sandbox.FirstArg {
			return sandboxd.Main(args)
		}
		if len(args) == 2 && args[1] == posture.Arg {
			return posture.Inside(os.Stdin, os.Stdout)
		}
	}
	return cli.Main(context.Background(), args, os.Stdin, os.Stdout, os.Stderr)
}
