//go:build !amd64

package early

// pages readies the memory of a role: elsewhere the pages come by themselves.
func pages(parts, uintptr) {}
