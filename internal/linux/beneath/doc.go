// Package beneath reads and removes files below a folder that somebody
// hostile may write to at the same time. Every path is resolved by the kernel
// with openat2(2): no symbolic link is followed anywhere, nothing leaves the
// folder, and what is read is checked on the descriptor it is read from. Follow
// alone, for what a person named, follows links, once. A
// kernel without openat2 (before Linux 5.6) gets an error, never a fallback.
//
// It decides nothing about which files matter. Whoever reads files that a
// sandbox may change uses it.
package beneath
