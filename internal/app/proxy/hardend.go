//go:build !cgo

package proxy

const hardEnd = 1 << 30 // bytes
