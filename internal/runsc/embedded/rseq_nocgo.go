//go:build !cgo

package embedded

// withoutRseq does nothing: a program without glibc has none.
func withoutRseq() {}
