// Package nonblock reads and writes sockets whose calls never wait, without a
// word to the Go runtime's monitor.
//
// Before each other system call the runtime wakes that thread when it sleeps,
// which it does whenever there was nothing to do: it is to take the processor
// away from a call that takes long. Where a process is woken for each message,
// passes it on and sleeps again, waking the monitor costs more than the message,
// above all inside a user-space kernel, where both threads are its processes.
//
// What waits is the goroutine, in the runtime's poller. It is of no use for
// files: their calls wait for a disk.
package nonblock
