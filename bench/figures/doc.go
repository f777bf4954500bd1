// Package figures is what the benchmarks share: where numbers come from, how
// they are summed up, and how a report of them ends.
package figures
