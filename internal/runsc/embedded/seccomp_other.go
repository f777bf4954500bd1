//go:build !amd64

package embedded

// useCompiledFilters does nothing: none are compiled for this architecture.
func useCompiledFilters() {}
