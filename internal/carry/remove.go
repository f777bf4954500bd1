package carry

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// maxRemoved bounds one removal: a tree of more is not an agent's work but its
// disk quota's failure.
const maxRemoved = 20_000_000

// removeTree removes a folder, whatever is in it.
func removeTree(path string) (bool, error) {
	parent, err := beneath.Dir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove folder: %w", err)
	}
	defer func() { _ = parent.Close() }() // O_PATH: nothing to lose
	err = beneath.Remove(parent, filepath.Base(path), maxRemoved)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove folder: %w", err)
	}
	return true, nil
}

func (w *Worker) remove(r Remove) (Removed, error) {
	removed, err := removeTree(r.Folder)
	return Removed{Removed: removed}, err
}
