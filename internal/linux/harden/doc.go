// Package harden takes away from the calling process what it does not need
// against others of the same user: being traced or read through /proc, and
// leaving a core file. It is called first thing by roles that will read
// hostile bytes, and it cannot be undone by them.
package harden
