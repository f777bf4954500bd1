// Command sandboxd is the small roles of bailey as a program of their own: the
// first process of a sandbox, the helper that makes its namespaces, and the
// watchdog beside it.
//
// It is what bailey's own binary would play there, without gVisor around it: a
// program of 40 MB takes three times as long to start as one of 3 MB, and
// inside a user-space kernel five times. `make gen` builds it and
// internal/firstproc embeds it.
//
// The Go runtime would keep the files of the process's CPU cgroup open; a role
// has no use for a descriptor into the host's cgroups, nor for the time.
//
//go:debug containermaxprocs=0
package main

import (
	"os"

	"github.com/bailey-dev/bailey/internal/app/helper"
	"github.com/bailey-dev/bailey/internal/app/native"
	"github.com/bailey-dev/bailey/internal/app/sandboxd"
	"github.com/bailey-dev/bailey/internal/app/watchdog"
	_ "github.com/bailey-dev/bailey/internal/early" // before all that a first process has no use for
	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/watch"
)

func main() {
	switch {
	case os.Args[0] == role.Helper:
		os.Exit(helper.Main())
	case os.Args[0] == role.Native:
		os.Exit(native.Main())
	case os.Args[0] == watch.Argv0:
		os.Exit(watchdog.Main(os.Args))
	case len(os.Args) == 2 && os.Args[1] == sandbox.FirstArg:
		os.Exit(sandboxd.Main(os.Args))
	case len(os.Args) == 3 && os.Args[1] == sandbox.OpenArg:
		os.Exit(sandboxd.Open(os.Args[2]))
	case len(os.Args) == 2 && os.Args[1] == posture.Arg:
		os.Exit(posture.Inside(os.Stdin, os.Stdout))
	}
	_, _ = os.Stderr.WriteString("sandboxd: started by bailey alone\n")
	os.Exit(2)
}
