//go:build race

package watchdog_test

// raceFactor: with the race detector each process takes a second to start.
const raceFactor = 4
