// Package pty is the door to the kernel's terminals: it opens pseudo
// terminals, reads and sets sizes and modes, and reads a terminal without
// ever holding a read open.
//
// It never decides what a terminal is used for, never prints, and keeps no
// state of its own. internal/session uses it for the user's terminal,
// internal/app/sandboxd for the one inside the sandbox.
package pty
