//go:build !cgo

package posture

// withCgo is whether this program is built with cgo.
const withCgo = false
