// Package proc reads what /proc tells about processes and signals exactly the
// process that was meant.
//
// A bare pid names another process as soon as the first one is gone; an
// Identity, pid and start time, does not. The package never starts a process,
// and reads no environment, command line or memory of one.
package proc
