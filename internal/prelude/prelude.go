// Package prelude runs every role but gVisor's own before gVisor's packages
// are initialised.
//
// Go initialises packages in the order of their import paths among those that
// are ready (The Go Programming Language Specification, "Program
// initialization"), so "github.com/…" comes before "gvisor.dev/…". A role that
// starts here never pays for gVisor's tables: a third of the time and of the
// memory of a process that lives for a tenth of a second (docs/adr/0007, with
// the measured numbers).
//
// Nothing this package imports may import gVisor; a test says so.
package prelude

import (
	"context"
	"os"

	"github.com/bailey-dev/bailey/internal/app/helper"
	"github.com/bailey-dev/bailey/internal/app/sandboxd"
	"github.com/bailey-dev/bailey/internal/app/watchdog"
	"github.com/bailey-dev/bailey/internal/cli"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/runsc"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

//nolint:gochecknoinits // the point of the package: see above
func init() {
	if len(os.Args) == 0 || runsc.IsRuntime(os.Args[0]) || os.Args[0] == gate.Argv0 {
		return // main's
	}
	os.Exit(play(os.Args))
}

// first runs what the binary does inside a sandbox.
func first(args []string) int {
	if len(args) == 2 && args[1] == sandbox.FirstArg {
		return sandboxd.Main(args)
	}
	return cli.Main(context.Background(), args, os.Stdin, os.Stdout, os.Stderr)
}

// play runs the role that argv[0] names.
func play(args []string) int {
	switch args[0] {
	case local.HelperArgv0:
		return helper.Main()
	case sandbox.FirstPath: // gVisor starts it by its path
		return first(args)
	case watchdog.Argv0:
		return watchdog.Main(args)
	case "bailey-idmap": // held by its parent at its first instruction; never runs
		return 0
	default:
		return cli.Main(context.Background(), args, os.Stdin, os.Stdout, os.Stderr)
	}
}
