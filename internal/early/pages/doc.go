// Package pages readies the memory of the processes that touch the most, on amd64 alone.
//
// A start touches some thousands of pages for the first time, and in a virtual
// machine each fault takes 10 to 20 us: a third of a start. Here they come in a
// few faults. docs/adr/0007 has what that gains.
//
// It is initialised after package early and before nearly all others, for it
// imports little.
package pages
