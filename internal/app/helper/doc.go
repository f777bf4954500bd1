// Package helper is the role that is alone in a sandbox's own user, mount,
// PID and IPC namespaces: process 1 there, one id mapped. It lays out the file
// system that gVisor will serve, builds the airlock, starts gVisor, drops
// every capability and waits. It parses nothing that the sandbox says.
//
// Its only way back to its parent is the control socket it was born with; when
// that closes, or when the parent dies, everything in its namespaces is gone.
package helper
