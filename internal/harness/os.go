package harness

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// OS is the disk of this machine.
type OS struct{}

// Stat is os.Stat.
func (OS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) } //nolint:wrapcheck // an adapter

// EvalSymlinks is filepath.EvalSymlinks.
func (OS) EvalSymlinks(path string) (string, error) { return filepath.EvalSymlinks(path) } //nolint:wrapcheck // an adapter

// ReadDir is os.ReadDir.
func (OS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) } //nolint:wrapcheck // an adapter

// Head reads the first bytes of a regular file. Anything else is an error, so
// that a pipe put in the place of a program blocks nobody.
func (OS) Head(path string, n int) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: %w", path, fs.ErrInvalid)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, int64(n)))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}
