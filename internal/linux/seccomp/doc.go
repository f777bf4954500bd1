// Package seccomp takes system calls away from the calling process, all its
// threads and all that it starts (seccomp(2)). What is refused fails with
// EPERM, so that a mistake of ours is an error and not the end of the process.
//
// It only ever takes away, and goes last: what else confines a process has to
// make calls that are refused afterwards. Its callers are roles under
// internal/app.
package seccomp
