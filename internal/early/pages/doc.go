//go:build !amd64

// Package pages readies memory, on amd64 alone.
package pages
