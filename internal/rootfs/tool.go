package rootfs

import "github.com/bailey-dev/bailey"

// Tool is a program of the caller's that a sandbox is to find, and what it
// takes to be found and to run.
type Tool struct {
	Name   string         // as asked for
	File   string         // where it is; empty when the host has none
	From   string         // the folder of the caller's PATH it was found by; empty for a path
	Path   []string       // folders of the sandbox's PATH that stand for From
	Mounts []bailey.Mount // read-only, each at its own path
	Links  []bailey.Link  // links on the way that no mount shows
	Hidden []string       // folders inside a mount that are covered by nothing
	Env    []string       // NAME=VALUE
	Notes  []string       // sentences for the header
}
