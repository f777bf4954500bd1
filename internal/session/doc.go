// Package session runs one command in a sandbox for a person or a program on
// the host: it speaks the wire, and passes standard input, output, errors,
// signals and the terminal between the two.
//
// It never starts a process, never decides who may run what, and never reads
// from the user's terminal after the command has ended. `bailey run` and
// `bailey exec` both call Run; the process that holds the wire serves other
// processes with Serve.
package session
