//go:build !amd64

package spec_test

// injecting is for the one architecture whose registers are known.
func injecting() {}
