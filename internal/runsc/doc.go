// Package runsc knows how gVisor's runtime is invoked: its name, its flags
// and its folders. It does not link gVisor (package embedded does), so that
// roles which only start it stay small.
package runsc
