// Package machine says where numbers come from, in one line that stands above
// every report of the benchmarks.
package machine
