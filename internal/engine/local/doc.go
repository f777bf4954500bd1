// Package local is the engine for one machine: gVisor out of our own binary,
// in namespaces that an ordinary user can make. It takes a closed
// specification and yields a running sandbox: the wire to its first process,
// and the means to end it. It speaks no network protocol and parses nothing
// that a sandbox says; a test holds its imports to that.
package local
