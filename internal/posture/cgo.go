//go:build cgo

package posture

// withCgo: gVisor's kernel starts itself anew once, for the sake of glibc
// (internal/runsc/embedded), and has no capability after that.
const withCgo = true
