package firstproc

import _ "embed" // for the image

// Image is the program, an ELF file, or empty.
//
//go:embed image/sandboxd_linux_amd64
var Image string
