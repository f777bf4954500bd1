//go:build !amd64

package firstproc

// Image is the program, an ELF file, or empty.
const Image = ""
