// Package posture tells what a process may do, as the kernel sees it, and
// compares that with what it ought to be (claim ISO-15).
//
// A Posture is everything that /proc shows about the power of one process:
// ids, capabilities, namespaces, mounts, descriptors, limits. Collect reads
// it, Expected says what it must be for each role of bailey, Diff compares all
// of it. The package reads /proc and changes nothing; it shows the names of
// environment variables and never their values. `bailey doctor`, the test of
// the claim, and the binary inside a sandbox (Inside) use it.
package posture
