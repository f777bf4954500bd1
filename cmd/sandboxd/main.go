// Command sandboxd is the first process of a sandbox, as a program of its own.
//
// It is what bailey itself would play there, without gVisor around it: inside
// a user-space kernel a program of 40 MB takes five times as long to start as
// one of 3 MB. `make gen` builds it and internal/firstproc embeds it.
package main

import (
	"os"

	"github.com/bailey-dev/bailey/internal/app/sandboxd"
	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == sandbox.FirstArg:
		os.Exit(sandboxd.Main(os.Args))
	case len(os.Args) == 2 && os.Args[1] == posture.Arg:
		os.Exit(posture.Inside(os.Stdin, os.Stdout))
	}
	_, _ = os.Stderr.WriteString("sandboxd: started by bailey alone\n")
	os.Exit(2)
}
