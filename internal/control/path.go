package control

import (
	"fmt"
	"syscall"

	"github.com/bailey-dev/bailey"
)

// maxPath is how long the path of a socket may be, its end not counted
// (unix(7), sun_path).
const maxPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// checkPath says in words what the kernel calls an invalid argument.
func checkPath(path string) error {
	if len(path) <= maxPath {
		return nil
	}
	return bailey.NewError(bailey.Invalid,
		fmt.Sprintf("the control socket's path has %d bytes, and %d are allowed: %s", len(path), maxPath, path),
		"set XDG_RUNTIME_DIR to a folder with a shorter path, or choose a shorter --name")
}
