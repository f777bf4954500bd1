package harness

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// OS is the disk of this machine.
type OS struct{}

// Stat is os.Stat.
func (OS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) } //nolint:wrapcheck // an adapter

// EvalSymlinks is filepath.EvalSymlinks.
func (OS) EvalSymlinks(path string) (string, error) { return filepath.EvalSymlinks(path) } //nolint:wrapcheck // an adapter

// ReadDir is os.ReadDir.
func (OS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) } //nolint:wrapcheck // an adapter

// Head reads the first bytes of the regular file at a path without links, as
// EvalSymlinks returns it. Anything else is an error, so that what is put in
// the place of a program meanwhile neither blocks nor leads elsewhere.
func (OS) Head(path string, n int) ([]byte, error) {
	data, _, err := beneath.Head(path, int64(n))
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	return data, nil
}
