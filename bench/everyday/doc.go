// Command everyday measures what is done many times a day beside a run: to
// attach to a sandbox until its screen is painted, to open a shell in it, and
// the units of a phase, beside the same work by hand: an agent in a sandbox,
// its validation in another one, `git commit`.
//
// The agent is a shell that writes a file, so that what is measured is bailey's
// own part. The contenders take turns in random order. It prints numbers and
// goals and judges nothing.
package main
