//go:build cgo && linux

package main

// A build with cgo, which a plain `go build` is where there is a C compiler,
// would make a dynamic program, and gVisor starts its processes in a root
// folder that holds nothing, no dynamic loader either. Linked statically it
// works as the build without cgo does; the linker's warnings about glibc
// functions concern look-ups of users and hosts that bailey does without.

// #cgo LDFLAGS: -static
import "C"
