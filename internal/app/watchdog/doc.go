// Package watchdog is the role that outlives `bailey run`: it ends the sandbox
// and cleans up after it when the run is killed, keeps the deadline when the
// run is stopped, and keeps those limits that no part of the kernel does.
//
// It is a process in a session of its own, started before anything it may have
// to clean up. It holds no secret, opens no socket, runs no program, and reads
// nothing of what the sandbox wrote but the sizes of files. How it is spoken to
// is in internal/watch.
package watchdog
