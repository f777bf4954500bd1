// Package watchdog is the role that outlives `bailey run`: it ends the sandbox
// and cleans up after it when the run is killed, keeps the deadline when the
// run is stopped, and keeps those limits that no part of the kernel does.
//
// It is a process in a session of its own, started before anything it may have
// to clean up. It holds no secret, runs no program, and of what the sandbox
// wrote it reads the names, sizes and links of files and never their contents.
// It may stop the sandbox for some seconds to count what it wrote.
// The one socket that it connects to is the dead run's own, to see whether
// anybody listens there again. How it is spoken to is in internal/watch.
package watchdog
