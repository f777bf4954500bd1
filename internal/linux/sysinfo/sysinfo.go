// Package sysinfo asks the kernel how large this machine is.
package sysinfo

import "golang.org/x/sys/unix"

// Memory returns the bytes of RAM of this machine, or 4 GiB if the kernel
// does not say.
func Memory() int64 {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return 4 << 30
	}
	return int64(uint64(si.Totalram) * uint64(si.Unit)) //nolint:unconvert // Totalram is narrower on 32 bits
}
