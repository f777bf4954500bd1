//go:build !race

package watchdog_test

const raceFactor = 1
