// Command bench measures what a sandbox costs, beside its neighbours, in one
// run: start to exit of `true` natively, in bubblewrap, in gVisor's own
// `runsc do`, in docker with gVisor, and in bailey without and with a network,
// with gVisor and with the host's kernel; work on many files on the host, in
// bubblewrap and in bailey with the host's kernel;
// `bailey exec` into a running sandbox; the memory of bailey's processes; and
// a hundred starts at once.
//
// The contenders take turns in every round, in random order, so that whatever
// else the machine does falls on all of them. It prints medians and ratios and
// judges nothing: what cannot be measured is named, in the report and by the
// exit code; a slow contender is none of its business.
package main
