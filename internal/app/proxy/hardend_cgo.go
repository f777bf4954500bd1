//go:build cgo

package proxy

// The C library's stacks count whole, 8 MiB for each thread, and so does what the
// race detector keeps.
const hardEnd = 4 << 30 // bytes
