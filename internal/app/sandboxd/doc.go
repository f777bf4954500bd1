// Package sandboxd is the first process of a sandbox: it runs the commands
// that the host asks for over the wire, passes bytes and signals between the
// two, reaps every process, and ends them all when the wire is gone.
//
// It is plain Linux code without privilege. It never reads a file of the
// sandbox, writes only those that a command's header brings, never resolves a
// name, and holds no secret of its own; the environment of a command passes
// through it once. cmd/bailey alone calls Main.
package sandboxd
